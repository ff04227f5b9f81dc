"""Special functions and root finding that most queries need.

These functions do not use scipy, because importing scipy takes longer than most queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from inference_econ._types import Array

#: Relative size of terms that no longer change the result [1].
_EXACT = float(np.finfo(float).eps)
#: Maximum number of terms in a series, and of steps in an iteration [1]. Far fewer are needed.
_MOST_TERMS, _MOST_STEPS = 10_000, 200
#: Number of terms after which the size of the last term is checked [1]; a check takes as long as a term.
_CHECKED = 4
#: Number that is added to the argument of Stirling's series [1].
_SHIFT = 10
#: Distance from the mean above which a Poisson probability is treated as zero [standard deviations].
_NEVER = 10.0
_NORMAL = NormalDist()


def log_gamma(values: Array) -> Array:
    """Logarithm of the gamma function.

    Parameters
    ----------
    values : ndarray, shape (...)
        Arguments above 0 [1].

    Returns
    -------
    ndarray, shape (...)
        ln Gamma(x) [1].

    Notes
    -----
    Series 5.11.1 and recurrence 5.5.1 of the DLMF, Olver et al. (2010).

    Examples
    --------
    >>> np.exp(log_gamma(np.array([1.0, 4.0, 5.0]))).round(9)
    array([ 1.,  6., 24.])
    """
    # Stirling's series applies to large arguments; the recurrence of the gamma function leads to smaller ones.
    above, product = values + _SHIFT, np.prod([values + number for number in range(_SHIFT)], axis=0)
    inverse, series = 1.0 / above**2, np.zeros_like(above)
    for coefficient in (1.0 / 1188.0, -1.0 / 1680.0, 1.0 / 1260.0, -1.0 / 360.0, 1.0 / 12.0):
        series = series * inverse + coefficient
    stirling = (above - 0.5) * np.log(above) - above + 0.5 * math.log(2.0 * math.pi) + series / above
    return np.asarray(stirling - np.log(product))


def normal_quantiles(shares: Array) -> Array:
    """Quantiles of the standard normal distribution.

    Parameters
    ----------
    shares : ndarray, shape (...)
        Probabilities above 0 and below 1 [1].

    Returns
    -------
    ndarray, shape (...)
        Quantiles [1].

    Notes
    -----
    Algorithm AS 241 of Wichura (1988), to 16 digits.

    Examples
    --------
    >>> normal_quantiles(np.array([0.5, 0.975])).round(6)
    array([0.      , 1.959964])
    """
    return np.array([_NORMAL.inv_cdf(share) for share in shares.ravel().tolist()]).reshape(shares.shape)


def normal_shares(values: Array) -> Array:
    """Cumulative distribution function of the standard normal distribution.

    Parameters
    ----------
    values : ndarray, shape (...)
        Arguments [1].

    Returns
    -------
    ndarray, shape (...)
        Probabilities [1].

    Notes
    -----
    (1 + erf(x / sqrt(2))) / 2. The function is calculated from the complementary error function, which is accurate for
    small probabilities: section 7.18 of the DLMF, Olver et al. (2010).

    Examples
    --------
    >>> normal_shares(np.array([0.0, 1.959963984540054, -10.0])).tolist()
    [0.5, 0.975, 7.619853024160593e-24]
    """
    return np.array([0.5 * math.erfc(-value / math.sqrt(2.0)) for value in values.ravel().tolist()]).reshape(
        values.shape
    )


def poisson_capped(mean: Array, most: Array) -> Array:
    """Mean of min(N, m) for a Poisson-distributed number N and a limit m.

    Parameters
    ----------
    mean : ndarray, shape (...)
        Mean x of the number N, above 0 [1].
    most : ndarray, shape (...)
        Limit m, at least 0 [1]; not necessarily an integer.

    Returns
    -------
    ndarray, shape (...)
        Mean of the minimum [1].

    Notes
    -----
    E min(N, m) = m P(m, x) + x Q(m - 1, x) with the regularized incomplete gamma functions: section 8.2 of the DLMF,
    Olver et al. (2010). P(m, x) is the probability that N is at least m. Q(m - 1, x) is Q(m, x) minus the probability
    x^(m-1) e^-x / Gamma(m). For m < 1, the result is m times the probability that N is at least one.

    Examples
    --------
    With a mean of two and a limit of one, the result is 1 - e^-2.

    >>> poisson_capped(np.array([2.0]), np.array([1.0])).round(9)
    array([0.86466472])
    """
    mean, most = np.broadcast_arrays(mean, most)
    # For most limits, N is practically always, or never, above the limit (probability 1e-19 by Bernstein's inequality).
    capped, room = np.minimum(mean, most), _NEVER * (np.sqrt(mean) + 3.0)
    near = (mean > 0.0) & (most > 0.0) & (most > mean - room) & (most < mean + room)
    x, m = mean[near], np.maximum(most[near], 1.0)
    reached, chance = _reached(m, x)
    capped[near] = np.where(
        most[near] < 1.0, -most[near] * np.expm1(-x), m * reached + x * (1.0 - reached) - m * chance
    )
    return capped


def gamma_shares(shapes: Array, values: Array) -> Array:
    """Cumulative distribution function of the gamma distribution with scale 1.

    Parameters
    ----------
    shapes : ndarray, shape (...)
        Shape parameters, at least 1 [1]. An integer m gives the distribution of the sum of m exponential times of mean
        1.
    values : ndarray, shape (...)
        Finite arguments, at least 0 [1].

    Returns
    -------
    ndarray, shape (...)
        P(m, x), the regularized lower incomplete gamma function [1].

    Notes
    -----
    Section 8.2 of the DLMF, Olver et al. (2010).

    Examples
    --------
    The sum of two exponential times with mean 1 s is at most 2 s with the probability 1 - 3 e^-2.

    >>> gamma_shares(np.array([2.0]), np.array([2.0])).round(9)
    array([0.59399415])
    """
    shapes, values = np.broadcast_arrays(shapes, values)
    shares = np.zeros(values.shape)
    above = values > 0.0
    shares[above] = _reached(shapes[above], values[above])[0]
    return shares


def wright_omega(values: Array) -> Array:
    """Wright's omega function W(exp(x)) for real x, where W is Lambert's function; exp(x) does not overflow.

    Parameters
    ----------
    values : ndarray, shape (...)
        Arguments, except +infinity [1].

    Returns
    -------
    ndarray, shape (...)
        The number w > 0 with w + ln w = x [1]; 0 at -infinity.

    Notes
    -----
    Corless and Jeffrey (2002). Newton's method converges from below, because w + ln w is concave. If exp(x) is smaller
    than the rounding error of 1, the result is exp(x).

    Examples
    --------
    >>> wright_omega(np.array([-np.inf, 1.0, 1000.0])).round(6)
    array([  0.      ,   1.      , 993.099169])
    """
    middle = np.maximum(values, math.log(_EXACT))
    above = np.maximum(middle, 1.0)
    omega = np.exp(np.minimum(middle, 1.0) - 1.0) * (above - np.log(above))
    for _ in range(_MOST_STEPS):
        step = (middle - omega - np.log(omega)) * omega / (1.0 + omega)
        omega = omega + step
        if not np.any(np.abs(step) > 4.0 * _EXACT * omega):
            break
    return np.where(values < middle, np.exp(np.minimum(values, 0.0)), omega)


def _reached(most: Array, mean: Array) -> tuple[Array, Array]:
    """P(m, x) and x^m e^-x / m! for m = ``most`` and x = ``mean``, shape (n,) each [1].

    For x < m + 1, series 8.7.1 of the DLMF is used. For larger x, continued fraction 8.9.2 is evaluated by Lentz's
    method.
    """
    chance = np.exp(most * np.log(mean) - mean - log_gamma(most + 1.0))
    reached, below = np.empty_like(chance), mean < most + 1.0
    m, x = most[below], mean[below]
    total = term = np.ones_like(x)
    for number in range(1, _MOST_TERMS):
        term = term * (x / (m + number))
        total = total + term
        if number % _CHECKED == 0 and not (term > _EXACT * total).any():
            break
    reached[below] = chance[below] * total
    m, x = most[~below], mean[~below]
    odd = x + 1.0 - m
    ahead = np.full_like(x, np.inf)
    behind = total = 1.0 / odd
    for number in range(1, _MOST_TERMS):
        factor, odd = number * (m - number), odd + 2.0
        behind = 1.0 / (odd + factor * behind)
        ahead = odd + factor / ahead
        change = ahead * behind
        total = total * change
        # The last digits of the factors vary with rounding.
        if number % _CHECKED == 0 and not (np.abs(change - 1.0) > 4.0 * _EXACT).any():
            break
    reached[~below] = 1.0 - chance[~below] * m * total
    return reached, chance


def root(function: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """Root of a continuous function between two arguments with values of opposite sign.

    Parameters
    ----------
    function : callable
        Function of a number [1].
    low, high : float
        Arguments at which the function values have opposite signs [1].
    tolerance : float
        Maximum error of the root, in the unit of the arguments [1].

    Returns
    -------
    float
        Root, in the unit of the arguments [1].

    Raises
    ------
    ValueError
        If the function values at ``low`` and ``high`` have the same sign.

    Notes
    -----
    The method of Chandrupatla (1997) uses inverse quadratic interpolation if the last three values allow it, otherwise
    bisection.

    Examples
    --------
    >>> round(root(lambda x: x * x - 2.0, 0.0, 2.0, 1e-12), 9)
    1.414213562
    """
    (a, at_a), (b, at_b) = (low, function(low)), (high, function(high))
    if at_a * at_b > 0.0:
        raise ValueError(f"no change of sign between {low:g} and {high:g}")
    share = 0.0 if at_a == 0.0 else 1.0 if at_b == 0.0 else 0.5
    for _ in range(_MOST_STEPS):
        place = a + share * (b - a)
        value = function(place)
        if (value > 0.0) == (at_a > 0.0):
            c, at_c = a, at_a
        else:
            c, at_c, b, at_b = b, at_b, a, at_a
        a, at_a = place, value
        best = a if abs(at_a) < abs(at_b) else b
        least = (2.0 * _EXACT * abs(best) + tolerance) / abs(b - a) if a != b else 1.0
        if value == 0.0 or least > 0.5:
            break
        share, bend, slope = 0.5, (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
        if slope**2 < bend and (1.0 - slope) ** 2 < 1.0 - bend:
            share = at_a / (at_b - at_a) * at_c / (at_b - at_c)
            share += (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
        share = min(max(share, least), 1.0 - least)
    return best
