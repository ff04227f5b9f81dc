"""Pools of instances that read prompts and of instances that decode, and the links between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.answers.disaggregated.chains import with_chains
from inference_econ.answers.disaggregated.pool import Pool
from inference_econ.engine import (
    Setup,
    Speculation,
    own_tokens,
    prompt_cache_bytes,
    prompts_together,
    request_seconds,
)
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import collectives
from inference_econ.inputs import Free, Requests
from inference_econ.serving import Services


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
    """

    prefill: Pool
    decode: Pool
    layer_by_layer: bool

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
        :func:`inference_econ.answers.disaggregated.chains.with_chains` [1].
    largest : float
        Chips of a chain at most [1].

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
    return Pools(with_chains(prefill, chains, largest) if chains else prefill, _usable(decoding), layer_by_layer)


def _usable(every: Services) -> Pool:
    """Without layouts some of whose attention groups or stages would never have a sequence."""
    kept = np.flatnonzero(every.slots >= prompts_together(every.setup, every.plans))
    if not kept.size:
        raise NothingFitsError(
            f"nothing fits: {every.setup.model.name} on {every.setup.hardware.name}: in no layout does each "
            "group of attention ranks hold a sequence; allow larger instances"
        )
    return Pool(every.take(kept))


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
        seconds = np.where((path > 0.0) & together, size / path, np.inf)
        # All groups send in turn; of a chain the last process.
        sending = size / (reading.services.plans.accelerators[:, None] * from_chip)
        receiving = size / (decoding.accelerators[None, :] * to_chip)
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


def _of_one_engine(reading: Pool, decoding: Pool) -> npt.NDArray[np.bool_]:
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
