"""How much of a mixture of experts a batch touches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def touched_fraction(sparsity: npt.ArrayLike, tokens: npt.ArrayLike) -> Array:
    """Expected share of the experts that at least one token of a batch is routed to.

    Parameters
    ----------
    sparsity : array_like, shape (...)
        Experts over active experts, at least 1 [1].
    tokens : array_like, shape (...)
        Tokens routed independently and uniformly [1].

    Returns
    -------
    ndarray, shape (...)
        1 - (1 - 1/s)^n, between 0 and 1 [1].

    Notes
    -----
    Eq. (22) of Erdil (2025). Shared experts are touched always and do not belong here.

    Examples
    --------
    >>> float(touched_fraction(8, 1)), float(touched_fraction(1, 5))
    (0.125, 1.0)
    """
    missed: Array = (1.0 - 1.0 / np.asarray(sparsity, dtype=float)) ** np.asarray(tokens, dtype=float)
    return 1.0 - missed
