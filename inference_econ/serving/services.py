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
    InstanceGrid,
    Memory,
    Plans,
    Prefill,
    Setup,
    Speculation,
    attention_groups,
    memory,
    needed_memory,
    prompts_of_a_step,
    prompts_together,
    read_prompt,
    shared_steps,
)
from inference_econ.errors import NothingFitsError
from inference_econ.formulas import special
from inference_econ.inputs import Requests
from inference_econ.serving.lengths import PromptTimes, levels, quantiles
from inference_econ.serving.steady import Steady, decode_steps, steady

#: Equally likely requests that stand for all [1].
_LIKELY = 400
#: Share of the requests of a group whose contexts grow together where all answers are of one length, squared, as played
#: [1].
_IN_WAVES = 0.5
#: What is left of it by the squared coefficient of variation of answers: as much of a wave as one generation of answers
#: keeps, by the characteristic function of a normal length at the frequency of one length, squared [1].
_APART = (2.0 * math.pi) ** 2
#: The least deviation that counts, and how many of them are as good as never exceeded [1].
_LEAST, _FAR = 1e-9, 30.0


def slots_of(setup: Setup, plans: Plans, speculation: Speculation | None = None) -> Array:
    """Requests whose cache fits beside the weights, rounded down [1]; the workspace grows with them.

    An engine that keeps room free for what answers will hold lets in no more than its rule allows, but always one.
    """
    batch, rules = plans.batch, setup.admission
    limits: tuple[Array, Array] | None = None
    if rules is not None and setup.spread:
        # The last one finds all others with what they hold on average, and needs room for its prompt and the engine's
        # shares of its own answer and of what the others have still to write.
        prompt, whole = _ends(setup, plans, speculation)
        limits = prompt + rules.own_answer * (whole - prompt), 1.0 + rules.other_answers * (whole - 1.0)
    # From below, every second pass ends at a batch that fits: the more sequences are reckoned with, the fewer fit.
    for _ in range(4):
        needed = needed_memory(setup, replace(plans, batch=batch), speculation)
        # Every group of attention ranks has room for as many.
        groups = attention_groups(plans, setup.assumptions.layout)
        most = _with_room(needed, batch) / groups
        if limits is not None:
            most = np.minimum(most, 1.0 + (most - limits[0]) / limits[1])
        batch = np.maximum(np.floor(most) * groups, groups)
    needed = needed_memory(setup, replace(plans, batch=batch), speculation)
    return np.where(np.broadcast_to(needed.fits, batch.shape), batch, 0.0)


def _with_room(needed: Memory, batch: Array) -> Array:
    """Requests of the mean context that have room in an instance, from what some need [1]."""
    room = np.maximum(needed.available_bytes - needed.weight_bytes - needed.prefix_bytes, 0.0)
    of_request = needed.kv_bytes - needed.prefix_bytes
    beside, paged = (
        room / (of_request / batch),
        (room + needed.host_bytes) / ((of_request + needed.pageable_bytes) / batch),
    )
    return np.asarray(np.where(needed.pageable_bytes > 0.0, np.minimum(beside, paged), beside))


def _ends(setup: Setup, plans: Plans, speculation: Speculation | None) -> tuple[Array, Array]:
    """Return the memory of a request with its prompt alone and with its whole answer, over its average [1]."""

    def held(context: float) -> Array:
        at = replace(setup, context=context, contexts=(), spread=0.0)
        needed = needed_memory(at, plans, speculation)
        return np.asarray(needed.kv_bytes - needed.prefix_bytes)

    half, usual = setup.spread / 2.0, held(setup.context)
    return held(setup.context - half) / usual, held(setup.context + half) / usual


@dataclass(frozen=True, slots=True)
class KvPressure:
    """Memory that requests of each group of attention ranks lack when many are in flight.

    Attributes
    ----------
    slots, groups : ndarray, shape (n,)
        Requests in flight of an instance at most, and groups [1].
    room : ndarray, shape (n,)
        Requests of the mean context that a group has memory for [1].
    deviation : ndarray, shape (n,)
        Standard deviation of what one request holds, over the mean [1].
    together : float
        Share of the requests whose contexts grow together, squared [1].
    free : ndarray, shape (n,)
        What is free on average while somebody waits for memory, over what a request holds on average [1].
    answer, prompt : float
        Tokens of an answer, and new ones of a prompt [tokens].

    Notes
    -----
    With n requests in flight a group holds n times the mean, with a standard deviation of s sqrt(n + k n^2): s of each
    by itself, and k of contexts that grow together, as answers of one length do. What is beyond the memory, as of a
    normal distribution, is sent back. Meanwhile the one at the head of the queue finds anything between nothing and its
    own prompt free: half of it on average, those that wait longest counted most (renewal theory: Cox, 1962).

    A token that is written while memory is full pushes another one out, which is read again with its request, unless an
    answer that ends in the same step leaves the room. Requests that come at any time are in no waves before memory is
    full, so that nothing is read again where it is not.
    """

    slots: Array
    groups: Array
    room: Array
    deviation: Array
    together: float
    free: Array
    answer: float
    prompt: float

    @classmethod
    def of(
        cls, setup: Setup, requests: Requests, plans: Plans, slots: Array, speculation: Speculation | None = None
    ) -> KvPressure:
        """Of n layouts with some slots each [1], shape (n,); who runs more than fit has the memory for them."""
        groups = np.broadcast_to(attention_groups(plans, setup.assumptions.layout), slots.shape)
        batch = np.maximum(slots, groups)
        needed = needed_memory(setup, replace(plans, batch=batch), speculation)
        room = np.maximum(_with_room(needed, batch), batch) / groups
        prompts, answers = (quantiles(length, levels(_LIKELY)) for length in (requests.isl, requests.osl))
        # Of answers that are under way, long ones are more likely, and each is anywhere on its way.
        written = np.mean(answers**2) / np.mean(answers) / 2.0
        variance = np.var(prompts) + np.mean(answers**3) / np.mean(answers) / 3.0 - written**2
        prompt, whole = _ends(setup, replace(plans, batch=batch), speculation)
        growth = np.maximum(whole - prompt, 0.0) / setup.spread if setup.spread else np.zeros(slots.shape)
        # No prompt waits for more room than there is.
        heads = np.minimum(prompts / np.mean(prompts) * prompt[..., None], room[..., None])
        free = np.mean(heads**2, axis=-1) / np.mean(heads, axis=-1) / 2.0
        together, answer = _IN_WAVES * math.exp(-_APART * requests.osl.scv), float(requests.osl.mean)
        deviation = growth * np.sqrt(variance)
        return cls(slots, groups, room, deviation, together, free, answer, float(requests.new_tokens))

    def take(self, indices: Indices) -> KvPressure:
        """Of some of the layouts."""
        of_layouts = (self.slots, self.groups, self.room, self.deviation, self.free)
        slots, groups, room, deviation, free = (values[indices] for values in of_layouts)
        return replace(self, slots=slots, groups=groups, room=room, deviation=deviation, free=free)

    @property
    def in_flight(self) -> Array:
        """Requests that are in flight on average where more come than an instance completes, shape (n,) [1]."""
        most = self.slots / self.groups
        beyond, full = self._beyond(most, self.together)
        return np.asarray(np.clip(most - beyond - full * self.free, np.minimum(most, 1.0), most) * self.groups)

    def read_again(self, batch: Array) -> Array:
        """Return tokens of prompts and answers that are read again, over those of prompts, shape (n, k) [1].

        By the number in flight, as many as can be where all slots are asked for.
        """
        asking = (batch * (self.slots / self.in_flight / self.groups)[:, None]).T
        _, full = self._beyond(asking, 0.0)
        return np.asarray((full / (1.0 + asking / self.answer)).T * self.answer / self.prompt)

    def _beyond(self, number: Array, together: float) -> tuple[Array, Array]:
        """Return the memory that so many requests of a group lack, over the mean [1], and the chance that they do."""
        deviation = np.maximum(self.deviation * np.sqrt(number + together * number**2), _LEAST)
        away = np.minimum((self.room - number) / deviation, _FAR)
        full = special.normal_shares(-away)
        return deviation * np.exp(-(away**2) / 2.0) / math.sqrt(2.0 * math.pi) - (self.room - number) * full, full


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
    crowding: KvPressure | None
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


def every_service(
    setup: Setup, requests: Requests, grid: InstanceGrid, speculation: Speculation | None = None
) -> Services:
    """Every layout of a grid that fits, as a service.

    Parameters
    ----------
    setup : Setup
        What, on what, how, at the mean context of the requests.
    requests : Requests
        Lengths and cached tokens.
    grid : InstanceGrid
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
    setup = setup.for_role(speculates=speculation is not None)
    slots, chunk = np.minimum(slots, _MOST_SLOTS), setup.assumptions.serving.prefill_chunk
    if chunk and requests.decode_steps > 0.0:
        # Prompts that fit the steps of one answer, and that answer: more cannot be decoding.
        groups = prompts_together(setup, plans)
        slots = np.minimum(slots, 1.0 + np.floor(requests.decode_steps * chunk * groups / requests.new_tokens))
    rules = setup.admission
    kept_free = rules is not None and rules.evicted == "nobody"
    crowding = None if kept_free else KvPressure.of(setup, requests, plans, slots, speculation)
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
    crowding: KvPressure | None = None,
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


def layouts(setup: Setup, grid: InstanceGrid) -> Plans:
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


def _nothing(setup: Setup, plans: Plans, grid: InstanceGrid, speculation: Speculation | None) -> str:
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
    one_size, enough = np.unique(grid.accelerators), ""
    if one_size.size == 1 and available > 0.0:
        enough = f"; at least {math.ceil((weights + cache) / (available / one_size[0]))} would do"
    return (
        f"nothing fits: {subject}, {sizes}: on the largest, {weights / 1e9:.1f} GB of weights and "
        f"{cache / 1e9:.2f} GB of KV cache > {available / 1e9:.1f} GB{proposer}{enough}"
    )
