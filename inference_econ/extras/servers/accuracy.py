"""Distance of predictions from what was measured."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ import inputs
from inference_econ._types import Array
from inference_econ.engine import UNKNOWN, SetupLevels, Subject, has_experts, layout_key, subject_key
from inference_econ.errors import InputError
from inference_econ.extras.servers import measurements

#: Incomplete rows, or such as their software held back; and second-hand ones.
_POOR = ("C", "D")
#: What rows can be chosen by.
CHOICES = (
    "dataset", "source", "engine", "engine_version", "model", "hardware", "weights", "kv", "tp", "dp", "pp", "ep",
    "isl", "osl", "concurrency", "load", "statistic", "speculation", "quality", "tier",
)  # fmt: skip
#: What a deployment is told by.
_SAME = ("engine", "model", "hardware", "weights", "isl", "osl", "load", "tp", "dp", "pp", "ep", "prefill", "decode")
_deployment = attrgetter(*_SAME)
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


def fulfils(row: measurements.Measurement, where: Iterable[Condition]) -> bool:
    """Whether a row is as all conditions say."""
    texts = ((getattr(row, key), values, wrong) for key, values, wrong in where)
    return all(
        ((f"{value:g}" if isinstance(value, float) else str(value).lower()) in values) is not wrong
        for value, values, wrong in texts
    )


def chosen(
    measured: Sequence[measurements.Measurement | measurements.Skipped],
    where: Sequence[Condition] = (),
    without: Sequence[Sequence[Condition]] = (),
) -> tuple[list[measurements.Measurement], Mapping[str, int]]:
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
    rows = [row for row in measured if isinstance(row, measurements.Measurement)]
    reasons = Counter({"not understood": len(measured) - len(rows)})
    once = measurements.distinct(rows)
    reasons["repeats another row"] = len(rows) - len(once)
    kept = []
    for row in once:
        reason = _reason(row, where, without)
        if reason:
            reasons[reason] += 1
        else:
            kept.append(row)
    return kept, {reason: count for reason, count in reasons.items() if count}


def _reason(row: measurements.Measurement, where: Sequence[Condition], without: Sequence[Sequence[Condition]]) -> str:
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
    if row.decode is None and row.tp is None and row.load not in measurements.FULL_LOADS:
        return "layout not recorded"
    return ""


def is_poor(row: measurements.Measurement) -> bool:
    """Whether a row is incomplete, second-hand, or was held back by its software."""
    return row.quality in _POOR


def thinned(rows: Sequence[measurements.Measurement], most: int) -> list[measurements.Measurement]:
    """At most so many deployments of those that were measured, evenly over the list; whole ones, as they cost alike."""
    deployments = list(dict.fromkeys(map(_deployment, rows)))
    if len(deployments) <= most:
        return list(rows)
    kept = {deployments[int(place)] for place in np.linspace(0, len(deployments) - 1, most).round()}
    return [row for row in rows if _deployment(row) in kept]


def deployment_key(row: measurements.Measurement) -> str:
    """A short hash of the deployment of a row, whatever the file that it is in."""
    return hashlib.sha256(_named(row, _SAME).encode()).hexdigest()[:_DIGITS]


def _named(record: measurements.Measurement | measurements.RecordedPool, fields: Iterable[str]) -> str:
    """Fields with their names, so that new ones of a row change no key."""
    values = ((name, getattr(record, name)) for name in fields)
    return ", ".join(f"{name}={_written(value)}" for name, value in values if value is not None)


def _written(value: str | float | measurements.RecordedPool) -> str:
    if isinstance(value, measurements.RecordedPool):
        return f"({_named(value, _POOL)})"
    return value if isinstance(value, str) else f"{float(value):.9g}"


def calibration_behind(assumptions: inputs.Assumptions) -> inputs.Calibration | None:
    """Calibration that assumptions were fitted to, or the nearest that they extend; None if no fit is behind them."""
    while assumptions.calibration is None and assumptions.extends is not None:
        assumptions = inputs.catalog.assumptions(assumptions.extends)
    return assumptions.calibration


def was_fitted(row: measurements.Measurement, behind: inputs.Calibration | None) -> bool | None:
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
    # All keys are equally long, and nothing but a key is between blanks.
    return deployment_key(row) in behind.deployments


def subject_of(row: measurements.Measurement) -> str:
    """The :func:`subject_key` of a measurement."""
    model, hardware = specs(row.model, row.hardware)
    return subject_key(row.engine, hardware, model)


def instance_chips(row: measurements.Measurement) -> float | None:
    """Accelerators of an instance, of the largest pool's if there are two; None if the layout is not recorded [1]."""
    if row.prefill is not None or row.decode is not None:
        pools = [pool for pool in (row.prefill, row.decode) if pool is not None]
        return float(max(pool.tp * pool.dp * pool.pp for pool in pools))
    return None if row.tp is None else float(row.tp * (row.dp or 1) * (row.pp or 1))


def version_of(row: measurements.Measurement) -> str:
    """The engine of a measurement with its version, as far as they are recorded."""
    return f"{row.engine} {row.engine_version}".strip()


def days_of(rows: Iterable[measurements.Measurement]) -> measurements.Days | None:
    """From the first to the last day on which some rows were measured; None if no date is recorded."""
    dated = [row.days for row in rows if row.days is not None]
    return measurements.Days(min(day.since for day in dated), max(day.until for day in dated)) if dated else None


def layout_of(row: measurements.Measurement) -> str:
    """The :func:`inference_econ.engine.layout_key` of an instance, or of both pools; empty if it is not recorded."""
    if row.prefill is not None and row.decode is not None:
        return "+".join(pool_key(pool) for pool in (row.prefill, row.decode))
    if row.tp is None:
        return ""
    # Without experts, data parallelism means instances of their own.
    groups = row.dp or 1 if has_experts(specs(row.model, row.hardware)[0]) else 1
    return layout_key(row.tp, groups, row.pp or 1)


def pool_key(pool: measurements.RecordedPool) -> str:
    """The :func:`inference_econ.engine.layout_key` of a worker."""
    return layout_key(pool.tp, pool.dp, pool.pp)


def requests_per_accelerator(row: measurements.Measurement) -> float | None:
    """Requests at a time, over all accelerators; None if one is not recorded, or left to chance [1]."""
    if row.load == "rate" or not row.concurrency or not row.accelerators:
        return None
    return row.concurrency / row.accelerators


def unseen_of(row: measurements.Measurement, levels: inputs.MeasuredLevels | None) -> inputs.Unseen | None:
    """Parts that levels of measured servers have not seen of a row that they are of; None if they say nothing of it."""
    if levels is None or row.engine != levels.engine:
        return None
    model, hardware = specs(row.model, row.hardware)
    precision = inputs.Precision.of(model, row.weights)
    levels_of_setup = SetupLevels.of(levels, model, hardware, precision, row.engine_version or row.ran)
    if levels_of_setup is None:
        return None
    layouts = [layout_of(row)] if row.decode is None else [pool_key(row.decode)]
    return levels_of_setup.served(apart=row.decode is not None, speculates=row.speculates).unseen(layouts)


def measured_subject(row: measurements.Measurement, levels: inputs.MeasuredLevels | None = None) -> Subject:
    """The :class:`Subject` of a measurement that is predicted with some levels."""
    chips, per_accelerator = instance_chips(row), requests_per_accelerator(row)
    together = None if chips is None or per_accelerator is None else per_accelerator * chips
    return Subject(
        *specs(row.model, row.hardware), row.weights, row.isl, row.osl, chips, together, row.engine or UNKNOWN,
        version=row.engine_version, layout=layout_of(row), unseen=unseen_of(row, levels),
    )  # fmt: skip


@cache
def specs(model: str, hardware: str) -> tuple[inputs.ModelSpec, inputs.HardwareSpec]:
    """The catalogue copies what it gives; measurements are many and only looked at."""
    return inputs.catalog.model(model), inputs.catalog.hardware(hardware)


#: Numbers of rows; None or NaN where there is none.
Numbers = npt.ArrayLike | Sequence[float | None]


class Accuracy(NamedTuple):
    """Errors of some predictions; None where there are none.

    All but the bias are of the absolute log error |ln(predicted / measured)|: 0.1 is about 10 % either way, 0.69 a
    factor of two.
    """

    rows: int
    """Measurements [1]."""
    predicted: int
    """Rows that there is a prediction for [1]."""
    median: float | None
    """[1]"""
    mean: float | None
    """[1]"""
    p90: float | None
    """Nine of ten errors are not larger [1]."""
    bias: float | None
    """Mean of ln(predicted / measured): positive if too much is predicted [1]."""

    @property
    def coverage(self) -> float:
        """Share of the measurements that there is a prediction for [1]."""
        return self.predicted / self.rows if self.rows else 0.0

    def record(self) -> dict[str, object]:
        """All fields and the coverage, by name."""
        return {**self._asdict(), "coverage": self.coverage}


def log_errors(measured: Numbers, predicted: Numbers) -> Array:
    """Natural logarithm of predicted over measured, which treats half and double alike.

    Parameters
    ----------
    measured, predicted : array_like, shape (n,)
        Positive, in any common unit. NaN is no measurement; a prediction that is not positive and finite is none.

    Returns
    -------
    ndarray, shape (n,)
        NaN where one of the two is missing [1].

    Raises
    ------
    InputError
        If the shapes differ, or a measured value is not positive and finite.

    Examples
    --------
    >>> log_errors([10.0, 10.0], [10.0, float("inf")])
    array([ 0., nan])
    """
    real, guess = np.array(measured, dtype=np.float64), np.array(predicted, dtype=np.float64)
    if real.shape != guess.shape or real.ndim != 1:
        raise InputError(f"measured and predicted must be lists of equal length, got {real.shape} and {guess.shape}")
    wrong = ~np.isnan(real) & ~(np.isfinite(real) & (real > 0))
    if wrong.any():
        raise InputError(f"measured values must be positive and finite, got {real[wrong][0]:g}")
    usable = np.isfinite(guess) & (guess > 0)
    return np.log(np.where(usable, guess, np.nan) / real)


def accuracy(measured: Numbers, predicted: Numbers) -> Accuracy:
    """Errors of predictions; see :func:`log_errors` for parameters and errors.

    Examples
    --------
    >>> found = accuracy([1.0, 2.0, 4.0], [2.0, 2.0, float("nan")])
    >>> found.coverage, round(found.mean, 3), round(found.bias, 3)
    (0.6666666666666666, 0.347, 0.347)
    """
    every = log_errors(measured, predicted)
    errors = every[~np.isnan(every)]
    if not errors.size:
        return Accuracy(every.size, 0, None, None, None, None)
    sizes = np.abs(errors)
    statistics = np.median(sizes), np.mean(sizes), np.quantile(sizes, 0.9), np.mean(errors)
    return Accuracy(every.size, errors.size, *map(float, statistics))


def by_group(groups: Sequence[str], measured: Numbers, predicted: Numbers) -> dict[str, Accuracy]:
    """Accuracy of each group, in the order in which they first appear; see :func:`accuracy`.

    Parameters
    ----------
    groups : sequence of str, length n
        The group of each pair.
    measured, predicted : array_like, shape (n,)
        As in :func:`accuracy`.
    """
    real, guess, names = np.asarray(measured, dtype=float), np.asarray(predicted, dtype=float), np.asarray(groups)
    return {name: accuracy(real[names == name], guess[names == name]) for name in dict.fromkeys(groups)}
