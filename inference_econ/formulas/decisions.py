"""Choices between things of uncertain cost: how often each is the cheapest, and what it is worth to know one input."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.polynomial import legendre

from inference_econ._types import Array

#: Degree of the polynomial that an expected loss is of a known input [1].
_DEGREE = 4


class Estimate(NamedTuple):
    """A mean of samples."""

    value: float
    """[as the samples]"""
    standard_error: float
    """Of plain Monte Carlo; a quasi-Monte-Carlo design is off by less as a rule [as the samples]."""


def share(hits: Array) -> Estimate:
    """The share of samples in which something holds.

    Parameters
    ----------
    hits : ndarray, shape (n,)
        1 where it holds, 0 elsewhere [1].

    Returns
    -------
    Estimate
        The share, and its standard error, which is above 0 where all samples agree [1].

    Notes
    -----
    Agresti and Coull (1998): the error is that of four further samples, two of each kind.

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
    """Which options cost least, sample by sample.

    Parameters
    ----------
    costs : ndarray, shape (..., d)
        Of d options; infinite where an option is impossible [USD per 1e6 tokens].

    Returns
    -------
    ndarray, shape (..., d)
        1 for those that cost least, 0 for others, and for all where none is possible [1].

    Notes
    -----
    The other way round :func:`wrong_choice`.

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
    """The loss of a choice that counts mistakes: 1 where another option costs less.

    Parameters
    ----------
    costs : ndarray, shape (..., d)
        Of d options; infinite where an option is impossible [USD per 1e6 tokens].

    Returns
    -------
    ndarray, shape (..., d)
        No mistake is possible where no option is [1].

    Notes
    -----
    An opportunity loss of decision analysis, Raiffa and Schlaifer (1961), that is 1 whatever the mistake costs.
    """
    some = np.isfinite(costs).any(axis=-1, keepdims=True)
    return np.asarray(np.where(some, 1.0 - cheapest(costs), 0.0))


def value_of_knowing(values: Array, losses: Array, first_half: npt.NDArray[np.bool_]) -> Estimate:
    """Loss that is avoided by knowing one input before choosing (EVPPI), the other inputs still unknown.

    Parameters
    ----------
    values : ndarray, shape (n,)
        The input, by the share of its values that are lower, 0 to 1 [1].
    losses : ndarray, shape (n, d)
        What each of d options loses, finite: dollars [USD per 1e6 tokens], or mistakes [1].
    first_half : ndarray of bool, shape (n,)
        Two independent halves of the samples, each of which covers all values of the input [1].

    Returns
    -------
    Estimate
        The expected loss of the option that is best on average, minus that of the best one given the input; not
        below 0 [USD per 1e6 tokens], [1].

    Notes
    -----
    The expected loss of each option given the input is a polynomial of it, by least squares, as in Strong, Oakley and
    Brennan (2014). What is chosen by the polynomials of one half is judged by the samples of the other, so that the
    noise of the polynomials cannot look like knowledge: the estimate is low rather than high.

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
    """Loss that is avoided by knowing every input before choosing (EVPI).

    Parameters
    ----------
    losses : ndarray, shape (n, d)
        What each of d options loses, finite: dollars [USD per 1e6 tokens], or mistakes [1].

    Returns
    -------
    Estimate
        The most that any knowledge is worth [USD per 1e6 tokens], [1].

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
