"""The page: one form whose state is the address, filled in by the server, and what the browser needs to go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, get_args

from inference_econ.extras.web import view
from inference_econ.extras.web.asking import NOBODY
from inference_econ.extras.web.state import MOST_SERIES, OF_SERIES, state
from inference_econ.requests import Command

#: Who may propose tokens, and whether pools may serve: flags of questions.
_PROPOSERS = ("mtp", "eagle", "ngram", NOBODY)
_ARRANGEMENTS = ("aggregated", "disaggregated")
#: Kinds of prices.
_PRICES = ("on_demand", "reserved", "tco", "spot", "index", "owned", "alike")
#: Percentiles that are proposed for promises; others can be typed.
_PERCENTILES = ("mean", "p50", "p90", "p95", "p99")


class Panel(NamedTuple):
    """A part of the page that asks one question about the chosen deployment.

    Attributes
    ----------
    question : str
        What it asks; so it is called.
    title : str
        Above it.
    """

    question: str
    title: str


PANELS = (
    Panel("explain", "Where a step goes"),
    Panel("price", "What tokens cost at this traffic"),
    Panel("recommend", "How many GPUs it takes, or what a power budget carries"),
    Panel("launch", "How to start it"),
    Panel("load", "Under load"),
)


#: What panels ask, and how they find out which series is at fault.
QUESTIONS = frozenset({"compare", "frontier", "validate", *(panel.question for panel in PANELS)})


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


def choices(questions: Iterable[Command]) -> Mapping[str, Any]:
    """Offers and texts of the controls, and facts of the questions for the browser.

    Parameters
    ----------
    questions : iterable of Command
        What can be asked: those of :data:`PANELS`, ``frontier`` and ``compare`` among them.
    """
    from inference_econ.inputs import catalog, economic_defaults
    from inference_econ.report import charts
    from inference_econ.report.metrics import AXES

    options = {question.name: question.asked for question in questions}
    words = {
        (name, option.field): get_args(option.kind.json) for name, settings in options.items() for option in settings
    }
    return {
        "themes": {"light": charts.config(), "dark": charts.config(dark=True)},
        "described": {name: {option.field: option.help for option in settings} for name, settings in options.items()},
        "panels": PANELS,
        "models": catalog.names("models"),
        "chips": catalog.names("hardware"),
        "traffics": catalog.names("traffic"),
        "grids": tuple(economic_defaults.grids()),
        # Services have no MFU; what is drawn without a choice has no name.
        "axes": {"" if name == "cost" else name: axis.label for name, axis in AXES.items() if name != "mfu"},
        "engines": words["launch", "to"],
        "formats": words["explain", "weights"],
        "percentiles": _PERCENTILES,
        "prices": _PRICES,
        "speculation": _PROPOSERS,
        "arrangements": _ARRANGEMENTS,
    }
