"""Pipeline depths of the published study."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array


def logarithmic_degrees(deepest: npt.ArrayLike, steps: int) -> Array:
    """Pipeline depths in equal ratios from 1 to the largest allowed depth.

    Parameters
    ----------
    deepest : array_like, shape (...)
        Largest depth [1], at least 1.
    steps : int
        Number of equal ratios between the first and the last depth [1].

    Returns
    -------
    ndarray, shape (steps + 1, ...)
        deepest^(j / steps) for j = 0 .. steps [1]; real numbers. The last depth is exactly ``deepest``.

    Notes
    -----
    In the published code of Erdil (2025), depths are powers of two of evenly spaced logarithms, so rounding may raise
    the last depth above ``deepest``.

    Examples
    --------
    >>> logarithmic_degrees(64.0, 3).round(6)
    array([ 1.,  4., 16., 64.])
    """
    top = np.asarray(deepest, dtype=float)
    exponents = (np.arange(steps + 1) / steps).reshape(-1, *([1] * top.ndim))
    degrees = top**exponents
    degrees[-1] = top
    return np.asarray(degrees)
