"""Time of the collectives in an operator table on a chip's network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inference_econ._by_identity import by_identity
from inference_econ._types import Array
from inference_econ.engine.operators.table import Collective
from inference_econ.errors import InputError
from inference_econ.formulas import collectives as nccl
from inference_econ.inputs import (
    Free,
    HardwareSpec,
    Mesh,
    NcclTree,
    NetworkAssumptions,
    ProtocolConstants,
    ProtocolName,
)


@dataclass(frozen=True, slots=True)
class Network:
    """Links of a chip, and the model of collectives on these links.

    Attributes
    ----------
    model : NcclTree, Mesh or Free
        Model that computes the time of collectives.
    protocols, exchange_protocols : sequence of Protocol
        Protocols from which NCCL and engines choose: ``protocols`` for all-reduces, ``exchange_protocols`` for other
        collectives.
    inside, between : float
        Sustained one-way bandwidth of a chip, within a link domain and between domains [B/s]. A missing link has
        infinite bandwidth here, because other checks reject plans that need this link.
    overhead : float
        Synchronization time of the ranks before a collective [s].
    neighbours : float or None
        Bandwidth to the next chip of a torus [B/s]; None without a torus.
    peers : float or None
        Number of direct links from a chip to other chips, which share the bandwidth ``inside`` equally [1]; None if
        chips are connected by a switch.
    name : str
        Name of the chip, for error messages.
    hop : float
        Latency between neighboring chips of a mesh [s].
    """

    model: NcclTree | Mesh | Free
    protocols: Sequence[nccl.Protocol]
    exchange_protocols: Sequence[nccl.Protocol]
    inside: float
    between: float
    neighbours: float | None
    overhead: float
    name: str
    peers: float | None = None
    hop: float = 0.0

    @staticmethod
    @by_identity
    def of(hardware: HardwareSpec, assumed: NetworkAssumptions) -> Network:
        """Create the network model of a chip under given assumptions."""
        model, share = assumed.collectives, assumed.link_efficiency
        link, nic = hardware.link_bytes_per_second_one_way, hardware.nic_bytes_per_second_one_way
        nearest, tree = link or nic, model if isinstance(model, NcclTree) else None
        between = np.inf if nic is None else nic * share
        if tree is not None and tree.network_factor is not None and nic is not None:
            # The measured bandwidth already includes the bandwidth factor of the fastest protocol, so the bandwidth is
            # divided by this factor.
            most = max(protocol.bandwidth_factor for protocol in tree.protocols.values())
            between = nic * share * (tree.network_factor / most)
        inside = np.inf if link is None else link * share
        if tree is not None and tree.chain is not None and nic is not None:
            # Chips of a link domain can also communicate over the network.
            inside = max(inside, between)
        slower = assumed.latency_factor
        return Network(
            model,
            [] if tree is None else _protocols(tree, slower),
            [] if tree is None else _exchange_protocols(tree, slower),
            inside,
            between,
            None if nearest is None else nearest * share,
            assumed.collective_overhead * slower,
            hardware.name,
            hardware.link_peers if assumed.mesh_links == "per_peer" else None,
            model.hop * slower if isinstance(model, Mesh) else 0.0,
        )

    def for_kind(self, kind: nccl.Kind) -> Sequence[nccl.Protocol]:
        """Protocols that a kind of collective can use."""
        return self.protocols if kind == "all_reduce" else self.exchange_protocols

    def inside_for(self, ranks: Array, domains: Array) -> Array | float:
        """Bandwidth from a chip to the other chips of its group within the link domain [B/s]."""
        return self.inside if self.peers is None else self.inside * nccl.mesh_share(ranks, domains, self.peers)


def collective_seconds(network: Network, collective: Collective, tokens: Array) -> Array:
    """Time of one collective of the operator table: latency plus transfer time [s]."""
    model = network.model
    if isinstance(model, NcclTree):
        if np.less_equal(collective.ranks, 1.0).all():
            shapes = map(np.shape, (collective.ranks, collective.domains, collective.bytes_per_token, tokens))
            return np.zeros(np.broadcast_shapes(*shapes))
        seconds = nccl.nccl_seconds(*_sent(network, model, collective, tokens))
        return seconds + np.where(collective.ranks > 1.0, network.overhead, 0.0) if network.overhead else seconds
    time = collective_parts(network, collective, tokens)
    return time.latency_seconds + time.bandwidth_seconds


def _sent(
    network: Network, model: NcclTree, collective: Collective, tokens: Array
) -> tuple[nccl.Kind, Array, Array, Array, Sequence[nccl.Protocol], Array]:
    """Arguments for :func:`formulas.collectives.nccl_seconds`."""
    size, domains = collective.bytes_per_token * tokens, collective.domains
    per_byte = _seconds_per_byte(network, model, collective, domains)
    if model.chain is not None and not np.all(np.less_equal(domains, 1.0)):
        # Data that cross between domains also occupy the links within the chip's own domain.
        per_byte = np.maximum(per_byte, _seconds_per_byte(network, model, collective, np.ones_like(domains)))
    return collective.kind, collective.ranks, domains, size, network.for_kind(collective.kind), per_byte


def collective_parts(network: Network, collective: Collective, tokens: Array) -> nccl.CollectiveTime:
    """Latency and transfer time of one collective of the operator table [s]."""
    size, model = collective.bytes_per_token * tokens, network.model
    if isinstance(model, Free):
        nothing = np.zeros(np.broadcast_shapes(np.shape(size), np.shape(collective.ranks)))
        return nccl.CollectiveTime(nothing, nothing, nothing.astype(np.intp))
    if isinstance(model, Mesh):
        if network.neighbours is None:
            raise InputError(
                f"{network.name} lists no link, so its mesh collectives cannot be timed; "
                "set hardware.link_bytes_per_second_one_way"
            )
        return nccl.mesh_parts(collective.kind, collective.ranks, size, network.hop, network.neighbours)
    time = nccl.nccl_parts(*_sent(network, model, collective, tokens))
    waited = np.where(collective.ranks > 1.0, network.overhead, 0.0)
    return time._replace(latency_seconds=time.latency_seconds + waited)


def _protocols(model: NcclTree, slower: float) -> list[nccl.Protocol]:
    """Protocols of all-reduces: NCCL's tree and ring, and all-reduce kernels of engines within a link domain.

    The latencies of collectives are multiplied by ``slower``.
    """
    algorithms: tuple[tuple[nccl.Shape, dict[ProtocolName, ProtocolConstants]], ...]
    algorithms = (("tree", model.protocols), ("ring", model.ring))
    chain = np.inf if model.chain is None else model.chain
    protocols = [
        nccl.Protocol(
            name,
            protocol.base * slower,
            protocol.per_rank * slower,
            protocol.per_domain_doubling * slower,
            protocol.bandwidth_factor,
            shape,
            chain=chain,
        )
        for shape, constants in algorithms
        for name, protocol in constants.items()
    ]
    for name, kernel in model.kernels.items():
        limit, fixed = np.inf if kernel.most_bytes is None else kernel.most_bytes, (kernel.base, kernel.per_rank)
        base, per_rank = (seconds * slower for seconds in fixed)
        protocols.append(nccl.Protocol(name, base, per_rank, 0.0, kernel.bandwidth_factor, kernel.shape, limit))
    return protocols


def _exchange_protocols(model: NcclTree, slower: float) -> list[nccl.Protocol]:
    """Protocols of collectives other than all-reduces, including all-to-all kernels of engines."""
    protocols = _protocols(model, slower)
    if model.exchange_chain is not None:
        protocols = [protocol._replace(chain=model.exchange_chain) for protocol in protocols]
    if model.exchange_per_domain_doubling is None:
        return protocols
    chain, doubling = protocols[0].chain, model.exchange_per_domain_doubling * slower
    kernels = [
        nccl.Protocol(
            name, kernel.base * slower, kernel.per_rank * slower, doubling, kernel.bandwidth_factor, chain=chain
        )
        for name, kernel in model.exchange_kernels.items()
    ]
    return [protocol._replace(domain_seconds=doubling) for protocol in protocols] + kernels


def _seconds_per_byte(network: Network, model: NcclTree, collective: Collective, domains: Array) -> Array:
    inside = network.inside_for(collective.ranks, domains)
    between, overlap = network.between, model.domains_overlap
    if collective.own_link:
        # The formula halves the traffic of collectives other than all-reduces. The traffic here is exact, so it is
        # first doubled.
        return 2.0 * nccl.exchange_seconds_per_byte(
            collective.ranks, domains, inside, between, crossing=collective.crossing, overlap=overlap
        )
    return nccl.transfer_seconds_per_byte(collective.ranks, domains, inside, between, overlap=overlap)


def collective_floor(network: Network, first: Collective, last: Collective, tokens: Array) -> Array:
    """Lower bound on the time of a collective [s].

    The bound is valid for any number of ranks from ``first`` to ``last``. The bound requires that the tensor of a group
    does not grow with the number of ranks.
    """
    model = network.model
    if not isinstance(model, NcclTree):
        least = Collective(first.kind, first.ranks, first.domains, last.bytes_per_token)
        return collective_seconds(network, least, tokens)
    ranks, domains = (first.ranks, last.ranks), (first.domains, last.domains)
    # In a mesh, the largest group has the most bandwidth.
    inside = network.inside_for(ranks[1], domains[0])
    seconds_per_byte = nccl.transfer_seconds_per_byte_floor(
        ranks, domains, inside, network.between, overlap=model.domains_overlap
    )
    size = last.bytes_per_token * tokens
    return nccl.nccl_floor(first.kind, ranks, domains, size, network.for_kind(first.kind), seconds_per_byte)
