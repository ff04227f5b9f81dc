"""Arithmetic and cache of attention during decode, per layer."""

from __future__ import annotations


def grouped_query_flop(query_heads: float, head_dim: float) -> float:
    """Arithmetic per new token and cached token of one layer.

    Parameters
    ----------
    query_heads, head_dim : float
        Query heads [1] and their width [1].

    Returns
    -------
    float
        Scores and weighted values, a multiply and an add each [FLOP].

    Notes
    -----
    Eq. (37) of Erdil (2025) with the head width that its section 4.3 has: 4 h d_h.

    Examples
    --------
    >>> grouped_query_flop(64, 128)
    32768
    """
    return 4 * query_heads * head_dim


def latent_flop(query_heads: float, kv_rank: float, rope_head_dim: float) -> float:
    """The same for multi-head latent attention with absorbed projections.

    Parameters
    ----------
    query_heads : float
        Query heads [1].
    kv_rank : float
        Width of the cached latent [1].
    rope_head_dim : float
        Width of the rotary part cached beside it [1]; 0 in the published study.

    Returns
    -------
    float
        Scores over latent and rotary part, values over the latent [FLOP].

    Notes
    -----
    Section 3.1 of Erdil (2025); with ``rope_head_dim=0`` it is its 4 c_k h.

    Examples
    --------
    >>> latent_flop(128, 512, 64)
    278528
    """
    return 2 * query_heads * (kv_rank + rope_head_dim) + 2 * query_heads * kv_rank


def recurrence_flop(state_elements: float) -> float:
    """Arithmetic per new token of a recurrent layer's state (Mamba-2, Gated DeltaNet).

    Parameters
    ----------
    state_elements : float
        Elements of the state [1].

    Returns
    -------
    float
        Decay, rank-one update and read-out, a multiply and an add each [FLOP].

    Notes
    -----
    h = a h + b x^T and y = c^T h, eqs. (1) and (2) of Dao and Gu, arXiv:2405.21060.

    Examples
    --------
    >>> recurrence_flop(100)
    600
    """
    return 6 * state_elements
