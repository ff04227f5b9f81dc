"""The command that holds predictions against measurements."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from inference_econ import validation

from . import options, show


def _asked(arguments: Sequence[str]) -> list[tuple[str, str | None]]:
    """Datasets, each with the file that follows it; all of them if none is named."""
    asked: list[tuple[str, str | None]] = []
    for argument in arguments:
        if argument not in validation.DATASETS and asked and asked[-1][1] is None and _is_path(argument):
            asked[-1] = (asked[-1][0], argument)
        else:
            validation.dataset(argument)
            asked.append((argument, None))
    return asked or [(name, None) for name in validation.DATASETS]


def _is_path(text: str) -> bool:
    return text.lower().endswith(".csv") or Path(text).name != text


_LISTED = "\n".join(f"  {name}: {one.description}" for name, one in validation.DATASETS.items())
_HELP = f"""Hold predictions against measurements: errors, coverage, and the rows that could not be compared.

\b
DATASET is one of these; all of them by default:
{_LISTED}

FILE.csv, with the columns of the file that comes with the package, replaces its rows. With --format csv there is one
line for each row and each of the assumptions.
"""


@click.command(help=_HELP)
@click.argument("datasets", nargs=-1, metavar="[DATASET [FILE.csv]]...")
@click.option(
    "--assumptions",
    multiple=True,
    metavar="NAME|PATH",
    help="Preset, or model of collectives (nccl_2_23, engines_hopper, ...); give it several times to compare.",
)
@click.option("--plot", type=click.Path(), help="Write a picture of predicted against measured: .svg, .png or .pdf.")
@options.output
def validate(
    datasets: tuple[str, ...],
    assumptions: tuple[str, ...],
    plot: str | None,
    form: str,
    output: str | None,
    quiet: bool,
) -> None:
    """Hold predictions against measurements; see :data:`_HELP`."""
    asked = _asked(datasets)
    from inference_econ import tables, validation_tables

    if plot is not None:
        from inference_econ import figures

        figures.check_path(plot)
    reports = [validation.validate(name, file=file, assumptions=assumptions) for name, file in asked]
    if plot is not None:
        figures.draw_reports(reports, plot)
    if form == "table":
        shown = [table for report in reports for table in validation_tables.tables(report)]
        text = "\n".join(show.table_text(table, quiet=quiet) for table in shown)
        if not quiet:
            text += "\n" + "\n".join(f"- {note}" for report in reports for note in report.notes)
    elif form == "json":
        text = tables.to_json([validation_tables.record(report) for report in reports])
    elif form == "csv":
        text = validation_tables.points_table(reports).text("csv")
    else:
        text = validation_tables.document(reports, _command(asked, assumptions, output))
    show.emit(text, output, quiet=quiet)
    if plot is not None:
        show.remark(f"wrote {plot}", quiet=quiet)


def _command(asked: Sequence[tuple[str, str | None]], assumptions: Sequence[str], output: str | None) -> str:
    """What was typed to get the document."""
    words = ["inference-econ", "validate", *(word for pair in asked for word in pair if word is not None)]
    words += [word for name in assumptions for word in ("--assumptions", name)] + ["--format", "markdown"]
    return shlex.join([*words, "-o", output] if output is not None else words)
