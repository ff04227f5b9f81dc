"""Which measurements assumptions are fitted to."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import numpy as np

from inference_econ.calibration.measurements import FULL_LOADS, Measurement, Pool, Skipped, distinct
from inference_econ.errors import InputError
from inference_econ.inputs import Assumptions, Calibration, catalog

#: Incomplete rows, or such as their software held back; and second-hand ones.
_POOR = ("C", "D")
#: What rows can be chosen by.
CHOICES = (
    "dataset", "source", "engine", "engine_version", "model", "hardware", "weights", "kv", "tp", "dp", "pp", "ep",
    "isl", "osl", "concurrency", "load", "statistic", "speculation", "quality", "tier",
)  # fmt: skip
#: What a deployment is told by.
_SAME = ("engine", "model", "hardware", "weights", "isl", "osl", "load", "tp", "dp", "pp", "ep", "prefill", "decode")
_POOL = ("workers", "tp", "dp", "pp", "ep")
#: Hexadecimal digits that tell a deployment from a few thousand others [1].
_DIGITS = 7
_CONDITION = re.compile(r"\s*(?P<key>\w+)\s*(?P<sign>!?=)\s*(?P<values>.*?)\s*")

#: One condition: the field of a measurement, the texts that it may have, and whether it must not have them instead.
Condition = tuple[str, tuple[str, ...], bool]


def conditions(text: str) -> tuple[Condition, ...]:
    """Conditions from text like ``engine=vllm,hardware=h100_sxm|h200_sxm,model!=llama_3_8b``.

    Raises
    ------
    InputError
        If it is written otherwise, or names what rows do not have.

    Examples
    --------
    >>> conditions("engine=vllm,tp!=1|2")
    (('engine', ('vllm',), False), ('tp', ('1', '2'), True))
    """
    parsed = []
    for part in text.split(","):
        match = _CONDITION.fullmatch(part)
        if match is None or not match["values"]:
            raise InputError(f"{part.strip()!r}: write FIELD=VALUE, FIELD=VALUE|VALUE or FIELD!=VALUE")
        if match["key"] not in CHOICES:
            raise InputError(f"rows cannot be chosen by {match['key']!r}; possible: {', '.join(CHOICES)}")
        values = tuple(value.strip().lower() for value in match["values"].split("|"))
        parsed.append((match["key"], values, match["sign"] == "!="))
    return tuple(parsed)


def fulfils(row: Measurement, where: Iterable[Condition]) -> bool:
    """Whether a row is as all conditions say."""
    return all((_text(getattr(row, key)) in values) is not wrong for key, values, wrong in where)


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


def chosen(
    measured: Sequence[Measurement | Skipped],
    where: Sequence[Condition] = (),
    without: Sequence[Sequence[Condition]] = (),
) -> tuple[list[Measurement], Mapping[str, int]]:
    """The rows that a fit shall look at, and how many are left out for which reason.

    Parameters
    ----------
    measured : sequence of Measurement or Skipped
        Of one or several files.
    where : sequence of Condition
        That rows must fulfil.
    without : sequence of sequences of Condition
        Rows that fulfil all of one of these are left out.

    Returns
    -------
    (list of Measurement, mapping of str to int)
        Repeats, speculation, spoilt runs, disaggregated servers whose workers are not known, and rows of poor quality
        are left out, unless a condition asks for the quality.
    """
    rows = [row for row in measured if isinstance(row, Measurement)]
    reasons = Counter({"not understood": len(measured) - len(rows)})
    once = distinct(rows)
    reasons["repeats another row"] = len(rows) - len(once)
    kept = []
    for row in once:
        reason = _reason(row, where, without)
        if reason:
            reasons[reason] += 1
        else:
            kept.append(row)
    return kept, {reason: count for reason, count in reasons.items() if count}


def _reason(row: Measurement, where: Sequence[Condition], without: Sequence[Sequence[Condition]]) -> str:
    if not fulfils(row, where) or any(fulfils(row, excluded) for excluded in without):
        return "not asked for"
    if row.speculates:
        return "speculative decoding"
    if row.spoilt:
        return "spoilt run"
    if is_poor(row) and not any(key == "quality" for key, _, _ in where):
        return "of poor quality"
    if row.decode is not None and row.accelerators is None:
        return "workers not recorded"
    if row.decode is None and row.tp is None and row.load not in FULL_LOADS:
        return "layout not recorded"
    return ""


def is_poor(row: Measurement) -> bool:
    """Whether a row is incomplete, second-hand, or was held back by its software."""
    return row.quality in _POOR


def thinned(rows: Sequence[Measurement], most: int) -> list[Measurement]:
    """At most so many deployments of those that were measured, evenly over the list; whole ones, as they cost alike."""
    deployments = list(dict.fromkeys(_deployment(row) for row in rows))
    if len(deployments) <= most:
        return list(rows)
    kept = {deployments[int(place)] for place in np.linspace(0, len(deployments) - 1, most).round()}
    return [row for row in rows if _deployment(row) in kept]


def deployment_key(row: Measurement) -> str:
    """A short hash of the deployment of a row, whatever the file that it is in."""
    return hashlib.sha256(_named(row, _SAME).encode()).hexdigest()[:_DIGITS]


def _named(record: Measurement | Pool, fields: Iterable[str]) -> str:
    """Fields with their names, so that new ones of a row change no key."""
    values = ((name, getattr(record, name)) for name in fields)
    return ", ".join(f"{name}={_written(value)}" for name, value in values if value is not None)


def _written(value: str | float | Pool) -> str:
    if isinstance(value, Pool):
        return f"({_named(value, _POOL)})"
    return value if isinstance(value, str) else f"{float(value):.9g}"


def calibration_behind(assumptions: Assumptions) -> Calibration | None:
    """Calibration that assumptions were fitted to, or the nearest that they extend; None if no fit is behind them."""
    while assumptions.calibration is None and assumptions.extends is not None:
        assumptions = catalog.assumptions(assumptions.extends)
    return assumptions.calibration


def was_fitted(row: Measurement, behind: Calibration | None) -> bool | None:
    """Whether assumptions were fitted to the deployment of a row.

    Parameters
    ----------
    row : Measurement
        Of any file.
    behind : Calibration, optional
        Of the assumptions that predict the row; see :func:`calibration_behind`.

    Returns
    -------
    bool or None
        None if a fitted profile does not say what it was fitted to.
    """
    if behind is None:
        return False
    if not behind.deployments:
        return None
    return deployment_key(row) in _split(behind.deployments)


@cache
def _split(keys: str) -> frozenset[str]:
    return frozenset(keys.split())


def _deployment(row: Measurement) -> tuple[object, ...]:
    return tuple(getattr(row, name) for name in _SAME)
