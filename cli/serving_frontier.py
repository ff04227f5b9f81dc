"""The frontier of services: what users see in continuous batching against what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from inference_econ.errors import InputError

from . import options, proposals, provenance, show
from .parameters import NON_NEGATIVE

if TYPE_CHECKING:
    from inference_econ.answers.any_layout import Saving
    from inference_econ.answers.serving_frontier import ServiceFrontier

choices = options.apply(
    click.option(
        "--serving",
        is_flag=True,
        help="Of services: 1/TPOT with the prefill of others, in continuous batching, against --y.",
    ),
    click.option(
        "--y",
        type=click.Choice(["cost", "throughput", "power"]),
        help="With --serving: $/M tokens of input and output [default], or output tokens/s per GPU or per MW.",
    ),
    click.option("--cached", type=NON_NEGATIVE, help="With --serving: prompt tokens in the prefix cache."),
    click.option("--shared-prefix", type=NON_NEGATIVE, help="With --serving: tokens that all prompts begin with."),
    options.scheduler,
)
#: Options that mean nothing for decode steps.
_SERVING_ONLY = ("y", "cached", "shared_prefix", "slots", "token_budget")
#: Options that mean something else, or nothing, for services.
_REFUSED = {
    "context": "--context",
    "max_tokens_per_second": "--max-throughput",
    "batch": "--batch",
}


def wanted(choices: options.Choices, *, every_plan: bool) -> bool:
    """Whether services are asked for.

    Raises
    ------
    InputError
        If the options do not go with each other.
    """
    if not choices["serving"]:
        alone = [f"--{name.replace('_', '-')}" for name in _SERVING_ONLY if choices[name] is not None]
        if alone:
            raise InputError(f"{alone[0]} goes with --serving only")
        return False
    refused = [option for name, option in _REFUSED.items() if choices[name] is not None]
    if every_plan:
        refused.insert(0, "--all")
    if choices["grid"] != "whole":
        refused.append("--grid paper")
    if refused:
        raise InputError(f"{refused[0]} does not go with --serving")
    return True


def run(choices: options.Choices, output: options.Output) -> None:
    """Find the frontier and show it."""
    from inference_econ.answers.serving_frontier import service_frontier
    from inference_econ.report.serving_frontier import ServingFrontierPage

    reused = {name: choices[name] or 0 for name in ("cached", "shared_prefix")}
    lengths = {**options.context_or_lengths(choices), **reused}
    requests = options.requests(choices, **lengths)

    def answer(asked: options.Choices) -> ServiceFrontier:
        return service_frontier(options.offer(asked, requests, speculation=proposals.speculation(asked)))

    front, started = answer(choices), options.among_startable(choices, answer)
    show.emit(ServingFrontierPage(front, choices["y"] or "cost", _saving(front, started)), output, provenance.asked())


def _saving(front: ServiceFrontier, started: ServiceFrontier | None) -> Saving | None:
    """What any layout saves over those that can be started."""
    from inference_econ.answers.any_layout import most_saved

    if started is None:
        return None
    speeds, costs = (
        [getattr(each, name) for each in (started, front)]
        for name in ("tokens_per_second_per_user", "dollars_per_million_output_tokens")
    )
    return most_saved(speeds[0], costs[0], speeds[1], costs[1])
