"""Explorer page: one form whose state is the address, rendered by the server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, get_args

from inference_econ.extras.web import view
from inference_econ.extras.web.asking import NOBODY
from inference_econ.extras.web.state import MOST_SERIES, OF_SERIES, state
from inference_econ.requests import Command

#: Flags for speculation methods and arrangements.
_PROPOSERS = ("mtp", "eagle", "ngram", NOBODY)
_ARRANGEMENTS = ("aggregated", "disaggregated")
#: Kinds of prices.
_PRICES = ("on_demand", "reserved", "tco", "spot", "index", "owned", "alike")
#: Percentiles suggested for SLOs; others can be typed.
_PERCENTILES = ("mean", "p50", "p90", "p95", "p99")


class Panel(NamedTuple):
    """Part of the page that runs one command for the selected deployment.

    Attributes
    ----------
    question : str
        Name of the command.
    title : str
        Heading.
    """

    question: str
    title: str


PANELS = (
    Panel("explain", "Time of one decode step"),
    Panel("price", "Cost per token at this load"),
    Panel("recommend", "GPUs for this load, or the largest load for a power budget"),
    Panel("launch", "Start commands"),
    Panel("load", "Latency under load"),
)


#: Commands of panels, and of the search for the invalid series.
QUESTIONS = frozenset({"compare", "frontier", "validate", *(panel.question for panel in PANELS)})


def html(offered: Mapping[str, Any], address: Iterable[tuple[str, str]]) -> str:
    """Render the page with its controls set as in an address.

    Parameters
    ----------
    offered : mapping
        Choices of the controls, from :func:`choices`.
    address : iterable of (str, str)
        Names and values of the query.
    """
    shown = state(address)
    spare = [dict.fromkeys(OF_SERIES, "")] * (MOST_SERIES - len(shown.series))
    controls = {**shown.shared, "series": [*shown.series, *spare], "shown": len(shown.series)}
    return view.templates().get_template("page.html.j2").render(**offered, state=controls)


def choices(questions: Iterable[Command]) -> Mapping[str, Any]:
    """Choices and texts of the controls, and facts on commands for the browser.

    Parameters
    ----------
    questions : iterable of Command
        Commands, including those of :data:`PANELS`, ``frontier`` and ``compare``.
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
        # Services have no MFU; the default axis has no name.
        "axes": {"" if name == "cost" else name: axis.label for name, axis in AXES.items() if name != "mfu"},
        "engines": words["launch", "to"],
        "formats": words["explain", "weights"],
        "percentiles": _PERCENTILES,
        "prices": _PRICES,
        "speculation": _PROPOSERS,
        "arrangements": _ARRANGEMENTS,
    }
