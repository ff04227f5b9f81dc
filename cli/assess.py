"""The command that holds a measured deployment against what could be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from inference_econ.errors import InputError
from inference_econ.inputs import DEFAULT_ISL, DEFAULT_OSL, MEAN_CONTEXT

from . import options, show
from .help import Command
from .parameters import COUNT, Number

if TYPE_CHECKING:
    from inference_econ.inputs import Requests, Traffic

_EXAMPLES = """\b
Examples:
  inference-econ assess llama_3_70b h100_sxm --weights fp8 --tokens-per-second 45 --batch 64 --gpus 4 --tp 4 \\
      --isl 2000 --osl 500
  inference-econ assess deepseek_v3 h200_sxm --tokens-per-second 20 --throughput 15000 --gpus 16 --instance-gpus 8 \\
      --isl 2000 --osl 500 --plot assess.svg
  inference-econ assess llama_3_70b h100_sxm --context 500 --tokens-per-second 70 --utilization 0.15 --gpus 8
"""
#: What says how full a deployment is.
_FULLNESS = ("utilization", "batch", "throughput")
#: Options that say something of requests.
_OF_REQUESTS = ("isl", "osl", "cached", "shared_prefix")


@click.command(cls=Command, epilog=_EXAMPLES)
@options.subject
@options.domain
@click.option(
    "--tokens-per-second",
    type=Number(),
    help="Measured speed of one user, 1 / TPOT; follows where both --throughput and --batch are given.",
)
@click.option(
    "--utilization",
    type=Number(),
    help="Measured: useful arithmetic over the dense peak (MFU), 0.15 is 15 %: of output tokens, and with lengths of "
    "prompts too.",
)
@click.option("--batch", type=Number(), help="Or: sequences served at the same time; with lengths, requests in flight.")
@click.option("--throughput", type=Number(), help="Or: output tokens per second; all three are of all GPUs together.")
@click.option("--gpus", type=COUNT, required=True, help="All GPUs of what was measured: one instance, or equal ones.")
@options.instance_gpus
@options.open_degrees
@options.option(
    "isl", "lengths", help=f"Prompt tokens or a distribution: compare with services [{DEFAULT_ISL} with --osl]."
)
@options.option("osl", "lengths", help=f"Output tokens, in the same forms [{DEFAULT_OSL} with --isl].")
@options.option("cached", help="Prompt tokens found in the prefix cache.")
@options.option("shared_prefix", help="Tokens that all prompts begin with.")
@options.option("context", help=f"Cached tokens per sequence: compare decode steps [{MEAN_CONTEXT:g}].")
@options.picture()
@options.yes
@options.output
def assess(output: options.Output, **choices: Any) -> None:
    """Good or bad: a measured speed and batch (or utilisation, or throughput) against prediction, frontier and bound.

    With --isl and --osl the server is held against services, in continuous batching with the prefill of others;
    without them, against decode steps alone. How much faster at equal cost and cheaper at equal speed it could be,
    which deployment would do it, and which part would have to shrink. MODEL and HARDWARE as in 'frontier'.
    """
    traffic = _traffic(choices)
    from inference_econ.answers.assess import assess
    from inference_econ.answers.operating_point import Observation, instances_of

    pins = options.pins({**choices, "batch": None})
    measured = {name: choices[name] for name in ("tokens_per_second", *_FULLNESS)}
    instances = instances_of(choices["gpus"], pins)
    observed = Observation.of(choices["gpus"], **measured, instances=instances)
    with show.progress_bar(quiet=output.quiet) as progress:
        assessment = assess(options.setup(choices), traffic, observed, pins, progress=progress)
    show.answer(assessment, output)


def _traffic(choices: options.Choices) -> Traffic | Requests:
    """The requests that were served, or a context of decode steps.

    Raises
    ------
    InputError
        If both are given, or something of requests without their lengths.
    """
    from inference_econ.inputs import Traffic

    given = {name: choices[name] for name in _OF_REQUESTS if choices[name] is not None}
    if not given:
        context = MEAN_CONTEXT if choices["context"] is None else choices["context"]
        return Traffic.build({"context": context}, origin="command line")
    if choices["context"] is not None:
        raise InputError("give either --context, or --isl and --osl, not both", option="context")
    if "isl" not in given and "osl" not in given:
        raise InputError(
            f"--{next(iter(given)).replace('_', '-')} says something of prompts; give --isl and --osl too",
            option=next(iter(given)),
        )
    return options.requests(choices, **{"isl": DEFAULT_ISL, "osl": DEFAULT_OSL, **given})
