"""Kernels on another chip than they were measured on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array


def carried_share(unit_share: npt.ArrayLike, ahead: npt.ArrayLike) -> Array:
    """Arithmetic time of a kernel, over what it would be at the same share of the peak as where it was measured.

    Parameters
    ----------
    unit_share : array_like, shape (...)
        Share of the measured time that the maths unit itself needs at the rate that it sustains, at most 1 [1].
    ahead : array_like, shape (...)
        Peak of the unit over that of fp32 arithmetic, on the chip over that on those measured; above 0 [1].

    Returns
    -------
    ndarray, shape (...)
        u + (1 - u) a, positive [1].

    Notes
    -----
    A kernel is held up by its maths unit for a share u of its time: that scales with the peak of the unit. The rest it
    spends on what other units do (scales, conversions, addresses, filling and emptying tiles), which scales with
    processors and clock, as the rate of fp32 arithmetic does. A chip whose unit is slow for its processors (H20: 3.4
    FLOP per fp32 FLOP, H200: 14.8) thus reaches a larger share of its peak, at most that of u = 1. A higher peak alone
    never takes longer: the time is proportional to u / peak + (1 - u) / (fp32 rate).

    What other units do is a ceiling below the roof of one of them, as in Williams, Waterman and Patterson (2009). Valid
    between chips that run the same kernel. The share of what is not the unit's is an upper bound where it hides
    behind the unit. Experts in Triton on H20 reached 0.57 to 0.67 of the peak (SGLang, pull request 10567), where this
    gives 0.36 to 0.43 and the share of H200 alone 0.13 to 0.17.

    Examples
    --------
    >>> carried_share([1.0, 0.4, 0.4], [0.2, 0.2, 1.0]).round(2)
    array([1.  , 0.52, 1.  ])
    """
    unit = np.asarray(unit_share, dtype=float)
    return np.asarray(unit + (1.0 - unit) * np.asarray(ahead, dtype=float))
