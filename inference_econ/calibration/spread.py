"""Quantiles of errors for a server that a fit has not seen, from those of servers that it had not seen either.

What counts is the median of the errors, and how far their quantiles are from it: those of the rows, of which misfits
are left out but counted; stretched, as groups of rows are few; and, the fewer groups there are, the nearer to those of
the base, which was fitted to more engines or chips. docs/howto/confidence.md derives each of them. How many errors an
interval holds is a share of rows that go together by runs: :func:`by_chance` says how far that may be from what it
should be.
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
