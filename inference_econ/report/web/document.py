"""The document around sections: one file, which loads nothing."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING

from inference_econ.records.files import check_page, write_text
from inference_econ.records.texts import Amount
from inference_econ.report import charts
from inference_econ.report.columns import is_numeric
from inference_econ.report.table import Table
from inference_econ.report.web.section import Asked, Section, section

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_HERE = "inference_econ.report.web"


def write(path: Path | str, questions: Sequence[Asked], again: str = "") -> None:
    """Write a report, whole or not at all.

    Parameters
    ----------
    path : Path or str
        Where to, ending in .html.
    asked : sequence of Asked
        Its questions, at least one.
    again : str
        The command line that makes it again; empty of an answer in Python.

    Raises
    ------
    InputError
        If the name ends otherwise, or the place cannot be written.
    """
    check_page(path)
    write_text(path, text([section(question) for question in questions], again))


def text(sections: Sequence[Section], again: str = "") -> str:
    """The document.

    Parameters
    ----------
    sections : sequence of Section
        One per question.
    again : str
        The command line that makes it again.
    """
    drawn = any(section.pictures for section in sections)
    return (
        _templates()
        .get_template("report.html.j2")
        .render(
            sections=sections,
            again=again,
            version=metadata.version("inference-econ"),
            date=dt.datetime.now(tz=dt.UTC).date().isoformat(),
            style=_inside("report.css"),
            script=_inside("report.js"),
            charts=_library() if drawn else None,
            themes={"light": charts.config(), "dark": charts.config(dark=True)} if drawn else {},
        )
    )


@cache
def _templates() -> Environment:
    """The templates of the package; what is put into them is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"inline_json": _inline_json, "amount": _amount, "numeric": _numeric}
    return environment


def _inside(name: str) -> Markup:
    """A file of the package that goes into the document as it is."""
    from markupsafe import Markup

    return Markup((resources.files(_HERE) / "templates" / name).read_text(encoding="utf-8"))


def _library() -> Markup:
    """Script that draws charts; a script ends where its end tag is, be it inside of a text."""
    from markupsafe import Markup

    return Markup(charts.javascript().replace("</script", "<\\/script"))


def _inline_json(value: object) -> Markup:
    """Data inside of a script element, in which nothing ends it."""
    from markupsafe import Markup

    written = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _amount(piece: str) -> Markup | str:
    """A piece of text; an amount as data that follow the price of a chip."""
    from markupsafe import Markup

    if not isinstance(piece, Amount):
        return piece
    return Markup('<data class="amount" value="{}" data-per="{}">{}</data>').format(repr(piece.value), piece.per, piece)


def _numeric(table: Table) -> Mapping[str, bool]:
    """Columns of a table by head, with whether each is one of numbers."""
    cells = zip(*table.rows, strict=True) if table.rows else ((),) * len(table.columns)
    return {head: is_numeric(column) for head, column in zip(table.columns, cells, strict=True)}
