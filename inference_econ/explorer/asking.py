"""What the panels of the page ask: the state of its controls as options of questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from inference_econ.explorer.questions import Fields, Question
from inference_econ.explorer.state import OF_SERIES, State

#: Degrees of a deployment that is looked at.
DEGREES = ("tp", "dp", "pp", "ep")


def fields(question: Question, shown: State, rows: Sequence[int], point: Mapping[str, str]) -> Fields:
    """The options of a question, as texts.

    Parameters
    ----------
    question : Question
        With options of its own for one series, or one that lists series.
    shown : State
        What the controls are set to.
    rows : sequence of int
        Which series it is about; the first, if it is about one.
    point : mapping of str to str
        Degrees, ``batch`` and ``engine`` of the deployment that is looked at, if it is about one; ``file``: the name of
        what was measured.
    """
    options = {option.name: option for option in question.options}
    chosen = [shown.series[row] for row in rows if row < len(shown.series)] or shown.series[:1]
    own = {"series": series(chosen)} if "series" in options else {**chosen[0], **_deployment(chosen[0], point)}
    given = {name: value for name, value in {**_shared(shown.shared), **own}.items() if value and name in options}
    if "percentile" not in options:
        # A frontier has no queue, and takes all promises as means.
        given |= {name: str(given[name]).rpartition(":")[2].strip() for name in ("ttft", "tpot") if name in given}
    return {name: [value] if options[name].many and isinstance(value, str) else value for name, value in given.items()}


def address(question: str, fields: Fields, form: str) -> str:
    """Where an answer to some options is had."""
    return f"/api/v1/{question}.{form}?{urlencode(fields, doseq=True)}"


def series(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Series as ``compare`` takes them: a label that tells it from the others, and its settings."""
    settings = [", ".join(f"{name}={value}" for name, value in row.items() if value) for row in rows]
    return [f"{label}: {text}" for label, text in zip(labels(rows), settings, strict=True)]


def labels(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """What tells series apart, each label once."""
    apart = [name for name in OF_SERIES if len({row[name] for row in rows}) > 1] or ["model", "hardware"]
    plain = [", ".join(row[name] or f"{name} by default" for name in apart) for row in rows]
    return [f"{label} ({index + 1})" if label in plain[:index] else label for index, label in enumerate(plain)]


def _shared(values: Mapping[str, str]) -> dict[str, str | list[str]]:
    """What all series have in common."""
    proposer = values["speculation"]
    proposed = {proposer: "true"} if proposer else {"acceptance": ""}
    changes = [line.strip() for line in values["set"].splitlines() if line.strip()]
    # Closed forms are there at once; to play loads takes seconds.
    played = values["simulate"] or "false"
    return {**{name: value.strip() for name, value in values.items()}, **proposed, "simulate": played, "set": changes}


def _deployment(row: Mapping[str, str], point: Mapping[str, str]) -> dict[str, str]:
    """The deployment that is looked at, and the engine that is to start it."""
    degrees = {name: point.get(name, "") for name in DEGREES}
    # Of all that can start it the first is shown.
    engine = (row["engine"] or point.get("engine", "")).replace("@", ",").partition(",")[0]
    return {
        **degrees,
        "batch": point.get("batch", ""),
        "to": engine if point else "",
        "datasets": point.get("file", ""),
    }
