"""One question of a report: all that its part of the document shows, ready for the template."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from inference_econ.answers.heading import formats_title
from inference_econ.answers.launching.plan import Start
from inference_econ.engine import Setup
from inference_econ.errors import InputError
from inference_econ.records.sources import UsedSource
from inference_econ.records.texts import Amount
from inference_econ.report import charts, launch
from inference_econ.report.page import Page, Pieces, Remarks
from inference_econ.report.picture import picture
from inference_econ.report.table import Table

#: Fields of a reference that are listed [1].
_FIELDS = 8


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its answer.

    Attributes
    ----------
    page : Page
        The answer.
    line : str
        The command line that asks it; empty of an answer in Python.
    remarks : sequence of str
        What a reader must know of where the answer comes from.
    engine : str or None
        What is to start it; one that can, if None.
    """

    page: Page
    line: str = ""
    remarks: Sequence[str] = ()
    engine: str | None = None


@dataclass(frozen=True, slots=True)
class Slider:
    """Number that a reader may change, and its range.

    Attributes
    ----------
    name : {"price", "prices", "use", "cached"}
        What it scales.
    value, low, high, step : float
        As it was answered, and in which range it moves.
    """

    name: str
    value: float
    low: float
    high: float
    step: float


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart with its words outside of it, where they are broken as the window wants.

    Attributes
    ----------
    name : str
        Of the chart on its page.
    title : str
        The question it answers.
    words : str
        What is drawn.
    specification : dict
        Vega-Lite, without its title and theme.
    """

    name: str
    title: str
    words: str
    specification: Mapping[str, Any]


class Reference(NamedTuple):
    """One reference and what it gives."""

    title: str
    url: str
    """Empty where it has none."""
    file: str
    """Specification that it is of."""
    fields: str
    """Fields of it."""


@dataclass(frozen=True, slots=True)
class Section:
    """One question: its answer, charts, tables, and what it rests on."""

    asked: Asked
    question: str
    answer: Pieces
    pictures: Sequence[Picture]
    still: str
    tables: Sequence[Table]
    sliders: Sequence[Slider]
    mix: Mapping[str, float] | None
    script: str
    basis: Sequence[str]
    facts: Sequence[tuple[str, ...]]
    references: Sequence[Reference]


def section(question: Asked) -> Section:
    """Everything that a document shows of a question."""
    page = question.page
    answer, start = page.conclusion(), page.start()
    tables = [_without(table, "".join(answer)) for table in page.tables()]
    return Section(
        question,
        page.question(),
        answer,
        [_picture(name, chart) for name, chart in page.drawn.charts().items()],
        _still(page) if page.still else "",
        tables,
        _sliders(page, answer, tables),
        page.mix(),
        "" if start is None else script(start, question.engine),
        _basis(page),
        list(dict.fromkeys(map(_facts, page.setups()))),
        _references(page.sources()),
    )


def script(start: Start, to: str | None = None) -> str:
    """Script that starts a deployment, and holds it to account.

    Parameters
    ----------
    start : Start
        The deployment.
    to : str, optional
        Engine; by default one that can start the layout.

    Returns
    -------
    str
        Why there is none, in one line that begins with ``#``, where no engine is known to start it.
    """
    try:
        return launch.started(start, to)
    except InputError as error:
        return f"# No command line: {error}\n"


def _still(page: Page) -> str:
    """A figure as an address that holds all of it."""
    return f"data:image/svg+xml;base64,{base64.b64encode(picture(page).svg.encode()).decode()}"


def _without(table: Table, answer: str) -> Table:
    """A table without the note that is the answer."""
    return replace(table, notes=tuple(note for note in table.notes if note != answer))


def _picture(name: str, chart: Any) -> Picture:
    specification = charts.specification(chart)
    title = specification.pop("title", {})
    del specification["config"]
    words = title if isinstance(title, dict) else {"text": title}
    return Picture(name, str(words.get("text", name)), _joined(words.get("subtitle", ())), specification)


def _joined(lines: Sequence[str]) -> str:
    """Lines as one; those that end in a hyphen were broken there."""
    return "".join(line if line.endswith("-") else f"{line} " for line in lines).rstrip()


def _sliders(page: Page, answer: Pieces, tables: Sequence[Table]) -> list[Slider]:
    """Sliders of what may be changed exactly: none without amounts, or where one is in no proportion to a price."""
    shown = [*answer, *(cell for table in tables for row in table.rows for cell in row)]
    if not page.proportional or not any(isinstance(text, Amount) for text in shown):
        return []
    prices = {(setup.hardware.name, setup.hour_price.dollars) for setup in page.setups()}
    if len(prices) == 1:
        dollars = prices.pop()[1]
        first = Slider("price", dollars, _round(dollars / 10.0), _round(3.0 * dollars), 0.01)
    else:
        first = Slider("prices", 100.0, 10.0, 300.0, 1.0)
    mix = page.mix()
    cached = [] if mix is None else [Slider("cached", _round(100.0 * mix["share"]), 0.0, 100.0, 1.0)]
    return [first, Slider("use", 100.0, 5.0, 100.0, 1.0), *cached]


def _round(value: float) -> float:
    return max(round(value, 2), 0.01)


def _basis(page: Page) -> list[str]:
    """Lines that ``--why`` prints."""
    lines: list[str] = []
    for block in page.blocks():
        match block:
            case Table():
                lines += block.why
            case Remarks():
                lines += block.lines
    return list(dict.fromkeys(lines))


def _facts(setup: Setup) -> tuple[str, ...]:
    """Facts of a setup: model, chip, price, formats and assumptions."""
    price = "" if setup.price is None else setup.price_label
    return setup.model.name, setup.hardware.name, price, formats_title(setup), setup.assumptions.name


def _references(used: Sequence[UsedSource]) -> list[Reference]:
    """References with what each gives, in the order of use."""
    fields: dict[tuple[str, str], list[str]] = {}
    titles: dict[tuple[str, str], tuple[str, str]] = {}
    for source in used:
        record = source.record()
        key = record["ref"], record["file"]
        fields.setdefault(key, []).append(record["field"])
        titles[key] = record.get("title", record["where"]), record.get("url", "")
    return [Reference(*titles[key], key[1], _some(names)) for key, names in fields.items()]


def _some(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    more = f" and {len(names) - _FIELDS} more" if len(names) > _FIELDS else ""
    return ", ".join(names[:_FIELDS]) + more
