"""The command that takes one step apart."""

from __future__ import annotations

from typing import Any

import click

from . import options, show
from .help import Command, example
from .parameters import NON_NEGATIVE, POSITIVE


@click.command(
    cls=Command,
    epilog=example("inference-econ explain llama_3_70b h100_sxm --tp 8 --batch 64 --weights fp8 --operators"),
)
@options.subject
@options.domain
@options.degrees
@click.option("--batch", type=POSITIVE, default=1, show_default=True, help="Sequences decoded together.")
@click.option("--cut", type=click.Choice(["1d", "2d"]), default="1d", show_default=True, help="How matrices are cut.")
@click.option("--context", type=NON_NEGATIVE, help="Cached tokens per sequence [default: 2000; with --prefill 0].")
@options.shared_prefix
@click.option("--prefill", type=POSITIVE, help="Explain a prefill step that reads so many prompt tokens.")
@click.option(
    "--operators/--no-operators",
    default=None,
    help="Show the operator table, and what takes the memory of an accelerator. [default: operators; for csv the parts "
    "of the step]",
)
@options.output
def explain(operators: bool | None, prefill: float | None, output: options.Output, **choices: Any) -> None:
    """Take one step apart, of decode or of prefill: seconds by part and by operator, what bounds them, the memory."""
    from inference_econ.answers.explain import explain
    from inference_econ.report.explain import ExplanationPage

    explanation = explain(
        options.setup(choices),
        options.pins(choices),
        context=choices["context"],
        prompt=prefill,
        cut=choices["cut"],
        shared_prefix=choices["shared_prefix"],
    )
    show.emit(ExplanationPage(explanation, operators), output)
