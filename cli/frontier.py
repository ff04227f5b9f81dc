"""The command that finds what nothing beats in speed and cost: services, or decode steps alone."""

from __future__ import annotations

from typing import Any

from . import counted, decode_frontier, options, serving_frontier
from .help import command


@command("frontier")
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
