"""Speculative decoding: tokens per round, and seconds per token."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def expected_tokens(acceptance: float, checked: int) -> float:
    """Expected tokens from one verification when each proposal is accepted independently.

    Parameters
    ----------
    acceptance : float
        Probability that one proposed token is accepted, 0 <= acceptance <= 1 [1].
    checked : int
        Length of the truncated geometric series [1]: the draft length in the published study,
        one more in Leviathan et al. (2023), who count the token that the target adds itself.

    Returns
    -------
    float
        (1 - a^n) / (1 - a) [1]; n where every token is accepted.

    Notes
    -----
    Eq. (46) of Erdil (2025); eq. (1) of Leviathan et al., arXiv:2211.17192.

    Examples
    --------
    >>> round(expected_tokens(0.8, 5), 4), expected_tokens(0.0, 5), expected_tokens(1.0, 5)
    (3.3616, 1.0, 5.0)
    """
    if acceptance == 1.0:
        return float(checked)
    return (1.0 - acceptance**checked) / (1.0 - acceptance)


def seconds_per_token(
    verify_seconds: npt.ArrayLike, draft_seconds: npt.ArrayLike, draft_length: int, tokens: float
) -> Array:
    """Mean time of one accepted token.

    Parameters
    ----------
    verify_seconds : array_like, shape (...)
        One pass of the target over the proposed tokens [s].
    draft_seconds : array_like, shape (...)
        One pass of the draft model [s].
    draft_length : int
        Passes of the draft model per round [1].
    tokens : float
        Expected tokens per round, from :func:`expected_tokens` [1].

    Returns
    -------
    ndarray, shape (...)
        (t_P + gamma t_Q) / V [s].

    Notes
    -----
    Eq. (46) of Erdil (2025).
    """
    verify, draft = np.asarray(verify_seconds, dtype=float), np.asarray(draft_seconds, dtype=float)
    return np.asarray((verify + draft_length * draft) / tokens)
