"""Decisions under uncertain costs: the probability that each option is cheapest, and the value of information."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.polynomial import legendre

from inference_econ._types import Array

#: Degree of the polynomial that describes the expected loss as a function of a known input [1].
_DEGREE = 4


class Estimate(NamedTuple):
    """Mean of Monte-Carlo samples, with its standard error."""

    value: float
    """Mean, in the unit of the samples."""
    standard_error: float
    """Standard error, in the unit of the samples.

    The standard error is valid for plain Monte Carlo. For quasi-Monte Carlo, it is usually an upper bound.
    """


def share(hits: Array) -> Estimate:
    """Share of samples in which a condition holds.

    Parameters
    ----------
    hits : ndarray, shape (n,)
        1 for samples in which the condition holds, 0 for all other samples [1].

    Returns
    -------
    Estimate
        Share, and its standard error [1]. The standard error is above 0 even if the condition holds in all samples, or
        in none.

    Notes
    -----
    Agresti and Coull (1998): the error is calculated with four additional samples, two for which the condition holds.

    Examples
    --------
    >>> estimate = share(np.array([1.0, 1.0, 0.0, 1.0]))
    >>> estimate.value, round(estimate.standard_error, 3)
    (0.75, 0.171)
    """
    n = hits.size
    smoothed = (float(hits.sum()) + 2.0) / (n + 4.0)
    return Estimate(float(hits.mean()), float(np.sqrt(smoothed * (1.0 - smoothed) / (n + 4.0))))


def cheapest(costs: Array) -> Array:
    """Mark the cheapest options of each sample.

    Parameters
    ----------
    costs : ndarray, shape (..., d)
        Costs of d options [USD per 1e6 tokens]; infinite if an option is not possible.

    Returns
    -------
    ndarray, shape (..., d)
        1 for the cheapest options and 0 for all other options; 0 for all options if no option is possible [1].

    Notes
    -----
    The result is 1 - :func:`wrong_choice`, except if no option is possible.

    Examples
    --------
    >>> print(cheapest(np.array([[1.0, 2.0], [np.inf, 5.0], [np.inf, np.inf]])))
    [[1. 0.]
     [0. 1.]
     [0. 0.]]
    """
    least = costs.min(axis=-1, keepdims=True)
    return np.asarray((costs == least) & np.isfinite(least), dtype=float)


def wrong_choice(costs: Array) -> Array:
    """Loss of choosing each option: 1 if another option costs less, 0 otherwise.

    Parameters
    ----------
    costs : ndarray, shape (..., d)
        Costs of d options [USD per 1e6 tokens]; infinite if an option is not possible.

    Returns
    -------
    ndarray, shape (..., d)
        Loss [1]; 0 for all options if no option is possible.

    Notes
    -----
    Opportunity loss of decision analysis, with the loss 1 for every wrong choice: Raiffa and Schlaifer (1961).
    """
    some = np.isfinite(costs).any(axis=-1, keepdims=True)
    return np.asarray(np.where(some, 1.0 - cheapest(costs), 0.0))


def value_of_knowing(values: Array, losses: Array, first_half: npt.NDArray[np.bool_]) -> Estimate:
    """Expected loss that you avoid if you know one input before you choose an option, and no other input (EVPPI).

    Parameters
    ----------
    values : ndarray, shape (n,)
        Ranks of the sampled input values, divided by the number of samples, 0 to 1 [1].
    losses : ndarray, shape (n, d)
        Finite losses of d options: costs [USD per 1e6 tokens], or wrong choices [1].
    first_half : ndarray of bool, shape (n,)
        True for one of two independent halves of the samples [1]. Both halves must cover the full range of the input.

    Returns
    -------
    Estimate
        Expected loss of the option that is best on average, minus the expected loss of the best option for each value
        of the input; at least 0 [USD per 1e6 tokens], [1].

    Notes
    -----
    The expected loss of each option is fitted as a polynomial of the input by least squares, as in Strong, Oakley and
    Brennan (2014). The polynomials fitted to one half of the samples choose the option. The other half evaluates the
    loss of this choice. Noise of the polynomials therefore does not appear as information, and the estimate is biased
    low.

    Examples
    --------
    >>> values = np.linspace(0.0, 1.0, 1000)
    >>> losses = np.column_stack([values, 1.0 - values])
    >>> round(value_of_knowing(values, losses, np.arange(1000) % 2 == 0).value, 3)
    0.25
    """
    unaware = losses[:, int(np.argmin(losses.mean(axis=0)))]
    gains = np.empty(values.size)
    for fitted in (first_half, ~first_half):
        coefficients = legendre.legfit(2.0 * values[fitted] - 1.0, losses[fitted], _DEGREE)
        expected = legendre.legval(2.0 * values[~fitted] - 1.0, coefficients)
        gains[~fitted] = unaware[~fitted] - losses[~fitted, expected.argmin(axis=0)]
    return Estimate(max(float(gains.mean()), 0.0), float(gains.std(ddof=1) / np.sqrt(gains.size)))


def value_of_knowing_all(losses: Array) -> Estimate:
    """Expected loss that you avoid if you know every input before you choose (EVPI).

    Parameters
    ----------
    losses : ndarray, shape (n, d)
        Finite losses of d options: costs [USD per 1e6 tokens], or wrong choices [1].

    Returns
    -------
    Estimate
        Upper bound on the value of any information [USD per 1e6 tokens], [1].

    Notes
    -----
    Raiffa and Schlaifer (1961).

    Examples
    --------
    >>> value_of_knowing_all(np.array([[1.0, 0.0], [0.0, 3.0]])).value
    0.5
    """
    gains = losses[:, int(np.argmin(losses.mean(axis=0)))] - losses.min(axis=1)
    return Estimate(float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(gains.shape[0])))
