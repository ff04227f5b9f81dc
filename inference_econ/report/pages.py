"""Functions that display results in Python.

:class:`inference_econ._answer.Shown` calls these functions, and imports this module when a result is displayed.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inference_econ._answer import Shown
from inference_econ._named import named
from inference_econ.errors import InputError
from inference_econ.records.files import check_picture
from inference_econ.report import charts

if TYPE_CHECKING:
    from inference_econ.report.page import AnswerPage, Page

#: Template: tables with their notes, then the chart.
_HTML = """\
{% for table in tables %}<p><b>{{ table.title }}</b></p>
<table><thead><tr>{% for column in table.columns %}<th>{{ column }}</th>{% endfor %}</tr></thead>
<tbody>{% for row in table.rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table>
{% for note in table.notes %}<p><small>{{ note }}</small></p>
{% endfor %}{% endfor %}{{ drawing }}"""


@dataclass(frozen=True, slots=True)
class Picture:
    """Picture in a notebook: interactive if the notebook supports Vega-Lite, else SVG.

    Attributes
    ----------
    svg : str
        SVG text.
    chart : altair chart or None
        Chart that users can change or combine; None for figures of the published study.
    """

    svg: str
    chart: charts.AnyChart | None = None

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]:  # noqa: ARG002
        """Return the picture as SVG and as an interactive chart, which needs no network."""
        shown: dict[str, object] = {"image/svg+xml": self.svg, "text/plain": repr(self)}
        if self.chart is None:
            return shown
        return {charts.mime_type(): charts.specification(self.chart), **shown}

    def __repr__(self) -> str:
        """Return the size of the SVG text instead of the text."""
        return f"<Picture: {len(self.svg):,} characters of SVG>"


def page_picture(page: Page, path: str | Path | None = None) -> Picture:
    """Create the picture of a result. If a path is given, also write it to a file.

    Raises
    ------
    InputError
        If the result has no picture, or the file cannot be written.
    """
    if not page.has_picture:
        raise InputError("this answer has no picture; to_frame() has its numbers")
    target = None if path is None else check_picture(path, page.endings)
    chart = next(iter(page.charts().values()), None)
    if chart is None:
        if target is not None:
            page.draw(str(target))
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "picture.svg"
            page.draw(str(copy))
            text = copy.read_text(encoding="utf-8")
        return Picture(text[text.index("<svg") :])
    if target is not None:
        charts.write_chart(chart, target)
    return Picture(charts.svg(chart), chart)


def page_html(page: Page) -> str:
    """Return the tables and the picture of a result as HTML."""
    from jinja2 import Environment
    from markupsafe import Markup

    drawing = Markup(page_picture(page).svg) if page.has_picture else ""
    template = Environment(autoescape=True).from_string(_HTML)
    return template.render(tables=page.tables(), drawing=drawing)


def page(answer: Shown) -> AnswerPage[Any]:
    """Create the page of a result, with the default options of its command.

    Pages of other commands are not imported.
    """
    displayed = answer.displayed
    made: AnswerPage[Any] = named(displayed.page)(displayed)
    return made


def picture(answer: Shown, path: str | Path | None) -> Picture:
    """Draw a result; see :meth:`inference_econ._answer.Shown.plot`."""
    return page_picture(page(answer), path)


def markdown(answer: Shown) -> str:
    """Return a result as Markdown text, which :meth:`inference_econ._answer.Shown.save` writes to a file."""
    return page(answer).markdown()


def report(answer: Shown, path: str | Path) -> None:
    """Write a result to an HTML file; see :meth:`inference_econ._answer.Shown.report`."""
    named("extras.web.document:write_page")(path, page(answer))


def launch(answer: Shown, to: str | None = None) -> str:
    """Create a launch script; see :meth:`inference_econ._answer.Shown.launch`."""
    from inference_econ.report.questions.launch import start_script

    start = page(answer).start()
    if start is None:
        raise InputError(
            f"{type(answer).__name__} starts nothing; recommend, price, load and frontier choose what does"
        )
    return start_script(start, to)


def html(answer: Shown) -> str:
    """Return a result as HTML for a notebook; see :meth:`inference_econ._answer.Shown._repr_html_`."""
    return page_html(page(answer))
