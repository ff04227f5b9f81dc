"""Share of a mixture of experts that a batch touches, and its unevenness."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array


def touched_fraction(sparsity: npt.ArrayLike, tokens: npt.ArrayLike, popularity_scv: float = 0.0) -> Array:
    """Expected share of the experts that at least one token of a batch is routed to.

    Parameters
    ----------
    sparsity : array_like, shape (...)
        Experts over active experts, at least 1 [1].
    tokens : array_like, shape (...)
        Tokens routed independently [1].
    popularity_scv : float
        Squared coefficient of variation of how often experts are chosen, c; 0 if all are alike [1].

    Returns
    -------
    ndarray, shape (...)
        1 - (1 - 1/s)^n, between 0 and 1; less for several tokens if some experts are more popular [1].

    Notes
    -----
    Eq. (22) of Erdil (2025) if all experts are alike. Otherwise popularity is gamma-distributed, the number of
    tokens of an expert so negative-binomial (Greenwood and Yule, 1920): 1 - (1 + n ((1 - 1/s)^-c - 1))^(-1/c), which
    is 1/s for a single token as it must be. Shared experts are touched always and do not belong here.

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
    with np.errstate(divide="ignore"):  # where every token goes to every expert
        more = missed**-popularity_scv - 1.0
        return np.asarray(1.0 - (1.0 + many * more) ** (-1.0 / popularity_scv))


def expected_largest(count: npt.ArrayLike) -> Array:
    """Excess of the largest of some independent, equally distributed amounts over their mean, on average.

    Parameters
    ----------
    count : array_like, shape (...)
        Of the amounts, at least 1 [1].

    Returns
    -------
    ndarray, shape (...)
        In standard deviations [1]; 0 for one.

    Notes
    -----
    Normal amounts; Blom's approximation (1958) of their largest order statistic, within 0.03 of the exact value.

    Examples
    --------
    >>> expected_largest([1, 2, 8]).round(2)
    array([0.  , 0.59, 1.43])
    """
    many, where = np.unique(np.asarray(count, dtype=float), return_inverse=True)
    normal = NormalDist()
    values = np.array([normal.inv_cdf((count - 0.375) / (count + 0.25)) if count > 1.0 else 0.0 for count in many])
    return np.asarray(values[where].reshape(np.shape(count)))
