"""Commands that answer scenarios: files with questions, among them the published tables and figures."""

from __future__ import annotations

from pathlib import Path

from inference_econ import report, studies

from . import options, show
from .help import command, question
from .parameters import PICTURE


@question("run")
def run(name: str, changes: tuple[str, ...], progress: options.Progress | None) -> options.Shown:
    """Answer a scenario: a name (see 'inference-econ scenarios') or a path to a YAML file."""
    return studies.scenario.run(name, changes=changes, progress=progress)


@command("table")
def table(name: str, changes: tuple[str, ...], progress: options.Progress | None) -> options.Shown:
    """Print the table of a scenario, for example paper/table_4."""
    return studies.scenario.run(name, changes=changes, progress=progress)


@command("figure")
def figure(name: str, changes: tuple[str, ...], path: str | None, quiet: bool) -> None:
    """Draw the figure of a scenario, for example paper/figure_6."""
    target = path or PICTURE.convert(f"{Path(name).stem}.svg", None, None)
    with show.progress_bar(quiet=quiet) as progress:
        answer = studies.scenario.run(name, changes=changes, progress=progress)
    report.pages.page(answer).draw(target)
    show.remark(f"wrote {target}", quiet=quiet)
