"""Plans of one layout, as tests of steps ask for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from inference_econ.engine import Plans


def plan_of(
    tp: float = 1, dp: float = 1, pp: float = 1, ep: float = 1, batch: float = 1, *, whole: bool = True, **further: Any
) -> Plans:
    """One layout with some degrees, of an instance of ``tp x dp x pp`` accelerators."""
    one = np.ones(1)
    return Plans(one * tp * dp * pp, one * batch, one * pp, one * tp, one * ep, whole=whole, **further)
