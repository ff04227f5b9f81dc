"""An answer as the page shows it: a piece of HTML, the specifications of its pictures, and the data to choose from."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from inference_econ.explorer.questions import Answer

if TYPE_CHECKING:
    from jinja2 import Environment

    from inference_econ.report.page import Page


@functools.cache
def templates() -> Environment:
    """What all HTML of the explorer is made with: whatever is put in is text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("inference_econ.explorer")
    return Environment(loader=loader, autoescape=True, trim_blocks=True, undefined=StrictUndefined)


def text(answer: Answer) -> str:
    """The answer as JSON: ``html``, ``charts`` by name, and ``series`` with the points of frontiers."""
    from inference_econ.report import charts
    from inference_econ.report.page import json_text

    page = answer.page
    shown = {} if page is None else page.charts()
    specifications = {name: charts.specification(chart) for name, chart in shown.items()}
    record = {} if page is None else page.plain()
    return json_text(
        {
            "html": _html(answer, {name: _title(each) for name, each in specifications.items()}),
            "charts": specifications,
            "series": record.get("series", []),
        }
    )


def _title(specification: dict[str, object]) -> str:
    """The question that a picture answers."""
    title = specification.get("title")
    return str(title.get("text", "")) if isinstance(title, dict) else str(title or "Picture")


def _html(answer: Answer, figures: dict[str, str]) -> str:
    tables = [] if answer.page is None else answer.page.tables()
    return (
        templates()
        .get_template("answer.html.j2")
        .render(
            figures=figures,
            text=answer.text,
            tables=tables,
            command=answer.command,
            forms=_forms(answer.page, pictures=bool(figures)),
            notes=[note for table in tables for note in table.notes],
        )
    )


def _forms(page: Page | None, *, pictures: bool) -> Sequence[str]:
    """How an answer can be had beside what is shown."""
    from inference_econ.report.compare import ComparisonPage

    if page is None:
        return ("txt",)
    scenario = ("yaml",) if isinstance(page, ComparisonPage) else ()
    return ("csv", "json", *scenario, *(("svg", "png", "html") if pictures else ()))
