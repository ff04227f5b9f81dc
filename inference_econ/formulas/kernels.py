"""Kernel efficiencies on chips for which no kernel measurements exist."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array


def carried_share(unit_share: npt.ArrayLike, ahead: npt.ArrayLike) -> Array:
    """Predicted time of a kernel on another chip, divided by its time at the share of peak of the measured chip.

    Parameters
    ----------
    unit_share : array_like, shape (...)
        Share u of the measured time that the math unit (tensor cores) needs at its sustained rate, at most 1 [1].
    ahead : array_like, shape (...)
        Ratio of the math unit's peak to the fp32 peak on the other chip, divided by this ratio on the measured chips,
        a; above 0 [1].

    Returns
    -------
    ndarray, shape (...)
        u + (1 - u) a, positive [1].

    Notes
    -----
    The math unit limits a kernel for a share u of its time, which scales with the math unit's peak. The share 1 - u is
    work of other units: scales, conversions, addresses, filling and emptying tiles. This work scales with the number of
    processors and the clock, as fp32 arithmetic does. A chip with a slow math unit relative to fp32 (H20: ratio 3.4,
    H200: ratio 14.8) thus reaches a larger share of its peak, at most the share at u = 1. A higher peak alone never
    increases the time, which is proportional to u / peak + (1 - u) / (fp32 rate).

    Units other than the math unit are a performance ceiling below the roofline, as in Williams, Waterman and Patterson
    (2009). The formula is valid if both chips run the same kernel. If the work of other units overlaps with the math
    unit, 1 - u is an upper bound on the share of other units. Triton kernels of experts on H20 reached 0.57 to 0.67 of
    the peak (SGLang, pull request 10567). The formula predicts 0.36 to 0.43. The share of peak that was measured on
    H200 is 0.13 to 0.17.

    Examples
    --------
    >>> carried_share([1.0, 0.4, 0.4], [0.2, 0.2, 1.0]).round(2)
    array([1.  , 0.52, 1.  ])
    """
    unit = np.asarray(unit_share, dtype=float)
    return np.asarray(unit + (1.0 - unit) * np.asarray(ahead, dtype=float))
