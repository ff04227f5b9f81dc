"""Conversion of the state of the page's controls into options of commands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from inference_econ.errors import InputError
from inference_econ.extras.web.questions import Fields, RefusedError
from inference_econ.extras.web.state import OF_SERIES, State
from inference_econ.inputs import parse_quantity
from inference_econ.inputs.options import SAID_BY_TRAFFIC
from inference_econ.inputs.workload import percentiles
from inference_econ.requests import Command

#: Flag that disables speculation.
NOBODY = "no_speculation"
#: Options that another control overrides.
_COVERED_BY = {"traffic": SAID_BY_TRAFFIC, "power_budget": ("request_rate",)}
#: Typical maximum ratio of a high percentile of TPOT to the mean [1].
_TAIL = 1.5
#: Degrees that select a deployment.
DEGREES = ("tp", "dp", "pp", "ep")


def fields(question: Command, shown: State, rows: Sequence[int], point: Mapping[str, str]) -> Fields:
    """Options of a command, as texts.

    Parameters
    ----------
    question : Command
        Command for one series, or one that lists series.
    shown : State
        State of the controls.
    rows : sequence of int
        Selected series; a command for one series uses the first.
    point : mapping of str to str
        Selected deployment: degrees, ``batch``, ``tpot`` [ms], ``engine``, ``kv``, ``speculation``, ``draft_length``
        and ``apart``; and ``file``, the name of uploaded measurements.

    Raises
    ------
    RefusedError
        If the deployment is disaggregated, and the command supports only aggregated ones.
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
        # Frontiers have no queue, so SLOs apply to means.
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
    # The analytical model takes no time, and simulations take seconds.
    played = values["simulate"] or "false"
    return {
        **{name: value.strip() for name, value in values.items()},
        **flags,
        **accepted,
        "simulate": played,
        "set": changes,
    }


def _kept(promise: str, milliseconds: str) -> str:
    """TPOT target of a fleet: the mean of the selected point, or the SLO if it is lower."""
    try:
        time = percentiles.promise(promise).time if promise.strip() else ""
        most = parse_quantity(time if time[-1:].isalpha() else f"{time} ms", "s") if time else math.inf
    except InputError:
        return promise  # the command reports the error itself
    return promise if _TAIL * float(milliseconds) / 1e3 > most else f"mean:{milliseconds}"


def _deployment(question: Command, shown: State, row: Mapping[str, str], point: Mapping[str, str]) -> dict[str, str]:
    """Selected deployment with the recipe of its engine, and the engine to start.

    Raises
    ------
    RefusedError
        If it is disaggregated, and the command supports only aggregated ones.
    """
    if not point:
        return {}
    options = {option.field for option in question.asked}
    # The first of several possible engines is shown.
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
        raise RefusedError("This panel simulates aggregated deployments only; the selected one is disaggregated.")
    if pools and "disaggregated" in options:
        return {**point_options, "disaggregated": "true"}
    return {**point_options, **degrees, "aggregated": "", "disaggregated": ""}
