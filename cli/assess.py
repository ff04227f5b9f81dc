"""The command that holds a measured deployment against what could be."""

from __future__ import annotations

from typing import Any

import click

from . import options, show
from .parameters import COUNT, NON_NEGATIVE, POSITIVE, Number

_EXAMPLES = """\b
Examples:
  inference-econ assess llama_3_70b h100_sxm --context 500 --tokens-per-second 70 --utilization 0.15 --gpus 8
  inference-econ assess llama_3_70b h100_sxm --weights fp8 --tokens-per-second 45 --batch 64 --gpus 4 --tp 4
  inference-econ assess deepseek_v3 h200_sxm --tokens-per-second 20 --throughput 15000 --gpus 16 --plot assess.svg
"""
#: What is observed of a deployment.
_OBSERVED = ("tokens_per_second", "accelerators", "utilization", "batch", "throughput")


@click.command(epilog=_EXAMPLES)
@options.subject
@options.domain
@click.option("--tokens-per-second", type=Number(), required=True, help="Measured speed of one user.")
@click.option(
    "--utilization", type=Number(), help="Measured: useful arithmetic over the dense peak (MFU), 0.15 is 15 %."
)
@click.option("--batch", type=Number(), help="Or: sequences served at the same time.")
@click.option("--throughput", type=Number(), help="Or: output tokens per second of the deployment.")
@click.option("--gpus", "accelerators", type=COUNT, required=True, help="All chips of what was measured.")
@click.option("--tp", type=COUNT, help="Its accelerators that share attention; the best if not given.")
@click.option("--dp", type=COUNT, help="Its groups of them in a pipeline stage.")
@click.option("--pp", type=COUNT, help="Its pipeline stages.")
@click.option("--ep", type=COUNT, help="Its expert-parallel ranks of a stage.")
@click.option("--context", type=NON_NEGATIVE, help="Cached tokens per sequence; instead of --isl and --osl.")
@click.option("--isl", type=NON_NEGATIVE, help="Input tokens of a request [default: 2000].")
@click.option("--osl", type=POSITIVE, help="Output tokens of a request [default: 500].")
@options.picture()
@options.output
def assess(output: options.Output, **choices: Any) -> None:
    """Good or bad: a measured speed and batch (or utilisation, or throughput) against the frontier and the ideal bound.

    How much faster at equal cost and cheaper at equal speed it could be, which deployment would do it, and which part
    of the step would have to shrink. MODEL and HARDWARE as in 'frontier'.
    """
    lengths = options.context_or_lengths(choices)
    from inference_econ.answers.assess import assess
    from inference_econ.answers.operating_point import Observation
    from inference_econ.inputs import Traffic
    from inference_econ.report.assess import AssessmentPage

    observed = Observation(**{name: choices[name] for name in _OBSERVED})
    with show.progress_bar(quiet=output.quiet) as progress:
        assessment = assess(
            options.setup(choices),
            Traffic.build(lengths, origin="command line"),
            observed,
            options.pins(choices),
            progress=progress,
        )
    show.emit(AssessmentPage(assessment), output)
