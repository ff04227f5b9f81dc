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
    """Constants of one implementation of collectives: an NCCL protocol, or a kernel within one link domain."""

    name: str
    """Display name, such as LL, LL128, Simple or one-shot."""
    base_seconds: float
    """Base time of a collective [s]."""
    rank_seconds: float
    """Additional time for each additional rank inside a link domain [s]."""
    domain_seconds: float
    """Additional time for each doubling of the number of link domains [s]; for a ring, for each additional domain."""
    bandwidth_factor: float
    """Share of the link bandwidth that carries payload [1]."""
    shape: Shape = "tree"
    """Communication pattern."""
    most_bytes: float = np.inf
    """Largest tensor for which the protocol is used [B]."""
    chain: float = np.inf
    """Number of ranks per link domain for which ``rank_seconds`` was measured [1]; see :func:`tree_seconds`."""


class CollectiveTime(NamedTuple):
    """Latency and transfer time of a collective."""

    latency_seconds: Array
    """Latency [s], which does not depend on the size of the tensor."""
    bandwidth_seconds: Array
    """Transfer time [s], which is proportional to the size of the tensor."""
    protocol: Indices
    """Index of the fastest protocol; -1 if nothing is sent."""


def mesh_share(ranks: npt.ArrayLike, domains: npt.ArrayLike, peers: float) -> Array:
    """Share of a chip's links that a group uses in a full mesh, where each pair of chips has its own links.

    Parameters
    ----------
    ranks, domains : array_like, shape (...)
        Number of ranks R, and number of link domains n over which they are evenly spread [1]; fractions are allowed.
    peers : float
        Number P of other chips in the mesh [1]; an equal part of a chip's links leads to each of these chips.

    Returns
    -------
    ndarray, shape (...)
        (R / n - 1) / P [1], limited to the range from 1 / P (one link) to 1 (all links).

    Notes
    -----
    In an all-to-all, each chip sends each part directly to its receiver. The R/n - 1 links to the other members of the
    domain therefore have equal traffic. In an all-reduce by scatter and gather, and in rings, traffic is also equal on
    these links. For all R except 4 and 6, the links of R chips form R - 1 rings, Tillson (1980). No algorithm reaches
    more bandwidth. A point-to-point transfer is treated as a group of two chips.

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
        Number of ranks R, and number of link domains n over which they are evenly spread [1]; fractions are allowed.
    inside_bytes_per_second, between_bytes_per_second : array_like, float
        One-way bandwidth per rank, inside a domain and between domains [B/s]; ``inf`` is an infinitely fast link. An
        all-reduce moves every byte twice, so half of each bandwidth applies.
    overlap : bool
        True if traffic inside domains overlaps with traffic between domains, as in the published code. False if traffic
        between domains follows traffic inside domains, as in eqs. (28) and (39).

    Returns
    -------
    ndarray, shape (...)
        Time per byte of the tensor of one group of R ranks [s/B]; 0 for a single rank.

    Notes
    -----
    Eqs. (26), (28), (39), (41) and (42) of Erdil (2025), with the number of domains n of the published code.
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
    """Total size of the all-reduces in a forward pass, if the output of every matrix product is all-reduced.

    Parameters
    ----------
    batch, layers : array_like, shape (...)
        Number of tokens in the pass [1], and number of layers [1].
    hidden_size, intermediate_size : float
        Width of the residual stream, and width between the matrices of the feed-forward block [1].
    query_heads, kv_heads, head_dim : float
        Number of attention heads for queries and for keys, and width of a head [1].
    bytes_per_element : float
        Size of an element in the all-reduces [B].
    input_matrices : float
        Number of input matrices of the feed-forward block [1]: 1, or 2 with a gate (SwiGLU).

    Returns
    -------
    ndarray, shape (...)
        Bytes [B].

    Notes
    -----
    Eqs. (25) and (43) of Erdil (2025): ((1 + 2 / g) h d_h + 2 d + d_ff) b L p with g = h / kv_heads. The terms are the
    outputs of the query, key and value projections, of the output projection, and of both matrix products of the
    feed-forward block. The formula is valid for 2-D splits of the weight matrices. With 1-D splits, only the outputs to
    the residual stream are all-reduced, 2 d.

    Examples
    --------
    Llama 3 70B with one sequence; the second result leaves out the gate, as the paper does:

    >>> sizes = {"hidden_size": 8192, "intermediate_size": 28672, "query_heads": 64, "kv_heads": 8, "head_dim": 128}
    >>> float(reduced_bytes(1, 80, **sizes, bytes_per_element=2, input_matrices=2) / 1e6)
    13.43488
    >>> float(reduced_bytes(1, 80, **sizes, bytes_per_element=2) / 1e6)
    8.84736
    """
    outputs = (query_heads + 2.0 * kv_heads) * head_dim + 2.0 * hidden_size + input_matrices * intermediate_size
    return np.asarray(np.multiply(batch, layers) * outputs * bytes_per_element)


def ring_reduce_seconds(size: npt.ArrayLike, ranks: npt.ArrayLike, bytes_per_second: float) -> Array:
    """Transfer time of a ring all-reduce inside a link domain.

    Parameters
    ----------
    size : array_like, shape (...)
        Size of the tensor that is summed [B].
    ranks : array_like, shape (...)
        Number of chips in the all-reduce [1].
    bytes_per_second : float
        Algorithm bandwidth of each chip in an all-reduce [B/s]: half of the one-way link bandwidth, or a quarter under
        the protocol LL.

    Returns
    -------
    ndarray, shape (...)
        Time [s].

    Notes
    -----
    Eq. (24) of Erdil (2025): X (R - 1) / (R B).

    Examples
    --------
    A batch of 100 with width 10,000 and two bytes per element, on the eight chips of a DGX H100 under LL ("about 16
    us"):

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
    """Lower bound of :func:`transfer_seconds_per_byte` over a range of ranks and domains.

    Parameters
    ----------
    ranks, domains : (ndarray, ndarray), each of shape (...)
        Minimum and maximum number of ranks, and minimum and maximum number of link domains [1].
    inside_bytes_per_second, between_bytes_per_second : array_like, float
        Largest bandwidths in the range; see :func:`transfer_seconds_per_byte` [B/s].
    overlap : bool
        See :func:`transfer_seconds_per_byte`.

    Returns
    -------
    ndarray, shape (...)
        Time per byte [s/B]. The traffic inside a domain is proportional to 1 - n / R, which grows with R and falls with
        n.
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
    """Time of an all-to-all per byte that a rank sends, if each rank sends over its own links.

    Parameters
    ----------
    ranks, domains : array_like, shape (...)
        Number of ranks R, and number of link domains n over which they are evenly spread [1].
    inside_bytes_per_second, between_bytes_per_second : array_like, float
        One-way bandwidth per rank, inside a domain and between domains [B/s]; ``inf`` is an infinitely fast link.
    crossing : array_like, shape (...)
        Bytes sent between domains, divided by all bytes that ranks of other domains receive [1]. The other bytes are
        copies, which are made in the receiving domain.
    overlap : bool
        True if traffic inside domains overlaps with traffic between domains; False if one follows the other.

    Returns
    -------
    ndarray, shape (...)
        Time per byte that one rank sends [s/B]; 0 for a single rank.

    Notes
    -----
    A rank sends R/n - 1 of R equal parts within its domain, and (n - 1) R/n parts to other domains. This division of
    the traffic is item 22 of the differences to Erdil (2025). The code of the study divides by the ranks of a domain,
    as for an all-reduce.
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
        Kind of collective. An all-reduce passes through NCCL's tree twice. Other collectives pass through the tree
        once, with half of the traffic.
    ranks, domains : array_like, shape (...)
        Number of ranks, and number of link domains over which they extend [1].
    size_bytes : array_like, shape (...)
        Size of the tensor of one group of ranks [B].
    protocols : sequence of Protocol
        Protocols, of which the fastest is used.
    seconds_per_byte : array_like, shape (...)
        Result of :func:`transfer_seconds_per_byte` [s/B].

    Returns
    -------
    ndarray, shape (...)
        Time [s]; 0 for at most one rank.

    Notes
    -----
    Latency follows the tree and ring formulas of NCCL's tuning model (``src/graph/tuning.cc``), eqs. (23) and (40) of
    Erdil (2025). As in the published code, the protocol with the smallest sum of latency and transfer time is used.

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
    """Lower bound on the time of a collective under the fastest protocol, for a range of ranks and domains.

    Parameters
    ----------
    kind : {'all_reduce', 'all_to_all', 'point_to_point'}
        See :func:`nccl_seconds`.
    ranks, domains : (ndarray, ndarray), each of shape (...)
        Minimum and maximum number of ranks, and minimum and maximum number of link domains [1].
    size_bytes : array_like, shape (...)
        Size of the smallest tensor of one group of ranks [B].
    protocols : sequence of Protocol
        Protocols, of which the fastest is used.
    seconds_per_byte : array_like, shape (...)
        Result of :func:`transfer_seconds_per_byte_floor` [s/B].

    Returns
    -------
    ndarray, shape (...)
        Lower bound [s]; 0 if the range includes a single rank. If minimum and maximum are equal, the bound equals
        :func:`nccl_seconds`.
    """
    per_domain = ranks[0] / domains[1]
    # A chain has at least ``protocol.chain`` ranks, or all ranks of a domain.
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
        See :func:`nccl_seconds` [1], [B] and [s/B].

    Returns
    -------
    CollectiveTime
        Latency [s], transfer time [s] and index of the fastest protocol, each of shape (...).

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
            # Every step of the ring waits for the slowest hop. In each pass, one step per domain crosses to another
            # domain.
            crossings = np.where(domains > 1.0, passes * domains, 0.0)
            inside = np.maximum(passes * (ranks_per_domain * domains - 1.0) - crossings, 0.0)
            latency = inside * protocol.rank_seconds + crossings * protocol.domain_seconds + protocol.base_seconds
            yield np.asarray(latency), transfer * (1.0 / protocol.bandwidth_factor)
        elif kind == "all_reduce":
            latency = (ranks_per_domain - 1.0) * protocol.rank_seconds + protocol.base_seconds
            possible = (domains <= 1.0) & np.less_equal(size_bytes, protocol.most_bytes)
            # Traffic divided by the traffic of a ring, which moves 2 (R - 1) / R of the tensor per rank. One-shot:
            # every rank receives the tensors of all R - 1 other ranks. Multicast: the switch adds and copies, so each
            # rank sends its tensor only once.
            copies: Array | float = 1.0
            if protocol.shape == "one_shot":
                copies = ranks_per_domain / 2.0
            elif protocol.shape == "multicast":
                copies = ranks_per_domain / (2.0 * np.maximum(ranks_per_domain - 1.0, 1e-9))
            yield np.where(possible, latency, np.inf), transfer * (copies / protocol.bandwidth_factor)


def tree_seconds(protocol: Protocol, passes: float, ranks: npt.ArrayLike, domains: npt.ArrayLike) -> Array:
    """Latency of NCCL's tree: a chain of ranks in each link domain, and a binary tree over the domains.

    Parameters
    ----------
    protocol : Protocol
        Protocol, with its latencies [s] and its number of ranks per domain ``chain`` [1].
    passes : float
        Number of passes through the tree, p [1].
    ranks, domains : array_like, shape (...)
        Number of ranks R, and number of link domains n over which they are evenly spread [1].

    Returns
    -------
    ndarray, shape (...)
        L(n) = p (R / n - 1) t_rank + p log2(n) t_domain + t_base [s].

    Notes
    -----
    Eqs. (23) and (40) of Erdil (2025), with a correction. Without the correction, a large domain can take longer than
    several smaller domains with the same ranks. Many small domains can also take less time than a few domains of the
    size for which ``t_rank`` was measured.

    The correction limits chains to c ranks (``chain``). A domain of more than c ranks is split into domains of at least
    c ranks if this is faster. Domains of fewer than c ranks take at least the time of domains with c ranks, because a
    hop between domains is not faster than a hop inside a domain. L has its minimum at n = R ln(2) t_rank / t_domain.

    Examples
    --------
    >>> tree = Protocol("LL", 0.0, 1e-6, 2e-6, 1.0)
    >>> (1e6 * tree_seconds(tree, 1.0, 64, [1, 8, 32])).round(1)
    array([63., 13., 11.])
    >>> (1e6 * tree_seconds(tree._replace(chain=8), 1.0, 64, [1, 8, 32])).round(1)
    array([13., 13., 13.])
    """
    size, groups = np.asarray(ranks, dtype=float), np.asarray(domains, dtype=float)
    # A single domain with a shorter chain needs no correction either.
    if np.isinf(protocol.chain) or bool((size <= protocol.chain).all() and (groups == 1.0).all()):
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
        Kind of collective. In an all-reduce, data goes around the ring of chips twice. In other collectives, data goes
        around once, with half of the traffic.
    ranks : array_like, shape (...)
        Number of ranks [1].
    size_bytes : array_like, shape (...)
        Size of the tensor of one group of ranks [B].
    hop_seconds : float
        Latency between neighbors [s].
    bytes_per_second_one_way : float
        Bandwidth of a chip in one direction [B/s].

    Returns
    -------
    CollectiveTime
        Latency [s] and transfer time [s], each of shape (...).

    Notes
    -----
    m (n - 1) (t_hop + X / (n b)), with m = 2 for an all-reduce and m = 1 for other collectives. The code of Erdil
    (2025) has this formula for TPU and Groq.
    """
    passes = 2.0 if kind == "all_reduce" else 1.0
    size = np.maximum(np.asarray(ranks, dtype=float), 1.0)
    hops = passes * (size - 1.0)
    transfer = hops / size * np.asarray(size_bytes, dtype=float) / bytes_per_second_one_way
    return CollectiveTime(hops * hop_seconds, transfer, np.where(size > 1.0, 0, -1))
