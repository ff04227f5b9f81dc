"""Layouts of prefill and decode instances, and the links between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from inference_econ import _work
from inference_econ._named import named
from inference_econ._types import Array
from inference_econ.engine import (
    Instances,
    Setup,
    Speculation,
    key_degrees,
    layout_keys,
    own_tokens,
    prompt_cache_bytes,
    prompts_of_a_step,
    prompts_together,
    request_seconds,
    shared_steps,
)
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import collectives, money
from inference_econ.inputs import Free, Groups, Requests
from inference_econ.serving import Services
from inference_econ.serving.services import batch_grid

#: Largest number of concurrent prompts per instance for which times are calculated [1].
_SHARED = 12


@dataclass(frozen=True, eq=False)
class PoolLayouts:
    """Layouts of prefill instances or of decode instances.

    Attributes
    ----------
    services : Services
        Layouts as services; arrays of shape (n,). Layouts in which a DP rank would have no sequence are left out.
    processes : ndarray, shape (n,) or (1,)
        Number of instances that form one prefill chain (KV-Runahead); 1 without a chain [1].
    latency, busy : ndarray, shape (n,) or (1,)
        Prefill time of a prompt in a chain, and time in which the prompt occupies the busiest instance of the chain.
        Both are ratios to the prefill time in a single instance [1].
    """

    services: Services
    processes: Array = field(default_factory=lambda: np.ones(1))
    latency: Array = field(default_factory=lambda: np.ones(1))
    busy: Array = field(default_factory=lambda: np.ones(1))

    @property
    def setup(self) -> Setup:
        """Model, GPU, formats, price and assumptions."""
        return self.services.setup

    @property
    def accelerators(self) -> Array:
        """Number of GPUs of an instance, or of all instances in a prefill chain, shape (n,) [1]."""
        return np.asarray(self.services.plans.accelerators * self.processes)

    def processes_of(self, index: int) -> int:
        """Number of instances that prefill one prompt together [1]; 1 unless the layout is a prefill chain."""
        return int(np.broadcast_to(self.processes, len(self.services))[index])

    @property
    def cache_chips(self) -> Array:
        """Number of GPUs that store the KV cache of one sequence, shape (n,) [1].

        They are the GPUs of one attention group in each pipeline stage.
        """
        return np.asarray(self.services.plans.attention_ranks * self.services.plans.pp)

    @cached_property
    def engines(self) -> list[tuple[str, ...]]:
        """Names of the engines that can start each layout; empty if layouts need no engine."""
        return self.setup.engines_of(self.services.plans)

    @cached_property
    def dollars_per_second(self) -> Array:
        """Price of an instance [USD/s], shape (n,)."""
        return money.dollars_per_second(self.accelerators, self.setup.dollars_per_accelerator_hour)

    @property
    def prefill_seconds(self) -> Array:
        """Prefill time of a single prompt [s], shape (n,)."""
        return np.asarray(self.services.prompt.seconds[:, 0] * self.latency)

    @cached_property
    def waiting_prompts(self) -> Array:
        """Numbers of concurrent prompts per instance for which prefill times are calculated, shape (n, k) [1].

        The numbers range from one prompt per pipeline stage to as many prompts as fill a step or all slots.
        """
        services = self.services
        most = prompts_of_a_step(services.setup, services.requests.new_tokens)
        together = np.broadcast_to(prompts_together(services.setup, services.plans), services.slots.shape)
        stages = np.broadcast_to(services.plans.pp, services.slots.shape)[:, None]
        full = np.maximum(np.minimum(together * most, services.slots)[:, None], stages)
        counts = stages * (full / stages) ** np.linspace(0.0, 1.0, _SHARED)
        return np.asarray(counts * self.processes[:, None])

    @cached_property
    def shared_prefill_seconds(self) -> Array:
        """Instance time per prompt with each number of prompts in :attr:`waiting_prompts`, shape (n, k) [s]."""
        services, prompts = self.services, self.waiting_prompts / self.processes[:, None]
        requests, plans = services.requests, services.plans.column(prompts)
        share = shared_steps(services.setup, plans, requests.new_tokens, requests.cached, prompts)
        return np.asarray(services.prompt.busy_seconds * self.busy[:, None] * share)

    @property
    def prefill_busy_seconds(self) -> Array:
        """Instance time per prompt when prefill steps are full, shape (n,) [s]."""
        return np.asarray(self.shared_prefill_seconds.min(axis=1))

    @cached_property
    def batch(self) -> Array:
        """Batches of decode instances, shape (n, k) [1]."""
        return batch_grid(self.services.running)

    @cached_property
    def step_seconds(self) -> Array:
        """Time of a decode step at each batch of :attr:`batch`, without prefill, shape (n, k) [s]."""
        return self.services.decode_seconds(self.batch)

    @cached_property
    def rates(self) -> Array:
        """Requests that a decode instance completes at each batch of :attr:`batch`, shape (n, k) [1/s]."""
        return np.asarray(1.0 / (self.services.requests.decode_steps * self.step_seconds / self.batch))

    def instances(self, shown: Sequence[int] = (), batches: Sequence[float] = (), label: str = "") -> Instances:
        """Describe layouts at given batches [1] as instances, for which prediction errors can be looked up."""
        requests, sizes = self.services.requests, self.accelerators[list(shown)].tolist()
        layouts = [self.layouts[index] for index in shown]
        speculates = self.services.speculation is not None
        return Instances(
            self.setup, sizes, batches, requests.isl.mean, requests.osl.mean, label=label, layouts=layouts,
            speculates=speculates,
        )  # fmt: skip

    @cached_property
    def layouts(self) -> list[str]:
        """Short names of the layouts, see :func:`inference_econ.engine.layout_key`.

        Names of prefill chains include the number of instances.
        """
        keys = layout_keys(self.services.plans, self.setup.assumptions.layout)
        if self.processes.size == 1:
            return keys
        processes = self.processes.tolist()
        return [f"chain of {n:.0f} x {key}" if n > 1 else key for n, key in zip(processes, keys, strict=True)]


#: Memory per pair of layouts if three engines are compared [B]; measured with 2,205 prefill and 2,205 decode layouts.
_PAIR_BYTES = 350.0
#: Function that adds prefill chains (KV-Runahead) to prefill layouts.
_WITH_CHAINS = "extras.papers.prompt_processes:with_chains"


#: Prefill/decode groups of any layouts and any size.
_ANY = Groups(None, math.inf)


@dataclass(frozen=True)
class Pools:
    """Prefill and decode layouts of disaggregated deployments, with the KV-cache transfer between each pair of layouts.

    Attributes
    ----------
    prefill : PoolLayouts
        Prefill layouts. Prefill instances store no KV cache of outputs.
    decode : PoolLayouts
        Decode layouts, possibly on another kind of GPU.
    layer_by_layer : bool
        True to send the cache of each layer during the prefill of the next layer; False to send it after the prefill.
    groups : Groups
        Limits on the prefill/decode groups to try.
    """

    prefill: PoolLayouts
    decode: PoolLayouts
    layer_by_layer: bool
    groups: Groups = _ANY

    @property
    def requests(self) -> Requests:
        """Request lengths."""
        return self.decode.services.requests

    @property
    def bytes_per_prompt(self) -> float:
        """KV cache that a prefill instance sends per prompt [B].

        The size includes the KV cache of a draft model. Copies on several GPUs and a shared prefix are excluded.
        """
        setup = self.decode.setup
        moved = own_tokens(self.requests.isl.mean, self.requests.shared_prefix, setup.assumptions.capacity)
        return prompt_cache_bytes(setup, moved, self.speculation)

    @property
    def speculation(self) -> Speculation | None:
        """Speculation method; None without speculation."""
        return self.decode.services.speculation

    @property
    def prefill_chip(self) -> dict[str, str]:
        """Record field with the name of the prefill GPU; empty if prefill and decode use the same kind of GPU."""
        chip = self.prefill.setup.hardware
        return {} if chip == self.decode.setup.hardware else {"prefill_hardware": chip.name}

    def engines_of(self, prefill: int, decode: int) -> tuple[str, ...]:
        """Names of the engines that can start both layouts of a pair; empty if layouts need no engine."""
        return tuple(name for name in self.prefill.engines[prefill] if name in self.decode.engines[decode])

    @cached_property
    def transfer(self) -> Transfer:
        """Transfer of the cache from every prefill layout to every decode layout."""
        return _transfer(self)

    @cached_property
    def first_token_seconds(self) -> Array:
        """Time to first token without queueing: request overhead, prefill and remaining transfer; shape (n, m) [s]."""
        overhead = request_seconds(self.prefill.setup, self.requests.cached)
        return overhead + self.reading_seconds + self.transfer.exposed_seconds

    @cached_property
    def reading_seconds(self) -> Array:
        """Prefill time of a single prompt plus the CPU time of its transfer [s], shape (n, m)."""
        return self.prefill.prefill_seconds[:, None] + self.transfer.handover_seconds

    @cached_property
    def busy_seconds(self) -> Array:
        """Time per prompt that a prefill instance or its links are busy if prefill steps are full, shape (n, m) [s]."""
        reading = self.prefill.prefill_busy_seconds[:, None] + self.transfer.handover_seconds
        return np.maximum(reading, self.transfer.sending_seconds)


@dataclass(frozen=True, slots=True, eq=False)
class Transfer:
    """Transfer of the KV cache of a prompt; arrays over prefill and decode layouts, shape (n, m).

    Attributes
    ----------
    fast : ndarray of bool
        True if both instances fit in one link domain and use its fast link; False if they use network cards.
    seconds : ndarray
        Transfer time of one prompt [s]; ``inf`` for pairs of layouts that have no link or cannot be combined.
    exposed_seconds : ndarray
        Part of the transfer time after the end of the prefill [s].
    sending_seconds, receiving_seconds : ndarray
        Time per prompt in which all links of a prefill instance, or of a decode instance, are busy [s].
    handover_seconds : ndarray
        CPU time per transfer, during which a prefill instance processes no other prompt [s]; 0 within a link domain.
    """

    fast: npt.NDArray[np.bool_]
    seconds: Array
    exposed_seconds: Array
    sending_seconds: Array
    receiving_seconds: Array
    handover_seconds: Array


def pools(
    reading: Services,
    decoding: Services,
    *,
    layer_by_layer: bool = True,
    chains: Sequence[int] = (),
    largest: float = math.inf,
    groups: Groups = _ANY,
) -> Pools:
    """Combine all prefill layouts with all decode layouts, for a search of disaggregated deployments.

    Parameters
    ----------
    reading : Services
        Prefill layouts: services with outputs of one token.
    decoding : Services
        Decode layouts of the same model, possibly on another kind of GPU, with outputs of more than one token.
    layer_by_layer : bool
        See :class:`Pools`.
    chains : sequence of int
        Numbers of instances in a prefill chain; see :func:`inference_econ.extras.papers.prompt_processes.with_chains`.
    largest : float
        Maximum number of GPUs in a chain [1].
    groups : Groups
        Limits on the prefill/decode groups to try; by default any group of at most 144 GPUs.

    Raises
    ------
    InputError
        If outputs have one token, no engine supports both prefill and decode instances, or no link joins them.
    NothingFitsError
        If every layout would have a DP rank without a sequence, or no layout can form a prefill chain.
    """
    requests = decoding.requests
    if requests.decode_steps <= 0:
        raise InputError(
            f"an answer of {requests.osl.mean:g} token needs no decode pool; give answers (osl) of 2 tokens or more"
        )
    prefill = _usable(reading)
    prefill = named(_WITH_CHAINS)(prefill, chains, largest) if chains else prefill
    return Pools(prefill, _usable(decoding), layer_by_layer, groups)


def _usable(every: Services) -> PoolLayouts:
    """Select the layouts with enough memory for one sequence per attention group and pipeline stage."""
    kept = np.flatnonzero(every.slots >= prompts_together(every.setup, every.plans))
    if not kept.size:
        raise NothingFitsError(
            f"nothing fits: {every.setup.model.name} on {every.setup.hardware.name}: in no layout does each "
            "group of attention ranks hold a sequence; allow larger instances"
        )
    return PoolLayouts(every.take(kept))


def _transfer(pools: Pools) -> Transfer:
    """Compute the KV-cache transfer of a prompt for every pair of a prefill layout and a decode layout.

    All GPUs that store the cache send or receive at the same time. The slower side limits the transfer. Transfers
    between GPUs of one instance are ignored.
    """
    reading, decoding = pools.prefill, pools.decode
    sender, receiver = reading.setup, decoding.setup
    size = pools.bytes_per_prompt
    together = _of_one_engine(reading, decoding)
    if not together.any():
        sides = [", ".join(engine.label for engine in side.engines) for side in (sender, receiver)]
        raise InputError(
            f"no engine can start both pools: prefill {sides[0]}; decode {sides[1]}; see --any-layout",
            option="any_layout",
        )
    pairs = reading.accelerators.size * decoding.accelerators.size
    work = f"{pairs:,} pairs of prefill and decode layouts"
    _work.check(work, seconds=0.0, size=_PAIR_BYTES * pairs, smaller="max_accelerators")
    chips = reading.accelerators[:, None] + decoding.accelerators[None, :]
    # If one prefill and one decode instance of the same kind of GPU fit in a link domain, they are assumed to share it.
    fast = (chips <= sender.hardware.link_domain) & (sender.hardware == receiver.hardware)
    from_chip, to_chip = (
        np.where(fast, _rate(side, side.hardware.link_bytes_per_second_one_way), _rate(side, nic))
        for side in (sender, receiver)
        for nic in (side.hardware.nic_bytes_per_second_one_way,)
    )
    with np.errstate(divide="ignore"):
        senders, receivers = reading.cache_chips[:, None], decoding.cache_chips[None, :]
        from_each = from_chip * np.where(fast, _wired(sender, receivers / senders), 1.0)
        to_each = to_chip * np.where(fast, _wired(receiver, senders / receivers), 1.0)
        path = np.minimum(senders * from_each, receivers * to_each)
        seconds = np.where((path > 0.0) & together & _together(pools), size / path, np.inf)
        # Attention groups send one after the other. In a prefill chain, only the last instance sends.
        sending = size / (reading.services.plans.accelerators[:, None] * from_chip)
        receiving = size / (decoding.accelerators[None, :] * to_chip)
    if not np.isfinite(seconds).any() and (path > 0.0).any():
        raise NothingFitsError(no_groups(sender))
    if not np.isfinite(seconds).any():
        chips_alone = [side.hardware for side in (sender, receiver)]
        lacking = [chip.name for chip in chips_alone if chip.nic_bytes_per_second_one_way is None]
        raise InputError(
            f"no link joins the pools: {' and '.join(dict.fromkeys(lacking))} lists no network and no two instances "
            "fit one link domain; for a what-if set hardware.nic_bytes_per_second_one_way"
        )
    left = seconds
    if pools.layer_by_layer:
        layers = sender.model.layers
        # Layer-by-layer transfer: after the prefill, the last layer remains. If links are slower than prefill, more
        # data remains.
        behind = seconds - reading.prefill_seconds[:, None] * (1.0 - 1.0 / layers)
        left = np.maximum(seconds / layers, behind)
    fast = np.broadcast_to(fast, seconds.shape)
    return Transfer(fast, seconds, left, sending, receiving, np.where(fast, 0.0, sender.assumptions.host.handover))


def _together(pools: Pools) -> npt.NDArray[np.bool_]:
    """True for pairs of prefill and decode layouts that a published group has; broadcastable to (n, m)."""
    if pools.groups.shapes is None:
        return np.ones((1, 1), dtype=bool)
    reading, writing = (
        [tuple(key_degrees(layout).values()) for layout in pool.layouts] for pool in (pools.prefill, pools.decode)
    )
    return np.array([[(reader, writer) in pools.groups.shapes for writer in writing] for reader in reading])


def no_groups(setup: Setup) -> str:
    """Error message that no published prefill/decode group of a model on a GPU fits the query."""
    return (
        f"no published disaggregated deployment of {setup.model.name} on {setup.hardware.name} fits. "
        "Add --any-group to try any group of instances, or leave --disaggregated out"
    )


def _of_one_engine(reading: PoolLayouts, decoding: PoolLayouts) -> npt.NDArray[np.bool_]:
    """True for pairs of layouts that the same engine supports; True for all pairs if layouts need no engine."""
    names = sorted({name for pool in (reading, decoding) for able in pool.engines for name in able})
    if not (reading.setup.engines and decoding.setup.engines):
        return np.ones((1, 1), dtype=bool)
    first, second = (
        np.array([[name in able for name in names] for able in pool.engines], dtype=int) for pool in (reading, decoding)
    )
    return np.asarray(first @ second.T > 0)


def _wired(setup: Setup, others: Array) -> Array:
    """Share of a GPU's fast-link bandwidth that connects it to ``others`` GPUs [1]; 1 behind a switch."""
    peers = setup.hardware.link_peers
    if peers is None or setup.assumptions.network.mesh_links == "pooled":
        return np.ones_like(others)
    return collectives.mesh_share(others + 1.0, 1.0, peers)


def _rate(setup: Setup, bytes_per_second: float | None) -> float:
    """Sustained bandwidth of a link [B/s]; 0 without a link, and infinite if the assumptions ignore communication."""
    if isinstance(setup.assumptions.network.collectives, Free):
        return math.inf
    return (bytes_per_second or 0.0) * setup.assumptions.network.link_efficiency
