"""The command that finds what nothing beats in speed and cost: services, or decode steps alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import inference_econ as ie
from inference_econ import answers, report, search

from . import counted, market, options, prices, proposals
from .help import question

Front = TypeVar("Front", "ie.Frontier", "ie.ServiceFrontier")


@question("frontier")
def frontier(progress: options.Progress | None, **choices: Any) -> options.Page:
    """Tokens/s per user against $ per million output tokens: the Pareto frontier.

    MODEL and HARDWARE are names (see 'inference-econ models' and 'inference-econ hardware') or paths to YAML files.
    Degrees that are given need not be on the grid. As soon as one of --tp, --pp and --dp is given, the others are 1;
    --dp any tries all. Points are services: every layout in continuous batching, whose bill includes the prefill of its
    requests; a queue is not in it (see 'load'). With --decode-only they are decode steps alone.
    """
    return _decode_steps(choices, progress) if counted.decode_steps(choices) else _services(choices)


def _decode_steps(choices: options.Choices, progress: options.Progress | None) -> options.Page:
    """The frontier of decode steps alone, with all plans of its grid if they are wanted."""

    def answer(chosen: options.Choices) -> ie.Frontier:
        demand = {"max_tokens_per_second": chosen["max_tokens_per_second"]}
        traffic = ie.Traffic.build({**options.context_or_lengths(chosen), **demand}, origin="command line")
        speculation, setup, space = proposals.speculation(chosen), options.setup(chosen), options.space(chosen)
        return ie.decode_frontier(setup, traffic, space, speculation=speculation, progress=progress)

    front = _beside_startable(choices, answer)
    return report.frontier.FrontierPage(front, choices["y"], front.plans() if choices["every_plan"] else None)


def _services(choices: options.Choices) -> options.Page:
    """The frontier of services: what users see in continuous batching against what it costs."""
    reused = {name: choices[name] or 0 for name in ("cached", "shared_prefix")}
    requests = options.requests(choices, **{**options.context_or_lengths(choices), **reused})
    hardware = choices["hardware"] if choices["decode_on"] else None
    if hardware is not None:
        choices = {**choices, "price": prices.of_chips(choices["price"], (hardware, choices["decode_on"]))}
    promises = options.targets({**choices, "percentile": "mean"})

    def answer(chosen: options.Choices) -> ie.ServiceFrontier:
        candidates = market.candidates(chosen, requests, hardware, ttft_seconds=promises.ttft_seconds)
        return answers.serving_frontier.service_frontier(candidates, promises)

    return report.serving_frontier.ServingFrontierPage(_beside_startable(choices, answer), choices["y"])


def _beside_startable(choices: options.Choices, answer: Callable[[options.Choices], Front]) -> Front:
    """A frontier, with the savings over layouts that engines can start where any layout is asked for."""
    front = answer(choices)
    return replace(front, saving=search.saved_by(front, options.among_startable(choices, answer)))
