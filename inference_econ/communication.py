"""Seconds of the operator table's collectives on a chip, under a model of collectives (floor 5)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from inference_econ.errors import InputError
from inference_econ.formulas import collectives as nccl
from inference_econ.rows import Collective
from inference_econ.spec.assumptions import Free, Mesh, NcclTree
from inference_econ.spec.hardware import HardwareSpec

Array = npt.NDArray[np.float64]
CollectivesModel = NcclTree | Mesh | Free


def collective_seconds(hardware: HardwareSpec, model: CollectivesModel, collective: Collective, tokens: Array) -> Array:
    """Time of one collective of the table [s]; the sum of :func:`collective_parts`."""
    if isinstance(model, NcclTree):
        return nccl.nccl_seconds(
            collective.kind,
            collective.ranks,
            collective.domains,
            collective.bytes_per_token * tokens,
            _protocols(model),
            _seconds_per_byte(hardware, collective, model),
        )
    time = collective_parts(hardware, model, collective, tokens)
    return time.latency_seconds + time.bandwidth_seconds


def collective_parts(
    hardware: HardwareSpec, model: CollectivesModel, collective: Collective, tokens: Array
) -> nccl.CollectiveTime:
    """Latency and transfer time of one collective of the table [s]."""
    size = collective.bytes_per_token * tokens
    if isinstance(model, Free):
        nothing = np.zeros(np.broadcast_shapes(np.shape(size), np.shape(collective.ranks)))
        return nccl.CollectiveTime(nothing, nothing, nothing.astype(np.intp))
    if isinstance(model, Mesh):
        bandwidth = hardware.link_bytes_per_second_one_way or hardware.nic_bytes_per_second_one_way
        if bandwidth is None:
            raise InputError(
                f"{hardware.name} lists no link, so its mesh collectives cannot be timed; "
                "set hardware.link_bytes_per_second_one_way"
            )
        return nccl.mesh_parts(collective.kind, collective.ranks, size, model.hop, bandwidth)
    return nccl.nccl_parts(
        collective.kind,
        collective.ranks,
        collective.domains,
        size,
        _protocols(model),
        _seconds_per_byte(hardware, collective, model),
    )


def _protocols(model: NcclTree) -> list[nccl.Protocol]:
    return [
        nccl.Protocol(
            name, constants.base, constants.per_rank, constants.per_domain_doubling, constants.bandwidth_factor
        )
        for name, constants in model.protocols.items()
    ]


def _seconds_per_byte(hardware: HardwareSpec, collective: Collective, model: NcclTree) -> Array:
    """A missing link counts as infinitely fast: plans that would need it are infeasible."""
    inside = hardware.link_bytes_per_second_one_way or np.inf
    between = hardware.nic_bytes_per_second_one_way or np.inf
    if collective.own_link:
        # What does not reduce is timed at half of an all-reduce's traffic; here the traffic is counted as it is.
        return 2.0 * nccl.exchange_seconds_per_byte(
            collective.ranks, collective.domains, inside, between, overlap=model.domains_overlap
        )
    return nccl.transfer_seconds_per_byte(
        collective.ranks, collective.domains, inside, between, overlap=model.domains_overlap
    )


def collective_floor(
    hardware: HardwareSpec, model: CollectivesModel, first: Collective, last: Collective, tokens: Array
) -> Array:
    """Time that a collective between two sizes does not beat; its tensor per group never grows with the ranks."""
    if not isinstance(model, NcclTree):
        least = Collective(first.kind, first.ranks, first.domains, last.bytes_per_token)
        return collective_seconds(hardware, model, least, tokens)
    ranks, domains = (first.ranks, last.ranks), (first.domains, last.domains)
    seconds_per_byte = nccl.transfer_seconds_per_byte_floor(
        ranks,
        domains,
        hardware.link_bytes_per_second_one_way or np.inf,
        hardware.nic_bytes_per_second_one_way or np.inf,
        overlap=model.domains_overlap,
    )
    size = last.bytes_per_token * tokens
    return nccl.nccl_floor(first.kind, ranks, domains, size, _protocols(model), seconds_per_byte)
