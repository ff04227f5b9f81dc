"""Predict measurements by a fit to the others: errors of what a fit has not seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from inference_econ._types import Array, Progress
from inference_econ.calibration.fit import Fit
from inference_econ.calibration.measurements import Measurement
from inference_econ.calibration.problem import TARGETS, problem_of
from inference_econ.calibration.rows import deployment_key
from inference_econ.calibration.subjects import layout_of, subject_of, version_of
from inference_econ.engine import UNKNOWN
from inference_econ.inputs import Unlike

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
_STEPS = 100


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
