"""Predict measurements by a fit to the others: errors of what a fit has not seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array, Progress
from inference_econ.calibration.fit import Fit
from inference_econ.calibration.measurements import Measurement
from inference_econ.calibration.problem import TARGETS, problem_of
from inference_econ.calibration.subjects import layout_of, subject_of, version_of
from inference_econ.engine import UNKNOWN
from inference_econ.inputs import LEVELS, Unlike

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
#: Groups that are many, and differ little beside the rows of each: their rows are looked at one by one.
_ALIKE: tuple[Unlike, ...] = ("traffic", "version", "layout")
#: Steps of a fit whose derivatives are known already [1].
_STEPS = 100
#: Errors that a new group is held against: those of intervals of 80 % [1].
_LEVEL, _MIDDLE, _LEAST = 0.8, LEVELS.index(0.5), 1e-3


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
            _STEPS,
        )
        held = tuple(row for row, is_out in zip(fitted.rows, out.tolist(), strict=True) if is_out)
        folds.append(Fold(by, group, np.exp(logs), replace(problem, rows=held).errors(logs), held))
    return folds


def all_folds(fitted: Fit, *, progress: Progress | None = None) -> dict[Unlike, list[Fold]]:
    """Each key of :data:`GROUPS` with its folds; see :func:`cross_validated`."""
    return {by: cross_validated(fitted, by, progress=_part(progress, part)) for part, by in enumerate(GROUPS)}


def _part(progress: Progress | None, part: int) -> Progress | None:
    """What tells one of the kinds of groups as a part of the whole."""
    if progress is None:
        return None
    return lambda share, doing: progress((part + share) / len(GROUPS), doing)


def held_out(folds: Mapping[Unlike, Sequence[Fold]], by: Unlike, target: int) -> list[Array]:
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
    list of ndarray
        One for each fold that has the target.
    """
    columns = [-fold.errors[:, target] for fold in folds.get(by, ())]
    known = [column[np.isfinite(column)] for column in columns]
    return [column for column in known if column.size]


def left_out_quantiles(groups: Sequence[Array], by: Unlike) -> tuple[float, ...] | None:
    """The :func:`error_quantiles` of rows that were left out together, by what they have in common.

    Models, chips, engines and their combinations are few and each is off by an amount of its own, so that a new one may
    be further off than those that are known. Traffic, versions and layouts differ little beside their rows.
    """
    return error_quantiles([np.concatenate(groups)] if by in _ALIKE and groups else groups)


def own_errors(fitted: Fit, target: int) -> list[Array]:
    """The fit's own errors of one target, widened by those of its constants, where nothing could be left out [1]."""
    constants = np.einsum("ri,ij,rj->r", fitted.jacobian[:, target], fitted.covariance, fitted.jacobian[:, target])
    scatter = TARGETS[fitted.targets[target]].scatter
    errors = -fitted.errors[:, target] * np.sqrt(1.0 + np.maximum(constants, 0.0) / scatter**2)
    known = errors[np.isfinite(errors)]
    return [known] if known.size else []


def error_quantiles(groups: Sequence[npt.ArrayLike]) -> tuple[float, ...] | None:
    """Quantiles at :data:`LEVELS` of errors that are alike within a group, for a group that is not among them.

    Parameters
    ----------
    groups : sequence of array_like
        Errors of each, finite [1].

    Returns
    -------
    tuple of float or None
        None without groups [1].

    Notes
    -----
    A new group may be further off than those that are known. So every group is left out once, and the distances from
    the median are stretched by what an interval of 80 %, made from the others, needs to hold 80 % of all rows: the
    conformal argument for groups [1]_. Of two groups it is the stretch for one more normal variable after so many
    (Student's t).

    The errors are those of predictions with constants that other rows gave, so that what the constants are uncertain
    by, which their covariance says, is in them already, and is not added again.

    .. [1] Vovk, Gammerman, Shafer, Algorithmic Learning in a Random World, 2005; cross-conformal intervals.

    Examples
    --------
    >>> error_quantiles([[-0.2, 0.0, 0.2]])
    (-0.18, -0.16, -0.1, 0.0, 0.1, 0.16, 0.18)
    """
    errors = [np.asarray(group, dtype=float) for group in groups]
    if not errors:
        return None
    quantiles = np.quantile(np.concatenate(errors), LEVELS)
    middle = quantiles[_MIDDLE]
    stretch = 1.0
    if len(errors) == 2:
        stretch = _widening(2)
    if len(errors) > 2:
        stretch = float(np.quantile(np.concatenate([_needed(errors, index) for index in range(len(errors))]), _LEVEL))
    # Beyond a factor of e^10 nothing is said of errors.
    return tuple(float(value) for value in (middle + (quantiles - middle) * stretch).round(4).clip(-10.0, 10.0))


def _needed(groups: Sequence[Array], index: int) -> Array:
    """How much the interval made without a group must be stretched to hold each of its errors [1]."""
    quantiles = np.quantile(np.concatenate([*groups[:index], *groups[index + 1 :]]), LEVELS)
    below, middle, above = quantiles[LEVELS.index(0.1)], quantiles[_MIDDLE], quantiles[LEVELS.index(0.9)]
    distances: Array = groups[index] - middle
    sides = np.where(distances > 0.0, max(above - middle, _LEAST), max(middle - below, _LEAST))
    return np.asarray(np.abs(distances) / sides)


def _widening(groups: int) -> float:
    from scipy.stats import norm, t

    return float(t.ppf(0.9, groups - 1) / norm.ppf(0.9) * np.sqrt(1.0 + 1.0 / groups))


def coverage(groups: Sequence[Array], by: Unlike, level: float = _LEVEL) -> float:
    """Share of the errors that are in an interval made from the other groups [1].

    Parameters
    ----------
    groups : sequence of ndarray
        See :func:`held_out`.
    by : str
        What each has in common; see :func:`left_out_quantiles`.
    level : float
        Share that should be [1].

    Returns
    -------
    float
        NaN with fewer than two groups.
    """
    if len(groups) < 2:
        return float("nan")
    inside = 0
    for index, group in enumerate(groups):
        quantiles = left_out_quantiles([*groups[:index], *groups[index + 1 :]], by) or (0.0,)
        low, high = np.interp([(1.0 - level) / 2.0, (1.0 + level) / 2.0], LEVELS, quantiles)
        inside += int(np.sum((group >= min(low, 0.0)) & (group <= max(high, 0.0))))
    return inside / sum(group.size for group in groups)
