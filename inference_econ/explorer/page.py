"""The page: one form whose state is the address, filled in by the server, and what the browser needs to go on."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NamedTuple, get_args

from inference_econ.explorer import view
from inference_econ.explorer.questions import Question

#: Series that a picture holds.
MOST_SERIES = 6
#: Settings that each series has of its own; the names of options, as in the address.
OF_SERIES = ("model", "hardware", "weights", "kv", "engine")
#: What is shown where an address says nothing.
_FIRST = {"model": "llama_3_70b", "hardware": "h100_sxm", "weights": "fp8"}
#: Controls that all series share, and their values where an address says nothing.
_SHARED: Mapping[str, str] = {
    "isl": "2000",
    "osl": "500",
    "request_rate": "5",
    "ttft": "",
    "tpot": "",
    "percentile": "p90",
    "price": "",
    "set": "",
    "speculation": "",
    "acceptance": "",
    "speed": "",
    "chosen": "0",
}
#: Who may propose tokens: flags of questions.
_PROPOSERS = ("mtp", "eagle", "ngram")
#: Kinds of prices.
_PRICES = ("on_demand", "reserved", "spot", "index", "owned")


class Panel(NamedTuple):
    """A part of the page that asks one question about the chosen deployment.

    Attributes
    ----------
    name : str
        In the page.
    question : str
        What it asks.
    title : str
        Above it.
    """

    name: str
    question: str
    title: str


PANELS = (
    Panel("step", "explain", "Where a step goes"),
    Panel("price", "price", "What tokens cost at this traffic"),
    Panel("load", "load", "Under load"),
    Panel("launch", "launch", "How to start it"),
)


@dataclass(frozen=True, slots=True)
class State:
    """What the controls are set to.

    Attributes
    ----------
    series : sequence of mapping
        Settings of each series by option.
    shared : mapping of str to str
        Of the others.
    """

    series: Sequence[Mapping[str, str]]
    shared: Mapping[str, str] = field(default_factory=dict)


def state(address: Iterable[tuple[str, str]]) -> State:
    """The state that the query of an address says; what it does not name is as at the start.

    Parameters
    ----------
    address : iterable of (str, str)
        Names and values in their order; those of series repeat.
    """
    given: dict[str, list[str]] = {}
    for name, value in address:
        given.setdefault(name, []).append(value)
    columns = {name: given[name] for name in OF_SERIES if name in given} or {
        name: [value] for name, value in _FIRST.items()
    }
    rows = zip_longest(*columns.values(), fillvalue="")
    series = [{**dict.fromkeys(OF_SERIES, ""), **dict(zip(columns, row, strict=True))} for row in rows]
    start = dict.fromkeys(_SHARED, "") | {"percentile": "p90", "chosen": "0"} if given else _SHARED
    return State(series[:MOST_SERIES], {name: given.get(name, [value])[0] for name, value in start.items()})


def html(offered: Mapping[str, Any], address: Iterable[tuple[str, str]]) -> str:
    """The page with its controls set as an address says.

    Parameters
    ----------
    offered : mapping
        What controls offer, from :func:`choices`.
    address : iterable of (str, str)
        Names and values of its query.
    """
    shown = state(address)
    spare = [dict.fromkeys(OF_SERIES, "")] * (MOST_SERIES - len(shown.series))
    controls = {**shown.shared, "series": [*shown.series, *spare], "shown": len(shown.series)}
    return view.templates().get_template("page.html.j2").render(**offered, state=controls)


@functools.cache
def drawing() -> str:
    """The script that draws charts."""
    from inference_econ.report import charts

    return charts.javascript()


def choices(questions: Iterable[Question]) -> Mapping[str, Any]:
    """What controls offer and say, and what the browser must know of the questions.

    Parameters
    ----------
    questions : iterable of Question
        What can be asked: those of :data:`PANELS`, ``frontier`` and ``compare`` among them.
    """
    from inference_econ.inputs import catalog
    from inference_econ.report import charts

    options = {question.name: question.options for question in questions}
    words = {(name, option.name): get_args(option.kind) for name, each in options.items() for option in each}
    engines = words["launch", "to"]
    facts = {
        "questions": {name: [option.name for option in each] for name, each in options.items()},
        "themes": {"light": charts.config(), "dark": charts.config(dark=True)},
        "engines": engines,
    }
    return {
        "facts": facts,
        "described": {name: {option.name: option.description for option in each} for name, each in options.items()},
        "panels": PANELS,
        "models": catalog.names("models"),
        "chips": catalog.names("hardware"),
        "engines": engines,
        "formats": words["explain", "weights"],
        "percentiles": words["price", "percentile"],
        "prices": _PRICES,
        "speculation": _PROPOSERS,
    }
