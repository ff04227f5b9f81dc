"""Commands that answer scenarios: files with questions, among them the published tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import options, show

if TYPE_CHECKING:
    from inference_econ.studies.results import Result


def _answer(name: str, *, quiet: bool) -> Result:
    from inference_econ.studies.scenario import run

    with show.progress_bar(quiet=quiet) as progress:
        return run(name, progress=progress)


def _text(result: Result, form: str, *, quiet: bool) -> str:
    from inference_econ.report import scenario as scenario_tables
    from inference_econ.report import table as tables

    if form == "json":
        return tables.to_json(scenario_tables.result_record(result))
    if form == "csv":
        return scenario_tables.result_csv(result)
    shown = scenario_tables.scenario_tables(result)
    if form == "markdown":
        titled = len(shown) > 1 and not result.panels
        return "\n".join((f"**{one.title}**\n\n" if titled else "") + one.text("markdown") for one in shown)
    return "\n".join(show.table_text(table, quiet=quiet) for table in shown)


@click.command()
@click.argument("name", type=options.Name("scenarios"))
@click.option("--plot", type=options.PLACE, help="Write a picture: .svg, .png or .pdf.")
@options.output
def run(name: str, plot: str | None, form: str, output: str | None, quiet: bool) -> None:
    """Answer a scenario: a name (see 'inference-econ scenarios') or a path to a YAML file."""
    if plot is not None:
        from inference_econ.report import figures

        figures.check_path(plot)
    result = _answer(name, quiet=quiet)
    if plot is not None:
        figures.save(figures.draw(result), [plot])
    show.emit(_text(result, form, quiet=quiet), output, quiet=quiet)
    if plot is not None:
        show.remark(f"wrote {plot}", quiet=quiet)


@click.command()
@click.argument("name", type=options.Name("scenarios"))
@options.output
def table(name: str, form: str, output: str | None, quiet: bool) -> None:
    """Print the table of a scenario, for example paper/table_4."""
    show.emit(_text(_answer(name, quiet=quiet), form, quiet=quiet), output, quiet=quiet)


@click.command()
@click.argument("name", type=options.Name("scenarios"))
@click.option("-o", "--output", type=options.PLACE, help="Picture to write (.svg, .png, .pdf) [default: NAME.svg].")
@click.option("--quiet", is_flag=True, help="No progress bar or remarks.")
def figure(name: str, output: str | None, quiet: bool) -> None:
    """Draw the figure of a scenario, for example paper/figure_6."""
    from inference_econ.report import figures

    target = figures.check_path(output or f"{Path(name).stem}.svg")
    figures.save(figures.draw(_answer(name, quiet=quiet)), [target])
    show.remark(f"wrote {target}", quiet=quiet)


@click.command()
@click.option(
    "--folder", type=click.Path(file_okay=False), default="figures", show_default=True, help="Where files go."
)
@options.output
def reproduce(folder: str, form: str, output: str | None, quiet: bool) -> None:
    """Make every table and figure of "Inference economics of language models", and compare cell by cell."""
    from inference_econ.report import gallery
    from inference_econ.report import table as tables

    with show.progress_bar(quiet=quiet) as progress:
        report = gallery.reproduce(folder, progress=progress)
    if form == "json":
        text = tables.to_json(report.record())
    elif form == "table":
        text = show.table_text(report.table(), quiet=quiet)
    else:
        text = report.table().text("csv" if form == "csv" else "markdown")
    show.emit(text, output, quiet=quiet)
