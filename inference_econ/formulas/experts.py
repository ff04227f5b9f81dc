"""Share of experts that the tokens of a batch use, and load imbalance between experts."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array


def touched_fraction(sparsity: npt.ArrayLike, tokens: npt.ArrayLike, popularity_scv: float = 0.0) -> Array:
    """Expected share of the experts to which at least one token of a batch is routed.

    Parameters
    ----------
    sparsity : array_like, shape (...)
        Number of experts divided by the number of active experts, at least 1 [1].
    tokens : array_like, shape (...)
        Number of tokens, which are routed independently [1].
    popularity_scv : float
        Squared coefficient of variation of expert popularity, c; 0 if all are equally popular [1].

    Returns
    -------
    ndarray, shape (...)
        1 - (1 - 1/s)^n for equally popular experts, between 0 and 1 [1]. For several tokens, the share is smaller if
        experts differ in popularity.

    Notes
    -----
    Eq. (22) of Erdil (2025) for equally popular experts. Unequal popularity is assumed to be gamma-distributed. The
    number of tokens of an expert is then negative-binomial (Greenwood and Yule, 1920). The share is 1 - (1 + n ((1 -
    1/s)^-c - 1))^(-1/c). For a single token, the share is 1/s. Shared experts are not included, because every token
    uses them.

    Examples
    --------
    >>> float(touched_fraction(8, 1)), float(touched_fraction(1, 5))
    (0.125, 1.0)
    >>> round(float(touched_fraction(32, 64)), 3), round(float(touched_fraction(32, 64, 0.5)), 3)
    (0.869, 0.756)
    """
    missed: Array = 1.0 - 1.0 / np.asarray(sparsity, dtype=float)
    many = np.asarray(tokens, dtype=float)
    if popularity_scv <= 0.0:
        return np.asarray(1.0 - missed**many)
    with np.errstate(divide="ignore"):  # if every token is routed to every expert
        more = missed**-popularity_scv - 1.0
        return np.asarray(1.0 - (1.0 + many * more) ** (-1.0 / popularity_scv))


def expected_largest(count: npt.ArrayLike) -> Array:
    """Expected difference between the largest of several independent, equally distributed values and their mean.

    Parameters
    ----------
    count : array_like, shape (...)
        Number of values, at least 1 [1].

    Returns
    -------
    ndarray, shape (...)
        Difference in standard deviations [1]; 0 for one value.

    Notes
    -----
    The values are assumed to be normally distributed. Blom (1958) approximates the largest order statistic, within 0.03
    of the exact value.

    Examples
    --------
    >>> expected_largest([1, 2, 8]).round(2)
    array([0.  , 0.59, 1.43])
    """
    many, where = np.unique(np.asarray(count, dtype=float), return_inverse=True)
    normal = NormalDist()
    values = np.array([normal.inv_cdf((count - 0.375) / (count + 0.25)) if count > 1.0 else 0.0 for count in many])
    return np.asarray(values[where].reshape(np.shape(count)))
