"""Fit constants of the assumptions to measurements by robust least squares of log errors, with cross-validation."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from inference_econ import _work
from inference_econ._types import Array, Progress
from inference_econ.engine import UNKNOWN
from inference_econ.errors import InputError
from inference_econ.extras.servers.accuracy import deployment_key, layout_of, subject_of, version_of
from inference_econ.extras.servers.measurements import Measurement
from inference_econ.extras.servers.prediction.predict import Prediction, predict
from inference_econ.inputs import LEVELS, Assumptions, Unlike, likely_ends, value_of


@dataclass(frozen=True, slots=True)
class Constant:
    """Assumption that can be fitted.

    Attributes
    ----------
    low, high : float
        Physical bounds, in base units.
    start : float
        Start value if the assumptions do not set the constant.
    spread : float
        Prior standard deviation of the logarithm [1].
    unit : str
        Unit of ``low``, ``high`` and ``start``.
    """

    low: float
    high: float
    start: float
    spread: float
    unit: str


@dataclass(frozen=True, slots=True)
class Target:
    """Measured quantity that a fit can reproduce.

    Attributes
    ----------
    field : str
        Field of :class:`Measurement` and :class:`Prediction`.
    scatter : float
        Typical error of the logarithm [1]. Larger errors get less weight.
    """

    field: str
    scatter: float


#: Constants that can be fitted, by field name. The best kernels reach 0.9 of the memory bandwidth, and dense 16-bit
#: products 0.65 to 0.85 of the peak (scenarios/measured/kernels.csv).
with Path(__file__).with_name("constants.csv").open(encoding="utf-8", newline="") as _table:
    CONSTANTS: Mapping[str, Constant] = {
        row["constant"]: Constant(
            **{name: float(row[name]) for name in ("low", "high", "start", "spread")}, unit=row["unit"]
        )
        for row in csv.DictReader(_table)
    }
TARGETS: Mapping[str, Target] = {
    "tpot": Target("tpot_seconds", 0.1),
    "ttft": Target("ttft_seconds", 0.3),
    "request": Target("request_seconds", 0.15),
    "throughput": Target("output_tokens_per_second_per_accelerator", 0.15),
}
#: Factor on the typical error of mean TTFTs [1]. A mean TTFT includes compilation and full queues at the start of a
#: run.
_MEAN_TTFT = 1.5
#: Step of finite differences of logarithms [1].
_STEP = 0.02


def with_constants(base: Assumptions, names: Sequence[str], values: Sequence[float] | Array) -> Assumptions:
    """Assumptions with constants set for every chip family."""
    constants = {name: float(value) for name, value in zip(names, values, strict=True)}
    return base.changed(constants).without_exceptions(names).model_copy(update={"calibration": None, "levels": None})


def log_ratios(predictions: Sequence[Prediction], targets: Sequence[str]) -> Array:
    """ln(predicted / measured) [1], shape (rows, targets); NaN if either is missing."""
    fields = [TARGETS[target].field for target in targets]
    pairs = [(getattr(each, field), getattr(each.measurement, field)) for each in predictions for field in fields]
    ratios = [math.log(ours / real) if ours and real and math.isfinite(ours) else math.nan for ours, real in pairs]
    return np.array(ratios).reshape(-1, len(fields))


@dataclass(frozen=True, slots=True)
class FitProblem:
    """Least-squares problem in the logarithms of the constants.

    Attributes
    ----------
    rows : tuple of Measurement
        Measurements that the model can predict.
    names : tuple of str
        Names of the constants.
    base : Assumptions
        Assumptions other than the constants.
    targets : tuple of str
        Fitted quantities, as keys of :data:`TARGETS`.
    centre, spreads : ndarray, shape (n,)
        Prior means and standard deviations of the logarithms [1].
    low, high : ndarray, shape (n,)
        Bounds of the logarithms [1].
    shares : ndarray, shape (rows,)
        Weights of the measurements [1].
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
    def scatters(self) -> Array:
        """Typical errors [1], shape (rows, targets)."""
        wide = np.array([_MEAN_TTFT if row.statistic == "mean" else 1.0 for row in self.rows])
        columns = [
            TARGETS[target].scatter * (wide if target == "ttft" else np.ones_like(wide)) for target in self.targets
        ]
        return np.stack(columns, axis=-1)

    def errors(self, logs: Array) -> Array:
        """ln(predicted / measured) [1], shape (rows, targets); NaN if either is missing."""
        assumptions = with_constants(self.base, self.names, np.exp(logs))
        return log_ratios(predict(self.rows, lambda _: assumptions), self.targets)

    def jacobian(self, logs: Array, errors: Array, meter: Meter) -> Array:
        """Derivatives of the errors with respect to the logarithms of the constants, shape (rows, targets, n)."""
        columns = []
        for index in range(logs.size):
            moved = logs.copy()
            moved[index] += _STEP if moved[index] + _STEP <= self.high[index] else -_STEP
            columns.append((self.errors(moved) - errors) / (moved[index] - logs[index]))
            meter.step()
        return np.stack(columns, axis=-1)

    def cost(self, logs: Array) -> float:
        """Negative log probability, up to a constant [1]."""
        scaled = np.nan_to_num(self.errors(logs)) / self.scatters
        data = self.shares[:, None] * np.log1p(scaled**2)
        return 0.5 * float(data.sum() + (((logs - self.centre) / self.spreads) ** 2).sum())

    def weighted_jacobian(self, errors: Array, jacobian: Array) -> Array:
        """Derivatives of the errors, weighted by the robust loss, shape (rows * targets, n)."""
        scaled = np.nan_to_num(errors) / self.scatters
        pull = np.sqrt(self.shares[:, None] / (1.0 + scaled**2)) / self.scatters
        return (np.nan_to_num(jacobian) * pull[:, :, None]).reshape(-1, jacobian.shape[-1])

    def solve(self, start: Array, evaluations: int, meter: Meter) -> Array:
        """Logarithms of the constants that minimize :meth:`cost`."""
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
        """Logarithms of the constants that minimize :meth:`cost`, from errors and derivatives at the start values."""
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
    """Progress of a fit. One step is one prediction of all measurements."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def step(self) -> None:
        """Count one prediction of all measurements."""
        self.done += 1
        if self.progress is not None:
            self.progress(min(self.done / self.total, 0.99), "fitting")


def problem_of(
    rows: Sequence[Measurement], names: Sequence[str], base: Assumptions, targets: Sequence[str], prior: float
) -> FitProblem:
    """Least-squares problem of :func:`inference_econ.extras.servers.fit.fit`, with its parameters and errors."""
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
    centre = np.log([float(value_of(base, name) or CONSTANTS[name].start) for name in names])
    # Without a prior, only the bounds limit constants that the data do not determine.
    spreads = np.minimum(prior * np.array([limit.spread for limit in limits]), 1e3)
    groups = [(row.engine, row.model, row.hardware) for row in usable]
    counts = Counter(groups)
    shares = np.array([counts[group] ** -0.5 for group in groups])
    return FitProblem(tuple(usable), tuple(names), base, tuple(targets), centre, spreads, low, high, shares)


#: Minimum reduction of the prior variance, and maximum log standard error without a prior, of a constant that the data
#: determine [1].
_LEARNT, _KNOWN = 0.5, 0.5
#: Maximum uncertainty factor of a constant that the data determine [1].
_MOST = 1000.0
#: Maximum number of search steps [1]. Each step predicts all measurements once per constant.
_STEPS = 12
#: Time per measurement and constant, including cross-validation [s].
_SECONDS = 0.075
#: A constant is undetermined if the cost rises by less than this share of a parabola at two standard errors [1].
_FLAT = 0.25


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted constants and their uncertainty.

    Attributes
    ----------
    names : tuple of str
        Fitted constants, as keys of :data:`CONSTANTS`.
    values : ndarray, shape (n,)
        Constants in base units.
    covariance : ndarray, shape (n, n)
        Covariance of the logarithms of the constants [1].
    unknown : tuple of str
        Reason why the data do not determine a constant, for each constant; empty if the constant is determined.
    base, assumptions : Assumptions
        Assumptions at the start of the fit, and with the fitted constants.
    targets : tuple of str
        Fitted quantities, as keys of :data:`TARGETS`.
    errors : ndarray, shape (rows, targets)
        ln(predicted / measured) [1]; NaN if either is missing.
    base_errors : ndarray, shape (rows, targets)
        Errors of the assumptions at the start of the fit [1].
    jacobian : ndarray, shape (rows, targets, n)
        Derivatives of the errors with respect to the logarithms [1].
    rows : tuple of Measurement
        Fitted measurements.
    prior : float
        Factor on the prior standard deviations [1].
    """

    names: tuple[str, ...]
    values: Array
    covariance: Array
    unknown: tuple[str, ...]
    base: Assumptions
    assumptions: Assumptions
    targets: tuple[str, ...]
    errors: Array
    base_errors: Array
    jacobian: Array
    rows: tuple[Measurement, ...]
    prior: float

    @property
    def log_errors(self) -> Array:
        """Standard errors of the logarithms [1], shape (n,)."""
        return np.sqrt(np.diag(self.covariance))

    def median_error(self, target: str) -> float:
        """Median absolute error of a target [1]; NaN if the target was not measured."""
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
) -> Fit:
    """Fit assumptions to measurements.

    Parameters
    ----------
    rows : sequence of Measurement
        Measurements. Measurements without a target, and measurements that the model cannot predict, are ignored.
    names : sequence of str
        Fitted constants, as keys of :data:`CONSTANTS`.
    base : Assumptions
        Prior means of the constants, and all other assumptions. Values of fitted constants for single chip families are
        removed.
    targets : sequence of str
        Fitted quantities, as keys of :data:`TARGETS`.
    prior : float
        Factor on the prior standard deviations in :data:`CONSTANTS` [1]. A factor below 1 keeps the constants closer to
        those of ``base``; ``inf`` ignores ``base``.
    progress : callable, optional
        Function that receives the completed share of the work [1].

    Returns
    -------
    Fit
        Constants within the bounds of :data:`CONSTANTS`.

    Raises
    ------
    InputError
        If a name cannot be fitted, or there are too few measurements.
    TooMuchError
        If the fit would take too long.

    Notes
    -----
    The fit is a maximum a posteriori estimate with log-normal priors. Log errors are Cauchy-distributed, which reduces
    the weight of outliers. The n measurements of one engine, model and chip have the weight of sqrt(n), because their
    errors are similar. SciPy's trust-region reflective method solves the problem. The covariance is the inverse
    Gauss-Newton matrix at the optimum.
    """
    for name in names:
        if name not in CONSTANTS:
            raise InputError(f"{name!r} cannot be fitted; possible: {', '.join(CONSTANTS)}")
    if not names or len(set(names)) < len(names):
        raise InputError("name the constants to fit, each once, for example chip.math_efficiency,chip.hbm_efficiency")
    for target in targets:
        if target not in TARGETS:
            raise InputError(f"target: got {target!r}; allowed: {', '.join(TARGETS)}")
    if not targets or len(set(targets)) < len(targets):
        raise InputError("name the targets, each once, for example tpot,ttft")
    if not prior > 0:
        raise InputError(f"prior must be positive, got {prior:g}; 'inf' does not trust the base at all")
    problem = problem_of(rows, names, base, targets, prior)
    count = len(problem.rows)
    work = f"{count:,} rows and {len(names)} constants"
    _work.check(work, seconds=_SECONDS * count * (len(names) + 1), smaller="rows")
    steps = _STEPS * (len(names) + 2)
    meter = Meter(progress, steps + 2 * len(names))
    start = np.clip(problem.centre, problem.low + 1e-3, problem.high - 1e-3)
    logs = problem.solve(start, _STEPS, meter)
    errors = problem.errors(logs)
    jacobian = problem.jacobian(logs, errors, Meter(None, 1))
    weighted = problem.weighted_jacobian(errors, jacobian)
    covariance = np.asarray(np.linalg.pinv(weighted.T @ weighted + np.diag(problem.spreads**-2.0), rcond=1e-12))
    meter.done = steps
    unknown = _unknown(problem, logs, covariance, meter)
    values = np.exp(logs)
    before = log_ratios(predict(problem.rows, lambda _: base), targets)
    return Fit(
        tuple(names), values, covariance, unknown, base, with_constants(base, names, values),
        tuple(targets), errors, before, jacobian, problem.rows, prior,
    )  # fmt: skip


def _unknown(problem: FitProblem, logs: Array, covariance: Array, meter: Meter) -> tuple[str, ...]:
    """Reason why the data do not determine a constant, for each constant; empty if the constant is determined."""
    lowest, reasons = problem.cost(logs), []
    for index in range(logs.size):
        error = float(np.sqrt(covariance[index, index]))
        learnt = 1.0 - (error / problem.spreads[index]) ** 2
        if min(logs[index] - problem.low[index], problem.high[index] - logs[index]) < 0.01:
            reasons.append("at its bound")
        elif problem.spreads[index] < 1e2 and learnt < _LEARNT:
            reasons.append("the measurements hardly determine it, so it stays near the base")
        elif problem.spreads[index] >= 1e2 and error > _KNOWN:
            vague = error > math.log(_MOST)
            reasons.append(
                "the measurements do not depend on it" if vague else f"known to a factor of {math.exp(error):.3g} only"
            )
        else:
            valley = covariance[:, index] / error
            rises = [
                problem.cost(np.clip(logs + sign * valley, problem.low, problem.high)) - lowest for sign in (-2.0, 2.0)
            ]
            flat = min(rises) < _FLAT * 2.0
            reasons.append("other constants compensate for it (flat likelihood)" if flat else "")
        meter.step()
        meter.step()
    return tuple(reasons)


#: Functions that return the cross-validation group of a measurement, by kind of group.
GROUPS: Mapping[Unlike, Callable[[Measurement], str]] = {
    "traffic": lambda row: f"{row.isl or row.context:g}/{row.osl or 0:g}",
    "version": version_of,
    "layout": layout_of,
    "subject": subject_of,
    "model": lambda row: row.model,
    "hardware": lambda row: row.hardware,
    "engine": lambda row: row.engine or UNKNOWN,
}
#: Maximum number of steps of a fit with known derivatives [1].
_HOLDOUT_STEPS = 100


@dataclass(frozen=True, slots=True)
class Fold:
    """One group of measurements that was left out of a fit, with its predictions.

    Attributes
    ----------
    by : str
        Kind of the left-out groups, a key of :data:`GROUPS`.
    left_out : str
        Property that the left-out measurements share, such as the name of a chip.
    values : ndarray, shape (n,)
        Constants fitted to all other measurements, in base units.
    errors : ndarray, shape (rows, targets)
        ln(predicted / measured) [1]; NaN if either is missing.
    rows : tuple of Measurement
        Left-out measurements.
    """

    by: Unlike
    left_out: str
    values: Array
    errors: Array
    rows: tuple[Measurement, ...]


def cross_validated(fitted: Fit, by: Unlike, *, progress: Progress | None = None) -> list[Fold]:
    """Predict each group of measurements with constants that were fitted to all other groups.

    Parameters
    ----------
    fitted : Fit
        Fit to all measurements.
    by : str
        Kind of the left-out groups, a key of :data:`GROUPS`.
    progress : callable, optional
        Function that receives the completed share of the work [1].

    Returns
    -------
    list of Fold
        Empty if there is only one group.

    Notes
    -----
    Each fit starts from the fit to all measurements and reuses its derivatives. Predictions of the left-out group are
    exact.
    """
    labels = np.array([GROUPS[by](row) for row in fitted.rows])
    groups = list(dict.fromkeys(labels.tolist()))
    folds: list[Fold] = []
    if len(groups) < 2:
        return folds
    problem, best = (
        problem_of(fitted.rows, fitted.names, fitted.base, fitted.targets, fitted.prior),
        np.log(fitted.values),
    )
    for number, group in enumerate(groups):
        if progress is not None:
            progress(number / len(groups), f"without {group}")
        out = labels == group
        rest = replace(problem, shares=np.where(out, 0.0, problem.shares))
        logs = rest.least(
            np.clip(best, rest.low + 1e-6, rest.high - 1e-6),
            lambda at: fitted.errors + fitted.jacobian @ (at - best),
            lambda _: fitted.jacobian,
            _HOLDOUT_STEPS,
        )
        held = tuple(row for row, is_out in zip(fitted.rows, out.tolist(), strict=True) if is_out)
        folds.append(Fold(by, group, np.exp(logs), replace(problem, rows=held).errors(logs), held))
    return folds


def all_folds(fitted: Fit, *, progress: Progress | None = None) -> dict[Unlike, list[Fold]]:
    """Folds of each key of :data:`GROUPS`; see :func:`cross_validated`."""
    return {by: cross_validated(fitted, by, progress=_part(progress, part)) for part, by in enumerate(GROUPS)}


def _part(progress: Progress | None, part: int) -> Progress | None:
    """Progress callback for one kind of group."""
    if progress is None:
        return None
    return lambda share, doing: progress((part + share) / len(GROUPS), doing)


def held_out(folds: Mapping[Unlike, Sequence[Fold]], by: Unlike, target: int) -> list[list[Array]]:
    """Errors ln(measured / predicted) of one target for left-out measurements [1].

    Parameters
    ----------
    folds : mapping
        Folds by key of :data:`GROUPS`.
    by : str
        Kind of the left-out groups, a key of :data:`GROUPS`.
    target : int
        Index of the target in the columns of the errors.

    Returns
    -------
    list of list of ndarray
        Errors by group and run. A run contains all measurements of a deployment under one engine version. For
        ``by="traffic"`` every run is a group; otherwise a group is a fold.
    """
    groups = [runs for fold in folds.get(by, ()) if (runs := _runs(fold, target))]
    return [[run] for runs in groups for run in runs] if by == "traffic" else groups


def _runs(fold: Fold, target: int) -> list[Array]:
    """Errors in a fold for each deployment and engine version, without NaN [1]."""
    runs: dict[tuple[str, str], list[float]] = {}
    for row, error in zip(fold.rows, (-fold.errors[:, target]).tolist(), strict=True):
        if np.isfinite(error):
            runs.setdefault((deployment_key(row), row.engine_version), []).append(error)
    return [np.array(errors) for errors in runs.values()]


def own_errors(fitted: Fit, target: int) -> list[list[Array]]:
    """In-sample errors of one target, widened by the uncertainty of the constants [1]."""
    constants = np.einsum("ri,ij,rj->r", fitted.jacobian[:, target], fitted.covariance, fitted.jacobian[:, target])
    scatter = TARGETS[fitted.targets[target]].scatter
    errors = -fitted.errors[:, target] * np.sqrt(1.0 + np.maximum(constants, 0.0) / scatter**2)
    finite = errors[np.isfinite(errors)]
    return [[finite]] if finite.size else []


#: Groups of runs; each run is a list of errors.
Groups = Sequence[Sequence[npt.ArrayLike]]
#: Outlier threshold [standard deviations]. One in 500 million normally distributed errors exceeds the threshold, and
#: one in a hundred errors with Student's t distribution (three degrees of freedom). The next values are the minimum
#: number of runs to detect outliers [1], and the minimum standard deviation [1].
_MISFIT, _TELLING, _NOISE = 6.0, 5, 0.05
#: Standard deviation over median absolute deviation, for normal errors [1].
_NORMAL = 1.4826
#: Number of groups at which the uncertainty of their spread equals the typical difference between a profile and its
#: base [1]. The log distance to the 10% and 90% quantiles of n normal errors has a variance of 0.9 / n. The log
#: distances of engine profiles have a variance of 0.23 around those of their chip generation
#: (docs/howto/confidence.md).
BASE_GROUPS = 4.0
#: Level of the intervals whose coverage is reported, and minimum distance of a quantile from the median [1].
_LEVEL, _LEAST = 0.8, 1e-3
#: Intraclass correlation of coverage within a run (``sh run.sh validate error-spreads``) [1].
_ALIKE = 0.4
#: Tail probabilities of a 95% interval [1].
_BEYOND = (0.025, 0.975)
_MIDDLE = LEVELS.index(0.5)
_SIDES = np.sign(np.asarray(LEVELS) - 0.5)


def error_quantiles(groups: Groups, base: Sequence[float] | None = None) -> tuple[float, ...] | None:
    """Quantiles of the prediction error of a new group, at :data:`LEVELS`.

    Parameters
    ----------
    groups : sequence of sequences of array_like
        Finite errors by group and run [1]; see :func:`inference_econ.extras.servers.fit.held_out`.
    base : sequence of float, optional
        Quantiles of the parent profile [1].

    Returns
    -------
    tuple of float or None
        Ascending quantiles [1]; None without errors.

    Notes
    -----
    The errors are cross-validated, so they include the uncertainty of the constants. With few groups, only a part of
    the median error shifts the interval. For a single group, the remaining part of the median error widens the interval
    on its side.

    Examples
    --------
    >>> error_quantiles([[[-0.2, 0.0, 0.2]]])
    (-0.18, -0.16, -0.1, 0.0, 0.1, 0.16, 0.18)
    """
    kept = without_misfits(groups)
    if not kept:
        return None
    quantiles = _of_all(groups, kept)
    middle = quantiles[_MIDDLE]
    distances = np.abs(quantiles - middle) * stretch(len(kept))
    if base is None:
        return _around(middle, distances)
    share = own_share(len(kept))
    doubted = (1.0 - share) * (middle - base[_MIDDLE])
    distances = _pooled(distances, np.abs(np.asarray(base) - base[_MIDDLE]), share)
    if len(kept) == 1:
        distances += np.maximum(_SIDES * doubted, 0.0)
    return _around(middle - doubted, distances)


def no_narrower(groups: Groups, base: Sequence[float]) -> tuple[float, ...] | None:
    """Error quantiles that are not narrower than those of the parent profile at any level.

    These quantiles apply if the errors contain no information on other groups. See :func:`error_quantiles` for
    parameters.
    """
    kept = without_misfits(groups)
    if not kept:
        return None
    quantiles = _of_all(groups, kept)
    distances = [np.abs(levels - levels[_MIDDLE]) for levels in (quantiles, np.asarray(base))]
    return _around(quantiles[_MIDDLE], np.maximum(*distances))


def _of_all(groups: Groups, kept: Groups) -> Array:
    """Quantiles of ``kept``, the errors without outliers. The levels account for the number of excluded errors.

    The size of an outlier has no effect.
    """
    share = joined(kept).size / joined(groups).size
    return np.quantile(joined(kept), np.clip(0.5 + (np.asarray(LEVELS) - 0.5) / share, 0.0, 1.0))


def _around(middle: float, distances: Array) -> tuple[float, ...]:
    # Errors are limited to a factor of e^10.
    return tuple(float(value) for value in (middle + _SIDES * distances).round(4).clip(-10.0, 10.0))


def _pooled(own: Array, base: Array, share: float) -> Array:
    """Weighted geometric mean of the error distances of a fit, with the weight ``share``, and of its base [1]."""
    logs = share * np.log(np.maximum(own, _LEAST)) + (1.0 - share) * np.log(np.maximum(base, _LEAST))
    return np.where(np.asarray(LEVELS) == 0.5, 0.0, np.exp(logs))


def own_share(groups: int) -> float:
    """Weight of a profile's own groups in its error intervals [1]. The base has the remaining weight."""
    return groups / (groups + BASE_GROUPS)


def stretch(groups: int) -> float:
    """Factor that widens the error quantiles of few groups, so that they apply to a new group [1].

    The factor is the quantile of Student's t for one more normal value, divided by the normal quantile. The factor is 1
    for a single group, because one group contains no information on other groups.

    Examples
    --------
    >>> [round(stretch(groups), 2) for groups in (1, 2, 3, 12, 60)]
    [1.0, 2.94, 1.7, 1.11, 1.02]
    """
    if groups < 2:
        return 1.0
    from scipy.stats import norm, t

    return float(t.ppf(0.9, groups - 1) / norm.ppf(0.9) * np.sqrt(1.0 + 1.0 / groups))


def without_misfits(groups: Groups) -> list[list[Array]]:
    """Remove outliers: runs whose median is far from that of all runs, and groups in which no other runs remain."""
    runs = [[np.asarray(run, dtype=float) for run in group] for group in groups]
    medians = np.array([np.median(run) for group in runs for run in group])
    if medians.size < _TELLING:
        return [group for group in runs if group]
    middle = float(np.median(medians))
    within_runs = np.concatenate([run - np.median(run) for group in runs for run in group])
    usual = _NORMAL * max(float(np.median(np.abs(medians - middle))), float(np.median(np.abs(within_runs))))
    most = _MISFIT * max(usual, _NOISE)
    kept = [[run for run in group if abs(float(np.median(run)) - middle) <= most] for group in runs]
    return [group for group in kept if group]


def joined(groups: Groups) -> Array:
    """Errors of all measurements, shape (n,) [1]."""
    runs = [np.asarray(run, dtype=float) for group in groups for run in group]
    return np.concatenate(runs) if runs else np.empty(0)


def coverage(groups: Groups, base: Sequence[float] | None = None, level: float = _LEVEL) -> float:
    """Share of errors inside an interval that was computed without their group; outliers are included [1].

    Parameters
    ----------
    groups, base
        See :func:`error_quantiles`.
    level : float
        Nominal share [1].

    Returns
    -------
    float
        NaN with fewer than two groups.
    """
    held = held_by_run(groups, base, level)
    return float(np.mean(joined(held))) if held else float("nan")


def held_by_run(
    groups: Groups, base: Sequence[float] | None = None, level: float = _LEVEL
) -> list[list[npt.NDArray[np.bool_]]]:
    """Check whether each error is inside an interval that was computed without the group of the error.

    See :func:`coverage`. The list is empty with fewer than two groups.
    """
    held = []
    for index, group in enumerate(groups if len(groups) > 1 else ()):
        quantiles = error_quantiles([*groups[:index], *groups[index + 1 :]], base) or (0.0,) * len(LEVELS)
        low, high = likely_ends(quantiles, level)
        runs = [np.asarray(run, dtype=float) for run in group]
        held.append([(run >= low) & (run <= high) for run in runs])
    return held


def by_chance(sizes: Sequence[float], level: float = _LEVEL) -> tuple[float, float]:
    """Range that contains the share of covered measurements with 95% probability, if the interval is correct.

    Parameters
    ----------
    sizes : sequence of float
        Number of measurements in each run, or in each left-out group of another kind; at least one number [1].
    level : float
        Nominal share [1].

    Returns
    -------
    (float, float)
        Quantiles of 2.5 and 97.5% [1].

    Notes
    -----
    Measurements of a run are correlated. With intraclass correlation r, n measurements in runs of k have the variance
    of n / (1 + (k - 1) r) independent ones (Kish's design effect). A beta distribution of that mean and variance
    approximates the share.

    The continuous distribution understates the probability that all or no measurements are covered. The upper limit is
    therefore 1 if an equivalent number of independent measurements could all be inside the interval. The lower limit is
    0 if all could be outside.

    Examples
    --------
    >>> [round(end, 2) for end in by_chance([1] * 100)]
    [0.72, 0.87]
    >>> [round(end, 2) for end in by_chance([5, 5, 5])]
    [0.39, 1.0]
    """
    from scipy.stats import beta

    rows = np.asarray(sizes, dtype=float)
    alone = float(rows.sum() ** 2 / np.sum(rows * (1.0 + (rows - 1.0) * _ALIKE)))
    none, every = (1.0 - level) ** alone, level**alone
    low, high = beta.ppf(_BEYOND, level * (alone - 1.0), (1.0 - level) * (alone - 1.0)) if alone > 1.0 else (0.0, 1.0)
    return 0.0 if none > _BEYOND[0] else float(low), 1.0 if every > _BEYOND[0] else float(high)
