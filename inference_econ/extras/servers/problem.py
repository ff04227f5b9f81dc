"""Problem that a fit of assumptions to measurements minimises."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from inference_econ._types import Array, Progress
from inference_econ.errors import InputError
from inference_econ.extras.servers.measurements import Measurement
from inference_econ.extras.servers.prediction.predict import Prediction, predict
from inference_econ.inputs import Assumptions, value_of


@dataclass(frozen=True, slots=True)
class Constant:
    """An assumption that can be fitted.

    Attributes
    ----------
    low, high : float
        Bounds that physics sets, in base units.
    start : float
        Where a fit begins if the assumptions have no value of their own.
    spread : float
        How far from the assumptions it may well be: standard deviation of the logarithm [1].
    unit : str
        Of bounds and start.
    """

    low: float
    high: float
    start: float
    spread: float
    unit: str


@dataclass(frozen=True, slots=True)
class Target:
    """A quantity of a row that a fit may look at.

    Attributes
    ----------
    field : str
        Of :class:`Measurement` and :class:`Prediction`.
    scatter : float
        Errors that are usual for it: beyond, rows pull less and less; of the logarithm [1].
    """

    field: str
    scatter: float


#: What can be fitted, by the name of the field. The best kernels reach 0.9 of the memory bandwidth, and dense
#: products of 16 bits 0.65 to 0.85 of the peak (scenarios/measured/kernels.csv).
with Path(__file__).with_name("constants.csv").open(encoding="utf-8", newline="") as _table:
    CONSTANTS: Mapping[str, Constant] = {
        row["constant"]: Constant(
            float(row["low"]), float(row["high"]), float(row["start"]), float(row["spread"]), row["unit"]
        )
        for row in csv.DictReader(_table)
    }
TARGETS: Mapping[str, Target] = {
    "tpot": Target("tpot_seconds", 0.1),
    "ttft": Target("ttft_seconds", 0.3),
    "request": Target("request_seconds", 0.15),
    "throughput": Target("output_tokens_per_second_per_accelerator", 0.15),
}
#: A mean TTFT has the start of the run in it, with compilation and full queues: so much wider are its errors [1].
_MEAN_TTFT = 1.5
#: Step of the differences, in logarithms [1].
_STEP = 0.02


def with_constants(base: Assumptions, names: Sequence[str], values: Sequence[float] | Array) -> Assumptions:
    """Assumptions with some constants set for every family of chips."""
    constants = {name: float(value) for name, value in zip(names, values, strict=True)}
    return base.changed(constants).without_exceptions(names).model_copy(update={"calibration": None, "levels": None})


def log_ratios(predictions: Sequence[Prediction], targets: Sequence[str]) -> Array:
    """ln(predicted / measured) [1], shape (rows, targets); NaN where one of the two is missing."""
    fields = [TARGETS[target].field for target in targets]
    return np.array([[_log_ratio(prediction, field) for field in fields] for prediction in predictions]).reshape(
        -1, len(fields)
    )


@dataclass(frozen=True, slots=True)
class FitProblem:
    """Least-squares problem over the logarithms of the constants.

    Attributes
    ----------
    rows : tuple of Measurement
        Those that can be predicted.
    names : tuple of str
        Of the constants.
    base : Assumptions
        Everything else.
    targets : tuple of str
        Keys of :data:`TARGETS`.
    centre, spreads : ndarray, shape (n,)
        Where the constants probably are, and how far from there they may well be; logarithms [1].
    low, high : ndarray, shape (n,)
        Bounds of the logarithms [1].
    shares : ndarray, shape (rows,)
        How much a row counts [1].
    """

    rows: tuple[Measurement, ...]
    names: tuple[str, ...]
    base: Assumptions
    targets: tuple[str, ...]
    centre: Array
    spreads: Array
    low: Array
    high: Array
    shares: Array

    @property
    def start(self) -> Array:
        """Where the search begins, inside of the bounds, shape (n,)."""
        return np.clip(self.centre, self.low + 1e-3, self.high - 1e-3)

    @property
    def scatters(self) -> Array:
        """Usual errors, shape (rows, targets)."""
        wide = np.array([_MEAN_TTFT if row.statistic == "mean" else 1.0 for row in self.rows])
        columns = [
            TARGETS[target].scatter * (wide if target == "ttft" else np.ones_like(wide)) for target in self.targets
        ]
        return np.stack(columns, axis=-1)

    def errors(self, logs: Array) -> Array:
        """ln(predicted / measured), shape (rows, targets); NaN where one of the two is missing."""
        assumptions = with_constants(self.base, self.names, np.exp(logs))
        return log_ratios(predict(self.rows, lambda _: assumptions), self.targets)

    def jacobian(self, logs: Array, errors: Array, meter: Meter) -> Array:
        """Derivatives of the errors, shape (rows, targets, n)."""
        columns = []
        for index in range(logs.size):
            moved = logs.copy()
            moved[index] += _STEP if moved[index] + _STEP <= self.high[index] else -_STEP
            columns.append((self.errors(moved) - errors) / (moved[index] - logs[index]))
            meter.step()
        return np.stack(columns, axis=-1)

    def cost(self, logs: Array) -> float:
        """Minus the logarithm of the probability, up to a constant [1]."""
        scaled = np.nan_to_num(self.errors(logs)) / self.scatters
        data = self.shares[:, None] * np.log1p(scaled**2)
        return 0.5 * float(data.sum() + (((logs - self.centre) / self.spreads) ** 2).sum())

    def weighted_jacobian(self, errors: Array, jacobian: Array) -> Array:
        """Rows that pull less count less, shape (rows * targets, n)."""
        scaled = np.nan_to_num(errors) / self.scatters
        pull = np.sqrt(self.shares[:, None] / (1.0 + scaled**2)) / self.scatters
        return (np.nan_to_num(jacobian) * pull[:, :, None]).reshape(-1, jacobian.shape[-1])

    def solve(self, start: Array, evaluations: int, meter: Meter) -> Array:
        """Constants of the lowest cost, as logarithms."""
        last: dict[bytes, Array] = {}

        def errors(logs: Array) -> Array:
            if logs.tobytes() not in last:
                last.clear()
                last[logs.tobytes()] = self.errors(logs)
                meter.step()
            return last[logs.tobytes()]

        return self.least(start, errors, lambda logs: self.jacobian(logs, errors(logs), meter), evaluations)

    def least(
        self, start: Array, errors: Callable[[Array], Array], jacobian: Callable[[Array], Array], evaluations: int
    ) -> Array:
        """Constants of the lowest cost under given errors and derivatives."""
        from scipy.optimize import least_squares

        priors, count = np.diag(1.0 / self.spreads), self.shares.size * len(self.targets)
        shares = np.repeat(self.shares, len(self.targets))

        def residuals(logs: Array) -> Array:
            data = (np.nan_to_num(errors(logs)) / self.scatters).ravel()
            return np.concatenate([data, (logs - self.centre) / self.spreads])

        def derivatives(logs: Array) -> Array:
            data = np.nan_to_num(jacobian(logs)) / self.scatters[:, :, None]
            return np.concatenate([data.reshape(count, -1), priors])

        def loss(squares: Array) -> Array:
            inside = 1.0 + squares[:count]
            losses = np.stack([squares, np.ones_like(squares), np.zeros_like(squares)])
            losses[:, :count] = shares * np.stack([np.log(inside), 1.0 / inside, -(inside**-2.0)])
            return losses

        result = least_squares(
            residuals, start, derivatives, bounds=(self.low, self.high), loss=loss,
            x_scale=np.minimum(self.spreads, 1.0), ftol=1e-3, xtol=3e-3, max_nfev=evaluations,
        )  # fmt: skip
        return np.asarray(result.x)


class Meter:
    """Counts evaluations of all rows."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def step(self) -> None:
        """One more evaluation is done."""
        self.done += 1
        if self.progress is not None:
            self.progress(min(self.done / self.total, 0.99), "fitting")


def problem_of(
    rows: Sequence[Measurement], names: Sequence[str], base: Assumptions, targets: Sequence[str], prior: float
) -> FitProblem:
    """Problem that :func:`inference_econ.extras.servers.fit.fit` minimises; see there for parameters and errors."""
    predictions = predict(rows, lambda _: base)
    finite = np.isfinite(log_ratios(predictions, targets))
    usable = [prediction.measurement for prediction, kept in zip(predictions, finite, strict=True) if np.any(kept)]
    least = len(names) if math.isfinite(prior) else 2 * len(names)
    if len(usable) < least:
        raise InputError(
            f"{len(names)} constants need at least {least} rows with {' or '.join(targets)} that can be "
            f"predicted, got {len(usable)} of {len(rows)}; fit fewer constants or give more rows"
        )
    limits = [CONSTANTS[name] for name in names]
    low, high = (np.log([getattr(limit, side) for limit in limits]) for side in ("low", "high"))
    centre = np.log([_value(base, name) for name in names])
    # Without trust in the base, nothing but the bounds holds a constant that the rows do not see.
    spreads = np.minimum(prior * np.array([limit.spread for limit in limits]), 1e3)
    groups = [(row.engine, row.model, row.hardware) for row in usable]
    counts = Counter(groups)
    shares = np.array([counts[group] ** -0.5 for group in groups])
    return FitProblem(tuple(usable), tuple(names), base, tuple(targets), centre, spreads, low, high, shares)


def _value(base: Assumptions, name: str) -> float:
    value = value_of(base, name)
    return float(value or CONSTANTS[name].start)


def _log_ratio(prediction: Prediction, field: str) -> float:
    ours, theirs = getattr(prediction, field), getattr(prediction.measurement, field)
    return math.log(ours / theirs) if ours and theirs and math.isfinite(ours) else math.nan
