"""One table for a step whose sequences have contexts of different lengths."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.engine.operators.table import Operator
from inference_econ.engine.operators.work import Work

#: Tokens that a sequence has in the cache, and how many sequences have as many, or which share of a batch of any size.
Contexts = tuple[tuple[float, float], ...]


def mean_context(contexts: Contexts) -> float:
    """Mean over sequences [tokens].

    Examples
    --------
    >>> mean_context(((500.0, 16), (32000.0, 2)))
    4000.0
    """
    return sum(length * count for length, count in contexts) / sum(count for _, count in contexts)


def mixed_work(works: Sequence[Work], contexts: Contexts, groups: int) -> Work:
    """The table of a step whose sequences have different contexts.

    Parameters
    ----------
    works : sequence of Work
        The same step if all sequences had each of the contexts.
    contexts : tuple of (float, float)
        Of the sequences [tokens], [1].
    groups : int
        Groups of attention ranks that the sequences are dealt out to [1].

    Returns
    -------
    Work
        What a sequence reads and computes is the mean over sequences, of each kind of layer by itself; where groups
        wait for the one with most cached tokens, that of its sequences.
    """
    shares = np.array([count for _, count in contexts], dtype=float)
    shares = shares / shares.sum()
    longer = fullest_tokens(contexts, groups)
    rows = zip(*(work.operators for work in works), strict=True)
    return replace(works[0], operators=tuple(_mixed(row, shares, longer) for row in rows))


def fullest_tokens(contexts: Contexts, groups: int) -> float:
    """Cached tokens of a sequence in the group that has most of them, over the mean of all sequences [1].

    Sequences are dealt out from the longest on, each to the group with the fewest tokens; that group's tokens count as
    if it had as many sequences as the one with most. Of shares of a batch, which add up to 1, each group has the same.
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
    """A row whose amounts are means over sequences, as far as they differ."""
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
    return replace(first, **changed)  # type: ignore[arg-type]
