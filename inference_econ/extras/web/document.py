"""HTML report: one self-contained file."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from inference_econ.answers.launching.plan import Start
from inference_econ.engine import Setup
from inference_econ.errors import InputError
from inference_econ.extras.web.sentences import Summary, summary
from inference_econ.records.files import check_page, write_text
from inference_econ.records.texts import Amount
from inference_econ.report import charts
from inference_econ.report.headings import formats_title, price_label
from inference_econ.report.page import Page, Pieces, Remarks, Table, is_numeric
from inference_econ.report.questions import launch

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

#: Maximum number of listed fields per reference [1].
_FIELDS = 8


@dataclass(frozen=True, slots=True)
class Asked:
    """Command with its result.

    Attributes
    ----------
    page : Page
        Result as a page.
    line : str
        Equivalent command line; empty for results from Python.
    remarks : sequence of str
        Notes on the origin of the result, such as the interpretation of names.
    engine : str or None
        Engine for the start script; None for any engine that can start the deployment.
    """

    page: Page
    line: str = ""
    remarks: Sequence[str] = ()
    engine: str | None = None


@dataclass(frozen=True, slots=True)
class Slider:
    """Number that a reader can change.

    Attributes
    ----------
    name : {"price", "prices", "use", "cached"}
        Quantity that the slider scales.
    value, low, high, step : float
        Initial value, range and step.
    """

    name: str
    value: float
    low: float
    high: float
    step: float


@dataclass(frozen=True, slots=True)
class PictureSection:
    """Chart whose title and description are outside the picture, so that text wraps to the window width.

    Attributes
    ----------
    name : str
        Name of the chart on its page.
    title : str
        Title of the chart.
    words : str
        Description of the chart.
    specification : dict
        Vega-Lite specification, without title and theme.
    """

    name: str
    title: str
    words: str
    specification: Mapping[str, Any]


class Reference(NamedTuple):
    """Cited source, and the specification fields for which it is the source."""

    title: str
    url: str
    """Web address of the source; empty if unknown."""
    file: str
    """Specification file with the fields."""
    fields: str
    """Names of the fields that the source supports."""


@dataclass(frozen=True, slots=True)
class Section:
    """Section of one command: result, charts, tables and sources."""

    asked: Asked
    question: str
    answer: Pieces
    pictures: Sequence[PictureSection]
    still: str
    tables: Sequence[Table]
    sliders: Sequence[Slider]
    mix: Mapping[str, float] | None
    script: str
    basis: Sequence[str]
    facts: Sequence[tuple[str, ...]]
    references: Sequence[Reference]


def section(question: Asked) -> Section:
    """Create the section of a command."""
    page = question.page
    told, start = summary(page), page.start()
    answer = told.conclusion
    conclusion = "".join(answer)
    tables = [
        # The conclusion is not repeated as a note.
        replace(table, notes=tuple(note for note in table.notes if note != conclusion))
        for table in page.tables()
    ]
    # These lines are those that `--why` prints.
    lines: list[str] = []
    for block in page.blocks():
        match block:
            case Table():
                lines += block.why
            case Remarks():
                lines += block.lines
    # Sources with the fields that they support, in order of use.
    used = page.sources()
    fields: dict[tuple[str, str], list[str]] = {}
    titles: dict[tuple[str, str], tuple[str, str]] = {}
    for source in used:
        record = source.record()
        key = record["ref"], record["file"]
        fields.setdefault(key, []).append(record["field"])
        titles[key] = record.get("title", record["where"]), record.get("url", "")
    return Section(
        question,
        told.question,
        answer,
        [_picture(name, chart) for name, chart in (told.drawn or page).charts().items()],
        f"data:image/svg+xml;base64,{base64.b64encode(page.picture().svg.encode()).decode()}" if told.still else "",
        tables,
        _sliders(page, told, tables),
        told.mix,
        "" if start is None else script(start, question.engine),
        list(dict.fromkeys(lines)),
        list(dict.fromkeys(map(_facts, page.setups()))),
        [Reference(*titles[key], key[1], _some(names)) for key, names in fields.items()],
    )


def script(start: Start, to: str | None = None) -> str:
    """Script that starts a deployment and benchmarks it.

    Parameters
    ----------
    start : Start
        Deployment to start.
    to : str, optional
        Engine; by default one that supports the layout.

    Returns
    -------
    str
        Script; a comment line with the reason if no engine supports the layout.
    """
    try:
        return launch.start_script(start, to)
    except InputError as error:
        return f"# No command line: {error}\n"


def _picture(name: str, chart: Any) -> PictureSection:
    specification = charts.specification(chart)
    title = specification.pop("title", {})
    del specification["config"]
    words = title if isinstance(title, dict) else {"text": title}
    # Lines that end in a hyphen are joined without a space.
    lines = (line if line.endswith("-") else f"{line} " for line in words.get("subtitle", ()))
    return PictureSection(name, str(words.get("text", name)), "".join(lines).rstrip(), specification)


def _sliders(page: Page, told: Summary, tables: Sequence[Table]) -> list[Slider]:
    """Sliders for quantities that scale amounts exactly; empty if no amount is proportional to a price."""
    shown = [*told.conclusion, *(cell for table in tables for row in table.rows for cell in row)]
    if not told.proportional or not any(isinstance(text, Amount) for text in shown):
        return []
    prices = {(setup.hardware.name, setup.hour_price.dollars) for setup in page.setups()}
    if len(prices) == 1:
        dollars = prices.pop()[1]
        first = Slider("price", dollars, _round(dollars / 10.0), _round(3.0 * dollars), 0.01)
    else:
        first = Slider("prices", 100.0, 10.0, 300.0, 1.0)
    cached = [] if told.mix is None else [Slider("cached", _round(100.0 * told.mix["share"]), 0.0, 100.0, 1.0)]
    return [first, Slider("use", 100.0, 5.0, 100.0, 1.0), *cached]


def _round(value: float) -> float:
    return max(round(value, 2), 0.01)


def _facts(setup: Setup) -> tuple[str, ...]:
    """Facts of a setup: model, chip, price, formats and assumptions."""
    price = "" if setup.price is None else price_label(setup.hardware, setup.hour_price)
    return setup.model.name, setup.hardware.name, price, formats_title(setup), setup.assumptions.name


def _some(names: Sequence[str]) -> str:
    """Text with the first names of a list, and the number of further names."""
    more = f" and {len(names) - _FIELDS} more" if len(names) > _FIELDS else ""
    return ", ".join(names[:_FIELDS]) + more


_HERE = "inference_econ.extras.web"


def write(path: Path | str, questions: Sequence[Asked], again: str = "") -> None:
    """Write a report atomically: the file is complete or unchanged.

    Parameters
    ----------
    path : Path or str
        File to write, ending in .html.
    questions : sequence of Asked
        Commands with results, at least one.
    again : str
        Command line that reproduces the report; empty for results from Python.

    Raises
    ------
    InputError
        If the path has another ending, or the file cannot be written.
    """
    check_page(path)
    write_text(path, document_text([section(question) for question in questions], again))


def document_text(sections: Sequence[Section], again: str = "") -> str:
    """Render the sections as one HTML document.

    Parameters
    ----------
    sections : sequence of Section
        Sections of the document, one per command.
    again : str
        Command line that reproduces the report.
    """
    from markupsafe import Markup

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
            # End tags in strings of the script are escaped.
            charts=Markup(charts.javascript().replace("</script", "<\\/script")) if drawn else None,
            themes={"light": charts.config(), "dark": charts.config(dark=True)} if drawn else {},
        )
    )


@cache
def _templates() -> Environment:
    """Templates of the package, with escaping."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"inline_json": _inline_json, "amount": _amount, "numeric": _numeric}
    return environment


def _inside(name: str) -> Markup:
    """Text of a package file, which a report contains without escaping."""
    from markupsafe import Markup

    return Markup((resources.files(_HERE) / "templates" / name).read_text(encoding="utf-8"))


def _inline_json(value: object) -> Markup:
    """JSON for a script element, without sequences that end it."""
    from markupsafe import Markup

    written = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _amount(piece: str) -> Markup | str:
    """Escaped text; amounts become data elements that follow the price of a chip."""
    from markupsafe import Markup

    if not isinstance(piece, Amount):
        return piece
    return Markup('<data class="amount" value="{}" data-per="{}">{}</data>').format(repr(piece.value), piece.per, piece)


def _numeric(table: Table) -> Mapping[str, bool]:
    """True for numeric columns of a table, by heading."""
    cells = zip(*table.rows, strict=True) if table.rows else ((),) * len(table.columns)
    return {head: is_numeric(column) for head, column in zip(table.columns, cells, strict=True)}


def write_page(path: str | Path, page: Page) -> None:
    """Write the document of one page; see :func:`write`."""
    write(path, [Asked(page)])
