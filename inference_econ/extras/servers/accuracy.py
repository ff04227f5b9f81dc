"""Errors of predictions compared with measurements, and the selection of measurements."""

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
from inference_econ.engine import UNKNOWN, Setup, SetupLevels, Subject, has_experts, layout_key, subject_key
from inference_econ.errors import InputError
from inference_econ.extras.servers import measurements
from inference_econ.extras.servers.measurements import Measurement, shipped
from inference_econ.extras.servers.prediction.predict import facts_of, version_told
from inference_econ.inputs import Precision
from inference_econ.report.speed_cost import SimilarServer

#: Quality grades of measurements that are incomplete, limited by their software, or second-hand.
_POOR = ("C", "D")
#: Fields that select measurements.
CHOICES = (
    "dataset", "source", "engine", "engine_version", "model", "hardware", "weights", "kv", "tp", "dp", "pp", "ep",
    "isl", "osl", "concurrency", "load", "statistic", "speculation", "quality", "tier",
)  # fmt: skip
#: Fields of a measurement that identify its deployment.
_SAME = ("engine", "model", "hardware", "weights", "isl", "osl", "load", "tp", "dp", "pp", "ep", "prefill", "decode")
_deployment = attrgetter(*_SAME)
_POOL = ("workers", "tp", "dp", "pp", "ep")
#: Length of a deployment hash, enough to distinguish some thousand deployments [hexadecimal digits].
_DIGITS = 7
_CONDITION = re.compile(r"\s*(?P<key>\w+)\s*(?P<sign>!?=)\s*(?P<values>.*?)\s*")

#: Condition on a measurement: field, accepted values, and whether the condition is inverted.
Condition = tuple[str, tuple[str, ...], bool]


def conditions(text: str) -> tuple[Condition, ...]:
    """Parse conditions such as ``engine=vllm,hardware=h100_sxm|h200_sxm,model!=llama_3_8b``.

    Raises
    ------
    InputError
        If the syntax is wrong or a field is unknown.

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
    """Check whether a measurement fulfils all conditions."""
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
    """Select the measurements for a fit, and count the rejected measurements by reason.

    Parameters
    ----------
    measured : sequence of Measurement or Skipped
        Measurements of one or several files.
    where : sequence of Condition
        Conditions that a measurement must fulfil.
    without : sequence of sequences of Condition
        Groups of conditions. A measurement that fulfils all conditions of one group is excluded.

    Returns
    -------
    (list of Measurement, mapping of str to int)
        Selected measurements, and the number of excluded measurements by reason. Repeats, runs with speculation,
        invalid runs, disaggregated servers with an unknown number of workers, and runs of poor quality are excluded. If
        a condition names the quality, runs of poor quality are not excluded.
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
    """Check whether a measurement is incomplete, second-hand, or limited by its software."""
    return row.quality in _POOR


def thinned(rows: Sequence[measurements.Measurement], most: int) -> list[measurements.Measurement]:
    """Keep all measurements of at most ``most`` deployments, which are evenly spread over the list."""
    deployments = list(dict.fromkeys(map(_deployment, rows)))
    if len(deployments) <= most:
        return list(rows)
    kept = {deployments[int(place)] for place in np.linspace(0, len(deployments) - 1, most).round()}
    return [row for row in rows if _deployment(row) in kept]


def deployment_key(row: measurements.Measurement) -> str:
    """Short hash of the deployment of a measurement, independent of its file."""
    return hashlib.sha256(_named(row, _SAME).encode()).hexdigest()[:_DIGITS]


def _named(record: measurements.Measurement | measurements.RecordedPool, fields: Iterable[str]) -> str:
    """Text of field names and values without empty fields, so that a new field does not change existing hashes."""
    values = ((name, getattr(record, name)) for name in fields)
    return ", ".join(f"{name}={_written(value)}" for name, value in values if value is not None)


def _written(value: str | float | measurements.RecordedPool) -> str:
    if isinstance(value, measurements.RecordedPool):
        return f"({_named(value, _POOL)})"
    return value if isinstance(value, str) else f"{float(value):.9g}"


def calibration_behind(assumptions: inputs.Assumptions) -> inputs.Calibration | None:
    """Calibration of assumptions, or of the nearest preset that they extend; None if no preset has one."""
    while assumptions.calibration is None and assumptions.extends is not None:
        assumptions = inputs.catalog.assumptions(assumptions.extends)
    return assumptions.calibration


def was_fitted(row: measurements.Measurement, behind: inputs.Calibration | None) -> bool | None:
    """Check whether assumptions were fitted to the deployment of a measurement.

    Parameters
    ----------
    row : Measurement
        Measurement of any file.
    behind : Calibration, optional
        Result of :func:`calibration_behind` for the assumptions.

    Returns
    -------
    bool or None
        True if the assumptions were fitted to the deployment; None if the profile does not list its deployments.
    """
    if behind is None:
        return False
    if not behind.deployments:
        return None
    # A substring test is sufficient, because all hashes have the same length and are separated by blanks.
    return deployment_key(row) in behind.deployments


def subject_of(row: measurements.Measurement) -> str:
    """Text key of the subject of a measurement; see :func:`subject_key`."""
    model, hardware = specs(row.model, row.hardware)
    return subject_key(row.engine, hardware, model)


def instance_chips(row: measurements.Measurement) -> float | None:
    """Accelerators of the largest instance (aggregated, prefill or decode); None if not recorded [1]."""
    if row.prefill is not None or row.decode is not None:
        pools = [pool for pool in (row.prefill, row.decode) if pool is not None]
        return float(max(pool.tp * pool.dp * pool.pp for pool in pools))
    return None if row.tp is None else float(row.tp * (row.dp or 1) * (row.pp or 1))


def version_of(row: measurements.Measurement) -> str:
    """Engine of a measurement with its version, as recorded."""
    return f"{row.engine} {row.engine_version}".strip()


def days_of(rows: Iterable[measurements.Measurement]) -> measurements.Days | None:
    """First to last day of measurements; None without recorded dates."""
    dated = [row.days for row in rows if row.days is not None]
    return measurements.Days(min(day.since for day in dated), max(day.until for day in dated)) if dated else None


def layout_of(row: measurements.Measurement) -> str:
    """Layout name, or both names if disaggregated (:func:`inference_econ.engine.layout_key`); empty if unknown."""
    if row.prefill is not None and row.decode is not None:
        return "+".join(pool_key(pool) for pool in (row.prefill, row.decode))
    if row.tp is None:
        return ""
    # For dense models, data parallelism means separate instances.
    groups = row.dp or 1 if has_experts(specs(row.model, row.hardware)[0]) else 1
    return layout_key(row.tp, groups, row.pp or 1)


def pool_key(pool: measurements.RecordedPool) -> str:
    """Layout name of a recorded prefill or decode worker (:func:`inference_econ.engine.layout_key`)."""
    return layout_key(pool.tp, pool.dp, pool.pp)


def requests_per_accelerator(row: measurements.Measurement) -> float | None:
    """Concurrency per accelerator [1]; None for an open-loop load, or if the concurrency is not recorded."""
    if row.load == "rate" or not row.concurrency or not row.accelerators:
        return None
    return row.concurrency / row.accelerators


def unseen_of(row: measurements.Measurement, levels: inputs.MeasuredLevels | None) -> inputs.Unseen | None:
    """Property of a measurement that the calibration data of its corrections lack; None if no corrections apply."""
    if levels is None or row.engine != levels.engine:
        return None
    model, hardware = specs(row.model, row.hardware)
    precision = inputs.Precision.of(model, row.weights)
    facts = facts_of(row)
    release = "" if facts is None else facts.version
    levels_of_setup = SetupLevels.of(levels, model, hardware, precision, version_told(row), release)
    if levels_of_setup is None:
        return None
    layouts = [layout_of(row)] if row.decode is None else [pool_key(row.decode)]
    return levels_of_setup.served(apart=row.decode is not None, speculates=row.speculates).unseen(layouts)


def measured_subject(row: measurements.Measurement, levels: inputs.MeasuredLevels | None = None) -> Subject:
    """:class:`Subject` of a measurement that is predicted with corrections."""
    chips, per_accelerator = instance_chips(row), requests_per_accelerator(row)
    together = None if chips is None or per_accelerator is None else per_accelerator * chips
    return Subject(
        *specs(row.model, row.hardware), row.weights, row.isl, row.osl, chips, together, row.engine or UNKNOWN,
        version=row.engine_version, layout=layout_of(row), unseen=unseen_of(row, levels),
    )  # fmt: skip


@cache
def specs(model: str, hardware: str) -> tuple[inputs.ModelSpec, inputs.HardwareSpec]:
    """Model and chip of a measurement, cached because the catalog copies its entries on every call."""
    return inputs.catalog.model(model), inputs.catalog.hardware(hardware)


#: Numbers; None or NaN means a missing value.
Numbers = npt.ArrayLike | Sequence[float | None]


class Accuracy(NamedTuple):
    """Error statistics of predictions. Statistics are None without predictions.

    ``median``, ``mean`` and ``p90`` are statistics of the absolute log error |ln(predicted / measured)|. A log error of
    0.1 is about 10%, and 0.69 is a factor of 2.
    """

    rows: int
    """Number of measurements [1]."""
    predicted: int
    """Number of measurements with a prediction [1]."""
    median: float | None
    """Median absolute log error [1]."""
    mean: float | None
    """Mean absolute log error [1]."""
    p90: float | None
    """90th percentile of the absolute log error [1]."""
    bias: float | None
    """Mean of ln(predicted / measured) [1]; positive if predictions are too high."""

    @property
    def coverage(self) -> float:
        """Share of the measurements with a prediction [1]."""
        return self.predicted / self.rows if self.rows else 0.0

    def record(self) -> dict[str, object]:
        """Fields and coverage by name."""
        return {**self._asdict(), "coverage": self.coverage}


def log_errors(measured: Numbers, predicted: Numbers) -> Array:
    """Logarithm of predicted over measured values. Errors of half and double have the same size.

    Parameters
    ----------
    measured, predicted : array_like, shape (n,)
        Positive values in a common unit. NaN means no measurement; predictions must be positive and finite.

    Returns
    -------
    ndarray, shape (n,)
        NaN if either value is missing [1].

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
    """Error statistics of predictions; see :func:`log_errors` for parameters and errors.

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
    """Accuracy of each group, in order of first appearance; see :func:`accuracy`.

    Parameters
    ----------
    groups : sequence of str, length n
        Group of each pair of a measured and a predicted value.
    measured, predicted : array_like, shape (n,)
        Values as in :func:`accuracy`.
    """
    real, guess, names = np.asarray(measured, dtype=float), np.asarray(predicted, dtype=float), np.asarray(groups)
    return {name: accuracy(real[names == name], guess[names == name]) for name in dict.fromkeys(groups)}


#: Shipped files with TPOT of servers.
_WITH_TPOT = (
    *("serving_points", "inferencemax_aggregated", "poisson_load_a100", "poisson_load_h100", "decode_points"),
)
#: Largest ratio of similar request lengths [1].
ALIKE = 1.25


def servers_like(setup: Setup, isl: float, osl: float) -> list[SimilarServer]:
    """Measured servers with the same model, chip and weight format, and similar lengths.

    Parameters
    ----------
    setup : Setup
        Model and chip; modified specs match no measurement.
    isl, osl : float
        Mean request lengths [tokens]. Lengths of a server may differ by a factor of :data:`ALIKE`.

    Returns
    -------
    list of SimilarServer
        Aggregated servers without speculation, one per measurement with both user speed and throughput.
    """
    model, formats, servers = setup.model, _formats(setup.precision), []
    for row in _rows():
        lengths = ((row.isl, isl), (row.osl, osl))
        if any(has is None or max(has, wanted) > ALIKE * min(has, wanted) for has, wanted in lengths):
            continue
        speed = row.output_tokens_per_second_per_accelerator or row.closed_loop_rate
        measured = specs(row.model, row.hardware)
        same = model.name == measured[0].name and (model, setup.hardware) == measured
        if same and _formats(Precision.of(model, row.weights)) == formats and speed is not None and row.tpot_seconds:
            servers.append(SimilarServer(row.engine, row.dataset, 1.0 / row.tpot_seconds, speed))
    return servers


@cache
def _rows() -> Sequence[Measurement]:
    """Rows of aggregated servers, cached because reading takes most of a second."""
    rows, _ = chosen(shipped(_WITH_TPOT))
    return [row for row in rows if row.tpot_seconds and row.decode is None]


def _formats(precision: Precision) -> list[str]:
    """Weight and expert formats. The two 16-bit formats are treated as equal, because they are equally fast."""
    return [dtype.replace("fp16", "bf16") for dtype in (precision.weights, precision.experts)]
