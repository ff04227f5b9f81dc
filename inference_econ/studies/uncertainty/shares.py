"""Which inputs the variance of an output comes from: Sobol shares, by SALib."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inference_econ._types import Array
from inference_econ.studies.uncertainty.design import Design, problem, salib

#: Spreads below this share of the mean are rounding [1].
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of a variance by input.

    Attributes
    ----------
    first, total : ndarray, shape (k,)
        Of each input by itself, and together with all others: the variance that is gone once it is known, and the
        variance that is left if all others are known [1].
    first_half_width, total_half_width : ndarray, shape (k,)
        Half the width of their 95 % confidence intervals, from resampling [1].
    """

    first: Array
    first_half_width: Array
    total: Array
    total_half_width: Array


def shares(plan: Design, output: Array, seed: int) -> Shares | None:
    """Sobol shares of first order, and in total.

    Parameters
    ----------
    plan : Design
        The samples.
    output : ndarray, shape (rows of the design,)
        What is explained, finite [any].
    seed : int
        Of the resampling.

    Returns
    -------
    Shares or None
        None if the output does not vary.

    Notes
    -----
    Saltelli et al. (2010); the variance is that of the design itself, so that shares may be a little below 0 or
    above 1.
    """
    if float(output.std()) <= _ROUNDING * max(float(np.abs(output).max()), 1.0):
        return None
    # SALib takes a seed of 0 for none.
    analysed = salib("analyze.sobol").analyze(
        problem(plan.shares.shape[1]), output, calc_second_order=False, seed=seed + 1
    )
    columns = (np.asarray(analysed[name], dtype=float) for name in ("S1", "S1_conf", "ST", "ST_conf"))
    return Shares(*columns)
