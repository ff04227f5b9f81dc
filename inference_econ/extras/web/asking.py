"""Questions of the panels of the page: the state of its controls as options."""

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

#: The flag that says that nobody proposes tokens.
NOBODY = "no_speculation"
#: What is not asked where another control says it.
_COVERED_BY = {"traffic": SAID_BY_TRAFFIC, "power_budget": ("request_rate",)}
#: What a high percentile of the time per token is over its mean at most, as a rule [1].
_TAIL = 1.5
#: Degrees of a deployment that is looked at.
DEGREES = ("tp", "dp", "pp", "ep")


def fields(question: Command, shown: State, rows: Sequence[int], point: Mapping[str, str]) -> Fields:
    """The options of a question, as texts.

    Parameters
    ----------
    question : Command
        With options of its own for one series, or one that lists series.
    shown : State
        What the controls are set to.
    rows : sequence of int
        Which series it is about; the first, if it is about one.
    point : mapping of str to str
        Degrees, ``batch``, ``tpot`` [ms], ``engine``, ``kv``, ``speculation``, ``draft_length`` and ``apart`` of the
        deployment that is looked at, if it is about one; ``file``: the name of what was measured.

    Raises
    ------
    RefusedError
        If the deployment is of pools, and the question is of instances that do both.
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
        # A frontier has no queue, and takes all promises as means.
        values |= {name: str(values[name]).rpartition(":")[2].strip() for name in ("ttft", "tpot") if name in values}
    elif point.get("tpot"):
        values["tpot"] = _kept(shown.shared["tpot"], point["tpot"])
    return {
        name: [value] if options[name].repeat and isinstance(value, str) else value for name, value in values.items()
    }


def address(question: str, fields: Fields, form: str) -> str:
    """Address of an answer to some options."""
    return f"/api/v1/{question}.{form}?{urlencode(fields, doseq=True)}"


def series(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Series as ``compare`` takes them: a label that tells it from the others, and its settings."""
    settings = [", ".join(f"{name}={value}" for name, value in row.items() if value) for row in rows]
    return [f"{label}: {text}" for label, text in zip(labels(rows), settings, strict=True)]


def labels(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Labels that tell series apart, each once."""
    apart = [name for name in OF_SERIES if len({row[name] for row in rows}) > 1] or ["model", "hardware"]
    plain = [", ".join(row[name] or f"{name} by default" for name in apart) for row in rows]
    return [f"{label} ({index + 1})" if label in plain[:index] else label for index, label in enumerate(plain)]


def _shared(values: Mapping[str, str]) -> dict[str, str | list[str]]:
    """Settings that all series have in common."""
    proposer, arrangement = values["speculation"], values["arrangement"]
    flags = {name: "true" for name in (proposer, arrangement) if name}
    accepted = {} if proposer and proposer != NOBODY else {"acceptance": ""}
    changes = [line.strip() for line in values["set"].splitlines() if line.strip()]
    # Closed forms are there at once; to play loads takes seconds.
    played = values["simulate"] or "false"
    return {
        **{name: value.strip() for name, value in values.items()},
        **flags,
        **accepted,
        "simulate": played,
        "set": changes,
    }


def _kept(promise: str, milliseconds: str) -> str:
    """Promise of the time per token that a fleet keeps: the mean of the point, or the promise if that is tighter."""
    try:
        time = percentiles.promise(promise).time if promise.strip() else ""
        most = parse_quantity(time if time[-1:].isalpha() else f"{time} ms", "s") if time else math.inf
    except InputError:
        return promise  # the question says what is wrong with it
    return promise if _TAIL * float(milliseconds) / 1e3 > most else f"mean:{milliseconds}"


def _deployment(question: Command, shown: State, row: Mapping[str, str], point: Mapping[str, str]) -> dict[str, str]:
    """The deployment that is looked at, as its engine's recipe has it, and the engine that is to start it.

    Raises
    ------
    RefusedError
        If it is of pools, and the question is of instances that do both.
    """
    if not point:
        return {}
    options = {option.field for option in question.asked}
    # Of all that can start it the first is shown.
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
    if pools and "disaggregated" in options:
        return {**point_options, "disaggregated": "true"}
    if pools and "rates" in options:
        raise RefusedError("A load is put on instances that read prompts and decode; these are pools.")
    return {**point_options, **degrees, "aggregated": "", "disaggregated": ""}
