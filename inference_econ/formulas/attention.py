"""Arithmetic and KV-cache size of attention, per layer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array


def mean_attended(cached: float, new: float, limit: float = float("inf")) -> float:
    """Mean number of past tokens that a new token attends to.

    Parameters
    ----------
    cached : float
        Tokens in the cache before the step [tokens].
    new : float
        New tokens of the sequence in the step, at least 1 [tokens].
    limit : float
        Largest number of attended tokens [tokens]: the size of a sliding window, or of an indexer's selection.

    Returns
    -------
    float
        Mean of min(cached + i, limit) over i = 0 .. new - 1 [tokens].

    Notes
    -----
    Causal attention, Vaswani et al. (2017), section 3.2.3, with the window of Child et al., arXiv:1904.10509.

    Examples
    --------
    >>> mean_attended(0, 5), mean_attended(10, 1), mean_attended(0, 5, limit=2)
    (2.0, 10.0, 1.4)
    """
    growing = min(max(limit - cached, 0.0), new)
    if growing == new:
        return cached + (new - 1) / 2
    return (growing * (cached + (growing - 1) / 2) + (new - growing) * limit) / new


def mean_attended_in_chunks(cached: float, new: float, chunk: float) -> float:
    """Mean number of past tokens in the same chunk that a new token attends to.

    Parameters
    ----------
    cached : float
        Tokens in the cache before the step [tokens].
    new : float
        New tokens of the sequence in the step, at least 1 [tokens].
    chunk : float
        Chunk size [tokens].

    Returns
    -------
    float
        Mean of (cached + i) mod chunk over i = 0 .. new - 1 [tokens].

    Notes
    -----
    Chunked attention of Llama 4, Meta (2025), ``attention_chunk_size`` of its config.json: the token at position p
    attends to positions from chunk * floor(p / chunk). The sum over new tokens has three parts: the remainder of the
    first chunk, full chunks, and the start of the last chunk.

    Examples
    --------
    >>> mean_attended_in_chunks(7000, 1, 8192), mean_attended_in_chunks(0, 10, 4)  # (0 + 1 + 2 + 3) * 2 + 0 + 1
    (7000.0, 1.3)
    """
    start = cached % chunk
    first = min(chunk - start, new)
    whole, rest = divmod(new - first, chunk)
    total = first * (start + (first - 1) / 2) + whole * chunk * (chunk - 1) / 2 + rest * (rest - 1) / 2
    return max(total / new, 0.0)


def grouped_query_flop(query_heads: float, head_dim: float) -> float:
    """Arithmetic of grouped-query attention in one layer, per pair of a new token and a cached token.

    Parameters
    ----------
    query_heads, head_dim : float
        Number of query heads [1], and width of a head [1].

    Returns
    -------
    float
        Arithmetic of scores and weighted values, one multiplication and one addition per element [FLOP].

    Notes
    -----
    Eq. (37) of Erdil (2025), 4 h d_h. The head width d_h follows its section 4.3.

    Examples
    --------
    >>> grouped_query_flop(64, 128)
    32768
    """
    return 4 * query_heads * head_dim


def latent_flop(query_heads: float, kv_rank: float, rope_head_dim: float) -> float:
    """Arithmetic of multi-head latent attention with absorbed projections, per pair of a new token and a cached token.

    Parameters
    ----------
    query_heads : float
        Number of query heads [1].
    kv_rank : float
        Width of the cached latent [1].
    rope_head_dim : float
        Width of the rotary part that is cached with the latent [1]; 0 in the published study.

    Returns
    -------
    float
        Arithmetic of scores (over latent and rotary part) and values (over the latent) [FLOP].

    Notes
    -----
    Section 3.1 of Erdil (2025), whose 4 c_k h is the result for ``rope_head_dim=0``.

    Examples
    --------
    >>> latent_flop(128, 512, 64)
    278528
    """
    return 2 * query_heads * (kv_rank + rope_head_dim) + 2 * query_heads * kv_rank


def decompression_flop(query_heads: float, kv_rank: float, nope_head_dim: float, value_head_dim: float) -> float:
    """Arithmetic to compute keys and values from the latent of one cached token in one layer (MLA).

    Parameters
    ----------
    query_heads, kv_rank : float
        Number of query heads [1], and width of the latent [1].
    nope_head_dim, value_head_dim : float
        Width of a key without its rotary part [1], and width of a value [1].

    Returns
    -------
    float
        Arithmetic [FLOP].

    Notes
    -----
    Eqs. (10) and (11) of DeepSeek-AI, arXiv:2405.04434: the up-projections of keys and values.

    Examples
    --------
    >>> decompression_flop(128, 512, 128, 128)
    33554432
    """
    return 2 * query_heads * (nope_head_dim + value_head_dim) * kv_rank


def eight_bit_key_bytes(elements: float) -> float:
    """Size of an index key in 8 bits.

    Parameters
    ----------
    elements : float
        Width of an index key [1].

    Returns
    -------
    float
        Size [B]: one byte per element, and a 32-bit scale per 128 elements.

    Notes
    -----
    Source: cache of the indexer in vLLM, ``vllm/model_executor/models/deepseek_v2.py`` at commit 002d607, vLLM team
    (2026). A row of this cache has head_dim + head_dim / 128 * 4 bytes.

    Examples
    --------
    >>> eight_bit_key_bytes(128)
    132.0
    """
    return elements * (1 + 4 / 128)


def recurrence_flop(state_elements: float) -> float:
    """Arithmetic per new token for the state of a recurrent layer (Mamba-2, Gated DeltaNet).

    Parameters
    ----------
    state_elements : float
        Number of elements in the state [1].

    Returns
    -------
    float
        Arithmetic of decay, rank-one update and read-out, each with one multiplication and one addition per element
        [FLOP].

    Notes
    -----
    The recurrence is h = a h + b x^T and y = c^T h, eqs. (1) and (2) of Dao and Gu, arXiv:2405.21060.

    Examples
    --------
    >>> recurrence_flop(100)
    600
    """
    return 6 * state_elements


def padded_attention_share(
    attended: npt.ArrayLike, width: npt.ArrayLike = np.inf, *, extra_tokens: npt.ArrayLike, extra_elements: float = 0.0
) -> Array:
    """Work of an attention kernel including overheads such as partly filled tiles, divided by the necessary work.

    Parameters
    ----------
    attended : array_like, shape (...)
        Number of past tokens that a new token attends to on one chip, above 0 [tokens].
    width : array_like, shape (...)
        Width of a head's keys or values [1]; no effect if ``extra_elements`` is 0.
    extra_tokens : array_like, shape (...)
        Overhead a0 of a sequence, or of a new prompt token, as equivalent tokens [tokens]: partly filled tiles, and the
        start and end of each sum.
    extra_elements : float
        Overhead x0 along the width of a head, as equivalent elements [1].

    Returns
    -------
    ndarray, shape (...)
        (1 + a0/a) (1 + x0/w) for ``attended`` a and ``width`` w, at least 1 [1].

    Notes
    -----
    Time is linear in a + a0, as in :func:`inference_econ.formulas.grouped_matmul.padded_share`. docs/model/kernels.md
    compares the formula with measured kernels.

    Examples
    --------
    >>> float(padded_attention_share(1000, extra_tokens=100))
    1.1
    >>> float(padded_attention_share(1000, 128, extra_tokens=100, extra_elements=64))
    1.6500000000000001
    """
    tokens = 1.0 + np.asarray(extra_tokens, dtype=float) / np.asarray(attended, dtype=float)
    return np.asarray(tokens * (1.0 + extra_elements / np.asarray(width, dtype=float)))
