"""Time of a collective operation between accelerators."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array, Indices

Kind = Literal["all_reduce", "all_to_all", "point_to_point"]
Shape = Literal["tree", "ring", "one_shot", "two_shot", "multicast"]


class Protocol(NamedTuple):
    """Constants of one way to run a collective: an NCCL protocol, or a kernel within one domain."""

    name: str
    """Display name: LL, LL128, Simple, one-shot."""
    base_seconds: float
    """Time per collective [s]."""
    rank_seconds: float
    """Time per further rank inside a domain [s]."""
    domain_seconds: float
    """Time per doubling of the number of domains (ring: per domain) [s]."""
    bandwidth_factor: float
    """Share of the link bandwidth for payload [1]."""
    shape: Shape = "tree"
    """Communication pattern."""
    most_bytes: float = np.inf
    """Largest tensor that it is used for [B]."""
    chain: float = np.inf
    """Ranks of a domain in one chain, with which ``rank_seconds`` was measured, see :func:`tree_seconds` [1]."""


class CollectiveTime(NamedTuple):
    """Time of a collective in its two parts."""

    latency_seconds: Array
    """Latency, independent of the size [s]."""
    bandwidth_seconds: Array
    """Transfer time, proportional to the size [s]."""
    protocol: Indices
    """Index of the fastest protocol; -1 if nothing is sent."""


def mesh_share(ranks: npt.ArrayLike, domains: npt.ArrayLike, peers: float) -> Array:
    """Share of a chip's links that a group uses in a full mesh, in which each pair of chips has its own links.

    Parameters
    ----------
    ranks, domains : array_like, shape (...)
        Participants R, and link domains n that they evenly span [1]; fractions allowed.
    peers : float
        Other chips P, each connected by an equal part of a chip's links [1].

    Returns
    -------
    ndarray, shape (...)
        (R / n - 1) / P, at least one link and at most all of them [1].

    Notes
    -----
    An all-to-all sends each part directly to its receiver, so the R/n - 1 links to members of the domain carry equal
    traffic. Links also carry equal traffic in an all-reduce by scatter and gather, and in rings, because the links of R
    chips form R - 1 rings for all R except 4 and 6: Tillson (1980). No algorithm exceeds this bandwidth. A
    point-to-point transfer is a group of two.

    Examples
    --------
    >>> mesh_share([2, 4, 8], 1, 7).round(3)
    array([0.143, 0.429, 1.   ])
    """
    per_domain = np.asarray(ranks, dtype=float) / np.asarray(domains, dtype=float)
    return np.asarray(np.clip(per_domain - 1.0, 1.0, peers) / peers)


def transfer_seconds_per_byte(
    ranks: npt.ArrayLike,
    domains: npt.ArrayLike,
    inside_bytes_per_second: npt.ArrayLike,
    between_bytes_per_second: float,
    *,
    overlap: bool = True,
) -> Array:
    """Time per byte of a hierarchical all-reduce at full bandwidth.

    Parameters
    ----------
    ranks, domains : array_like, shape (...)
        Participants R, and link domains n that they evenly span [1]; fractions allowed.
    inside_bytes_per_second, between_bytes_per_second : array_like, float
        One-way bandwidth per rank inside a domain, and between domains [B/s]; ``inf`` is a free link. An all-reduce
        moves every byte twice, so half of each bandwidth applies.
    overlap : bool
        True if traffic inside and between domains overlaps (the published code), False if both run in sequence (eqs.
        (28) and (39)).

    Returns
    -------
    ndarray, shape (...)
        Time per byte of the tensor of one group of R ranks [s/B]; 0 for a single rank.

    Notes
    -----
    Eqs. (26), (28), (39), (41) and (42) of Erdil (2025), with the n of the published code.
    """
    size, groups = np.asarray(ranks, dtype=float), np.asarray(domains, dtype=float)
    per_rank = np.asarray(inside_bytes_per_second, dtype=float) / 2
    inside: Array = groups * np.maximum(size / groups - 1.0, 0.0) / (size * per_rank)
    between: Array = (groups - 1.0) / (size * (between_bytes_per_second / 2))
    return np.maximum(inside, between) if overlap else inside + between


def reduced_bytes(
    batch: npt.ArrayLike,
    layers: npt.ArrayLike,
    *,
    hidden_size: float,
    intermediate_size: float,
    query_heads: float,
    kv_heads: float,
    head_dim: float,
    bytes_per_element: float,
    input_matrices: float = 1.0,
) -> Array:
    """Bytes that a forward pass all-reduces if every product of a layer is summed over chips.

    Parameters
    ----------
    batch, layers : array_like, shape (...)
        Tokens of the pass [1] and layers [1].
    hidden_size, intermediate_size : float
        Widths of the residual stream, and between the matrices of the feed-forward block [1].
    query_heads, kv_heads, head_dim : float
        Heads of attention, and their width [1].
    bytes_per_element : float
        Width of the summed elements [B].
    input_matrices : float
        Input matrices of the feed-forward block: 1, or 2 with a gate (SwiGLU) [1].

    Returns
    -------
    ndarray, shape (...)
        Bytes [B].

    Notes
    -----
    Eqs. (25) and (43) of Erdil (2025): ((1 + 2 / g) h d_h + 2 d + d_ff) b L p with g = h / kv_heads. The terms are the
    outputs of queries, keys and values, of the output projection, and of both sides of the feed-forward block. Valid
    for 2-D layouts; 1-D layouts sum only the outputs to the residual stream, 2 d.

    Examples
    --------
    Llama 3 70B with one sequence, and without its gate as printed:

    >>> sizes = {"hidden_size": 8192, "intermediate_size": 28672, "query_heads": 64, "kv_heads": 8, "head_dim": 128}
    >>> float(reduced_bytes(1, 80, **sizes, bytes_per_element=2, input_matrices=2) / 1e6)
    13.43488
    >>> float(reduced_bytes(1, 80, **sizes, bytes_per_element=2) / 1e6)
    8.84736
    """
    outputs = (query_heads + 2.0 * kv_heads) * head_dim + 2.0 * hidden_size + input_matrices * intermediate_size
    return np.asarray(np.multiply(batch, layers) * outputs * bytes_per_element)


def ring_reduce_seconds(size: npt.ArrayLike, ranks: npt.ArrayLike, bytes_per_second: float) -> Array:
    """Transfer time of an all-reduce inside a domain.

    Parameters
    ----------
    size : array_like, shape (...)
        Tensor that is summed [B].
    ranks : array_like, shape (...)
        Chips that share it [1].
    bytes_per_second : float
        All-reduce algorithm bandwidth of each chip: half of the one-way link, and half of that again under LL [B/s].

    Returns
    -------
    ndarray, shape (...)
        Time [s].

    Notes
    -----
    Eq. (24) of Erdil (2025): X (R - 1) / (R B).

    Examples
    --------
    Two bytes, a width of 10,000 and a batch of 100 on the eight chips of a DGX H100 under LL, "about 16 us":

    >>> float(ring_reduce_seconds(2 * 10_000 * 100, 8, 112e9).round(7))
    1.56e-05
    """
    size, number = np.asarray(size, dtype=float), np.asarray(ranks, dtype=float)
    return np.asarray(size * (number - 1.0) / (number * bytes_per_second))


def transfer_seconds_per_byte_floor(
    ranks: tuple[Array, Array],
    domains: tuple[Array, Array],
    inside_bytes_per_second: npt.ArrayLike,
    between_bytes_per_second: float,
    *,
    overlap: bool = True,
) -> Array:
    """Lower bound on the time per byte over a range of ranks and domains.

    Parameters
    ----------
    ranks, domains : (ndarray, ndarray), each of shape (...)
        Minimum and maximum of participants, and of link domains [1].
    inside_bytes_per_second, between_bytes_per_second : array_like, float
        As in :func:`transfer_seconds_per_byte` [B/s]; the maximum in the range.
    overlap : bool
        As there.

    Returns
    -------
    ndarray, shape (...)
        Time per byte [s/B]. Inside, a byte takes (1 - n / R) of the link's time, which grows with R and falls with n.
    """
    inside = np.maximum(1.0 - domains[1] / ranks[0], 0.0) / (np.asarray(inside_bytes_per_second, dtype=float) / 2)
    between = (domains[0] - 1.0) / (ranks[1] * (between_bytes_per_second / 2))
    return np.maximum(inside, between) if overlap else inside + between


def exchange_seconds_per_byte(
    ranks: npt.ArrayLike,
    domains: npt.ArrayLike,
    inside_bytes_per_second: npt.ArrayLike,
    between_bytes_per_second: float,
    *,
    crossing: npt.ArrayLike = 1.0,
    overlap: bool = True,
) -> Array:
    """Time per byte that each rank sends in an all-to-all over its own links.

    Parameters
    ----------
    ranks, domains : array_like, shape (...)
        Participants R, and link domains n that they evenly span [1].
    inside_bytes_per_second, between_bytes_per_second : array_like, float
        One-way bandwidth per rank inside a domain, and between domains [B/s]; ``inf`` is a free link.
    crossing : array_like, shape (...)
        Share of the bytes for other domains that crosses to them; the rest are copies made in the receiving domain [1].
    overlap : bool
        True if both kinds of traffic overlap, False if they run in sequence.

    Returns
    -------
    ndarray, shape (...)
        Time per byte that one rank sends [s/B]; 0 for a single rank.

    Notes
    -----
    Each rank sends R/n - 1 of R equal parts within its own domain, and (n - 1) R/n to others. This is item 22 of the
    differences to Erdil (2025), whose code divides by the ranks of a domain as for an all-reduce.
    """
    size, groups = np.asarray(ranks, dtype=float), np.asarray(domains, dtype=float)
    elsewhere, share = (groups - 1.0) / groups, np.asarray(crossing, dtype=float)
    near = np.maximum(size / groups - 1.0, 0.0) / size + elsewhere * (1.0 - share)
    inside = near / np.asarray(inside_bytes_per_second, dtype=float)
    between = elsewhere * share / between_bytes_per_second
    return np.maximum(inside, between) if overlap else np.asarray(inside + between)


def nccl_seconds(
    kind: Kind,
    ranks: npt.ArrayLike,
    domains: npt.ArrayLike,
    size_bytes: npt.ArrayLike,
    protocols: Sequence[Protocol],
    seconds_per_byte: npt.ArrayLike,
) -> Array:
    """Time of a collective under the fastest protocol.

    Parameters
    ----------
    kind : {'all_reduce', 'all_to_all', 'point_to_point'}
        An all-reduce passes the tree twice. Other collectives pass it once, with half of the traffic.
    ranks, domains : array_like, shape (...)
        Participants, and link domains that they span [1].
    size_bytes : array_like, shape (...)
        Tensor of one group of ranks [B].
    protocols : sequence of Protocol
        Available protocols.
    seconds_per_byte : array_like, shape (...)
        From :func:`transfer_seconds_per_byte` [s/B].

    Returns
    -------
    ndarray, shape (...)
        Time [s]; 0 for at most one rank.

    Notes
    -----
    Latency by the tree and ring formulas of NCCL's tuning model (``src/graph/tuning.cc``), eqs. (23) and (40) of Erdil
    (2025). As in the published code, the protocol with the smallest sum is used.

    Examples
    --------
    >>> ll = Protocol("LL", 6.8e-6, 0.6e-6, 5e-6, 0.5)
    >>> round(float(nccl_seconds("all_reduce", 8, 1, 0.0, [ll], 0.0)) * 1e6, 3)
    15.2
    """
    size, groups = np.asarray(ranks, dtype=float), np.asarray(domains, dtype=float)
    return _quickest(_each_protocol(kind, size / groups, groups, size_bytes, protocols, seconds_per_byte), size)


def nccl_floor(
    kind: Kind,
    ranks: tuple[Array, Array],
    domains: tuple[Array, Array],
    size_bytes: npt.ArrayLike,
    protocols: Sequence[Protocol],
    seconds_per_byte: npt.ArrayLike,
) -> Array:
    """Lower bound on the time of a collective over a range of sizes under the fastest protocol.

    Parameters
    ----------
    kind : {'all_reduce', 'all_to_all', 'point_to_point'}
        As in :func:`nccl_seconds`.
    ranks, domains : (ndarray, ndarray), each of shape (...)
        Minimum and maximum of participants, and of link domains [1].
    size_bytes : array_like, shape (...)
        Smallest tensor of one group of ranks [B].
    protocols : sequence of Protocol
        Available protocols.
    seconds_per_byte : array_like, shape (...)
        From :func:`transfer_seconds_per_byte_floor` [s/B].

    Returns
    -------
    ndarray, shape (...)
        Time [s]; 0 if there may be at most one rank. Equal to :func:`nccl_seconds` if the ranges are points.
    """
    per_domain = ranks[0] / domains[1]
    # A chain is at least as long as the protocol's longest one, or as all ranks of a domain.
    times = (
        time
        for protocol in protocols
        for time in _each_protocol(
            kind,
            np.minimum(per_domain, protocol.chain),
            domains[0],
            size_bytes,
            [protocol._replace(chain=np.inf)],
            seconds_per_byte,
        )
    )
    return _quickest(times, ranks[0])


def _quickest(times: Iterator[tuple[Array, Array]], ranks: Array) -> Array:
    best: Array | None = None
    for latency, transfer in times:
        total = np.asarray(latency + transfer)
        best = total if best is None else np.minimum(best, total, out=best)
    assert best is not None
    alone = ranks <= 1.0
    return np.where(alone, 0.0, best) if alone.any() else best


def nccl_parts(
    kind: Kind,
    ranks: npt.ArrayLike,
    domains: npt.ArrayLike,
    size_bytes: npt.ArrayLike,
    protocols: Sequence[Protocol],
    seconds_per_byte: npt.ArrayLike,
) -> CollectiveTime:
    """Latency and transfer time of a collective under the fastest protocol.

    Parameters
    ----------
    kind, ranks, domains, size_bytes, protocols, seconds_per_byte
        As in :func:`nccl_seconds` [1], [B] and [s/B].

    Returns
    -------
    CollectiveTime
        Latency [s], transfer [s] and the fastest protocol, each of shape (...).

    Notes
    -----
    Eqs. (23), (28) and (40) of Erdil (2025).
    """
    size, groups = np.asarray(ranks, dtype=float), np.asarray(domains, dtype=float)
    parts = _each_protocol(kind, size / groups, groups, size_bytes, protocols, seconds_per_byte)
    times = [np.broadcast_arrays(latency, transfer, size) for latency, transfer in parts]
    latencies = np.stack([time[0] for time in times])
    transfers = np.stack([time[1] for time in times])
    fastest = np.argmin(latencies + transfers, axis=0)
    alone = size <= 1.0
    latency = np.take_along_axis(latencies, fastest[None], axis=0)[0]
    transfer = np.take_along_axis(transfers, fastest[None], axis=0)[0]
    return CollectiveTime(np.where(alone, 0.0, latency), np.where(alone, 0.0, transfer), np.where(alone, -1, fastest))


def _each_protocol(
    kind: Kind,
    ranks_per_domain: Array,
    domains: Array,
    size_bytes: npt.ArrayLike,
    protocols: Sequence[Protocol],
    seconds_per_byte: npt.ArrayLike,
) -> Iterator[tuple[Array, Array]]:
    passes, share = (2.0, 1.0) if kind == "all_reduce" else (1.0, 0.5)
    steps = passes * (ranks_per_domain - 1.0)
    doublings = passes * np.log2(domains)
    transfer = np.multiply(size_bytes, share * np.asarray(seconds_per_byte))
    for protocol in protocols:
        if protocol.shape == "tree":
            if np.isinf(protocol.chain):
                latency = _tree(protocol, steps, doublings)
            else:
                latency = tree_seconds(protocol, passes, ranks_per_domain * domains, domains)
            yield latency, transfer * (1.0 / protocol.bandwidth_factor)
        elif protocol.shape == "ring":
            # Every step waits for its slowest hop; one step per pass and domain crosses to another domain.
            crossings = np.where(domains > 1.0, passes * domains, 0.0)
            inside = np.maximum(passes * (ranks_per_domain * domains - 1.0) - crossings, 0.0)
            latency = inside * protocol.rank_seconds + crossings * protocol.domain_seconds + protocol.base_seconds
            yield np.asarray(latency), transfer * (1.0 / protocol.bandwidth_factor)
        elif kind == "all_reduce":
            latency = (ranks_per_domain - 1.0) * protocol.rank_seconds + protocol.base_seconds
            possible = (domains <= 1.0) & np.less_equal(size_bytes, protocol.most_bytes)
            # Traffic relative to a ring, which moves 2 (R - 1) / R of the tensor per rank. One-shot: every rank
            # receives the tensors of the R - 1 others. Multicast: the switch adds and copies, so each rank sends the
            # tensor once.
            copies: Array | float = 1.0
            if protocol.shape == "one_shot":
                copies = ranks_per_domain / 2.0
            elif protocol.shape == "multicast":
                copies = ranks_per_domain / (2.0 * np.maximum(ranks_per_domain - 1.0, 1e-9))
            yield np.where(possible, latency, np.inf), transfer * (copies / protocol.bandwidth_factor)


def tree_seconds(protocol: Protocol, passes: float, ranks: npt.ArrayLike, domains: npt.ArrayLike) -> Array:
    """Latency of NCCL's tree: a chain through each domain, and a binary tree over the domains.

    Parameters
    ----------
    protocol : Protocol
        Longest chain [1] and latencies [s].
    passes : float
        Number of passes through the tree, p [1].
    ranks, domains : array_like, shape (...)
        Participants R, and link domains n that they evenly span [1].

    Returns
    -------
    ndarray, shape (...)
        L(n) = p (R / n - 1) t_rank + p log2(n) t_domain + t_base [s].

    Notes
    -----
    Eqs. (23) and (40) of Erdil (2025). With these equations alone, a larger domain can take longer than several smaller
    ones. Many small domains can also take less time than a few domains of the size for which ``t_rank`` was measured. A
    longest chain c prevents both. A domain of more than c ranks is split into domains of at least c ranks if this is
    faster. Domains of fewer than c ranks take at least the time of those with c, because a hop between domains is no
    faster than one inside. L has its minimum at n = R ln(2) t_rank / t_domain.

    Examples
    --------
    >>> tree = Protocol("LL", 0.0, 1e-6, 2e-6, 1.0)
    >>> (1e6 * tree_seconds(tree, 1.0, 64, [1, 8, 32])).round(1)
    array([63., 13., 11.])
    >>> (1e6 * tree_seconds(tree._replace(chain=8), 1.0, 64, [1, 8, 32])).round(1)
    array([13., 13., 13.])
    """
    size, groups = np.asarray(ranks, dtype=float), np.asarray(domains, dtype=float)
    if np.isinf(protocol.chain):
        return _tree(protocol, passes * (size / groups - 1.0), passes * np.log2(groups))
    parts = np.maximum(size / protocol.chain, 1.0)
    if protocol.domain_seconds > 0.0:
        quickest = size * (math.log(2.0) * protocol.rank_seconds / protocol.domain_seconds)
        parts = np.clip(quickest, np.minimum(groups, parts), parts)
    unlimited, spread = protocol._replace(chain=np.inf), np.maximum(groups, parts)
    least = tree_seconds(unlimited, passes, size, parts)
    return np.maximum(tree_seconds(unlimited, passes, size, spread), least)


def _tree(protocol: Protocol, steps: Array, doublings: Array) -> Array:
    return np.asarray(steps * protocol.rank_seconds + (doublings * protocol.domain_seconds + protocol.base_seconds))


def mesh_parts(
    kind: Kind, ranks: npt.ArrayLike, size_bytes: npt.ArrayLike, hop_seconds: float, bytes_per_second_one_way: float
) -> CollectiveTime:
    """Time of a collective on a mesh in which chips pass data to their neighbors.

    Parameters
    ----------
    kind : {'all_reduce', 'all_to_all', 'point_to_point'}
        An all-reduce goes around twice. Other collectives go around once, with half of the traffic.
    ranks : array_like, shape (...)
        Participants [1].
    size_bytes : array_like, shape (...)
        Tensor of one group of ranks [B].
    hop_seconds : float
        Latency between neighbors [s].
    bytes_per_second_one_way : float
        Bandwidth of a chip in one direction [B/s].

    Returns
    -------
    CollectiveTime
        Latency [s] and transfer [s], each of shape (...).

    Notes
    -----
    m (n - 1) (t_hop + X / (n b)) with m = 2 for an all-reduce and 1 for the others: the formula of the code of Erdil
    (2025) for TPU and Groq.
    """
    passes = 2.0 if kind == "all_reduce" else 1.0
    size = np.maximum(np.asarray(ranks, dtype=float), 1.0)
    hops = passes * (size - 1.0)
    transfer = hops / size * np.asarray(size_bytes, dtype=float) / bytes_per_second_one_way
    return CollectiveTime(hops * hop_seconds, transfer, np.where(size > 1.0, 0, -1))
