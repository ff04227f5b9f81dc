"""Types that many modules share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

#: Real numbers of any shape.
Array = npt.NDArray[np.float64]
#: Whole numbers that pick entries of arrays.
Indices = npt.NDArray[np.intp]
#: Called with the share of the work that is done [1], and what is done now.
Progress = Callable[[float, str], None]
