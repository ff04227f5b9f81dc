"""Fit assumptions to measurements: bounded, in logarithms, robust, and honest about what is not known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from inference_econ import _work
from inference_econ._types import Array, Progress
from inference_econ.engine import UNKNOWN
from inference_econ.errors import InputError
from inference_econ.extras.servers.accuracy import deployment_key, layout_of, subject_of, version_of
from inference_econ.extras.servers.measurements import Measurement
from inference_econ.extras.servers.prediction.predict import predict
from inference_econ.extras.servers.problem import (
    CONSTANTS,
    TARGETS,
    FitProblem,
    Meter,
    log_ratios,
    problem_of,
    with_constants,
)
from inference_econ.inputs import LEVELS, Assumptions, Unlike, likely_ends

#: A constant is known if the rows bring its variance below this share of the one it had before, or if nothing was
#: known before, its logarithm to this standard error [1].
_LEARNT, _KNOWN = 0.5, 0.5
#: A constant of which no more than this factor is known is not determined at all [1].
_MOST = 1000.0
#: Most steps of the search; each predicts all rows once for each constant [1].
_STEPS = 12
#: Time of a row and a constant, fits without some of the rows included [s].
_SECONDS = 0.075
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
    base_errors : ndarray, shape (rows, targets)
        The same of the base [1].
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
    base_errors: Array
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

    Returns
    -------
    Fit
        Bounded by :data:`CONSTANTS`.

    Raises
    ------
    InputError
        If a name cannot be fitted, or there are too few rows for the constants.
    TooMuchError
        If it would take too long.

    Notes
    -----
    Most likely values for errors of the logarithms that are Cauchy-distributed (rows far off pull hardly at all) and
    log-normal priors. Of n rows of one engine, model and chip, the square root of n counts: their errors are alike.
    SciPy's trust-region reflective method; the covariance is the inverse of the Gauss-Newton matrix at the optimum.
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
    logs = problem.solve(problem.start, _STEPS, meter)
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
    """Why a constant is not determined; a profile of the likelihood is followed along the linearised valley."""
    lowest, reasons = problem.cost(logs), []
    for index in range(logs.size):
        error = float(np.sqrt(covariance[index, index]))
        learnt = 1.0 - (error / problem.spreads[index]) ** 2
        if min(logs[index] - problem.low[index], problem.high[index] - logs[index]) < 0.01:
            reasons.append("at its bound")
        elif problem.spreads[index] < 1e2 and learnt < _LEARNT:
            reasons.append("the rows say little about it: mostly the base's value")
        elif problem.spreads[index] >= 1e2 and error > _KNOWN:
            vague = error > math.log(_MOST)
            reasons.append("the rows do not see it" if vague else f"known to a factor of {math.exp(error):.3g} only")
        else:
            valley = covariance[:, index] / error
            rises = [
                problem.cost(np.clip(logs + sign * valley, problem.low, problem.high)) - lowest for sign in (-2.0, 2.0)
            ]
            flat = min(rises) < _FLAT * 2.0
            reasons.append("others make up for it: the likelihood is flat" if flat else "")
        meter.step()
        meter.step()
    return tuple(reasons)


#: What rows may have in common that are left out together.
GROUPS: Mapping[Unlike, Callable[[Measurement], str]] = {
    "traffic": lambda row: f"{row.isl or row.context:g}/{row.osl or 0:g}",
    "version": version_of,
    "layout": layout_of,
    "subject": subject_of,
    "model": lambda row: row.model,
    "hardware": lambda row: row.hardware,
    "engine": lambda row: row.engine or UNKNOWN,
}
#: Steps of a fit whose derivatives are known already [1].
_HOLDOUT_STEPS = 100


@dataclass(frozen=True, slots=True)
class Fold:
    """Rows that were predicted by a fit to the others.

    Attributes
    ----------
    by : str
        Key of :data:`GROUPS`.
    left_out : str
        What they have in common.
    values : ndarray, shape (n,)
        Constants that the others give, in base units.
    errors : ndarray, shape (rows, targets)
        ln(predicted / measured) [1]; NaN where one of the two is missing.
    rows : tuple of Measurement
        Those left out.
    """

    by: Unlike
    left_out: str
    values: Array
    errors: Array
    rows: tuple[Measurement, ...]


def cross_validated(fitted: Fit, by: Unlike, *, progress: Progress | None = None) -> list[Fold]:
    """Predict each group of rows by a fit to all others.

    Parameters
    ----------
    fitted : Fit
        To all rows.
    by : str
        Key of :data:`GROUPS`.
    progress : callable, optional
        Told the share of the work done.

    Returns
    -------
    list of Fold
        Empty if all rows are of one group.

    Notes
    -----
    Each fit begins at the one to all rows, whose derivatives it uses; the predictions for the rows left out are exact.
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
    """Each key of :data:`GROUPS` with its folds; see :func:`cross_validated`."""
    return {by: cross_validated(fitted, by, progress=_part(progress, part)) for part, by in enumerate(GROUPS)}


def _part(progress: Progress | None, part: int) -> Progress | None:
    """Progress of one of the kinds of groups as a part of the whole."""
    if progress is None:
        return None
    return lambda share, doing: progress((part + share) / len(GROUPS), doing)


def held_out(folds: Mapping[Unlike, Sequence[Fold]], by: Unlike, target: int) -> list[list[Array]]:
    """ln(measured / predicted) of one target for rows that the fit had not seen [1].

    Parameters
    ----------
    folds : mapping
        By key of :data:`GROUPS`.
    by : str
        Such a key.
    target : int
        Column of the errors.

    Returns
    -------
    list of list of ndarray
        Groups that a new server is one more of, with the errors of each of their runs: a deployment under one version
        of its engine. What differs in its traffic alone is a run itself; otherwise a group is what a fit left out.
    """
    groups = [runs for fold in folds.get(by, ()) if (runs := _runs(fold, target))]
    return [[run] for runs in groups for run in runs] if by == "traffic" else groups


def _runs(fold: Fold, target: int) -> list[Array]:
    """The errors of each deployment under one version of its engine, of those that are known [1]."""
    runs: dict[tuple[str, str], list[float]] = {}
    for row, error in zip(fold.rows, (-fold.errors[:, target]).tolist(), strict=True):
        if np.isfinite(error):
            runs.setdefault((deployment_key(row), row.engine_version), []).append(error)
    return [np.array(errors) for errors in runs.values()]


def own_errors(fitted: Fit, target: int) -> list[list[Array]]:
    """The fit's own errors of one target, widened by those of its constants, where nothing could be left out [1]."""
    constants = np.einsum("ri,ij,rj->r", fitted.jacobian[:, target], fitted.covariance, fitted.jacobian[:, target])
    scatter = TARGETS[fitted.targets[target]].scatter
    errors = -fitted.errors[:, target] * np.sqrt(1.0 + np.maximum(constants, 0.0) / scatter**2)
    finite = errors[np.isfinite(errors)]
    return [[finite]] if finite.size else []


#: Groups of runs, as lists of the errors of each run.
Groups = Sequence[Sequence[npt.ArrayLike]]
#: Standard deviations beyond which a run is a misfit: of normal errors one in 500 million, of Student's t with three
#: degrees of freedom one in a hundred; at least so many runs tell a misfit from others; and differences that nobody
#: measures [1].
_MISFIT, _TELLING, _NOISE = 6.0, 5, 0.05
#: A standard deviation over the median absolute deviation of normal errors [1].
_NORMAL = 1.4826
#: Groups whose distances are as uncertain as those of a profile differ from its base's. The logarithm of a distance to
#: the quantiles of 10 and 90 % of n normal errors has a variance of 0.9 / n; those of engines on a generation of chips
#: have one of 0.23 around the generation's (docs/howto/confidence.md) [1].
BASE_GROUPS = 4.0
#: Share of an interval that coverage is counted of, and distances that are as good as none [1].
_LEVEL, _LEAST = 0.8, 1e-3
#: Intraclass correlation of being held: by how much rows of a run go together (``sh run.sh error-spreads``) [1].
_ALIKE = 0.4
#: Shares of samples that have less and more than what chance leaves [1].
_BEYOND = (0.025, 0.975)
_MIDDLE = LEVELS.index(0.5)
_SIDES = np.sign(np.asarray(LEVELS) - 0.5)


def error_quantiles(groups: Groups, base: Sequence[float] | None = None) -> tuple[float, ...] | None:
    """Quantiles at :data:`LEVELS` of the errors of a group that is not among those that are known.

    Parameters
    ----------
    groups : sequence of sequences of array_like
        Errors by group and run, finite [1]; see :func:`inference_econ.extras.servers.fit.held_out`.
    base : sequence of float, optional
        Such quantiles of what the fit began with [1].

    Returns
    -------
    tuple of float or None
        Ascending; None without errors [1].

    Notes
    -----
    The errors are those of predictions with constants that other rows gave, so that what the constants are uncertain
    by, which their covariance says, is in them already, and is not added again. Of a bias that the base does not have,
    a part is believed of few groups; what is left of that of a single one, of which no stretch says how others differ,
    widens the interval on its side.

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
    """Quantiles around the median of errors that say nothing of how far other groups are off: of these, or of the base.

    At each level the further of both; see :func:`error_quantiles` for parameters.
    """
    kept = without_misfits(groups)
    if not kept:
        return None
    quantiles = _of_all(groups, kept)
    distances = [np.abs(levels - levels[_MIDDLE]) for levels in (quantiles, np.asarray(base))]
    return _around(quantiles[_MIDDLE], np.maximum(*distances))


def _of_all(groups: Groups, kept: Groups) -> Array:
    """Quantiles of the errors that are kept between which lie as many of all errors as there should, misfits included.

    How far off misfits are moves none of them, how many they are does.
    """
    share = joined(kept).size / joined(groups).size
    return np.quantile(joined(kept), np.clip(0.5 + (np.asarray(LEVELS) - 0.5) / share, 0.0, 1.0))


def _around(middle: float, distances: Array) -> tuple[float, ...]:
    # Beyond a factor of e^10 nothing is said of errors.
    return tuple(float(value) for value in (middle + _SIDES * distances).round(4).clip(-10.0, 10.0))


def _pooled(own: Array, base: Array, share: float) -> Array:
    """Distances between those of a profile and those of its base: means of their logarithms by share [1]."""
    logs = share * np.log(np.maximum(own, _LEAST)) + (1.0 - share) * np.log(np.maximum(base, _LEAST))
    return np.where(np.asarray(LEVELS) == 0.5, 0.0, np.exp(logs))


def own_share(groups: int) -> float:
    """Weight that the groups of a profile have beside its base [1]."""
    return groups / (groups + BASE_GROUPS)


def stretch(groups: int) -> float:
    """Factor by which further from the middle a new group may be than those that are known, as these are few [1].

    The quantile of Student's t for one more normal variable after so many, over the normal one. A single group says
    nothing of others: 1.

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
    """Groups without runs whose median is far beyond those of the others, and without groups of nothing else."""
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
    """The errors of all rows, shape (n,) [1]."""
    runs = [np.asarray(run, dtype=float) for group in groups for run in group]
    return np.concatenate(runs) if runs else np.empty(0)


def coverage(groups: Groups, base: Sequence[float] | None = None, level: float = _LEVEL) -> float:
    """Share of all errors, misfits included, that are in an interval made from the other groups [1].

    Parameters
    ----------
    groups, base
        As in :func:`error_quantiles`.
    level : float
        Share that should be [1].

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
    """Whether each error lies in an interval made from the other groups, by group and run; see :func:`coverage`.

    Empty with fewer than two groups.
    """
    held = []
    for index, group in enumerate(groups if len(groups) > 1 else ()):
        quantiles = error_quantiles([*groups[:index], *groups[index + 1 :]], base) or (0.0,) * len(LEVELS)
        low, high = likely_ends(quantiles, level)
        runs = [np.asarray(run, dtype=float) for run in group]
        held.append([(run >= low) & (run <= high) for run in runs])
    return held


def by_chance(sizes: Sequence[float], level: float = _LEVEL) -> tuple[float, float]:
    """Between which shares of rows an interval that should hold a share of them does in nineteen samples of twenty.

    Parameters
    ----------
    sizes : sequence of float
        Rows of each run, or of what else was left out together, at least one [1].
    level : float
        Share that should be held [1].

    Returns
    -------
    (float, float)
        Quantiles of 2.5 and 97.5 % [1].

    Notes
    -----
    Rows of a run are held or not together. With an intraclass correlation r, a share of n rows in runs of k has the
    variance of one of n / (1 + (k - 1) r) rows by themselves (Kish's design effect); the beta distribution of that
    mean and variance is what its share follows, as far as two moments say. All or none of few rows are held more often
    than that, as it is continuous: an end is 1 or 0 where so many by themselves all would be, or none.

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
