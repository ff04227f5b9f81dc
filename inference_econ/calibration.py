"""Fit assumptions to measurements (floor 6): bounded, in logarithms, robust, and honest about what is not known."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from inference_econ.errors import InputError
from inference_econ.measurements import Measurement
from inference_econ.prediction import Prediction, predict
from inference_econ.spec.assumptions import Assumptions, FamilyAssumptions

Array = npt.NDArray[np.float64]
Progress = Callable[[float, str], None]


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
CONSTANTS: Mapping[str, Constant] = {
    "math_efficiency": Constant(0.05, 0.95, 0.7, 0.15, "1"),
    "attention_math_efficiency": Constant(0.02, 0.95, 0.5, 0.4, "1"),
    "expert_math_efficiency": Constant(0.02, 0.95, 0.35, 0.5, "1"),
    "narrow_math_efficiency": Constant(0.3, 1.0, 0.78, 0.1, "1"),
    "hbm_efficiency": Constant(0.1, 0.93, 0.86, 0.07, "1"),
    "expert_hbm_efficiency": Constant(0.05, 0.93, 0.75, 0.2, "1"),
    "kv_hbm_efficiency": Constant(0.05, 0.93, 0.75, 0.2, "1"),
    "widened_efficiency": Constant(0.05, 0.999, 0.7, 0.4, "1"),
    "link_efficiency": Constant(0.05, 0.999, 0.8, 0.2, "1"),
    "expert_popularity_scv": Constant(1e-3, 10.0, 0.3, 1.0, "1"),
    "graph_launch": Constant(1e-7, 5e-5, 3e-6, 0.5, "s"),
    "launch": Constant(1e-7, 1e-4, 5e-6, 0.7, "s"),
    "collective_overhead": Constant(1e-8, 1e-3, 3e-6, 0.7, "s"),
    "step_overhead": Constant(1e-6, 5e-2, 3e-4, 1.0, "s"),
    "sequence_overhead": Constant(1e-8, 1e-3, 3e-6, 1.0, "s"),
    "request_overhead": Constant(1e-5, 1.0, 2e-2, 1.0, "s"),
}
TARGETS: Mapping[str, Target] = {
    "tpot": Target("tpot_seconds", 0.1),
    "ttft": Target("ttft_seconds", 0.3),
    "request": Target("request_seconds", 0.15),
    "throughput": Target("output_tokens_per_second_per_accelerator", 0.15),
}
#: A mean TTFT has the start of the run in it, with compilation and full queues: so much wider are its errors [1].
_MEAN_TTFT = 4.0
#: Step of the differences, in logarithms [1].
_STEP = 0.02
#: A constant is known if the rows bring its variance below this share of the one it had before, or if nothing was
#: known before, its logarithm to this standard error [1].
_LEARNT, _KNOWN = 0.5, 0.5
#: Share of the cost that a parabola rises by at two standard errors, below which a constant is not determined [1].
_FLAT = 0.25


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted constants with what is known about them.

    Attributes
    ----------
    names : tuple of str
        Keys of :data:`CONSTANTS`.
    values : ndarray, shape (n,)
        In base units.
    covariance : ndarray, shape (n, n)
        Of their logarithms [1].
    unknown : tuple of str
        For each constant, why the rows do not determine it; empty if they do.
    base, assumptions : Assumptions
        What the fit began with, and that with the fitted constants.
    targets : tuple of str
        Keys of :data:`TARGETS`.
    errors : ndarray, shape (rows, targets)
        ln(predicted / measured) [1]; NaN where one of the two is missing.
    jacobian : ndarray, shape (rows, targets, n)
        Derivatives of the errors with respect to the logarithms [1].
    rows : tuple of Measurement
        What was fitted.
    prior : float
        Trust in the base: its constants' spreads were multiplied by it [1].
    """

    names: tuple[str, ...]
    values: Array
    covariance: Array
    unknown: tuple[str, ...]
    base: Assumptions
    assumptions: Assumptions
    targets: tuple[str, ...]
    errors: Array
    jacobian: Array
    rows: tuple[Measurement, ...]
    prior: float

    @property
    def log_errors(self) -> Array:
        """Standard errors of the logarithms [1], shape (n,)."""
        return np.sqrt(np.diag(self.covariance))

    def median_error(self, target: str) -> float:
        """Median absolute error of a target [1]; NaN if no row has it."""
        errors = self.errors[:, self.targets.index(target)]
        return float(np.nanmedian(np.abs(errors))) if np.isfinite(errors).any() else math.nan


def fit(
    rows: Sequence[Measurement],
    names: Sequence[str],
    base: Assumptions,
    *,
    targets: Sequence[str] = ("tpot",),
    prior: float = 1.0,
    progress: Progress | None = None,
    evaluations: int = 12,
) -> Fit:
    """Fit some assumptions to measurements.

    Parameters
    ----------
    rows : sequence of Measurement
        What was measured; rows without a target, or that the model cannot predict, are left out.
    names : sequence of str
        Keys of :data:`CONSTANTS`.
    base : Assumptions
        Everything else, and where the constants probably are; exceptions by family for a fitted one are dropped.
    targets : sequence of str
        Keys of :data:`TARGETS`.
    prior : float
        Factor on the spreads of :data:`CONSTANTS`: below 1 the base is trusted more; ``inf`` is not at all [1].
    progress : callable, optional
        Told the share of the work done.
    evaluations : int
        Most steps of the search; each predicts all rows once for each constant [1].

    Returns
    -------
    Fit
        Bounded by :data:`CONSTANTS`.

    Raises
    ------
    InputError
        If a name cannot be fitted, or there are too few rows for the constants.

    Notes
    -----
    Most likely values for errors of the logarithms that are Cauchy-distributed (rows far off pull hardly at all) and
    log-normal priors. Of n rows of one engine, model and chip, the square root of n counts: their errors are alike.
    SciPy's trust-region reflective method; the covariance is the inverse of the Gauss-Newton matrix at the optimum.
    """
    _check(names, targets, prior)
    problem = _problem(rows, names, base, targets, prior)
    steps, bar = evaluations * (len(names) + 2), _Bar(progress, evaluations * (len(names) + 2) + 2 * len(names))
    logs = problem.solve(problem.start, evaluations, bar)
    errors = problem.errors(logs)
    jacobian = problem.jacobian(logs, errors, _Bar(None, 1))
    weighted = problem.weighted_jacobian(errors, jacobian)
    covariance: Array = np.linalg.pinv(weighted.T @ weighted + np.diag(problem.spreads**-2.0), rcond=1e-12)
    bar.done = steps
    unknown = _unknown(problem, logs, covariance, bar)
    values = np.exp(logs)
    return Fit(
        tuple(names), values, covariance, unknown, base, with_constants(base, names, values),
        tuple(targets), errors, jacobian, problem.rows, prior,
    )  # fmt: skip


def with_constants(base: Assumptions, names: Sequence[str], values: Sequence[float] | Array) -> Assumptions:
    """Assumptions with some constants set for every family of chips."""
    dropped = {name: None for name in names if name in FamilyAssumptions.model_fields}
    families = {key: family.model_copy(update=dropped) for key, family in base.per_family.items()}
    set_ = {name: float(value) for name, value in zip(names, values, strict=True)}
    return base.model_copy(update={**set_, "per_family": families, "calibration": None})


def log_ratios(predictions: Sequence[Prediction], targets: Sequence[str]) -> Array:
    """ln(predicted / measured) [1], shape (rows, targets); NaN where one of the two is missing."""
    fields = [TARGETS[target].field for target in targets]
    return np.array([[_log_ratio(one, field) for field in fields] for one in predictions]).reshape(-1, len(fields))


def thinned(rows: Sequence[Measurement], most: int) -> list[Measurement]:
    """At most so many deployments of those that were measured, evenly over the list; whole ones, as they cost alike."""
    subjects = list(dict.fromkeys(_subject(row) for row in rows))
    if len(subjects) <= most:
        return list(rows)
    kept = {subjects[int(place)] for place in np.linspace(0, len(subjects) - 1, most).round()}
    return [row for row in rows if _subject(row) in kept]


def _subject(row: Measurement) -> tuple[object, ...]:
    layout = (row.tp, row.dp, row.pp, row.ep, row.prefill, row.decode)
    return (row.engine, row.model, row.hardware, row.weights, row.isl, row.osl, row.load, *layout)


@dataclass(frozen=True, slots=True)
class _Problem:
    """What is minimised; arrays of logarithms."""

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
        return np.clip(self.centre, self.low + 1e-3, self.high - 1e-3)

    @property
    def scatters(self) -> Array:
        """Usual errors, shape (rows, targets)."""
        wide = np.array([_MEAN_TTFT if row.statistic == "mean" else 1.0 for row in self.rows])
        columns = [TARGETS[one].scatter * (wide if one == "ttft" else np.ones_like(wide)) for one in self.targets]
        return np.stack(columns, axis=-1)

    def errors(self, logs: Array) -> Array:
        assumptions = with_constants(self.base, self.names, np.exp(logs))
        return log_ratios(predict(self.rows, lambda _: assumptions), self.targets)

    def jacobian(self, logs: Array, errors: Array, bar: _Bar) -> Array:
        columns = []
        for index in range(logs.size):
            moved = logs.copy()
            moved[index] += _STEP if moved[index] + _STEP <= self.high[index] else -_STEP
            columns.append((self.errors(moved) - errors) / (moved[index] - logs[index]))
            bar.step()
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

    def solve(self, start: Array, evaluations: int, bar: _Bar) -> Array:
        """Constants of the lowest cost, as logarithms."""
        last: dict[bytes, Array] = {}

        def errors(logs: Array) -> Array:
            if logs.tobytes() not in last:
                last.clear()
                last[logs.tobytes()] = self.errors(logs)
                bar.step()
            return last[logs.tobytes()]

        return self.least(start, errors, lambda logs: self.jacobian(logs, errors(logs), bar), evaluations)

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
            found = np.stack([squares, np.ones_like(squares), np.zeros_like(squares)])
            found[:, :count] = shares * np.stack([np.log(inside), 1.0 / inside, -(inside**-2.0)])
            return found

        result = least_squares(
            residuals, start, derivatives, bounds=(self.low, self.high), loss=loss,
            x_scale=np.minimum(self.spreads, 1.0), ftol=1e-4, xtol=1e-3, max_nfev=evaluations,
        )  # fmt: skip
        return np.asarray(result.x)


class _Bar:
    """Counts evaluations of all rows."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def step(self) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(min(self.done / self.total, 0.99), "fitting")


def _problem(
    rows: Sequence[Measurement], names: Sequence[str], base: Assumptions, targets: Sequence[str], prior: float
) -> _Problem:
    usable = _usable(rows, base, targets)
    least = len(names) if math.isfinite(prior) else 2 * len(names)
    if len(usable) < least:
        raise InputError(
            f"{len(names)} constants need at least {least} rows with {' or '.join(targets)} that can be "
            f"predicted, got {len(usable)} of {len(rows)}; fit fewer constants or give more rows"
        )
    limits = [CONSTANTS[name] for name in names]
    low, high = (np.log([getattr(one, side) for one in limits]) for side in ("low", "high"))
    centre = np.log([_value(base, name) for name in names])
    # Without trust in the base, nothing but the bounds holds a constant that the rows do not see.
    spreads = np.minimum(prior * np.array([one.spread for one in limits]), 1e3)
    groups = [(row.engine, row.model, row.hardware) for row in usable]
    counts = Counter(groups)
    shares = np.array([counts[group] ** -0.5 for group in groups])
    return _Problem(tuple(usable), tuple(names), base, tuple(targets), centre, spreads, low, high, shares)


def _check(names: Sequence[str], targets: Sequence[str], prior: float) -> None:
    for name in names:
        if name not in CONSTANTS:
            raise InputError(f"{name!r} cannot be fitted; possible: {', '.join(CONSTANTS)}")
    if not names or len(set(names)) < len(names):
        raise InputError("name the constants to fit, each once, for example math_efficiency,hbm_efficiency")
    for target in targets:
        if target not in TARGETS:
            raise InputError(f"target: got {target!r}; allowed: {', '.join(TARGETS)}")
    if not targets or len(set(targets)) < len(targets):
        raise InputError("name the targets, each once, for example tpot,ttft")
    if not prior > 0:
        raise InputError(f"prior must be positive, got {prior:g}; 'inf' does not trust the base at all")


def _usable(rows: Sequence[Measurement], base: Assumptions, targets: Sequence[str]) -> list[Measurement]:
    predictions = predict(rows, lambda _: base)
    known = np.isfinite(log_ratios(predictions, targets)).any(axis=1).tolist()
    return [one.measurement for one, kept in zip(predictions, known, strict=True) if kept]


def _value(base: Assumptions, name: str) -> float:
    value = getattr(base, name)
    return float(value or CONSTANTS[name].start)


def _log_ratio(prediction: Prediction, field: str) -> float:
    ours, theirs = getattr(prediction, field), getattr(prediction.measurement, field)
    return math.log(ours / theirs) if ours and theirs and math.isfinite(ours) else math.nan


def _unknown(problem: _Problem, logs: Array, covariance: Array, bar: _Bar) -> tuple[str, ...]:
    """Why a constant is not determined; a profile of the likelihood is followed along the linearised valley."""
    lowest, found = problem.cost(logs), []
    for index in range(logs.size):
        error = float(np.sqrt(covariance[index, index]))
        learnt = 1.0 - (error / problem.spreads[index]) ** 2
        if min(logs[index] - problem.low[index], problem.high[index] - logs[index]) < 0.01:
            found.append("at its bound")
        elif problem.spreads[index] < 1e2 and learnt < _LEARNT:
            found.append("the rows say little about it: mostly the base's value")
        elif problem.spreads[index] >= 1e2 and error > _KNOWN:
            found.append(f"known to a factor of {math.exp(error):.3g} only")
        else:
            valley = covariance[:, index] / error
            rises = [
                problem.cost(np.clip(logs + sign * valley, problem.low, problem.high)) - lowest for sign in (-2.0, 2.0)
            ]
            flat = min(rises) < _FLAT * 2.0
            found.append("others make up for it: the likelihood is flat" if flat else "")
        bar.step()
        bar.step()
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Fold:
    """Rows that were predicted by a fit to the others.

    Attributes
    ----------
    left_out : str
        What they have in common.
    values : ndarray, shape (n,)
        Constants that the others give.
    errors : ndarray, shape (rows, targets)
        ln(predicted / measured) [1].
    rows : tuple of Measurement
        Those left out.
    """

    left_out: str
    values: Array
    errors: Array
    rows: tuple[Measurement, ...]


def cross_validated(found: Fit, by: str, *, progress: Progress | None = None) -> list[Fold]:
    """Predict each group of rows by a fit to all others.

    Parameters
    ----------
    found : Fit
        To all rows.
    by : str
        Field of :class:`Measurement` that makes the groups: hardware, model, engine.
    progress : callable, optional
        Told the share of the work done.

    Returns
    -------
    list of Fold
        None if all rows are of one group.

    Notes
    -----
    Each fit begins at the one to all rows, whose derivatives it uses; the predictions for the rows left out are exact.
    """
    groups = list(dict.fromkeys(getattr(row, by) for row in found.rows))
    folds: list[Fold] = []
    if len(groups) < 2:
        return folds
    problem = _problem(found.rows, found.names, found.base, found.targets, found.prior)
    best = np.log(found.values)
    for number, group in enumerate(groups):
        outside = np.array([getattr(row, by) == group for row in found.rows])
        rest = replace(problem, shares=np.where(outside, 0.0, problem.shares))
        logs = rest.least(
            np.clip(best, rest.low + 1e-6, rest.high - 1e-6),
            lambda at: found.errors + found.jacobian @ (at - best),
            lambda _: found.jacobian,
            100,
        )
        held = tuple(row for row, out in zip(found.rows, outside, strict=True) if out)
        own = replace(problem, rows=held)
        folds.append(Fold(str(group), np.exp(logs), own.errors(logs), held))
        if progress is not None:
            progress((number + 1) / len(groups), f"leaving out {group}")
    return folds
