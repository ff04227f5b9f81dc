"""The frontier of decode steps alone, without the prefill of requests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import inference_econ as ie
from inference_econ import report

from . import options, proposals, provenance, show

if TYPE_CHECKING:
    from inference_econ.search import Frontier


def run(choices: options.Choices, output: options.Output) -> None:
    """Find the frontier and show it, with all plans of its grid if they are wanted."""
    from inference_econ.search import saved_by

    with show.progress_bar(quiet=output.quiet) as progress:

        def answer(chosen: options.Choices) -> Frontier:
            speculation = proposals.speculation(chosen)
            setup, traffic, space = options.setup(chosen), _traffic(chosen), options.space(chosen)
            return ie.decode_frontier(setup, traffic, space, speculation=speculation, progress=progress)

        front, started = answer(choices), options.among_startable(choices, answer)
    plans = front.plans() if choices["every_plan"] else None
    compared = replace(front, saving=saved_by(front, started))
    show.emit(report.frontier.FrontierPage(compared, plans, choices["y"]), output, provenance.question())


def _traffic(choices: options.Choices) -> ie.Traffic:
    demand = {"max_tokens_per_second": choices["max_tokens_per_second"]}
    return ie.Traffic.build({**options.context_or_lengths(choices), **demand}, origin="command line")
