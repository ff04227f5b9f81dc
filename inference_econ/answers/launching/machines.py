"""Instances on machines: how many each needs, and what each of them is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inference_econ.answers.launching.instance import Degrees, Expanded, Instance, words
from inference_econ.errors import InputError

#: Ports that machines of an instance meet at [1].
_MEETING, _DATA_PARALLEL = 29500, 13345


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine of an instance.

    Attributes
    ----------
    rank : Expanded
        Its number among them, from 0, or what a shell makes that number of.
    leader : Expanded
        Address of the first.
    """

    rank: Expanded
    leader: Expanded


def machines(instance: Instance, size: int) -> int:
    """Machines of a size that an instance needs [1].

    Raises
    ------
    InputError
        If it does not fill them, or the engine is not started on several.
    """
    if instance.accelerators <= size:
        return 1
    if instance.accelerators % size:
        raise InputError(
            f"an instance of {instance.accelerators} accelerators does not fill machines of {size} (--gpus-per-node)",
            option="gpus_per_node",
        )
    if instance.engine.name not in ("vllm", "sglang"):
        how = " by MPI" if instance.engine.name == "trtllm" else ""
        raise InputError(
            f"{instance.engine.label} starts instances over several machines{how}, which is not written here; take "
            f"an instance of at most {size} accelerators"
        )
    instance.engine.options.parse(
        instance.engine.launch.command,
        [*words(instance.arguments), *told(instance, size, Machine(Expanded("0"), Expanded("leader")))],
    )
    return instance.accelerators // size


def told(instance: Instance, size: int, machine: Machine) -> list[str]:
    """Words for one machine of an instance that has several."""
    count = instance.accelerators // size
    if instance.engine.name == "sglang":
        address = {"--dist-init-addr": Expanded(f"{machine.leader}:{_MEETING}")}
        return words({"--nnodes": count, "--node-rank": machine.rank, **address})
    degrees = Degrees.of(instance.service)
    if degrees.dp > 1 and size % (degrees.tp * degrees.pp) == 0:
        return words(_data_parallel(size // (degrees.tp * degrees.pp), machine))
    return words({"--nnodes": count, "--node-rank": machine.rank, "--master-addr": machine.leader})


def _data_parallel(local: int, machine: Machine) -> Mapping[str, Any]:
    """VLLM's data-parallel ranks of one machine."""
    first = Expanded("0" if machine.rank == "0" else f"$(({machine.rank} * {local}))")
    return {
        "--data-parallel-size-local": local,
        "--data-parallel-start-rank": first,
        "--data-parallel-address": machine.leader,
        "--data-parallel-rpc-port": _DATA_PARALLEL,
    }


def headless(instance: Instance, rank: str) -> str | None:
    """Option that tells vLLM on all machines but the first to listen to nobody; nothing for other engines."""
    return f'$([ "{rank}" = 0 ] || echo --headless)' if instance.engine.name == "vllm" else None
