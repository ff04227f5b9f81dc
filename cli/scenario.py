"""Commands that answer scenarios: files with questions, among them the published tables and figures."""

from __future__ import annotations

from pathlib import Path

from inference_econ import report, studies

from . import options, provenance, show
from .help import command
from .parameters import PICTURE


def _page(name: str, changes: tuple[str, ...], *, quiet: bool) -> report.page.Page:
    """The answer to a scenario, perhaps with what-ifs, ready to be shown."""
    with show.progress_bar(quiet=quiet) as progress:
        return report.pages.page(studies.scenario.run(name, changes=changes, progress=progress))


@command("run")
@options.output
def run(name: str, changes: tuple[str, ...], output: options.Output) -> None:
    """Answer a scenario: a name (see 'inference-econ scenarios') or a path to a YAML file."""
    show.emit(_page(name, changes, quiet=output.quiet), output, provenance.question())


@command("table")
@options.output
def table(name: str, changes: tuple[str, ...], output: options.Output) -> None:
    """Print the table of a scenario, for example paper/table_4."""
    show.emit(_page(name, changes, quiet=output.quiet), output)


@command("figure")
def figure(name: str, changes: tuple[str, ...], path: str | None, quiet: bool) -> None:
    """Draw the figure of a scenario, for example paper/figure_6."""
    target = path or PICTURE.convert(f"{Path(name).stem}.svg", None, None)
    _page(name, changes, quiet=quiet).draw(target)
    show.remark(f"wrote {target}", quiet=quiet)
