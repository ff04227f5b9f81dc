"""Quantiles of errors for a server that a fit has not seen, from those of servers that it had not seen either.

What counts is the median of the errors, and how far their quantiles are from it: those of the rows, of which misfits
are left out; stretched, as groups of rows are few; and, the fewer groups there are, the nearer to those of the base,
which was fitted to more engines or chips. docs/howto/confidence.md derives each of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.inputs import LEVELS, likely_ends

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
_MIDDLE = LEVELS.index(0.5)


def error_quantiles(groups: Groups, base: Sequence[float] | None = None) -> tuple[float, ...] | None:
    """Quantiles at :data:`LEVELS` of the errors of a group that is not among those that are known.

    Parameters
    ----------
    groups : sequence of sequences of array_like
        Errors by group and run, finite [1]; see :func:`inference_econ.calibration.holdout.held_out`.
    base : sequence of float, optional
        Such quantiles of what the fit began with [1].

    Returns
    -------
    tuple of float or None
        Ascending; None without errors [1].

    Notes
    -----
    The errors are those of predictions with constants that other rows gave, so that what the constants are uncertain
    by, which their covariance says, is in them already, and is not added again.

    Examples
    --------
    >>> error_quantiles([[[-0.2, 0.0, 0.2]]])
    (-0.18, -0.16, -0.1, 0.0, 0.1, 0.16, 0.18)
    """
    kept = without_misfits(groups)
    if not kept:
        return None
    quantiles = np.quantile(joined(kept), LEVELS)
    middle = quantiles[_MIDDLE]
    distances = np.abs(quantiles - middle) * stretch(len(kept))
    if base is not None:
        distances = _pooled(distances, np.abs(np.asarray(base) - base[_MIDDLE]), own_share(len(kept)))
    return _around(middle, distances)


def no_narrower(groups: Groups, base: Sequence[float]) -> tuple[float, ...] | None:
    """Quantiles around the median of errors that say nothing of how far other groups are off: of these, or of the base.

    At each level the further of both; see :func:`error_quantiles` for parameters.
    """
    kept = without_misfits(groups)
    if not kept:
        return None
    quantiles = np.quantile(joined(kept), LEVELS)
    distances = [np.abs(levels - levels[_MIDDLE]) for levels in (quantiles, np.asarray(base))]
    return _around(quantiles[_MIDDLE], np.maximum(*distances))


def _around(middle: float, distances: Array) -> tuple[float, ...]:
    signs = np.sign(np.asarray(LEVELS) - 0.5)
    # Beyond a factor of e^10 nothing is said of errors.
    return tuple(float(value) for value in (middle + signs * distances).round(4).clip(-10.0, 10.0))


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
    if len(groups) < 2:
        return float("nan")
    inside = 0
    for index, group in enumerate(groups):
        quantiles = error_quantiles([*groups[:index], *groups[index + 1 :]], base) or (0.0,) * len(LEVELS)
        low, high = likely_ends(quantiles, level)
        errors = joined([group])
        inside += int(np.sum((errors >= low) & (errors <= high)))
    return inside / joined(groups).size
