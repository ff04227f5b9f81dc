"""The frontier of services: what users see in continuous batching against what it costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from . import market, options, provenance, show

if TYPE_CHECKING:
    from inference_econ.answers.serving_frontier import ServiceFrontier


def run(choices: options.Choices, output: options.Output) -> None:
    """Find the frontier and show it."""
    from inference_econ.answers.serving_frontier import service_frontier
    from inference_econ.report.serving_frontier import ServingFrontierPage
    from inference_econ.search import saved_by

    reused = {name: choices[name] or 0 for name in ("cached", "shared_prefix")}
    requests = options.requests(choices, **{**options.context_or_lengths(choices), **reused})
    promises = options.targets({**choices, "percentile": "mean"})

    def answer(asked: options.Choices) -> ServiceFrontier:
        return service_frontier(market.candidates(asked, requests, ttft_seconds=promises.ttft_seconds), promises)

    with show.progress_bar(quiet=output.quiet):
        front, started = answer(choices), options.among_startable(choices, answer)
    compared = replace(front, saving=saved_by(front, started))
    show.emit(ServingFrontierPage(compared, choices["y"]), output, provenance.asked())
