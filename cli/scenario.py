"""Commands that run scenarios, including published tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from inference_econ import report, studies
from inference_econ.records.files import ending_of, write_text
from inference_econ.records.plain import csv_text
from inference_econ.requests import Request, kinds
from inference_econ.requests.places import check_apart

from . import show

if TYPE_CHECKING:
    from inference_econ._answer import Shown
    from inference_econ.report.page import Page


def run(request: Request, name: str) -> Shown:
    """Run a study that a scenario (YAML file) defines.

    NAME is a scenario (see 'inference-econ list scenarios') or the path of a YAML file.
    """
    return studies.scenario.run(name, changes=request.changes, progress=request.progress)


def table(request: Request, name: str) -> Shown:
    """Print the table that a scenario defines, for example paper/table_4."""
    return studies.scenario.run(name, changes=request.changes, progress=request.progress)


def figure(request: Request, name: str, path: str | None) -> None:
    """Draw the figure that a scenario defines, for example paper/figure_6.

    With -o NAME.csv, the command writes the curves.
    """
    target = path or kinds.kind("figure").read(f"{Path(name).stem}.svg")
    with show.progress_bar(quiet=request.quiet) as progress:
        answer = studies.scenario.run(name, changes=request.changes, progress=progress)
    if ending_of(target) == ".csv":
        write_text(target, csv_text(answer.to_frame(drawn=True)))
    else:
        report.pages.page(answer).draw(target)
    request.tell(f"wrote {target}")


def reproduce(request: Request, folder: str) -> Page:
    """Reproduce all tables and figures of the published study, cell by cell.

    The study is "Inference economics of language models". To change an assumption of one table or figure, use 'paper
    table paper/table_4 --set KEY=VALUE' or 'paper run paper/figure_1 --set KEY=VALUE'.
    """
    if request.output is not None:
        for place in report.gallery.places(folder):
            check_apart({"-o": request.output, "--folder": str(place)})
    return report.gallery.ReproductionPage(report.gallery.reproduce(folder, progress=request.progress))
