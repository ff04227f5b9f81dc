"""Speeds that tables of several frontiers show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inference_econ._types import Array
from inference_econ.answers.serving_frontier import SLOWEST

#: Speeds that a table shows, times powers of ten [tokens/s].
_ROUND = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
_MOST = 5
#: Slower speeds are not sold, and shown only where nothing is faster [tokens/s].
_SOLD = 1.0 / SLOWEST


def common_speeds(frontiers: Sequence[Array]) -> list[float]:
    """Round speeds that somebody sells, from the slowest to the fastest point of some frontiers.

    Parameters
    ----------
    frontiers : sequence of ndarray
        Speeds of the points of each, ascending [tokens/s per user].

    Returns
    -------
    list of float
        A few, ascending; the fastest speed if no round one lies between [tokens/s per user].

    Examples
    --------
    >>> common_speeds([np.array([14.0, 90.0]), np.array([20.0, 160.0])])
    [15.0, 30.0, 50.0, 70.0, 150.0]
    """
    high = max(float(speeds[-1]) for speeds in frontiers)
    slowest = min(float(speeds[0]) for speeds in frontiers)
    low = max(slowest, _SOLD) if high > _SOLD else slowest
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    between = [speed for decade in decades for digit in _ROUND if low <= (speed := digit * 10.0**decade) <= high]
    if not between:
        return [high]
    chosen = np.linspace(0, len(between) - 1, min(_MOST, len(between))).round().astype(int)
    return [between[index] for index in np.unique(chosen)]
