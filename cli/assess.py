"""The command that holds a measured deployment against what could be."""

from __future__ import annotations

from typing import Any

import click

from inference_econ.errors import InputError

from . import options, show

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
@click.option("--tokens-per-second", type=float, required=True, help="Measured speed of one user.")
@click.option("--utilization", type=float, help="Measured: useful arithmetic over the dense peak (MFU), 0.15 is 15 %.")
@click.option("--batch", type=float, help="Or: sequences served at the same time.")
@click.option("--throughput", type=float, help="Or: output tokens per second of the deployment.")
@click.option(
    "--gpus", "--accelerators", "accelerators", type=click.IntRange(1), required=True, help="Chips of the deployment."
)
@click.option("--tp", type=click.IntRange(1), help="Its accelerators that share attention; the best if not given.")
@click.option("--dp", type=click.IntRange(1), help="Its groups of them in a pipeline stage.")
@click.option("--pp", type=click.IntRange(1), help="Its pipeline stages.")
@click.option("--ep", type=click.IntRange(1), help="Its expert-parallel ranks of a stage.")
@click.option("--context", type=options.NON_NEGATIVE, help="Cached tokens per sequence; instead of --isl and --osl.")
@click.option("--isl", type=options.NON_NEGATIVE, help="Input tokens of a request [default: 2000].")
@click.option("--osl", type=options.POSITIVE, help="Output tokens of a request [default: 500].")
@click.option("--plot", type=options.PLACE, help="Write a picture: .svg, .png or .pdf.")
@options.output
def assess(
    domain: int | None,
    context: float | None,
    isl: float | None,
    osl: float | None,
    plot: str | None,
    form: str,
    output: str | None,
    quiet: bool,
    **given: Any,
) -> None:
    """Good or bad: a measured speed and batch (or utilisation, or throughput) against the frontier and the ideal bound.

    How much faster at equal cost and cheaper at equal speed it could be, which deployment would do it, and which part
    of the step would have to shrink. MODEL and HARDWARE as in 'frontier'.
    """
    from inference_econ.answers.assess import assess as assess_all
    from inference_econ.answers.operating_point import Observation
    from inference_econ.engine.layouts.pins import Pins
    from inference_econ.inputs.traffic import Traffic
    from inference_econ.report import assess as assessment_tables
    from inference_econ.report import table
    from inference_econ.studies.settings import DEFAULTS

    if plot is not None:
        from inference_econ.report import figures

        figures.check_path(plot)
    if context is not None and (isl is not None or osl is not None):
        raise InputError("give either --context, or --isl and --osl, not both")
    lengths = {
        "isl": DEFAULTS.isl if isl is None else isl,
        "osl": DEFAULTS.osl if osl is None else osl,
    }
    with show.progress_bar(quiet=quiet) as progress:
        found = assess_all(
            options.setup(given, domain_size=domain),
            Traffic.build(lengths if context is None else {"context": context}, origin="command line"),
            Observation(**{name: given[name] for name in _OBSERVED}),
            Pins(**{name: given[name] for name in ("tp", "dp", "pp", "ep")}),
            progress=progress,
        )
    if plot is not None:
        figures.draw_chart(assessment_tables.assessment_chart(found), plot)
    if form == "json":
        text = table.to_json(assessment_tables.assessment_record(found))
    elif form == "csv":
        text = assessment_tables.assessment_csv(found)
    else:
        shown = assessment_tables.every_table(found)
        if form == "table":
            text = "\n".join(show.table_text(one, quiet=quiet) for one in shown)
        else:
            text = "\n".join(one.text("markdown") for one in shown)
    show.emit(text, output, quiet=quiet)
    if plot is not None:
        show.remark(f"wrote {plot}", quiet=quiet)
