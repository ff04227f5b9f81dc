"""The command that takes one step apart."""

from __future__ import annotations

from typing import Any

import click

from . import options, show
from .parameters import NON_NEGATIVE, PICTURE, POSITIVE


@click.command()
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
@options.picture("Write a picture of the parts of the step, a waterfall: .svg, .png or .pdf.")
@click.option("--roofline", type=PICTURE, help="Write a picture of its operators on the roofline of the chip.")
@options.output
def explain(
    operators: bool | None, prefill: float | None, roofline: str | None, output: options.Output, **choices: Any
) -> None:
    """Take one step apart, of decode or of prefill: seconds by part and by operator, what bounds them, the memory."""
    from inference_econ.answers.explain import explain
    from inference_econ.report.explain import ExplanationPage

    options.check_apart({"-o": output.path, "--plot": output.picture, "--roofline": roofline})
    explanation = explain(
        options.setup(choices),
        options.pins(choices),
        context=choices["context"],
        prompt=prefill,
        cut=choices["cut"],
        shared_prefix=choices["shared_prefix"],
    )
    page = ExplanationPage(explanation, operators)
    show.emit(page, output)
    if roofline is not None:
        page.draw_roofline(roofline)
        show.remark(f"wrote {roofline}", quiet=output.quiet)
