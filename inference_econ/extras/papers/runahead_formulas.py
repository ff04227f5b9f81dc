"""Prefill of one prompt on several processes: a prefill chain that forwards the KV cache, or all-gathers.

The prefill chain is KV-Runahead of Cho, Rastegari and Naik, ICML (2024). Each process computes the keys and values of
one part of the prompt, layer by layer. The process appends its keys and values to the keys and values of all earlier
parts, and sends the result to the next process while computation continues. The last process has the KV cache of the
full prompt and produces the first token.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import permutations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array

ArrayLike = npt.ArrayLike

#: Smallest improvement of the time for which the search repeats a stride, as a share of the time; and finest stride, as
#: a share of the prompt [1].
_GAIN, _FINEST = 5e-4, 1.0 / 1024.0
#: Number of iterations that balance the parts of a prompt [1].
_BALANCING = 60


class LayerWork(NamedTuple):
    """Arithmetic and KV-cache size of one layer, and number of layers."""

    layers: int
    """Number of layers [1]."""
    projection_flop: float
    """Arithmetic of one token for the query, key and value projections, before the KV cache is needed [FLOP]."""
    other_flop: float
    """Arithmetic of one token for the output projection and the feed-forward block [FLOP]."""
    pair_flop: float
    """Arithmetic of attention from one token to another: scores and weighted values [FLOP]."""
    kv_bytes: float
    """Size of the keys and values of one token [B]."""


class ProcessRates(NamedTuple):
    """Compute rates of one process, and rates of its link to the next process."""

    matmul_flops_per_second: float
    """Sustained rate of matrix multiplications [FLOP/s]."""
    attention_flops_per_second: float
    """Sustained rate of attention [FLOP/s]; it is lower for unfused kernels, which write attention scores to memory."""
    overhead_seconds: float
    """Minimum time of a layer: its kernel launches, which overlap with the work of the chip [s]."""
    link_bytes_per_second: float
    """One-way bandwidth to the next process [B/s]."""
    link_latency: float
    """Latency of one message [s]."""


def layer_seconds(work: LayerWork, machine: ProcessRates, tokens: ArrayLike, context: ArrayLike) -> tuple[Array, Array]:
    """Time of one layer for a part of a prompt: before the KV cache of earlier parts is needed, and after it arrives.

    Parameters
    ----------
    work : LayerWork
        Arithmetic and KV-cache size of a layer [1].
    machine : ProcessRates
        Compute and link rates of a process [1].
    tokens : array_like, shape (...)
        Tokens of the part [tokens].
    context : array_like, shape (...)
        Number of keys by which the query of every token is multiplied, including masked keys [tokens].

    Returns
    -------
    (ndarray, ndarray), each of shape (...)
        Time before the KV cache is needed: projections to queries, keys and values [s]. Time after the KV cache
        arrives: attention, output projection and feed-forward block [s].

    Notes
    -----
    Without fused kernels, the scores of a part form a rectangle, tokens x context. The full rectangle is computed, and
    the causal mask then removes a triangle: section 3 of Cho et al. (2024).
    """
    n, c = np.asarray(tokens, dtype=float), np.asarray(context, dtype=float)
    before = n * (work.projection_flop / machine.matmul_flops_per_second)
    after = n * (work.other_flop / machine.matmul_flops_per_second)
    after = after + n * c * (work.pair_flop / machine.attention_flops_per_second)
    whole = before + after
    # Kernel launches take a minimum time even if there is little work.
    stretch = np.maximum(machine.overhead_seconds / np.maximum(whole, np.finfo(float).tiny), 1.0)
    return np.asarray(before * stretch), np.asarray(np.maximum(whole, machine.overhead_seconds) - before * stretch)


def single_seconds(work: LayerWork, machine: ProcessRates, context: ArrayLike) -> Array:
    """Time to the first token if one process runs the full prefill.

    Parameters
    ----------
    work : LayerWork
        Arithmetic and KV-cache size of the layers [1].
    machine : ProcessRates
        Compute and link rates of the process [1].
    context : array_like, shape (...)
        Prompt length [tokens].

    Returns
    -------
    ndarray, shape (...)
        Time [s].

    Notes
    -----
    The time equals :func:`chain_seconds` with one process.

    Examples
    --------
    >>> work = LayerWork(2, projection_flop=3.0, other_flop=5.0, pair_flop=1.0, kv_bytes=4.0)
    >>> machine = ProcessRates(10.0, 100.0, 0.0, 8.0, 0.0)
    >>> float(single_seconds(work, machine, 20))
    40.0
    """
    before, after = layer_seconds(work, machine, context, context)
    return np.asarray(work.layers * (before + after))


def all_gather_seconds(work: LayerWork, machine: ProcessRates, context: ArrayLike, processes: int) -> Array:
    """Time to the first token if every layer all-gathers keys and values before attention.

    Parameters
    ----------
    work : LayerWork
        Arithmetic and KV-cache size of the layers [1].
    machine : ProcessRates
        Compute and link rates of each process [1].
    context : array_like, shape (...)
        Prompt length [tokens].
    processes : int
        Number of processes with equal parts of the prompt [1].

    Returns
    -------
    ndarray, shape (...)
        Time [s].

    Notes
    -----
    Tensor and sequence parallelism as in section 3 of Cho et al. (2024). Each process multiplies its queries by all
    keys of the prompt. All processes wait for a ring all-gather of (p - 1) / p of the layer's keys and values.

    Examples
    --------
    >>> work = LayerWork(2, projection_flop=3.0, other_flop=5.0, pair_flop=1.0, kv_bytes=4.0)
    >>> float(all_gather_seconds(work, ProcessRates(10.0, 100.0, 0.0, 8.0, 0.0), 20, 2))
    30.0
    """
    prompt = np.asarray(context, dtype=float)
    before, after = layer_seconds(work, machine, prompt / processes, prompt)
    moved = prompt * work.kv_bytes * (processes - 1) / processes
    gather = moved / machine.link_bytes_per_second + (processes - 1) * machine.link_latency
    return np.asarray(work.layers * (before + gather + after))


def chain_seconds(work: LayerWork, machine: ProcessRates, partition: ArrayLike) -> Array:
    """Time to the first token with a prefill chain, in which each process forwards the KV cache to the next process.

    Parameters
    ----------
    work : LayerWork
        Arithmetic and KV-cache size of the layers [1].
    machine : ProcessRates
        Compute and link rates of each process [1].
    partition : array_like, shape (..., processes)
        Number of tokens in each process, in prompt order [tokens].

    Returns
    -------
    ndarray, shape (...)
        Time at which the last process ends [s].

    Notes
    -----
    Process i starts the attention of a layer when it has the keys and values of processes 1 to i. Process i forwards
    these keys and values as soon as its link has sent the previous layer. Source: section 4 of Cho et al. (2024), with
    transfers that overlap with computation; see :func:`handed_on_seconds`.

    Examples
    --------
    With two equal parts, the transfer of the first part's keys and values takes 5 s per layer.

    >>> work = LayerWork(2, projection_flop=3.0, other_flop=5.0, pair_flop=1.0, kv_bytes=4.0)
    >>> float(chain_seconds(work, ProcessRates(10.0, 100.0, 0.0, 8.0, 0.0), [10, 10]))
    25.0
    """
    tokens = np.asarray(partition, dtype=float)
    ends = np.cumsum(tokens, axis=-1)
    before, after = layer_seconds(work, machine, tokens, ends)
    hand_over = (ends - tokens) * (work.kv_bytes / machine.link_bytes_per_second) + machine.link_latency
    return handed_on_seconds(before, after, hand_over, work.layers)


def handed_on_seconds(before: ArrayLike, after: ArrayLike, hand_over: ArrayLike, layers: int) -> Array:
    """Time of a prefill chain, in which each process needs data from the previous process in every layer.

    Parameters
    ----------
    before, after : array_like, shape (..., processes)
        Time of one layer before the data is needed, and time after the data arrives [s].
    hand_over : array_like, shape (..., processes)
        Transfer time per layer on the link to each process [s]; ignored for the first process.
    layers : int
        Number of layers, which are assumed to be equal [1].

    Returns
    -------
    ndarray, shape (...)
        Time at which the last process ends [s].

    Notes
    -----
    Let b, a and h be the times ``before``, ``after`` and ``hand_over``, and let t = b + a. Process i starts its second
    part of layer l at r_i(l) = max(r_i(l - 1) + t_i, q_i(l)). Process i has received layer l at q_i(l) =
    max(r_{i-1}(l), q_i(l - 1)) + h_i. The recursion is the longest path through a grid of layers by processes and
    links: Baccelli et al., Synchronization and Linearity (1992).

    A path starts at some process s and crosses each later link once. The path repeats the longest layer or transfer L -
    1 times. The last process ends at a_last + max over s of [b_s + sum of h after s + (L - 1) max(t from s on, h after
    s)].

    Examples
    --------
    The first process prepares each layer in 1 s, and the second process waits 3 s for each layer:

    >>> float(handed_on_seconds([1.0, 1.0], [2.0, 1.0], [0.0, 3.0], 10))
    32.0
    """
    first, second = np.broadcast_arrays(np.asarray(before, dtype=float), np.asarray(after, dtype=float))
    links = np.broadcast_to(np.asarray(hand_over, dtype=float), first.shape).copy()
    links[..., 0] = 0.0
    # For each process as the start of the path: the sum of the later link times, and the longest step on the path.
    behind = links.sum(axis=-1, keepdims=True) - np.cumsum(links, axis=-1)
    steps = np.maximum.accumulate((first + second)[..., ::-1], axis=-1)[..., ::-1]
    crossed = np.maximum.accumulate(links[..., ::-1], axis=-1)[..., ::-1]
    later = np.concatenate([crossed[..., 1:], np.zeros((*links.shape[:-1], 1))], axis=-1)
    paths = first + behind + (layers - 1) * np.maximum(steps, later)
    return np.asarray(paths.max(axis=-1) + second[..., -1])


def gathered_over_handed(partition: ArrayLike) -> Array:
    """Bytes that all-gathers move, divided by the bytes that a prefill chain forwards.

    Parameters
    ----------
    partition : array_like, shape (..., processes)
        Number of tokens in each process of the prefill chain, in prompt order [tokens]; at least two processes.

    Returns
    -------
    ndarray, shape (...)
        Ratio of traffic [1].

    Notes
    -----
    A ring all-gather of C tokens over p processes moves keys and values of (p - 1) C tokens in every layer. A prefill
    chain moves the keys and values of all earlier tokens to each process. With equal parts, the prefill chain moves the
    keys and values of (p - 1) C / 2 tokens, half of the traffic of an all-gather for any p. By contrast, section 8.1 of
    a summary of Cho et al. (2024) states O(C d) for all-gathers and O(C d / p) for a chain.

    Examples
    --------
    >>> float(gathered_over_handed([4, 4, 4, 4])), round(float(gathered_over_handed([5, 3, 2, 1])), 3)
    (2.0, 1.435)
    """
    tokens = np.asarray(partition, dtype=float)
    handed = (np.cumsum(tokens, axis=-1) - tokens).sum(axis=-1)
    return np.asarray((tokens.shape[-1] - 1) * tokens.sum(axis=-1) / handed)


def even_partition(context: float, processes: int) -> Array:
    """Split a prompt into equal parts.

    Parameters
    ----------
    context : float
        Prompt length [tokens].
    processes : int
        Number of parts [1].

    Returns
    -------
    ndarray, shape (processes,)
        Number of tokens in each part [tokens].

    Notes
    -----
    Equal parts are the partition KVR-E of Cho et al. (2024), without load balancing.

    Examples
    --------
    >>> even_partition(10, 4)
    array([2.5, 2.5, 2.5, 2.5])
    """
    return np.full(processes, context / processes)


def searched_partition(work: LayerWork, machine: ProcessRates, context: float, processes: int) -> Array:
    """Split a prompt over the processes of a prefill chain so that the time to the first token is minimal.

    Parameters
    ----------
    work : LayerWork
        Arithmetic and KV-cache size of the layers [1].
    machine : ProcessRates
        Compute and link rates of each process [1].
    context : float
        Prompt length [tokens].
    processes : int
        Number of parts [1].

    Returns
    -------
    ndarray, shape (processes,)
        Number of tokens in each part [tokens]. If computation limits the time, later parts are smaller.

    Notes
    -----
    The grid search goes from coarse to fine strides, as for KVR-S of Cho et al. (2024). The search starts from equal
    parts, and repeats the best move of one stride of tokens until no move gains 0.05 %. The search then halves the
    stride, down to 1/1024 of the prompt. A move takes tokens from one process, or from the first processes, and gives
    them to another process, or to the last processes. If kernel launches limit the time, many partitions are equally
    good, and the result is the equal partition.

    Examples
    --------
    >>> work = LayerWork(8, projection_flop=1.0, other_flop=1.0, pair_flop=1.0, kv_bytes=1.0)
    >>> searched_partition(work, ProcessRates(1.0, 1.0, 0.0, 1e9, 0.0), 1024, 2)
    array([633., 391.])
    """
    return best_partition(partial(chain_seconds, work, machine), context, processes)


def best_partition(
    seconds: Callable[[Array], Array], context: float, processes: int, start: Array | None = None
) -> Array:
    """Split a prompt so that a time function of the parts is minimal, by local search.

    Parameters
    ----------
    seconds : callable
        Function from the tokens of all processes, shape (..., processes), to a time, shape (...) [s].
    context : float
        Prompt length [tokens].
    processes : int
        Number of parts [1].
    start : ndarray, shape (processes,), optional
        Initial parts [tokens]; equal parts by default.

    Returns
    -------
    ndarray, shape (processes,)
        Number of tokens in each part, at least one [tokens].

    Notes
    -----
    The search is the grid search of :func:`searched_partition`.

    Examples
    --------
    >>> best_partition(lambda parts: np.max(parts * [1.0, 3.0], axis=-1), 1024.0, 2)
    array([768., 256.])
    """
    best = even_partition(context, processes) if start is None else start
    least = float(seconds(best))
    # A move takes tokens from one process, or from the first processes, and gives them to another process, or to the
    # last processes.
    unit, ranks = np.eye(processes), np.arange(processes)
    pairs = [unit[taker] - unit[giver] for giver, taker in permutations(range(processes), 2)]
    splits = [np.where(ranks < cut, 1.0 / cut, -1.0 / (processes - cut)) for cut in range(1, processes)]
    moves = np.array([*pairs, *splits, *(-split for split in splits)])
    stride = context / processes / 2.0
    while stride >= max(context * _FINEST, 1.0) and processes > 1:
        tried = best + stride * moves
        times = np.where((tried >= 1.0).all(axis=-1), seconds(np.maximum(tried, 1.0)), np.inf)
        quickest = int(np.argmin(times))
        if times[quickest] < least * (1.0 - _GAIN):
            best, least = tried[quickest], float(times[quickest])
        else:
            stride /= 2.0
    return best


def balanced_partition(seconds: Callable[[Array], Array], context: float, processes: int) -> Array:
    """Split a prompt so that all parts take equal time.

    Parameters
    ----------
    seconds : callable
        Function from the tokens of all parts to the time of each part, both of shape (processes,) [s]. Times must
        increase with the tokens.
    context : float
        Prompt length [tokens].
    processes : int
        Number of parts [1].

    Returns
    -------
    ndarray, shape (processes,)
        Number of tokens in each part [tokens]. The parts are optimal for a prefill chain with infinitely fast links.

    Notes
    -----
    Section 4 of Cho et al. (2024) searches for the balanced partition. In each of 60 iterations, every part is
    multiplied by the square root of (mean time / time of the part).

    Examples
    --------
    >>> balanced_partition(lambda parts: parts * [1.0, 3.0], 1024.0, 2).round(6)
    array([768., 256.])
    """
    parts = even_partition(context, processes)
    for _ in range(_BALANCING):
        times = seconds(parts)
        parts = parts * np.sqrt(times.mean() / times)
        parts = parts * (context / parts.sum())
    return parts


def interpolated_partition(contexts: ArrayLike, partitions: ArrayLike, context: float) -> Array:
    """Split a prompt by interpolation between known partitions of longer and shorter prompts.

    Parameters
    ----------
    contexts : array_like, shape (n,)
        Prompt lengths with known partitions, ascending [tokens].
    partitions : array_like, shape (n, processes)
        Partition of each known prompt length, from :func:`searched_partition` [tokens].
    context : float
        Prompt length [tokens]. Outside the known range, the shares of the nearest known length are used.

    Returns
    -------
    ndarray, shape (processes,)
        Number of tokens in each part [tokens].

    Notes
    -----
    The method is the lookup table KVR-P of Cho et al. (2024), with linear interpolation of the parts' shares of the
    prompt.

    Examples
    --------
    >>> interpolated_partition([100, 200], [[50, 50], [120, 80]], 150)
    array([82.5, 67.5])
    """
    lengths = np.asarray(contexts, dtype=float)
    shares = np.asarray(partitions, dtype=float) / lengths[:, None]
    return context * np.array([np.interp(context, lengths, column) for column in shares.T])
