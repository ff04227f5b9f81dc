"""The frontier of services: what users see in continuous batching against what it costs."""

from __future__ import annotations

from dataclasses import replace

import inference_econ as ie
from inference_econ import answers, report

from . import market, options, provenance, show


def run(choices: options.Choices, output: options.Output) -> None:
    """Find the frontier and show it."""
    from inference_econ.search import saved_by

    reused = {name: choices[name] or 0 for name in ("cached", "shared_prefix")}
    requests = options.requests(choices, **{**options.context_or_lengths(choices), **reused})
    promises = options.targets({**choices, "percentile": "mean"})

    def answer(chosen: options.Choices) -> ie.ServiceFrontier:
        return answers.serving_frontier.service_frontier(
            market.candidates(chosen, requests, ttft_seconds=promises.ttft_seconds), promises
        )

    with show.progress_bar(quiet=output.quiet):
        front, started = answer(choices), options.among_startable(choices, answer)
    compared = replace(front, saving=saved_by(front, started))
    show.emit(report.serving_frontier.ServingFrontierPage(compared, choices["y"]), output, provenance.question())
