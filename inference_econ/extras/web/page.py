"""Explorer page: parse controls from an address, convert controls to command options, and render results."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple, get_args
from urllib.parse import urlencode

from inference_econ.errors import InputError
from inference_econ.extras.web.questions import Answer, Fields, RefusedError
from inference_econ.inputs import parse_quantity
from inference_econ.inputs.options import SAID_BY_TRAFFIC
from inference_econ.inputs.workload import percentiles
from inference_econ.requests import Command

if TYPE_CHECKING:
    from jinja2 import Environment

#: Maximum number of series in a chart [1].
MOST_SERIES = 6
#: Settings of each series, named as options.
OF_SERIES = ("model", "hardware", "weights", "kv", "engine")
#: Default settings of the first series. Other defaults are those of the command line.
_FIRST = {"model": "llama_3_70b", "hardware": "h100_sxm", "weights": "fp8"}
#: Controls that all series share and that are empty by default.
_EMPTY = (
    *("traffic", "ttft", "tpot", "power_budget", "price", "set", "power_cap", "carbon", "speculation", "acceptance"),
    *("simulate", "y", "speed"),
)
#: Default values of the controls that all series share.
_SHARED: Mapping[str, str] = dict.fromkeys(_EMPTY, "") | {
    "isl": "2000",
    "osl": "500",
    "request_rate": "5",
    "percentile": "p90",
    "arrangement": "",
    "chosen": "0",
}


@dataclass(frozen=True, slots=True)
class State:
    """Values of the controls on the explorer page.

    Attributes
    ----------
    series : sequence of mapping
        Settings of each series by option.
    shared : mapping of str to str
        Settings that all series share.
    """

    series: Sequence[Mapping[str, str]]
    shared: Mapping[str, str] = field(default_factory=dict)


def state(address: Iterable[tuple[str, str]]) -> State:
    """Parse the query of an address; missing controls have their defaults.

    Parameters
    ----------
    address : iterable of (str, str)
        Names and values in order. Names of series settings occur once per series.
    """
    values: dict[str, list[str]] = {}
    for name, value in address:
        values.setdefault(name, []).append(value)
    columns = {name: values[name] for name in OF_SERIES if name in values} or {
        name: [value] for name, value in _FIRST.items()
    }
    rows = zip_longest(*columns.values(), fillvalue="")
    series = [{**dict.fromkeys(OF_SERIES, ""), **dict(zip(columns, row, strict=True))} for row in rows]
    start = dict.fromkeys(_SHARED, "") | {"percentile": "p90", "chosen": "0"} if values else _SHARED
    return State(series[:MOST_SERIES], {name: values.get(name, [value])[0] for name, value in start.items()})


#: Flag that disables speculation.
NOBODY = "no_speculation"
#: Options that are omitted if another control is set.
_COVERED_BY = {"traffic": SAID_BY_TRAFFIC, "power_budget": ("request_rate",)}
#: Typical maximum ratio of a high TPOT percentile to the mean TPOT [1].
_TAIL = 1.5
#: Degrees that select a deployment.
DEGREES = ("tp", "dp", "pp", "ep")


def fields(question: Command, shown: State, rows: Sequence[int], point: Mapping[str, str]) -> Fields:
    """Options of a command, as texts.

    Parameters
    ----------
    question : Command
        Command for one series, or a command that compares several series.
    shown : State
        State of the controls.
    rows : sequence of int
        Indices of the selected series; a command for one series uses the first index.
    point : mapping of str to str
        Selected deployment: degrees, ``batch``, ``tpot`` [ms], ``engine``, ``kv``, ``speculation``, ``draft_length``
        and ``apart``; and ``file``, the name of uploaded measurements.

    Raises
    ------
    RefusedError
        If the deployment is disaggregated, and the command supports only aggregated deployments.
    """
    options = {option.field: option for option in question.asked}
    chosen = [shown.series[row] for row in rows if row < len(shown.series)] or shown.series[:1]
    alone = {**chosen[0], **_deployment(question, shown, chosen[0], point)}
    for control, covered in _COVERED_BY.items():
        if shown.shared.get(control) and control in options:
            options = {name: option for name, option in options.items() if name not in covered}
    subject = {"series": series(chosen)} if "series" in options else alone
    values = {name: value for name, value in {**_shared(shown.shared), **subject}.items() if value and name in options}
    if "percentile" not in options:
        # Frontiers do not include queueing, so SLOs apply to means.
        values |= {name: str(values[name]).rpartition(":")[2].strip() for name in ("ttft", "tpot") if name in values}
    elif point.get("tpot"):
        values["tpot"] = _kept(shown.shared["tpot"], point["tpot"])
    return {
        name: [value] if options[name].repeat and isinstance(value, str) else value for name, value in values.items()
    }


def address(question: str, fields: Fields, form: str) -> str:
    """Address of a result for given options."""
    return f"/api/v1/{question}.{form}?{urlencode(fields, doseq=True)}"


def series(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Series in the syntax of ``compare``: a label and its settings."""
    settings = [", ".join(f"{name}={value}" for name, value in row.items() if value) for row in rows]
    return [f"{label}: {text}" for label, text in zip(labels(rows), settings, strict=True)]


def labels(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Labels that distinguish series, each unique."""
    apart = [name for name in OF_SERIES if len({row[name] for row in rows}) > 1] or ["model", "hardware"]
    plain = [", ".join(row[name] or f"{name} by default" for name in apart) for row in rows]
    return [f"{label} ({index + 1})" if label in plain[:index] else label for index, label in enumerate(plain)]


def _shared(values: Mapping[str, str]) -> dict[str, str | list[str]]:
    """Settings that all series share."""
    proposer, arrangement = values["speculation"], values["arrangement"]
    flags = {name: "true" for name in (proposer, arrangement) if name}
    accepted = {} if proposer and proposer != NOBODY else {"acceptance": ""}
    changes = [line.strip() for line in values["set"].splitlines() if line.strip()]
    # By default, the fast analytical model is used, because simulations take seconds.
    played = values["simulate"] or "false"
    return {
        **{name: value.strip() for name, value in values.items()},
        **flags,
        **accepted,
        "simulate": played,
        "set": changes,
    }


def _kept(promise: str, milliseconds: str) -> str:
    """TPOT target of a fleet: the mean TPOT of the selected point, or the SLO if this point could exceed the SLO."""
    try:
        time = percentiles.promise(promise).time if promise.strip() else ""
        most = parse_quantity(time if time[-1:].isalpha() else f"{time} ms", "s") if time else math.inf
    except InputError:
        return promise  # The command reports the error.
    return promise if _TAIL * float(milliseconds) / 1e3 > most else f"mean:{milliseconds}"


def _deployment(question: Command, shown: State, row: Mapping[str, str], point: Mapping[str, str]) -> dict[str, str]:
    """Options for the selected deployment: layout, engine recipe, and engine to start.

    Raises
    ------
    RefusedError
        If the deployment is disaggregated, and the command supports only aggregated deployments.
    """
    if not point:
        return {}
    options = {option.field for option in question.asked}
    # If several engines are possible, the first engine is used.
    engine = (row["engine"] or point.get("engine", "")).replace("@", ",").partition(",")[0]
    proposer = point.get("speculation", "")
    recipe = {"engine": row["engine"] or engine, "kv": row["kv"] or point.get("kv", "")}
    if not shown.shared["speculation"] and "acceptance" in options:
        recipe |= {proposer: "true", "draft_length": point.get("draft_length", "")} if proposer else {}
    point_options = {**recipe, "batch": point.get("batch", ""), "datasets": point.get("file", "")}
    if question.name == "launch":
        point_options["to"] = engine
    degrees = {name: point.get(name, "") for name in DEGREES}
    pools = bool(point.get("disaggregated"))
    if pools and "rates" in options:
        raise RefusedError(
            "This panel simulates aggregated deployments only. To see it, set 'Prefill and decode' to aggregated."
        )
    if pools and "disaggregated" in options:
        return {**point_options, "disaggregated": "true"}
    return {**point_options, **degrees, "aggregated": "", "disaggregated": ""}


#: Preferred initial user speed, several times the reading speed of a person [tokens/s].
_USUAL_SPEED = 30.0


@functools.cache
def templates() -> Environment:
    """Templates of the explorer, with escaping."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("inference_econ.extras.web")
    return Environment(loader=loader, autoescape=True, trim_blocks=True, undefined=StrictUndefined)


def text(question: str, fields: Fields, answer: Answer) -> str:
    """Panel content as JSON: ``html``, ``charts`` by name, ``series`` with selectable points, measured ``runs``."""
    from inference_econ.records.plain import json_text
    from inference_econ.report import charts

    shown = {} if answer.page is None else answer.page.charts()
    specifications = {name: charts.specification(chart) for name, chart in shown.items()}
    titles = {name: _title(chart) for name, chart in specifications.items()}
    record = {} if answer.page is None else answer.page.plain()
    tables = [] if answer.page is None else answer.page.tables()
    return json_text(
        {
            "html": templates()
            .get_template("answer.html.j2")
            .render(
                figures=titles,
                text=answer.text,
                tables=tables,
                command=answer.command,
                links={form: address(question, fields, form) for form in _forms(answer, pictures=bool(titles))},
                notes=[note for table in tables for note in table.notes],
            ),
            "charts": specifications,
            "series": [_series(row, fields) for row in record.get("series", [])] if question == "compare" else [],
            "runs": _runs(record["rows"]) if question == "validate" else [],
        },
        indent=None,
    )


def _series(record: Mapping[str, Any], fields: Fields) -> Mapping[str, object]:
    """Frontier with selectable points and the initial speed, or the reason why no layout fits."""
    from inference_econ.report.speed_cost import AXES

    axis = AXES[fields.get("y", "cost")]
    points = [{**_point(point), "y": axis.factor * point[axis.field]} for point in record["points"]]
    speeds = [point["tokens_per_second_per_user"] for point in record["points"]]
    first = min(max(_USUAL_SPEED, min(speeds)), max(speeds)) if points else None
    price = record.get("dollars_per_accelerator_hour")
    label, reason = record["label"], record.get("reason", "")
    return {"label": label, "reason": reason, "points": points, "first": first, "price": price}


def _runs(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, float]]:
    """Points of measured servers: tokens per second per user and per accelerator."""
    runs = [run for record in records for run in record["rows"]]
    complete = [run for run in runs if run["measured_tpot_ms"] and run["measured_output_tok_per_s_per_gpu"]]
    return [
        {"speed": 1e3 / run["measured_tpot_ms"], "rate": run["measured_output_tok_per_s_per_gpu"]} for run in complete
    ]


def _point(record: Mapping[str, Any]) -> Mapping[str, object]:
    from inference_econ.records.texts import amount, layout_label, size

    layout = record["layout"]
    groups = layout["dp"] * layout["pp"]  # All attention-DP groups have the same batch.
    batch = max(1, round(record["batch"] / groups)) * groups
    dollars = record["dollars_per_million_output_tokens"]
    ends = [record[f"dollars_per_million_output_tokens_{end}"] for end in ("low", "high")]
    low, high = (dollars if end is None else end for end in ends)
    return {
        "speed": record["tokens_per_second_per_user"],
        "dollars": dollars,
        "low": low,
        "high": high,
        "cells": [
            f"{amount(1e3 * record['ttft_seconds'])} ms",
            size(record["accelerators"]),
            layout_label(layout),
            amount(record["concurrency"]),
            record["evidence"],
        ],
        "at": {
            **{name: int(layout[name]) for name in DEGREES},
            "batch": batch,
            "tpot": f"{1e3 * record['tpot_seconds']:.4g}",
            "engine": layout.get("engine", ""),
            "kv": record["kv"],
            **_proposed(record["speculation"]),
            **({"disaggregated": "true"} if "prefill" in layout else {}),
        },
    }


def _proposed(speculation: Mapping[str, Any] | None) -> Mapping[str, object]:
    """Options for a speculation method and draft length."""
    if speculation is None:
        return {"speculation": NOBODY}
    return {"speculation": speculation["method"], "draft_length": len(speculation["acceptance"])}


def _title(specification: Mapping[str, object]) -> str:
    """Title in a chart specification."""
    title = specification.get("title")
    return str(title.get("text", "")) if isinstance(title, dict) else str(title or "Picture")


def _forms(answer: Answer, *, pictures: bool) -> Sequence[str]:
    """Further formats in which a result can be downloaded."""
    if answer.page is None:
        return ("txt",)
    scenario = () if answer.scenario is None else ("yaml",)
    return ("csv", "json", *scenario, *(("svg", "png", "html") if pictures else ()))


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
        Heading of the panel.
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


#: Commands of panels, and the command that finds the invalid series of a comparison.
QUESTIONS = frozenset({"compare", "frontier", "validate", *(panel.question for panel in PANELS)})


def html(offered: Mapping[str, Any], address: Iterable[tuple[str, str]]) -> str:
    """Render the page with its controls set as in an address.

    Parameters
    ----------
    offered : mapping
        Result of :func:`choices`.
    address : iterable of (str, str)
        Names and values of the query.
    """
    shown = state(address)
    spare = [dict.fromkeys(OF_SERIES, "")] * (MOST_SERIES - len(shown.series))
    controls = {**shown.shared, "series": [*shown.series, *spare], "shown": len(shown.series)}
    return templates().get_template("page.html.j2").render(**offered, state=controls)


def choices(questions: Iterable[Command]) -> Mapping[str, Any]:
    """Selectable values and texts of the controls, and facts on commands for the browser.

    Parameters
    ----------
    questions : iterable of Command
        Commands, including those of :data:`PANELS`, ``frontier`` and ``compare``.
    """
    from inference_econ.inputs import catalog, economic_defaults
    from inference_econ.report import charts
    from inference_econ.report.speed_cost import AXES

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
        # An MFU axis does not apply to services. The default axis has an empty name.
        "axes": {"" if name == "cost" else name: axis.label for name, axis in AXES.items() if name != "mfu"},
        "engines": words["launch", "to"],
        "formats": words["explain", "weights"],
        "percentiles": _PERCENTILES,
        "prices": _PRICES,
        "speculation": _PROPOSERS,
        "arrangements": _ARRANGEMENTS,
    }
