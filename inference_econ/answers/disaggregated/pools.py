"""Pools of instances that read prompts and of instances that decode, and the links between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from inference_econ import _work
from inference_econ._types import Array
from inference_econ.answers.prompt_processes import PrefillChain, Processes, check_kept, read_whole
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
from inference_econ.serving import Services, Steady

#: Numbers of prompts on an instance that are looked at [1].
_SHARED = 12


@dataclass(frozen=True)
class PoolLayouts:
    """Layouts that one pool can be made of.

    Attributes
    ----------
    services : Services
        The layouts, arrays of shape (n,); those whose groups cannot all hold a sequence are left out.
    processes : ndarray, shape (n,) or (1,)
        Instances of the layout that make one of the pool, a chain that reads prompts in parts [1]; see
        :func:`inference_econ.answers.disaggregated.pools.with_chains`.
    latency, busy : ndarray, shape (n,) or (1,)
        Time of a prompt in a chain, and of its busiest process, over the time of one process [1].
    """

    services: Services
    processes: Array = field(default_factory=lambda: np.ones(1))
    latency: Array = field(default_factory=lambda: np.ones(1))
    busy: Array = field(default_factory=lambda: np.ones(1))

    @property
    def setup(self) -> Setup:
        """Model, chip and formats."""
        return self.services.setup

    @property
    def accelerators(self) -> Array:
        """Chips of an instance [1], shape (n,)."""
        return np.asarray(self.services.plans.accelerators * self.processes)

    def processes_of(self, index: int) -> int:
        """Processes of an instance of a layout [1]: several in a chain."""
        return int(np.broadcast_to(self.processes, len(self.services))[index])

    @property
    def cache_chips(self) -> Array:
        """Chips that hold the cache of one sequence: those of an attention group, on all stages [1], shape (n,)."""
        return np.asarray(self.services.plans.attention_ranks * self.services.plans.pp)

    @cached_property
    def engines(self) -> list[tuple[str, ...]]:
        """The engines that can start each layout, by name; none where any layout is offered."""
        return self.setup.engines_of(self.services.plans)

    @cached_property
    def dollars_per_second(self) -> Array:
        """Of an instance [USD/s], shape (n,)."""
        return money.dollars_per_second(self.accelerators, self.setup.dollars_per_accelerator_hour)

    @property
    def prefill_seconds(self) -> Array:
        """One prompt by itself [s], shape (n,)."""
        return np.asarray(self.services.prompt.seconds[:, 0] * self.latency)

    @cached_property
    def waiting_prompts(self) -> Array:
        """Prompts of an instance, from one per stage to full steps of all groups, or all slots, shape (n, k) [1]."""
        services = self.services
        most = prompts_of_a_step(services.setup, services.requests.new_tokens)
        together = np.broadcast_to(prompts_together(services.setup, services.plans), services.slots.shape)
        stages = np.broadcast_to(services.plans.pp, services.slots.shape)[:, None]
        full = np.maximum(np.minimum(together * most, services.slots)[:, None], stages)
        counts = stages * (full / stages) ** np.linspace(0.0, 1.0, _SHARED)
        return np.asarray(counts * self.processes[:, None])

    @cached_property
    def shared_prefill_seconds(self) -> Array:
        """Time of an instance that each of :attr:`waiting_prompts` takes, shape (n, k) [s]."""
        services, prompts = self.services, self.waiting_prompts / self.processes[:, None]
        requests, plans = services.requests, services.plans.column(prompts)
        share = shared_steps(services.setup, plans, requests.new_tokens, requests.cached, prompts)
        return np.asarray(services.prompt.busy_seconds * self.busy[:, None] * share)

    @property
    def prefill_busy_seconds(self) -> Array:
        """Time of an instance that one prompt takes where steps are full of prompts [s], shape (n,)."""
        return np.asarray(self.shared_prefill_seconds.min(axis=1))

    @cached_property
    def states(self) -> Steady:
        """The steady states by batch of instances that decode what others have read; shape (n, k + 1).

        That of a full instance is the last one: prompts that are being read are among its requests.
        """
        services, states = self.services, self.services.states
        rows = zip(services.running, states.concurrency, states.batch, strict=True)
        full = [[np.exp(np.interp(np.log(limit), np.log(flight), np.log(batch)))] for limit, flight, batch in rows]
        batch = np.append(states.batch, full, axis=1)
        seconds = np.append(states.decode_seconds, services.decode_seconds(batch[:, -1:]), axis=1)
        return replace(states, batch=batch, decode_seconds=seconds).without_prompts(services.requests.decode_steps)

    @property
    def batch(self) -> Array:
        """Batches, shape (n, k + 1) [1]."""
        return self.states.batch

    def instances(self, shown: Sequence[int] = (), batches: Sequence[float] = (), label: str = "") -> Instances:
        """Some instances of the pool, by the positions of their layouts and the requests that each serves [1]."""
        requests, sizes = self.services.requests, self.accelerators[list(shown)].tolist()
        layouts = [self.layouts[index] for index in shown]
        speculates = self.services.speculation is not None
        return Instances(
            self.setup, sizes, batches, requests.isl.mean, requests.osl.mean, label=label, layouts=layouts,
            speculates=speculates,
        )  # fmt: skip

    @cached_property
    def layouts(self) -> list[str]:
        """Every layout by name, see :func:`inference_econ.engine.layout_key`; of chains with how many processes."""
        keys = layout_keys(self.services.plans, self.setup.assumptions.layout)
        if self.processes.size == 1:
            return keys
        processes = self.processes.tolist()
        return [f"chain of {n:.0f} x {key}" if n > 1 else key for n, key in zip(processes, keys, strict=True)]

    @property
    def step_seconds(self) -> Array:
        """A decode step that no prompt delays, shape (n, k + 1) [s]."""
        return self.states.decode_seconds


#: Longer chains than can be meant [1]; and what a layout and a process of a chain take to search parts for [s].
_LONGEST, _TABLE_SECONDS, _PROCESS_SECONDS = 64, 0.6, 0.05


def with_chains(pool: PoolLayouts, numbers: Sequence[int], largest: float = math.inf) -> PoolLayouts:
    """Layouts of a prefill pool, and chains of each of them that reads one prompt at a time.

    Parameters
    ----------
    pool : Pool
        Layouts that read prompts.
    numbers : sequence of int
        Processes of a chain [1]: instances of the layout, on chips of the same kind.
    largest : float
        Chips of a chain at most [1].

    Returns
    -------
    Pool
        A chain is an instance of so many times the chips. It takes a prompt's time alone, and keeps its busiest process
        busy, in proportion to those of one process by :class:`PrefillChain`; while that goes on, the others read for
        the next prompts. The last process has the whole cache, and sends it to those that decode.

    Raises
    ------
    InputError
        If a number cannot be used, or no cache is kept.
    NothingFitsError
        If no layout can be a process of such chains.
    """
    services = pool.services
    tokens, cached = round(services.requests.new_tokens), float(services.requests.cached)
    for number in numbers:
        if not 2 <= number <= _LONGEST:
            raise InputError(f"a chain has from 2 to {_LONGEST} processes, got {number}", option="prefill_chain")
        if tokens < number:
            raise InputError(f"a prompt of {tokens} tokens has no token for each of {number} processes")
    check_kept(services.setup)
    plans, slots, whole = services.plans, services.slots, read_whole(services.setup)
    alone = np.broadcast_to((prompts_together(services.setup, plans) == 1.0) & (plans.pp == 1.0), slots.shape)
    seconds = alone.sum() * (_TABLE_SECONDS + _PROCESS_SECONDS * sum(numbers))
    _work.check(f"{alone.sum() * len(numbers):,} chains", seconds=float(seconds), smaller="prefill_chain")
    most = min(largest, services.setup.most_linked or math.inf)
    chains: list[tuple[float, ...]] = []
    for index in np.flatnonzero(alone).tolist():
        processes = Processes.of(whole, plans.at((np.array([index]),)), float(tokens), cached)
        once = processes.alone(tokens).seconds
        for chain in (PrefillChain(((processes, number),)) for number in numbers if number * processes.chips <= most):
            way = chain.searched(tokens)
            busiest = chain.busiest_seconds(way.parts)
            chains.append((index, chain.processes, way.seconds / once, busiest / once))
    if not chains:
        raise NothingFitsError(
            f"no layout of {services.setup.model.name} on {services.setup.hardware.name} that reads a prompt at a time "
            f"makes a chain of {' or '.join(map(str, numbers))} within {most:g} GPUs; allow larger instances"
        )
    single = np.arange(len(services))
    rows, *columns = np.array(chains).T
    ones = np.ones(single.size)
    every = services.take(np.concatenate([single, rows.astype(np.intp)]))
    return PoolLayouts(every, *(np.concatenate([ones, column]) for column in columns))


#: Groups of any layouts. Published groups of one service have up to 320 GPUs (DeepSeek-V3's report, section 3.4), those
#: of public measurements up to 72.
_ANY = Groups(None, 144)


@dataclass(frozen=True)
class Pools:
    """Layouts that disaggregated serving can choose from.

    Attributes
    ----------
    prefill : Pool
        Layouts that read prompts; their memory need not hold answers.
    decode : Pool
        Layouts that decode; perhaps of another kind of chip.
    layer_by_layer : bool
        A layer's cache is sent while the next layer is computed; otherwise all of it once the prompt has been read.
    groups : Groups
        That are tried.
    """

    prefill: PoolLayouts
    decode: PoolLayouts
    layer_by_layer: bool
    groups: Groups = _ANY

    @property
    def requests(self) -> Requests:
        """Lengths."""
        return self.decode.services.requests

    @property
    def bytes_per_prompt(self) -> float:
        """Cache of a prompt that moves from one pool to the other, each byte once [B]; a shared prefix is there.

        That of whoever proposes tokens moves as well.
        """
        setup = self.decode.setup
        moved = own_tokens(self.requests.isl.mean, self.requests.shared_prefix, setup.assumptions.capacity)
        return prompt_cache_bytes(setup, moved, self.speculation)

    @property
    def speculation(self) -> Speculation | None:
        """Who proposes tokens; None if nobody does."""
        return self.decode.services.speculation

    @property
    def prefill_chip(self) -> dict[str, str]:
        """Where prompts are read on another kind of chip than answers, its name, as records have it; else nothing."""
        chip = self.prefill.setup.hardware
        return {} if chip == self.decode.setup.hardware else {"prefill_hardware": chip.name}

    def engines_of(self, prefill: int, decode: int) -> tuple[str, ...]:
        """The engines that can start both layouts of a pair, by name; none where any layout is offered."""
        return tuple(name for name in self.prefill.engines[prefill] if name in self.decode.engines[decode])

    @cached_property
    def transfer(self) -> Transfer:
        """The cache's way from every prefill layout to every decode layout."""
        return _transfer(self)

    @cached_property
    def first_token_seconds(self) -> Array:
        """A request's overhead, its prefill, and what is left of the transfer then [s], shape (n, m)."""
        overhead = request_seconds(self.prefill.setup, self.requests.cached)
        return overhead + self.reading_seconds + self.transfer.exposed_seconds

    @cached_property
    def reading_seconds(self) -> Array:
        """One prompt by itself, its cache handed over [s], shape (n, m)."""
        return self.prefill.prefill_seconds[:, None] + self.transfer.handover_seconds

    @cached_property
    def busy_seconds(self) -> Array:
        """Time of a prefill instance, or of its links, that one prompt takes where steps are full [s], shape (n, m)."""
        reading = self.prefill.prefill_busy_seconds[:, None] + self.transfer.handover_seconds
        return np.maximum(reading, self.transfer.sending_seconds)


@dataclass(frozen=True, slots=True)
class Transfer:
    """The cache of a prompt on its way; arrays over prefill and decode layouts, shape (n, m).

    Attributes
    ----------
    fast : ndarray of bool
        Both instances fit one link domain, and its fast link carries the cache; otherwise their NICs do.
    seconds : ndarray
        For one prompt [s]; ``inf`` where there is no way.
    exposed_seconds : ndarray
        What of it is left when the prompt has been read [s].
    sending_seconds, receiving_seconds : ndarray
        Time of all links of an instance that a prompt takes up, on either side [s].
    handover_seconds : ndarray
        Time of the host of a prefill instance, which reads no other prompt meanwhile [s]; none inside a link domain.
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
    """Prefill and decode pools of some layouts.

    Parameters
    ----------
    reading : Services
        Layouts that read prompts: services of answers of one token.
    decoding : Services
        Layouts that decode, of the same model, perhaps on another kind of chip; answers of more than one token.
    layer_by_layer : bool
        See :class:`Pools`.
    chains : sequence of int
        Processes of chains that may read prompts in place of single instances, see
        :func:`inference_econ.answers.disaggregated.pools.with_chains` [1].
    largest : float
        Chips of a chain at most [1].
    groups : Groups
        That are tried; any by default.

    Raises
    ------
    InputError
        If answers have a single token, no engine can start both pools, or no link joins them.
    NothingFitsError
        If in no layout each group of attention ranks holds a sequence, or none makes a chain.
    """
    requests = decoding.requests
    if requests.decode_steps <= 0:
        raise InputError(
            f"an answer of {requests.osl.mean:g} token needs no decode pool; give answers (osl) of 2 tokens or more"
        )
    prefill = _usable(reading)
    prefill = with_chains(prefill, chains, largest) if chains else prefill
    return Pools(prefill, _usable(decoding), layer_by_layer, groups)


def _usable(every: Services) -> PoolLayouts:
    """Without layouts some of whose attention groups or stages would never have a sequence."""
    kept = np.flatnonzero(every.slots >= prompts_together(every.setup, every.plans))
    if not kept.size:
        raise NothingFitsError(
            f"nothing fits: {every.setup.model.name} on {every.setup.hardware.name}: in no layout does each "
            "group of attention ranks hold a sequence; allow larger instances"
        )
    return PoolLayouts(every.take(kept))


def _transfer(pools: Pools) -> Transfer:
    """Seconds of a prompt's cache between all pairs of layouts.

    All chips that hold a part of the cache send it, or receive it, at the same time; the slower side decides. Copies
    that a layout keeps are made inside its instance and are not counted.
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
    chips = reading.accelerators[:, None] + decoding.accelerators[None, :]
    # Instances of one kind that fit a link domain together are taken to be placed there.
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
        # All groups send in turn; of a chain the last process.
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
        # The last layer's part, or what a link slower than the prefill has not yet carried.
        behind = seconds - reading.prefill_seconds[:, None] * (1.0 - 1.0 / layers)
        left = np.maximum(seconds / layers, behind)
    fast = np.broadcast_to(fast, seconds.shape)
    return Transfer(fast, seconds, left, sending, receiving, np.where(fast, 0.0, sender.assumptions.host.handover))


def _together(pools: Pools) -> npt.NDArray[np.bool_]:
    """Whether a group of both layouts of each pair is tried, broadcast."""
    if pools.groups.shapes is None:
        return np.ones((1, 1), dtype=bool)
    reading, writing = (
        [tuple(key_degrees(layout).values()) for layout in pool.layouts] for pool in (pools.prefill, pools.decode)
    )
    return np.array([[(reader, writer) in pools.groups.shapes for writer in writing] for reader in reading])


def no_groups(setup: Setup) -> str:
    """Return that no published group serves a model on a GPU, and what to do."""
    return (
        f"no published disaggregated deployment of {setup.model.name} on {setup.hardware.name} fits: "
        "add --any-group to try all groups, or leave --disaggregated out"
    )


def _of_one_engine(reading: PoolLayouts, decoding: PoolLayouts) -> npt.NDArray[np.bool_]:
    """Whether some engine can start both layouts of each pair, broadcast; all pairs where any layout is offered."""
    names = sorted({name for pool in (reading, decoding) for able in pool.engines for name in able})
    if not (reading.setup.engines and decoding.setup.engines):
        return np.ones((1, 1), dtype=bool)
    first, second = (
        np.array([[name in able for name in names] for able in pool.engines], dtype=int) for pool in (reading, decoding)
    )
    return np.asarray(first @ second.T > 0)


def _wired(setup: Setup, others: Array) -> Array:
    """Share of a chip's fast link that leads to so many chips of the other pool [1]; all of it behind a switch."""
    peers = setup.hardware.link_peers
    if peers is None or setup.assumptions.network.mesh_links == "pooled":
        return np.ones_like(others)
    return collectives.mesh_share(others + 1.0, 1.0, peers)


def _rate(setup: Setup, bytes_per_second: float | None) -> float:
    """Bandwidth that a link sustains, 0 if there is none [B/s]."""
    if isinstance(setup.assumptions.network.collectives, Free):
        return math.inf
    return (bytes_per_second or 0.0) * setup.assumptions.network.link_efficiency
