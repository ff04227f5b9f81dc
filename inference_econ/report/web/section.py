"""One question of a report: all that its part of the document shows, ready for the template."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from inference_econ.answers.sources import UsedSource
from inference_econ.engine import Setup
from inference_econ.report import charts
from inference_econ.report.assess import AssessmentPage
from inference_econ.report.heading import formats_title
from inference_econ.report.page import Page, Remarks
from inference_econ.report.picture import picture
from inference_econ.report.price import PricePage
from inference_econ.report.scenario import ScenarioPage
from inference_econ.report.table import Amount, Table
from inference_econ.report.web.start import script
from inference_econ.report.web.told import Told, told

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
    arrival_scv : float
        Burstiness that was assumed [1].
    engine : str or None
        What is to start it; one that can, if None.
    """

    page: Page
    line: str = ""
    remarks: Sequence[str] = ()
    arrival_scv: float = 1.0
    engine: str | None = None


@dataclass(frozen=True, slots=True)
class Slider:
    """What a reader may change, and the range of it.

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
    """Of which specification."""
    fields: str
    """Which fields of it."""


@dataclass(frozen=True, slots=True)
class Section:
    """One question: what was told, drawn, listed, and what it rests on."""

    asked: Asked
    told: Told
    pictures: Sequence[Picture]
    still: str
    tables: Sequence[Table]
    sliders: Sequence[Slider]
    mix: Mapping[str, float] | None
    script: str
    basis: Sequence[str]
    facts: Sequence[tuple[str, ...]]
    references: Sequence[Reference]


def section(asked: Asked) -> Section:
    """Everything that a document shows of a question."""
    page = asked.page
    said = told(page)
    tables = [_without(table, "".join(said.answer)) for table in page.tables()]
    mix, drawn = _mix(page), _drawn(page)
    return Section(
        asked,
        said,
        [_picture(name, chart) for name, chart in drawn.charts().items()],
        _still(drawn),
        tables,
        _sliders(said, tables, mix),
        mix,
        script(page, asked.arrival_scv, asked.engine),
        _basis(page),
        list(dict.fromkeys(map(_facts, said.setups))),
        _references(said.used),
    )


def _drawn(page: Page) -> Page:
    """The page whose charts are shown: of a scenario about a measured server, that of the server."""
    if isinstance(page, ScenarioPage) and page.result.assessment is not None:
        return AssessmentPage(page.result.assessment)
    return page


def _still(page: Page) -> str:
    """The figure of a scenario as an address that holds all of it; empty where there is none."""
    if not isinstance(page, ScenarioPage) or page.result.scenario.figure is None:
        return ""
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


def _sliders(said: Told, tables: Sequence[Table], mix: Mapping[str, float] | None) -> list[Slider]:
    """What may be changed exactly: nothing where no amount is shown, or where one is not in proportion to a price."""
    shown = [*said.answer, *(cell for table in tables for row in table.rows for cell in row)]
    if not said.proportional or not any(isinstance(text, Amount) for text in shown):
        return []
    prices = {(setup.hardware.name, setup.hour_price.dollars) for setup in said.setups}
    if len(prices) == 1:
        dollars = prices.pop()[1]
        first = Slider("price", dollars, _round(dollars / 10.0), _round(3.0 * dollars), 0.01)
    else:
        first = Slider("prices", 100.0, 10.0, 300.0, 1.0)
    cached = [] if mix is None else [Slider("cached", _round(100.0 * mix["share"]), 0.0, 100.0, 1.0)]
    return [first, Slider("use", 100.0, 5.0, 100.0, 1.0), *cached]


def _round(value: float) -> float:
    return max(round(value, 2), 0.01)


def _mix(page: Page) -> dict[str, float] | None:
    """Costs by kind of token and lengths of a request, where its input may be cached [USD per 1e6 tokens], [tokens]."""
    if not isinstance(page, PricePage) or not page.sheet.tokens_per_hour["cached_input"]:
        return None
    costs, requests = page.sheet.average, page.sheet.service.requests
    share = requests.cached / requests.isl.mean
    return {**costs, "share": share, "isl": requests.isl.mean, "osl": requests.osl.mean}


def _basis(page: Page) -> list[str]:
    """What ``--why`` prints."""
    lines: list[str] = []
    for block in page.blocks():
        match block:
            case Table():
                lines += block.why
            case Remarks():
                lines += block.lines
    return list(dict.fromkeys(lines))


def _facts(setup: Setup) -> tuple[str, ...]:
    """What was asked about: model, chip, price, formats and assumptions."""
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
