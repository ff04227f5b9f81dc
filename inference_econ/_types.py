"""Types that all packages share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]
Indices: TypeAlias = npt.NDArray[np.intp]

#: Callback with the completed share of the work, 0 to 1, and the current step.
Progress: TypeAlias = Callable[[float, str], None]


def distinct(values: npt.ArrayLike) -> Array:
    """Sorted distinct values of an array. Unlike ``numpy.unique``, the function does not import ``numpy.ma``.

    Examples
    --------
    >>> distinct([4.0, 1.0, 4.0]).tolist()
    [1.0, 4.0]
    """
    return np.array(sorted({*np.ravel(values).tolist()}))
