"""From seconds to dollars, and what a buyer would pick."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def dollars_per_million_tokens(
    accelerators: npt.ArrayLike,
    seconds_per_token: npt.ArrayLike,
    batch: npt.ArrayLike,
    dollars_per_accelerator_hour: float,
) -> Array:
    """Cost of a million output tokens on an instance that is always full.

    Parameters
    ----------
    accelerators : array_like, shape (...)
        Instance size [1].
    seconds_per_token : array_like, shape (...)
        Time between two tokens of one user [s].
    batch : array_like, shape (...)
        Users served together [1].
    dollars_per_accelerator_hour : float
        Price [USD/h].

    Returns
    -------
    ndarray, shape (...)
        [USD per 1e6 tokens].

    Notes
    -----
    Eq. (2) of Erdil (2025) times the price; the operations are ordered as in the published code.

    Examples
    --------
    >>> round(float(dollars_per_million_tokens(8, 0.01, 100, 2.1)), 4)
    0.4667
    """
    seconds = np.multiply(accelerators, seconds_per_token) / batch
    return np.asarray(seconds * (dollars_per_accelerator_hour / 3600.0) * 1e6, dtype=float)


def preference(tokens_per_second: npt.ArrayLike, dollars_per_million: npt.ArrayLike, exponent: float) -> Array:
    """What a buyer maximises whose value of a token grows as a power of its speed.

    Parameters
    ----------
    tokens_per_second : array_like, shape (...)
        Speed of one user [tokens/s].
    dollars_per_million : array_like, shape (...)
        Cost [USD per 1e6 tokens].
    exponent : float
        The power [1]; 3 in the tables of the study.

    Returns
    -------
    ndarray, shape (...)
        speed^a / cost, in arbitrary units [1].

    Notes
    -----
    Eq. (45) of Erdil (2025).
    """
    speed, cost = np.asarray(tokens_per_second, dtype=float), np.asarray(dollars_per_million, dtype=float)
    return np.asarray(speed**exponent / cost)
