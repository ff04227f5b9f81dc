"""Operator table of a step whose sequences have different contexts."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.engine.operators.table import Operator
from inference_econ.engine.operators.work import Work

#: Contexts as pairs: cached tokens, and number or share of sequences with this context.
Contexts = tuple[tuple[float, float], ...]


def mean_context(contexts: Contexts) -> float:
    """Mean context length over sequences [tokens].

    Examples
    --------
    >>> mean_context(((500.0, 16), (32000.0, 2)))
    4000.0
    """
    return sum(length * count for length, count in contexts) / sum(count for _, count in contexts)


def mixed_work(works: Sequence[Work], contexts: Contexts, groups: int) -> Work:
    """Operator table of a step whose sequences have different contexts.

    Parameters
    ----------
    works : sequence of Work
        Operator tables of the step, one for each context; in each table, all sequences have this context.
    contexts : tuple of (float, float)
        Pairs of a context [tokens] and the number or share of sequences with this context [1].
    groups : int
        Number of attention-DP groups that share the sequences [1].

    Returns
    -------
    Work
        Operator table of the step. Arithmetic and cache traffic per sequence are means over sequences, computed
        separately for each kind of layer. If attention-DP groups wait for each other, the means are over the group with
        the most cached tokens.
    """
    shares = np.array([count for _, count in contexts], dtype=float)
    shares = shares / shares.sum()
    longer = fullest_tokens(contexts, groups)
    chip, host = (
        tuple(_mixed(row, shares, longer) for row in zip(*rows, strict=True))
        for rows in ([work.operators for work in works], [work.in_host_memory for work in works])
    )
    return replace(works[0], operators=chip, in_host_memory=host)


def fullest_tokens(contexts: Contexts, groups: int) -> float:
    """Cached tokens in the fullest attention-DP group per sequence, divided by the mean of all sequences [1].

    Sequences are assigned in order of length, the longest first, to the group with the fewest tokens. The tokens of the
    fullest group are then divided by the mean number of sequences per group, rounded up. If contexts are given as
    shares, all groups are assumed to be equal.
    """
    if groups == 1 or sum(count for _, count in contexts) <= 1.0:
        return 1.0
    lengths = sorted((length for length, count in contexts for _ in range(round(count))), reverse=True)
    held = [0.0] * groups
    for length in lengths:
        heapq.heapreplace(held, held[0] + length)
    most = -(-len(lengths) // groups)
    return max(held) / most / (sum(lengths) / len(lengths))


def _mixed(rows: Sequence[Operator], shares: npt.NDArray[np.float64], longer: float) -> Operator:
    """Operator whose arithmetic and cache traffic are means over sequences with different contexts."""
    first = rows[0]
    columns = ((row.flop_per_token, row.flop_per_sequence, row.kv_bytes_per_sequence) for row in rows)
    amounts = (tuple(float(np.ravel(value)[0]) for value in column) for column in columns)
    if first.kind != "scores" or len(set(amounts)) == 1:
        return first
    changed: dict[str, Array] = {}
    for amount, padding in (
        ("flop_per_token", "padding"),
        ("flop_per_sequence", "padding"),
        ("kv_bytes_per_sequence", "kv_padding"),
    ):
        needed = [np.asarray(getattr(row, amount)) for row in rows]
        taken = sum(s * n * getattr(row, padding) for s, n, row in zip(shares, needed, rows, strict=True))
        mean = sum(s * n for s, n in zip(shares, needed, strict=True))
        changed[amount] = np.asarray(mean * longer)
        if np.any(mean):
            changed[padding] = np.asarray(taken / mean)
    return first._replace(**changed)  # type: ignore[arg-type]
