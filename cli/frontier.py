"""The command that finds what nothing beats in speed and cost: services, or decode steps alone."""

from __future__ import annotations

from typing import Any

import click

from . import counted, decode_frontier, market, options, proposals, serving_frontier
from .help import Command, example


@click.command(
    cls=Command, epilog=example("inference-econ frontier llama_3_70b h100_sxm --weights fp8 --plot frontier.svg")
)
@options.subject
@options.domain
@options.workload
@options.option("contexts")
@proposals.proposer
@market.competing
@counted.choices
@options.metric
@click.option(
    "--all",
    "every_plan",
    is_flag=True,
    help="With --decode-only: list dominated plans too (json, csv), and count plans that cannot run.",
)
@options.picture()
@options.yes
@options.output
def frontier(output: options.Output, **choices: Any) -> None:
    """Tokens/s per user against $ per million output tokens: the Pareto frontier.

    MODEL and HARDWARE are names (see 'inference-econ models' and 'inference-econ hardware') or paths to YAML files.
    Degrees that are given need not be on the grid. As soon as one of --tp, --pp and --dp is given, the others are 1;
    --dp any tries all. Points are services: every layout in continuous batching, whose bill includes the prefill of its
    requests; a queue is not in it (see 'load'). With --decode-only they are decode steps alone.
    """
    run = decode_frontier.run if counted.decode_steps(choices) else serving_frontier.run
    run(choices, output)
