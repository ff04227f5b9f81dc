"""Predict measurements by a fit to the others: errors of what a fit has not seen (floor 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from inference_econ.calibration import Fit
from inference_econ.fitting import TARGETS, Progress, problem_of
from inference_econ.measurements import Measurement
from inference_econ.spec.calibration import LEVELS

Array = npt.NDArray[np.float64]

#: What rows may have in common that are left out together.
GROUPS: Mapping[str, Callable[[Measurement], str]] = {
    "hardware": lambda row: row.hardware,
    "model": lambda row: row.model,
    "subject": lambda row: " ".join((row.engine or "unknown engine", row.hardware, row.model)),
    "traffic": lambda row: f"{row.isl or row.context:g}/{row.osl or 0:g}, tp {row.tp}, dp {row.dp}",
}
#: Steps of a fit whose derivatives are known already [1].
_STEPS = 100


@dataclass(frozen=True, slots=True)
class Fold:
    """Rows that were predicted by a fit to the others.

    Attributes
    ----------
    by, left_out : str
        Key of :data:`GROUPS`, and what they have in common.
    values : ndarray, shape (n,)
        Constants that the others give, in base units.
    errors : ndarray, shape (rows, targets)
        ln(predicted / measured) [1]; NaN where one of the two is missing.
    rows : tuple of Measurement
        Those left out.
    """

    by: str
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
        Key of :data:`GROUPS`.
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
    labels = np.array([GROUPS[by](row) for row in found.rows])
    groups = list(dict.fromkeys(labels.tolist()))
    folds: list[Fold] = []
    if len(groups) < 2:
        return folds
    problem, best = problem_of(found.rows, found.names, found.base, found.targets, found.prior), np.log(found.values)
    for number, group in enumerate(groups):
        if progress is not None:
            progress(number / len(groups), f"without {group}")
        out = labels == group
        rest = replace(problem, shares=np.where(out, 0.0, problem.shares))
        logs = rest.least(
            np.clip(best, rest.low + 1e-6, rest.high - 1e-6),
            lambda at: found.errors + found.jacobian @ (at - best),
            lambda _: found.jacobian,
            _STEPS,
        )
        held = tuple(row for row, one in zip(found.rows, out.tolist(), strict=True) if one)
        folds.append(Fold(by, group, np.exp(logs), replace(problem, rows=held).errors(logs), held))
    return folds


def unseen(found: Fit, *, progress: Progress | None = None) -> list[Fold]:
    """Folds whose errors stand for those of questions that nobody measured: subjects, or else traffic, left out."""
    return cross_validated(found, "subject", progress=progress) or cross_validated(found, "traffic", progress=progress)


def unseen_errors(found: Fit, folds: Sequence[Fold]) -> Array:
    """ln(measured / predicted) of rows that the fit had not seen [1], shape (n, targets); NaN where missing.

    Without folds, the fit's own errors, widened by what the errors of its constants add.
    """
    if folds:
        return -np.concatenate([fold.errors for fold in folds])
    constants = np.einsum("rti,ij,rtj->rt", found.jacobian, found.covariance, found.jacobian)
    scatters = np.array([TARGETS[target].scatter for target in found.targets])
    return np.asarray(-found.errors * np.sqrt(1.0 + np.maximum(constants, 0.0) / scatters**2))


def error_quantiles(errors: npt.ArrayLike, groups: int = 0) -> tuple[float, ...] | None:
    """Quantiles of some errors at :data:`LEVELS`, None if there are none; NaN counts as none.

    Parameters
    ----------
    errors : array_like, shape (n,)
        [1]
    groups : int
        That the errors are of, alike within a group; fewer than two: as many as there are errors [1].

    Notes
    -----
    A new group may be further off than the few that are known: distances from the median are widened as for the
    prediction of a normal variable from so many, by Student's t for 80 %.

    Examples
    --------
    >>> error_quantiles([-0.2, 0.0, 0.2])
    (-0.18, -0.16, -0.1, 0.0, 0.1, 0.16, 0.18)
    >>> error_quantiles([-0.2, 0.0, 0.2], groups=3)
    (-0.3058, -0.2718, -0.1699, 0.0, 0.1699, 0.2718, 0.3058)
    """
    given = np.asarray(errors, dtype=float)
    known = given[np.isfinite(given)]
    if not known.size:
        return None
    found, middle = np.quantile(known, LEVELS), float(np.median(known))
    return tuple(float(value) for value in (middle + (found - middle) * _widening(groups)).round(4))


def _widening(groups: int) -> float:
    if groups < 2:
        return 1.0
    from scipy.stats import norm, t

    return float(t.ppf(0.9, groups - 1) / norm.ppf(0.9) * np.sqrt(1.0 + 1.0 / groups))


def coverage(folds: Sequence[Fold], target: int, level: float = 0.8) -> float:
    """Share of the rows left out whose value is in an interval made from the errors of the other folds [1].

    Parameters
    ----------
    folds : sequence of Fold
        From one division of the rows.
    target : int
        Column of their errors.
    level : float
        Share that should be [1].

    Returns
    -------
    float
        NaN with fewer than two folds that have the target.
    """
    columns = [-fold.errors[:, target] for fold in folds]
    columns = [column[np.isfinite(column)] for column in columns]
    columns = [column for column in columns if column.size]
    if len(columns) < 2:
        return float("nan")
    inside = 0
    for index, column in enumerate(columns):
        others = [other for number, other in enumerate(columns) if number != index]
        quantiles = error_quantiles(np.concatenate(others), len(others))
        low, high = np.interp([(1.0 - level) / 2.0, (1.0 + level) / 2.0], LEVELS, quantiles or (0.0,))
        inside += int(np.sum((column >= low) & (column <= high)))
    return inside / sum(column.size for column in columns)
