"""Distance of predictions from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.errors import InputError


class Accuracy(NamedTuple):
    """Errors of some predictions; None where there are none.

    All but the bias are of the absolute log error |ln(predicted / measured)|: 0.1 is about 10 % either way, 0.69 a
    factor of two.
    """

    rows: int
    """Measurements [1]."""
    predicted: int
    """Rows that there is a prediction for [1]."""
    median: float | None
    """[1]"""
    mean: float | None
    """[1]"""
    p90: float | None
    """Nine of ten errors are not larger [1]."""
    bias: float | None
    """Mean of ln(predicted / measured): positive if too much is predicted [1]."""

    @property
    def coverage(self) -> float:
        """Share of the measurements that there is a prediction for [1]."""
        return self.predicted / self.rows if self.rows else 0.0

    def record(self) -> dict[str, object]:
        """All fields and the coverage, by name."""
        return {**self._asdict(), "coverage": self.coverage}


def log_errors(measured: npt.ArrayLike, predicted: npt.ArrayLike) -> Array:
    """Natural logarithm of predicted over measured, which treats half and double alike.

    Parameters
    ----------
    measured, predicted : array_like, shape (n,)
        Positive, in any common unit. NaN is no measurement; a prediction that is not positive and finite is none.

    Returns
    -------
    ndarray, shape (n,)
        NaN where one of the two is missing [1].

    Raises
    ------
    InputError
        If the shapes differ, or a measured value is not positive and finite.

    Examples
    --------
    >>> log_errors([10.0, 10.0], [10.0, float("inf")])
    array([ 0., nan])
    """
    real, guess = np.asarray(measured, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    if real.shape != guess.shape or real.ndim != 1:
        raise InputError(f"measured and predicted must be lists of equal length, got {real.shape} and {guess.shape}")
    wrong = ~np.isnan(real) & ~(np.isfinite(real) & (real > 0))
    if wrong.any():
        raise InputError(f"measured values must be positive and finite, got {real[wrong][0]:g}")
    usable = np.isfinite(guess) & (guess > 0)
    return np.log(np.where(usable, guess, np.nan) / real)


def accuracy(measured: npt.ArrayLike, predicted: npt.ArrayLike) -> Accuracy:
    """Errors of predictions; see :func:`log_errors` for parameters and errors.

    Examples
    --------
    >>> found = accuracy([1.0, 2.0, 4.0], [2.0, 2.0, float("nan")])
    >>> found.coverage, round(found.mean, 3), round(found.bias, 3)
    (0.6666666666666666, 0.347, 0.347)
    """
    every = log_errors(measured, predicted)
    errors = every[~np.isnan(every)]
    if not errors.size:
        return Accuracy(every.size, 0, None, None, None, None)
    sizes = np.abs(errors)
    return Accuracy(
        every.size,
        errors.size,
        float(np.median(sizes)),
        float(np.mean(sizes)),
        float(np.quantile(sizes, 0.9)),
        float(np.mean(errors)),
    )


def by_group(groups: Sequence[str], measured: npt.ArrayLike, predicted: npt.ArrayLike) -> dict[str, Accuracy]:
    """Accuracy of each group, in the order in which they first appear; see :func:`accuracy`.

    Parameters
    ----------
    groups : sequence of str, length n
        The group of each pair.
    measured, predicted : array_like, shape (n,)
        As in :func:`accuracy`.
    """
    real, guess, names = np.asarray(measured, dtype=float), np.asarray(predicted, dtype=float), np.asarray(groups)
    return {name: accuracy(real[names == name], guess[names == name]) for name in dict.fromkeys(groups)}
