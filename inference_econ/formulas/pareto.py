"""Find Pareto-optimal points, and interpolate along frontiers and curves."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array, Indices


def undominated(seconds: npt.ArrayLike, dollars: npt.ArrayLike) -> Indices:
    """Indices of the Pareto-optimal points in time and cost.

    Parameters
    ----------
    seconds : array_like, shape (n,)
        Time per token [s]; smaller is better.
    dollars : array_like, shape (n,)
        Cost [USD]; smaller is better.

    Returns
    -------
    ndarray, shape (m,)
        Indices of the points, ascending in seconds and strictly descending in dollars. Only the first of several equal
        points is included.

    Notes
    -----
    Points are sorted by time; a point is Pareto-optimal if its cost is below the cost of all faster points. The run
    time is O(n log n).

    Examples
    --------
    >>> undominated([3.0, 1.0, 2.0, 2.5], [1.0, 9.0, 4.0, 5.0])
    array([1, 2, 0])
    """
    time, cost = np.asarray(seconds, dtype=float), np.asarray(dollars, dtype=float)
    order = np.lexsort((cost, time))
    sorted_cost = cost[order]
    best_before = np.minimum.accumulate(np.concatenate(([np.inf], sorted_cost[:-1])))
    return order[sorted_cost < best_before]


def ceiling(
    frontier_seconds: npt.ArrayLike, frontier_dollars: npt.ArrayLike, dollars_per_second: npt.ArrayLike
) -> Array:
    """Longest time for which no frontier point dominates a point whose cost is proportional to its time.

    Parameters
    ----------
    frontier_seconds, frontier_dollars : array_like, shape (m,)
        Frontier, ascending in seconds [s] and descending in dollars [USD].
    dollars_per_second : array_like, shape (...)
        Cost of each point per time [USD/s].

    Returns
    -------
    ndarray, shape (...)
        Time limit [s]. At longer times, some frontier point is at least as fast and as cheap. ``inf`` without a
        frontier.

    Notes
    -----
    The result is the minimum over i of max(tau_i, c_i / r), with the times tau_i, costs c_i and cost rate r. Since tau
    ascends and c descends, only the two points next to tau_i = c_i / r matter.

    Examples
    --------
    >>> ceiling([1.0, 2.0], [8.0, 2.0], [1.0, 4.0, 100.0])
    array([2., 2., 1.])
    """
    time = np.concatenate(([0.0], np.asarray(frontier_seconds, dtype=float), [np.inf]))
    cost = np.concatenate(([np.inf], np.asarray(frontier_dollars, dtype=float), [0.0]))
    rate = np.asarray(dollars_per_second, dtype=float)
    after = np.searchsorted(-(cost[1:-1] / time[1:-1]), -rate) + 1
    return np.asarray(np.minimum(time[after], cost[after - 1] / rate))


def sampled(seconds: npt.ArrayLike, points: int, decades: float) -> Indices:
    """Cheapest points of a frontier at logarithmically spaced latency limits.

    Parameters
    ----------
    seconds : array_like, shape (m,)
        Times of an exact frontier, ascending [s].
    points : int
        Number of latency limits [1].
    decades : float
        Range of the latency limits above the smallest time, as a power of ten [1].

    Returns
    -------
    ndarray, shape (k,)
        Indices of the cheapest frontier points within each latency limit, without repetitions.

    Notes
    -----
    The published code of Erdil (2025) uses 1,000 limits over two decades. On an exact frontier, the cheapest point
    within a limit is the slowest point within the limit, so one binary search per limit is sufficient.

    Examples
    --------
    >>> sampled([1.0, 2.0, 2.1, 50.0, 300.0], points=3, decades=2)
    array([0, 2, 3])
    """
    time = np.asarray(seconds, dtype=float)
    if time.size == 0:
        return np.empty(0, dtype=np.intp)
    limits = time[0] * 10.0 ** np.linspace(0.0, decades, points)
    return np.unique(np.searchsorted(time, limits, side="right") - 1)


def crossed(x: npt.ArrayLike, y: npt.ArrayLike, at: float) -> Array:
    """Interpolate curves at an abscissa, for each pair of neighboring points; y is a power of x between the points.

    Parameters
    ----------
    x, y : array_like, shape (n, k)
        Points of n curves, in order; both positive. For example, x is a speed [tokens/s] and y a cost [USD per 1e6
        tokens].
    at : float
        Abscissa, in the unit of x: for example speed [tokens/s].

    Returns
    -------
    ndarray, shape (n, k - 1)
        Value for each pair of neighboring points, in the unit of y, for example [USD per 1e6 tokens]. NaN if the
        abscissa is not between the two points, or if a point has a NaN.

    Notes
    -----
    The curve is y = y_0 (x / x_0)^b with b = ln(y_1 / y_0) / ln(x_1 / x_0), a straight line on logarithmic axes.

    Examples
    --------
    >>> crossed([[1.0, 4.0, 16.0]], [[1.0, 2.0, 8.0]], 8.0)
    array([[nan,  4.]])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        abscissae, ordinates = np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float))
        left, right = abscissae[..., :-1], abscissae[..., 1:]
        share = (np.log(at) - left) / (right - left)
        low, high = ordinates[..., :-1], ordinates[..., 1:]
        joined = np.where((share >= 0.0) & (share <= 1.0), low + share * (high - low), np.nan)
    return np.exp(joined)


def least_from(x: npt.ArrayLike, y: npt.ArrayLike, at: float) -> tuple[float, int, int] | None:
    """Smallest y of several curves over all x at or above an abscissa, including interpolated values (:func:`crossed`).

    Parameters
    ----------
    x, y : array_like, shape (n, k)
        Points of n curves, in order; both positive. For example, x is a speed [tokens/s] and y a cost [USD per 1e6
        tokens]. NaN marks values to ignore.
    at : float
        Abscissa, in the unit of x: for example speed [tokens/s].

    Returns
    -------
    (float, int, int) or None
        Smallest value in the unit of y, index of its curve [1], and position on the curve [1]. The position of a point
        is its column; the position of a value between two points is k plus the column of the first point. None if no
        curve reaches the abscissa.

    Notes
    -----
    The result is the minimum over curves i and x >= x_0 of y_i(x). Between neighboring points, y_i is linear on
    logarithmic axes; outside its points, y_i is undefined. The minimum is at a point or at x_0.

    Examples
    --------
    >>> value, curve, place = least_from([[1.0, 4.0, 16.0]], [[1.0, 2.0, 8.0]], 8.0)
    >>> round(value, 12), curve, place
    (4.0, 0, 4)
    """
    points, values = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    both = np.hstack([np.where(points >= at, values, np.nan), crossed(points, values, at)])
    if not np.isfinite(both).any():
        return None
    curve, place = np.unravel_index(int(np.nanargmin(both)), both.shape)
    return float(both[curve, place]), int(curve), int(place)


def least_at(x: npt.ArrayLike, y: npt.ArrayLike, at: npt.ArrayLike) -> Array:
    """Smallest y of several curves over all x at or above an abscissa, for many abscissae; see :func:`least_from`.

    Parameters
    ----------
    x, y : array_like, shape (n, k)
        See :func:`least_from`: for example speed [tokens/s] and cost [USD per 1e6 tokens]. NaN marks values to ignore.
    at : array_like, shape (...)
        Abscissae, in the unit of x: for example speeds [tokens/s].

    Returns
    -------
    ndarray, shape (...)
        Values in the unit of y, for example [USD per 1e6 tokens]; infinite if no curve reaches the abscissa.

    Notes
    -----
    Abscissae are sorted once. For each abscissa, the candidates are the curve segments that contain the abscissa, and
    all points at larger x.

    Examples
    --------
    >>> least_at([[1.0, 4.0, 16.0]], [[1.0, 2.0, 8.0]], [0.5, 8.0, 17.0]).round(12)
    array([ 1.,  4., inf])
    """
    places = np.log(np.asarray(at, dtype=float))
    distinct, inverse = np.unique(places, return_inverse=True)
    points, values = np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float))
    left, right, low, high = (ends.ravel() for ends in (points[:, :-1], points[:, 1:], values[:, :-1], values[:, 1:]))
    with np.errstate(divide="ignore", invalid="ignore"):
        rise = (high - low) / (right - left)
    begin = np.searchsorted(distinct, np.minimum(left, right), side="left")
    end = np.searchsorted(distinct, np.maximum(left, right), side="right")
    counts = np.where(np.isfinite(rise), end - begin, 0)
    line = np.repeat(np.arange(counts.size), counts)
    place = np.arange(line.size) + np.repeat(begin - np.cumsum(counts) + counts, counts)
    least = np.full(distinct.size, np.inf)
    np.minimum.at(least, place, low[line] + rise[line] * (distinct[place] - left[line]))
    order = np.argsort(points[np.isfinite(values)])
    whole, finite = (column[np.isfinite(values)][order] for column in (points, values))
    beyond = np.append(np.minimum.accumulate(finite[::-1])[::-1], np.inf)
    least = np.minimum(least, beyond[np.searchsorted(whole, distinct)])
    return np.asarray(np.exp(least)[inverse].reshape(places.shape))


def summarised_cost(
    tokens_per_second: npt.ArrayLike, slow_dollars: float, top_tokens_per_second: float, exponent: float
) -> Array:
    """Cost at a speed, from the three fitted parameters of a frontier.

    Parameters
    ----------
    tokens_per_second : array_like, shape (...)
        Speed per user x, below the top speed [tokens/s].
    slow_dollars : float
        Cost A as the speed approaches 0 [USD per 1e6 tokens].
    top_tokens_per_second : float
        Speed limit x_m, at which the cost becomes infinite [tokens/s].
    exponent : float
        Exponent beta, which determines how steeply the cost rises [1].

    Returns
    -------
    ndarray, shape (...)
        Cost [USD per 1e6 tokens].

    Notes
    -----
    The formula is A (1 - x / x_m)^-beta, which the published code of Erdil (2025) fits to a frontier. The formula is
    valid in the speed range of the fitted points.

    Examples
    --------
    >>> summarised_cost([0.0, 50.0], 0.1, 100.0, 2.0).tolist()
    [0.1, 0.4]
    """
    share = np.divide(tokens_per_second, top_tokens_per_second)
    return np.asarray(slow_dollars * (1.0 - share) ** -exponent)
