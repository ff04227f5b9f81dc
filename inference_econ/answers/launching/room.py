"""Memory as engines count it when they start: weights, workspace, graphs, and the cache of the longest request."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, replace

import numpy as np

from inference_econ.engine import attention_groups, memory, needed_memory
from inference_econ.errors import InputError
from inference_econ.serving import Service

#: Steps in which sequences are captured: 1, 2, 4, 8, then eights up to 256, then sixteens [1].
_EIGHTS, _SIXTEENS = 256, 16


@dataclass(frozen=True, slots=True)
class Room:
    """Parts of the memory of one accelerator that are taken before the first request comes [B].

    Attributes
    ----------
    total : float
        All of it [B].
    usable : float
        What weights, workspace and cache may fill [B].
    weights, workspace : float
        Weights; activations of the largest step, and what the engine keeps besides [B].
    request : float
        Cache of one request as long as any may be [B].
    graphs : float
        Captured graphs, which lie beside what is usable [B].
    """

    total: float
    usable: float
    weights: float
    workspace: float
    request: float
    graphs: float

    @property
    def cache(self) -> float:
        """Room that is left for the cache [B]."""
        return self.usable - self.weights - self.workspace

    @property
    def text(self) -> str:
        """The parts in words."""
        parts = {"weights": self.weights, "workspace": self.workspace, "cache": self.cache, "graphs": self.graphs}
        listed = ", ".join(f"{name} {value / 1e9:.1f}" for name, value in parts.items())
        return f"GB of each of {self.total / 1e9:.0f}: {listed}"


def captured(sequences: int) -> int:
    """Graphs of decode steps that an engine captures up to a number of sequences [1].

    Examples
    --------
    >>> captured(1), captured(8), captured(512)
    (1, 4, 51)
    """
    small = sum(size <= sequences for size in (1, 2, 4))
    return small + min(sequences, _EIGHTS) // 8 + max(sequences - _EIGHTS, 0) // _SIXTEENS


def room(service: Service, tokens: int, graph_bytes: float) -> Room:
    """Memory that an instance needs to start.

    Parameters
    ----------
    service : Service
        The instance.
    tokens : int
        Prompt and answer of the longest request [tokens].
    graph_bytes : float
        Memory of one captured graph [B].
    """
    hbm, share = service.setup.hardware.hbm_bytes, service.setup.assumptions.capacity.usable_memory
    graphs = graph_bytes * captured(sequences_of_a_group(service))
    usable = min(hbm * share, hbm - graphs)
    full = replace(service.plans, batch=np.array([float(service.slots)]))
    needed = needed_memory(service.setup, full, service.speculation)
    held, workspace = (
        float(np.ravel(value)[0]) / service.accelerators for value in (needed.weight_bytes, needed.workspace_bytes)
    )
    # The workspace is of one accelerator already, times their number.
    kept = float(np.ravel(memory.reserved_bytes(full, service.setup.assumptions.capacity))[0])
    return Room(hbm, usable, held, workspace + kept, _request_bytes(service, tokens), graphs)


def sequences_of_a_group(service: Service) -> int:
    """Requests that each group of attention ranks has at a time, at most [1]."""
    return math.ceil(service.slots / groups(service))


def groups(service: Service) -> int:
    """Groups of attention ranks with sequences of their own [1]."""
    return int(np.ravel(attention_groups(service.plans, service.setup.assumptions.layout))[0])


def _request_bytes(service: Service, tokens: int) -> float:
    """Cache of one request on each accelerator of the group that has it [B]."""
    setup = replace(service.setup, context=float(tokens), spread=0.0, shared_prefix=0.0)
    stages = float(service.plans.pp[0]) if setup.assumptions.capacity.kv == "micro_batch" else 1.0
    lone = replace(service.plans, batch=np.array([groups(service) * stages]))
    needed = needed_memory(setup, lone, service.speculation)
    return float(np.ravel(needed.kv_bytes)[0]) / service.accelerators


def check(service: Service, needed: Room, tokens: int) -> None:
    """Refuse an instance that would not start.

    Raises
    ------
    InputError
        If weights and the cache of one longest request do not fit, with what would.
    """
    if needed.cache >= needed.request:
        return
    most = bisect_right(range(tokens), needed.cache, key=lambda length: _request_bytes(service, length)) - 1
    gigabytes = {"weights": needed.weights, "workspace": needed.workspace, "graphs": needed.graphs}
    taken = ", ".join(f"{name} {value / 1e9:.1f} GB" for name, value in gigabytes.items())
    remedy = (
        f"at most {most} tokens fit (--max-model-len {most})" if most > 0 else "no request fits; take more accelerators"
    )
    raise InputError(
        f"would not start: a request of {tokens} tokens needs {needed.request / 1e9:.1f} GB of cache on each "
        f"{service.setup.hardware.name}, and {max(needed.cache, 0.0) / 1e9:.1f} GB are left of "
        f"{needed.usable / 1e9:.1f} GB ({taken}): {remedy}"
    )
