"""Layouts as services: each with its steady states, from one request to a full cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from inference_econ import _work
from inference_econ._types import Array, Indices
from inference_econ.engine import (
    PROPOSERS,
    Grid,
    Plans,
    Prefill,
    Setup,
    Speculation,
    memory,
    needed_memory,
    prompts_of_a_step,
    prompts_together,
    read_prompt,
    shared_steps,
)
from inference_econ.errors import NothingFitsError
from inference_econ.inputs import Requests
from inference_econ.serving.lengths import PromptTimes
from inference_econ.serving.slots import Crowding, slots_of
from inference_econ.serving.steady import Steady, decode_steps, steady

#: Slots where prompts share blocks over those that mean contexts have room for: blocks decide who is let in [1].
_SLOTS_OF_BLOCKS = 4
#: Between batches of a layout, from one request to a full cache [1], and about how many that are.
RATIO, _BATCHES = 2.0**0.125, 72
#: Requests in flight of an instance at most [1]: engines run some thousands, and there are arrays over them.
_MOST_SLOTS = 2.0**18
#: Layouts whose states are calculated together: arrays of about 0.5 MB for each [1].
_TOGETHER = 256
#: What the states of a layout take, 0.07 to 3 ms where it was measured [s], and the arrays that are kept of them [B].
_SECONDS, _BYTES = 2.5e-3, 13 * 8.0 * _BATCHES


@dataclass(frozen=True)
class Services:
    """Some layouts as services.

    Attributes
    ----------
    setup : Setup
        What, on what, how, at the mean context of the requests.
    requests : Requests
        Lengths.
    plans : Plans
        Layouts, arrays of shape (n,).
    slots : ndarray, shape (n,)
        Requests in flight at most: their cache fits [1].
    crowding : Crowding or None
        What requests hold beyond the memory when many are in flight; None where whole answers have room.
    steady : callable
        Gives :attr:`states`, which are calculated when they are first asked for.
    decoding : callable
        Gives batches up to all slots and their decode steps alone [1], [s]; arrays of shape (n, k).
    speculation : Speculation or None
        Who proposes tokens.
    limit : float
        Requests in flight that an instance is told to have at most, whatever its memory holds [1].
    """

    setup: Setup
    requests: Requests
    plans: Plans
    slots: Array
    crowding: Crowding | None
    steady: Callable[[], Steady]
    decoding: Callable[[], tuple[Array, Array]]
    speculation: Speculation | None = None
    limit: float = math.inf

    def __len__(self) -> int:
        return self.slots.size

    @property
    def slots_of_blocks(self) -> Array:
        """Requests in flight at most where prompts share blocks, whose number then decides, shape (n,) [1]."""
        return np.minimum(_SLOTS_OF_BLOCKS * self.slots, self.limit)

    @cached_property
    def states(self) -> Steady:
        """Steady states by batch, ascending; arrays of shape (n, k)."""
        return self.steady()

    @cached_property
    def prompt(self) -> Prefill:
        """A prompt by itself, the average over their lengths; arrays of shape (n, 1)."""
        plans = self.plans.column(np.ones((len(self), 1)))
        return PromptTimes.of(self.setup, plans, self.requests, self.speculation).mean

    @property
    def running(self) -> Array:
        """Requests in flight on average where more come than an instance completes, shape (n,) [1]."""
        return self.slots if self.crowding is None else np.minimum(self.slots, self.crowding.in_flight)

    def service(self, index: int) -> Service:
        """One of them."""
        plans, slots = self.plans.at((np.array([index]),)), int(self.slots[index])
        return Service(
            self.setup, self.requests, plans, slots, float(self.running[index]),
            lambda: self.states.take(index), lambda: self._taken(index), self.speculation,
            int(self.slots_of_blocks[index]),
        )  # fmt: skip

    def take(self, indices: Indices) -> Services:
        """Some of them."""
        plans, slots = self.plans.at((indices,)), self.slots[indices]
        crowding = None if self.crowding is None else self.crowding.take(indices)
        states, decoding = (lambda: self.states.take(indices)), (lambda: self._taken(indices))
        return replace(self, plans=plans, slots=slots, crowding=crowding, steady=states, decoding=decoding)

    def states_at(self, batches: Array) -> Steady:
        """Steady states of each layout at batches of its own [1], shape (n, k)."""
        return states_of(self.setup, self.plans, batches, self.requests, self.speculation, self.crowding)

    def decode_seconds(self, batches: Array) -> Array:
        """A decode step without prefill of each layout at batches of its own [1], shape (n, k) [s]."""
        return _decode_seconds(self.setup, self.plans, batches, self.speculation)

    def _taken(self, index: int | Indices) -> tuple[Array, Array]:
        batches, seconds = self.decoding()
        return batches[index], seconds[index]


@dataclass(frozen=True)
class Service:
    """One layout as a service.

    Attributes
    ----------
    setup : Setup
        What, on what, how.
    requests : Requests
        Lengths.
    plans : Plans
        The layout, of shape (1,).
    slots : int
        Requests in flight at most: their cache fits [1].
    running : float
        Requests in flight on average where more come than the instance completes [1].
    steady : callable
        Gives :attr:`states`, which are calculated when they are first asked for.
    decoding : callable
        Gives batches up to all slots and their decode steps alone [1], [s]; arrays of shape (k,).
    speculation : Speculation or None
        Who proposes tokens.
    slots_of_blocks : int
        Requests in flight at most where prompts share blocks, whose number then decides [1].
    """

    setup: Setup
    requests: Requests
    plans: Plans
    slots: int
    running: float
    steady: Callable[[], Steady]
    decoding: Callable[[], tuple[Array, Array]]
    speculation: Speculation | None
    slots_of_blocks: int

    @cached_property
    def states(self) -> Steady:
        """Steady states by batch, ascending; arrays of shape (k,)."""
        return self.steady()

    @cached_property
    def in_flight(self) -> Steady:
        """The steady states with 1, 2, .. slots of requests in flight, shape (slots,)."""
        return self.at(np.arange(1.0, self.slots + 1.0))

    @cached_property
    def completions(self) -> Array:
        """Requests that are completed with 1, 2, .. slots in flight, shape (slots,) [1/s].

        A server with more in flight completes no less; interpolation may say so by a rounding.
        """
        rates = self.in_flight.requests_per_second
        return np.asarray(np.minimum(np.maximum.accumulate(rates), rates[-1]))

    @cached_property
    def prompt(self) -> Prefill:
        """A prompt of the mean length."""
        return self.reading(self.requests.new_tokens, self.requests.cached)

    @property
    def accelerators(self) -> int:
        """Chips of an instance [1]."""
        return int(self.plans.accelerators[0])

    @property
    def prefill_seconds(self) -> float:
        """One prompt by itself [s]."""
        return float(self.prompt.seconds[0])

    @property
    def prefill_busy_seconds(self) -> float:
        """Time of the instance that one prompt by itself takes, while other groups wait [s]."""
        return float(self.prompt.busy_seconds[0])

    @property
    def most_in_flight(self) -> float:
        """Requests that are served at a time on average, however many come [1]."""
        return min(float(self.slots), self.running)

    @cached_property
    def most_requests_per_second(self) -> float:
        """With as many in flight as there are where more come [1/s]."""
        return float(self.at(self.slots).requests_per_second)

    def at(self, concurrency: npt.ArrayLike) -> Steady:
        """The steady state with some requests in flight, shape (...); at most as many as a full instance has."""
        return self.states.at(np.clip(np.asarray(concurrency, dtype=float), 1.0, self.most_in_flight))

    def step_seconds(self, batch: npt.ArrayLike) -> Array:
        """A decode step without prefill for some requests, shape (...) [s]."""
        return np.asarray(np.interp(np.asarray(batch, dtype=float), *self.decoding()))

    def reading(self, tokens: float, cached: float = 0.0) -> Prefill:
        """Time to read a prompt of so many new tokens after cached ones, by whoever proposes tokens as well."""
        return read_prompt(self.setup, self.plans, tokens, cached, self.speculation)

    def shared_prefill_seconds(self, prompts: npt.ArrayLike) -> Array:
        """Return the time of the instance that each of some prompts takes which are read together, shape (...) [s]."""
        requests = self.requests
        share = shared_steps(self.setup, self.plans, requests.new_tokens, requests.cached, prompts)
        return np.reshape(self.prefill_busy_seconds * share, np.shape(prompts))

    def full_prefill_seconds(self, tokens: float, cached: float = 0.0) -> float:
        """Return the time of the instance that a prompt takes where steps are full of prompts [s]."""
        prompt = self.reading(tokens, cached)
        most = prompts_of_a_step(self.setup, tokens)
        if prompt.chunks > 1 or most <= 1.0:
            return float(prompt.full_seconds[0])
        full = np.array([most * float(prompts_together(self.setup, self.plans)[0])])
        share = float(shared_steps(self.setup, self.plans, tokens, cached, full)[0])
        return min(float(prompt.busy_seconds[0]) * share, float(prompt.full_seconds[0]))

    @cached_property
    def uncached_share(self) -> float:
        """Time that new tokens of a mean prompt take by themselves, over their time behind the cached ones [1]."""
        new, cached = self.requests.new_tokens, self.requests.cached
        if not cached:
            return 1.0
        return min(self.full_prefill_seconds(new) / self.full_prefill_seconds(new, cached), 1.0)


def every_service(setup: Setup, requests: Requests, grid: Grid, speculation: Speculation | None = None) -> Services:
    """Every layout of a grid that fits, as a service.

    Parameters
    ----------
    setup : Setup
        What, on what, how, at the mean context of the requests.
    requests : Requests
        Lengths and cached tokens.
    grid : Grid
        Sizes and layouts; its batches do not count.
    speculation : Speculation, optional
        Who proposes tokens, on the same chips.

    Returns
    -------
    Services
        Smallest instances first.

    Raises
    ------
    InputError
        If the speculation does not go with the model.
    NothingFitsError
        If no layout holds the weights and the cache of one request.
    TooMuchError
        If there are too many layouts to be looked at.
    """
    plans = layouts(setup, grid)
    slots = slots_of(setup, plans, speculation)
    kept = np.flatnonzero(slots >= 1.0)
    if not kept.size:
        raise NothingFitsError(_nothing(setup, plans, grid, speculation))
    work = f"{kept.size:,} layouts with {_BATCHES} batches each"
    _work.check(work, seconds=kept.size * _SECONDS, size=kept.size * _BYTES, smaller="max_accelerators")
    return services(setup, requests, plans.at((kept,)), slots[kept], speculation=speculation)


def services(
    setup: Setup,
    requests: Requests,
    plans: Plans,
    slots: Array,
    *,
    batches: int | None = None,
    speculation: Speculation | None = None,
) -> Services:
    """Given layouts as services, whether they fit or not.

    Parameters
    ----------
    setup : Setup
        What, on what, how, at the mean context of the requests.
    requests : Requests
        Lengths and cached tokens.
    plans : Plans
        Layouts, arrays of shape (n,); their batch does not count.
    slots : ndarray, shape (n,)
        Requests in flight at most [1]; fewer where prompts cannot begin as fast as that many would end.
    batches : int, optional
        Steady states per layout, from one request to as many as a full instance has, in equal ratios [1]. By default
        at batches that all layouts and memories have in common, so that what has more room has no other ones below it.
    speculation : Speculation, optional
        Who proposes tokens, on the same chips.
    """
    setup = setup.served(speculates=speculation is not None)
    slots = np.minimum(np.minimum(slots, _MOST_SLOTS), _begun(setup, requests, plans))
    rules = setup.admission
    kept_free = rules is not None and rules.evicted == "nobody"
    crowding = None if kept_free else Crowding.of(setup, requests, plans, slots, speculation)
    running = slots if crowding is None else crowding.in_flight
    of_running, every = (_batches(most, batches) for most in (running, slots))

    def states() -> Steady:
        return states_of(setup, plans, of_running, requests, speculation, crowding)

    def decoding() -> tuple[Array, Array]:
        return every, _decode_seconds(setup, plans, every, speculation)

    return Services(setup, requests, plans, slots, crowding, states, decoding, speculation)


def states_of(
    setup: Setup,
    plans: Plans,
    batches: Array,
    requests: Requests,
    speculation: Speculation | None = None,
    crowding: Crowding | None = None,
) -> Steady:
    """Steady states of n layouts, each at batches of its own [1], shape (n, k); some at a time, so that memory is."""
    states = Steady.stacked([steady(setup, some, requests, speculation) for some in _portions(plans, batches)])
    return states if crowding is None else states.reading_again(crowding.read_again(batches))


def _decode_seconds(setup: Setup, plans: Plans, batches: Array, speculation: Speculation | None) -> Array:
    """Decode steps of n layouts, each at batches of its own [1]; of a round over its tokens; shape (n, k) [s]."""
    parts = (decode_steps(setup, some, speculation) for some in _portions(plans, batches))
    return np.concatenate([seconds / tokens for seconds, tokens in parts])


def _portions(plans: Plans, batches: Array) -> Iterator[Plans]:
    """Layouts with batches of their own, few enough for arrays that stay small."""
    for start in range(0, len(batches), _TOGETHER):
        rows = np.arange(start, min(start + _TOGETHER, len(batches)))
        yield plans.at((rows,)).column(batches[rows])


def _batches(most: Array, count: int | None) -> Array:
    """Batches in equal ratios from one on up to the most of each layout, which is there again if others have more."""
    if count is not None:
        return np.asarray(most[:, None] ** (np.arange(count) / (count - 1.0)))
    steps = math.ceil(math.log(float(most.max(initial=RATIO)), RATIO) - 1e-9)
    return np.asarray(np.minimum(RATIO ** np.arange(steps + 1.0), most[:, None]))


def _begun(setup: Setup, requests: Requests, plans: Plans) -> Array | float:
    """Prompts that fit the steps of one answer, and that answer: more cannot be decoding [1]."""
    chunk = setup.assumptions.serving.prefill_chunk
    if not chunk or requests.decode_steps <= 0.0:
        return np.inf
    groups = prompts_together(setup, plans)
    return np.asarray(1.0 + np.floor(requests.decode_steps * chunk * groups / requests.new_tokens))


def layouts(setup: Setup, grid: Grid) -> Plans:
    """Every layout of a grid that divides what it must, with one sequence per group and stage; shape (n,)."""
    variants: list[Plans] = []
    sizes, model, assumed = grid.accelerators, setup.model, setup.assumptions
    for depth in grid.layouts.depths(model, assumed, sizes, np.zeros(1)):
        depth = np.broadcast_to(depth, sizes.shape)
        chosen = depth > 0
        plans = grid.layouts.variants(model, assumed, Plans.of(sizes[chosen], depth[chosen], depth[chosen]))
        plans = replace(plans, batch=np.asarray(prompts_together(setup, plans)))
        possible = np.zeros(plans.shape, dtype=bool)
        for cut in assumed.layout.tensor_layouts:
            codes = setup.reasons(plans, cut)
            possible |= ~np.isin(codes, memory.LAYOUT)
        variants.append(plans.at(np.nonzero(possible)))
    none = np.zeros(0)
    plans = Plans.joined([*variants, Plans(none, none, none, none, none, whole=True)])
    assert plans.ep is not None
    return plans.at((np.lexsort((plans.ep, plans.attention_ranks, plans.pp, plans.accelerators)),))


def _nothing(setup: Setup, plans: Plans, grid: Grid, speculation: Speculation | None) -> str:
    subject = f"{setup.model.name} ({setup.precision.weights}) on {setup.hardware.name}"
    sizes = f"{grid.accelerators.min():g} to {grid.accelerators.max():g} accelerators"
    if not plans.accelerators.size:
        return f"nothing fits: {subject}: no layout of {sizes} divides heads, layers, experts and widths"
    largest = plans.at((np.array([plans.accelerators.size - 1]),))
    weights, cache, available = needed_memory(setup, largest, speculation).of_one_plan()
    included = [] if speculation is None else [f"those of the {PROPOSERS[speculation.proposer]}"]
    served = setup.assumptions.adapters
    included += [f"{served.loras} adapters of rank {served.rank}"] if served.loras else []
    proposer = f", {' and '.join(included)} included" if included else ""
    enough = _enough(grid, weights + cache, available)
    return (
        f"nothing fits: {subject}, {sizes}: on the largest, {weights / 1e9:.1f} GB of weights and "
        f"{cache / 1e9:.2f} GB of KV cache > {available / 1e9:.1f} GB{proposer}{enough}"
    )


def _enough(grid: Grid, needed: float, available: float) -> str:
    """How many chips would do where a single size was asked for, in words."""
    sizes = np.unique(grid.accelerators)
    if sizes.size > 1 or available <= 0.0:
        return ""
    return f"; at least {math.ceil(needed / (available / sizes[0]))} would do"
