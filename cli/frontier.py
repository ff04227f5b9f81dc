"""The command that finds what nothing beats in speed and cost: decode steps, or services with ``--serving``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from . import options, proposals, serving_frontier, show

if TYPE_CHECKING:
    from inference_econ.answers.any_layout import Saving
    from inference_econ.inputs import Traffic
    from inference_econ.search import Frontier


@click.command()
@options.subject
@options.domain
@options.workload
@proposals.proposer
@serving_frontier.choices
@click.option(
    "--all", "every_plan", is_flag=True, help="List dominated plans too (json, csv), and count plans that cannot run."
)
@options.picture()
@options.output
def frontier(every_plan: bool, output: options.Output, **choices: Any) -> None:
    """Tokens/s per user against $ per million output tokens: what nothing beats in both.

    MODEL and HARDWARE are names (see 'inference-econ models' and 'inference-econ hardware') or paths to YAML files.
    Degrees and --batch that are given need not be on the grid. As soon as one of --tp, --pp and --dp is given, the
    others are 1; --dp any tries all. With --serving the
    points are services: every layout in continuous batching, with the prefill of its requests.
    """
    if serving_frontier.wanted(choices, every_plan=every_plan):
        serving_frontier.run(choices, output)
        return
    from inference_econ.answers.frontier import frontier
    from inference_econ.report.frontier import FrontierPage

    with show.progress_bar(quiet=output.quiet) as progress:

        def answer(asked: options.Choices) -> Frontier:
            speculation = proposals.speculation(asked)
            setup, traffic, space = options.setup(asked), _traffic(asked), options.space(asked)
            return frontier(setup, traffic, space, speculation=speculation, progress=progress)

        front, started = answer(choices), options.among_startable(choices, answer)
    show.emit(FrontierPage(front, front.plans() if every_plan else None, _saving(front, started)), output)


def _saving(front: Frontier, started: Frontier | None) -> Saving | None:
    """What any layout saves over those that can be started."""
    from inference_econ.answers.any_layout import most_saved

    if started is None:
        return None
    return most_saved(started.tokens_per_second, started.dollars, front.tokens_per_second, front.dollars)


def _traffic(choices: options.Choices) -> Traffic:
    from inference_econ.inputs import Traffic

    demand = {"max_tokens_per_second": choices["max_tokens_per_second"]}
    return Traffic.build({**options.context_or_lengths(choices), **demand}, origin="command line")
