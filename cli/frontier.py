"""The ``frontier`` command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import inference_econ as ie
from inference_econ import answers, report, search
from inference_econ.requests import Request, prices, subject, workload

if TYPE_CHECKING:
    from inference_econ.report.page import Page

Front = TypeVar("Front", "ie.Frontier", "ie.ServiceFrontier")


def frontier(request: Request, every_plan: bool) -> Page:
    """Show the Pareto frontier of cost per token against speed per user.

    MODEL and HARDWARE are names (see 'inference-econ list models' and 'inference-econ list gpus') or paths to YAML
    files. To compare models, GPUs or values of an option, give several of them; 'compare --help' lists more options for
    comparisons.

    If you give one of --tp, --pp and --dp, the other two default to 1; a value of 'any' searches over the degree.
    Degrees that you give may be outside the search grid. Each point of the frontier is a layout under continuous
    batching, and its cost includes prefill. The latencies exclude queueing, which 'load' includes. With --decode-only,
    each point is a single decode step.
    """
    if workload.decode_steps(request, every_plan=every_plan):
        return _decode_steps(request, every_plan=every_plan)
    return _services(request)


def _decode_steps(request: Request, *, every_plan: bool) -> Page:
    """Compute the frontier of decode steps; if requested, also list every deployment of the search grid."""

    def answer(chosen: Request) -> ie.Frontier:
        demand = {"max_tokens_per_second": chosen.max_tokens_per_second}
        traffic = ie.Traffic.build({**workload.context_or_lengths(chosen), **demand}, origin="command line")
        speculation, setup, space = subject.speculation(chosen), subject.setup(chosen), subject.space(chosen)
        return ie.decode_frontier(setup, traffic, space, speculation=speculation, progress=request.progress)

    front = _beside_startable(request, answer)
    return report.frontier.FrontierPage(front, request.y, front.plans() if every_plan else None)


def _services(request: Request) -> Page:
    """Frontier of services: cost against speed (1 / TPOT) under continuous batching."""
    reused: dict[str, Any] = {"cached": request.cached or 0, "shared_prefix": request.shared_prefix or 0}
    requests = workload.requests(request, **workload.context_or_lengths(request), **reused)
    if request.decode_on is not None:
        request = replace(request, price=prices.prices_of_chips(request.price, (request.hardware, request.decode_on)))
    hardware = request.hardware if request.decode_on else None
    promises = workload.targets(replace(request, percentile="mean"))

    def answer(chosen: Request) -> ie.ServiceFrontier:
        candidates = subject.candidates(chosen, requests, hardware, ttft_seconds=promises.ttft_seconds)
        return answers.serving_frontier.service_frontier(candidates, promises)

    return report.frontier.FrontierPage(_beside_startable(request, answer), request.y)


def _beside_startable(request: Request, answer: Callable[[Request], Front]) -> Front:
    """Compute a frontier, with the cost that unsupported layouts save if layouts need no engine."""
    front = answer(request)
    return replace(front, saving=search.saved_by(front, subject.among_startable(request, answer)))
