"""Commands that answer scenarios: files with questions, among them the published tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import options, provenance, show
from .help import Command, example
from .parameters import PICTURE, Name

if TYPE_CHECKING:
    from inference_econ.report.page import Page


#: What-ifs of all series of a scenario.
_what_ifs = options.option("changes")


def _page(name: str, changes: tuple[str, ...], *, quiet: bool) -> Page:
    """The answer to a scenario, perhaps with what-ifs, ready to be shown."""
    from inference_econ.report.pages import page
    from inference_econ.studies import scenario

    with show.progress_bar(quiet=quiet) as progress:
        return page(scenario.run(name, changes=changes, progress=progress))


@click.command(cls=Command, epilog=example("inference-econ run examples/opening_question -o answer.json"))
@click.argument("name", type=Name("scenarios"))
@_what_ifs
@options.picture("Write a picture: .svg, .png or .pdf.", PICTURE)
@options.yes
@options.output
def run(name: str, changes: tuple[str, ...], output: options.Output) -> None:
    """Answer a scenario: a name (see 'inference-econ scenarios') or a path to a YAML file."""
    show.emit(_page(name, changes, quiet=output.quiet), output, provenance.asked())


@click.command(cls=Command, epilog=example("inference-econ table paper/table_4"))
@click.argument("name", type=Name("scenarios"))
@_what_ifs
@options.yes
@options.output
def table(name: str, changes: tuple[str, ...], output: options.Output) -> None:
    """Print the table of a scenario, for example paper/table_4."""
    show.emit(_page(name, changes, quiet=output.quiet), output)


@click.command(cls=Command, epilog=example("inference-econ figure paper/figure_6 -o figure_6.svg"))
@click.argument("name", type=Name("scenarios"))
@_what_ifs
@click.option("-o", "--output", "path", type=PICTURE, help="Picture to write (.svg, .png, .pdf) [default: NAME.svg].")
@options.yes
@click.option("--quiet", is_flag=True, help="No progress bar or remarks.")
def figure(name: str, changes: tuple[str, ...], path: str | None, quiet: bool) -> None:
    """Draw the figure of a scenario, for example paper/figure_6."""
    target = path or PICTURE.convert(f"{Path(name).stem}.svg", None, None)
    _page(name, changes, quiet=quiet).draw(target)
    show.remark(f"wrote {target}", quiet=quiet)
