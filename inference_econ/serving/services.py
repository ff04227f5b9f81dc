"""Layouts that serve a workload, with the steady states of each layout from one request to full memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from inference_econ import _work
from inference_econ._types import Array, Indices, distinct
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

#: Number of equally likely requests over which lengths are averaged [1].
_LIKELY = 400
#: Squared share of a group's requests whose contexts grow synchronously if all outputs have equal length, from
#: simulations [1].
_IN_WAVES = 0.5
#: Rate at which this squared share decays with the squared coefficient of variation of output lengths [1]. The decay is
#: that of the squared characteristic function of normally distributed lengths, at one cycle per output length.
_APART = (2.0 * math.pi) ** 2
#: Smallest standard deviation of the memory need, and largest deviation from the mean in standard deviations [1].
_LEAST, _FAR = 1e-9, 30.0


def slots_of(setup: Setup, plans: Plans, speculation: Speculation | None = None) -> Array:
    """Largest number of concurrent requests whose KV cache fits in memory next to the weights [1].

    The workspace of activations grows with the number of requests. Engines that reserve memory for future output admit
    fewer requests, but at least one.
    """
    batch, rules = plans.batch, setup.admission
    limits: tuple[Array, Array] | None = None
    if rules is not None and setup.spread:
        # When the last request is admitted, all other requests have their mean memory. The last request needs memory
        # for its prompt, and for the reserved shares of its own output and of the other outputs.
        prompt, whole = _ends(setup, plans, speculation)
        limits = prompt + rules.own_answer * (whole - prompt), 1.0 + rules.other_answers * (whole - 1.0)
    # A larger assumed batch leaves less memory, so iterations alternate around the solution. Every second iterate is
    # below the solution, so the last iterate fits.
    for _ in range(4):
        needed = needed_memory(setup, replace(plans, batch=batch), speculation)
        # Each attention-DP group has memory for the same number of requests.
        groups = attention_groups(plans, setup.assumptions.layout)
        most = _with_room(needed, batch) / groups
        if limits is not None:
            most = np.minimum(most, 1.0 + (most - limits[0]) / limits[1])
        before, batch = batch, np.maximum(np.floor(most) * groups, groups)
        if np.array_equal(before, batch):
            break
    else:
        needed = needed_memory(setup, replace(plans, batch=batch), speculation)
    return np.where(np.broadcast_to(needed.fits, batch.shape), batch, 0.0)


def _with_room(needed: Memory, batch: Array) -> Array:
    """Number of mean-context requests that fit in an instance, scaled from the memory ``needed`` by ``batch`` [1]."""
    room = np.maximum(needed.available_bytes - needed.weight_bytes - needed.prefix_bytes, 0.0)
    of_request = needed.kv_bytes - needed.prefix_bytes
    if np.any(needed.cpu_kv_bytes):
        on_cpu = needed.cpu_limit_bytes / needed.cpu_kv_bytes * batch
        return np.asarray(np.minimum(on_cpu, room / of_request * batch))
    beside, paged = (
        room / (of_request / batch),
        (room + needed.host_bytes) / ((of_request + needed.pageable_bytes) / batch),
    )
    return np.asarray(np.where(needed.pageable_bytes > 0.0, np.minimum(beside, paged), beside))


def _ends(setup: Setup, plans: Plans, speculation: Speculation | None) -> tuple[Array, Array]:
    """Memory of a request at the start and at the end of its output, each divided by its mean memory [1]."""

    def held(context: float) -> Array:
        at = replace(setup, context=context, contexts=(), spread=0.0)
        needed = needed_memory(at, plans, speculation)
        return np.asarray(needed.kv_bytes - needed.prefix_bytes)

    half, usual = setup.spread / 2.0, held(setup.context)
    return held(setup.context - half) / usual, held(setup.context + half) / usual


@dataclass(frozen=True, slots=True, eq=False)
class KvPressure:
    """KV-cache memory shortage at high concurrency, for each attention-DP group.

    Attributes
    ----------
    slots, groups : ndarray, shape (n,)
        Maximum concurrent requests of an instance, and number of its attention-DP groups [1].
    room : ndarray, shape (n,)
        Number of requests with the mean context that fit in the memory of one group [1].
    deviation : ndarray, shape (n,)
        Coefficient of variation of the memory of one request, s [1].
    together : float
        Squared share of requests whose contexts grow synchronously, k [1].
    free : ndarray, shape (n,)
        Mean free memory while a request waits for memory, divided by the mean memory of a request [1].
    answer, prompt : float
        Number of output tokens, and of new prompt tokens [tokens].

    Notes
    -----
    The n concurrent requests of a group need n times the mean memory of a request, with a standard deviation of s
    sqrt(n + k n^2). The term k n^2 accounts for contexts that grow synchronously because outputs have equal length.

    The needed memory is assumed to be normally distributed. Requests that do not fit in memory are preempted. While
    requests wait for memory, the free memory is between zero and the prompt of the first request in the queue. The mean
    free memory is half of the first waiting prompt, weighted by waiting time (renewal theory: Cox, 1962).

    When memory is full, each generated token causes the preemption of another request, which is recomputed later. No
    request is preempted if a request ends in the same step. For recomputation, contexts are assumed to grow
    independently (k = 0).
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
        """Compute the memory shortage of n layouts with given concurrency limits [1], shape (n,).

        If a concurrency limit exceeds the number of requests that fit, memory is assumed to be sufficient for this
        limit.
        """
        groups = np.broadcast_to(attention_groups(plans, setup.assumptions.layout), slots.shape)
        batch = np.maximum(slots, groups)
        needed = needed_memory(setup, replace(plans, batch=batch), speculation)
        room = np.maximum(_with_room(needed, batch), batch) / groups
        prompts, answers = (quantiles(length, levels(_LIKELY)) for length in (requests.isl, requests.osl))
        # Long outputs are more frequent among running requests than among all requests. Each running request has
        # generated a random part of its output.
        written = np.mean(answers**2) / np.mean(answers) / 2.0
        variance = np.var(prompts) + np.mean(answers**3) / np.mean(answers) / 3.0 - written**2
        prompt, whole = _ends(setup, replace(plans, batch=batch), speculation)
        growth = np.maximum(whole - prompt, 0.0) / setup.spread if setup.spread else np.zeros(slots.shape)
        # A waiting prompt needs at most the memory of a full group.
        heads = np.minimum(prompts / np.mean(prompts) * prompt[..., None], room[..., None])
        free = np.mean(heads**2, axis=-1) / np.mean(heads, axis=-1) / 2.0
        together, answer = _IN_WAVES * math.exp(-_APART * requests.osl.scv), float(requests.osl.mean)
        deviation = growth * np.sqrt(variance)
        return cls(slots, groups, room, deviation, together, free, answer, float(requests.new_tokens))

    def take(self, indices: Indices) -> KvPressure:
        """Select layouts by index."""
        of_layouts = (self.slots, self.groups, self.room, self.deviation, self.free)
        slots, groups, room, deviation, free = (values[indices] for values in of_layouts)
        return replace(self, slots=slots, groups=groups, room=room, deviation=deviation, free=free)

    @property
    def in_flight(self) -> Array:
        """Mean concurrency under overload, shape (n,) [1]."""
        most = self.slots / self.groups
        beyond, full = self._beyond(most, self.together)
        return np.asarray(np.clip(most - beyond - full * self.free, np.minimum(most, 1.0), most) * self.groups)

    def read_again(self, batch: Array) -> Array:
        """Recomputed tokens divided by prompt tokens, for the batches of each layout, shape (n, k) [1].

        The largest batch of a layout is its mean concurrency under overload.
        """
        asking = (batch * (self.slots / self.in_flight / self.groups)[:, None]).T
        _, full = self._beyond(asking, 0.0)
        return np.asarray((full / (1.0 + asking / self.answer)).T * self.answer / self.prompt)

    def _beyond(self, number: Array, together: float) -> tuple[Array, Array]:
        """Mean memory shortage of a group, in units of a mean request's memory, and probability of a shortage [1]."""
        deviation = np.maximum(self.deviation * np.sqrt(number + together * number**2), _LEAST)
        away = np.minimum((self.room - number) / deviation, _FAR)
        full = special.normal_shares(-away)
        return deviation * np.exp(-(away**2) / 2.0) / math.sqrt(2.0 * math.pi) - (self.room - number) * full, full


#: Factor on the maximum number of concurrent requests if prompts share prefix blocks [1]. The number of cache blocks
#: then limits admission.
_SLOTS_OF_BLOCKS = 4
#: Ratio between consecutive batches of a layout, and the approximate number of batches [1].
RATIO, _BATCHES = 2.0**0.125, 72
#: Most concurrent requests of an instance [1], which bounds the size of arrays. Engines run some thousands.
_MOST_SLOTS = 2.0**18
#: Layouts per vectorized calculation, with arrays of about 0.5 MB [1].
_TOGETHER = 256
#: Run time per layout for the work estimate (measured: 0.07 to 3 ms) [s], and memory per layout [B].
_SECONDS, _BYTES = 2.5e-3, 13 * 8.0 * _BATCHES


@dataclass(frozen=True, eq=False)
class Services:
    """Layouts of a setup that serve the requests of one workload.

    Attributes
    ----------
    setup : Setup
        Model, chip, engine and assumptions, at the mean context of the requests.
    requests : Requests
        Request lengths and cached tokens.
    plans : Plans
        Layouts, arrays of shape (n,).
    slots : ndarray, shape (n,)
        Maximum number of concurrent requests whose KV cache fits in memory [1].
    crowding : KvPressure or None
        Memory shortage at high concurrency; None if memory is reserved for full outputs.
    steady : callable
        Function that computes :attr:`states` on first use.
    decoding : callable
        Function that returns batches up to the maximum concurrency [1], and their decode step times [s]; arrays of
        shape (n, k).
    speculation : Speculation or None
        Speculation method.
    limit : float
        Configured maximum number of concurrent requests, regardless of memory [1].
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
        """Maximum number of concurrent requests if prompts share prefix blocks, shape (n,) [1].

        The number of blocks then limits admission.
        """
        return np.minimum(_SLOTS_OF_BLOCKS * self.slots, self.limit)

    @cached_property
    def states(self) -> Steady:
        """Steady states by ascending batch; arrays of shape (n, k)."""
        return self.steady()

    @cached_property
    def prompts(self) -> PromptTimes:
        """Prefill times of prompts that run alone, by prompt length; arrays of shape (n, 1, m)."""
        plans = self.plans.column(np.ones((len(self), 1)))
        return PromptTimes.of(self.setup, plans, self.requests, self.speculation)

    @property
    def prompt(self) -> Prefill:
        """Prefill of a prompt that runs alone, averaged over prompt lengths; arrays of shape (n, 1)."""
        return self.prompts.mean

    @property
    def running(self) -> Array:
        """Mean concurrency under overload, shape (n,) [1]."""
        return self.slots if self.crowding is None else np.minimum(self.slots, self.crowding.in_flight)

    def service(self, index: int) -> Service:
        """Select one layout by its index."""
        plans, slots = self.plans.at((np.array([index]),)), int(self.slots[index])
        return Service(
            self.setup, self.requests, plans, slots, float(self.running[index]),
            lambda: self.states.take(index), lambda: self._taken(index), self.speculation,
            int(self.slots_of_blocks[index]),
        )  # fmt: skip

    def take(self, indices: Indices) -> Services:
        """Select layouts by index."""
        plans, slots = self.plans.at((indices,)), self.slots[indices]
        crowding = None if self.crowding is None else self.crowding.take(indices)
        states, decoding = (lambda: self.states.take(indices)), (lambda: self._taken(indices))
        return replace(self, plans=plans, slots=slots, crowding=crowding, steady=states, decoding=decoding)

    def states_at(self, batches: Array) -> Steady:
        """Steady states at given batches of each layout [1], shape (n, k)."""
        return states_of(self.setup, self.plans, batches, self.requests, self.speculation, self.crowding)

    def decode_seconds(self, batches: Array) -> Array:
        """Time of decode steps without prefill, at given batches of each layout [1], shape (n, k) [s]."""
        return _decode_seconds(self.setup, self.plans, batches, self.speculation)

    def _taken(self, index: int | Indices) -> tuple[Array, Array]:
        batches, seconds = self.decoding()
        return batches[index], seconds[index]


@dataclass(frozen=True, eq=False)
class Service:
    """Service: one layout that serves the requests of one workload.

    Attributes
    ----------
    setup : Setup
        Model, chip, engine and assumptions.
    requests : Requests
        Request lengths and cached tokens.
    plans : Plans
        Layout of the service, shape (1,).
    slots : int
        Maximum number of concurrent requests whose KV cache fits in memory [1].
    running : float
        Mean concurrency under overload [1].
    steady : callable
        Function that computes :attr:`states` on first use.
    decoding : callable
        Function that returns batches up to the maximum concurrency [1], and their decode step times [s]; arrays of
        shape (k,).
    speculation : Speculation or None
        Speculation method.
    slots_of_blocks : int
        Maximum number of concurrent requests if prompts share prefix blocks [1]. The number of cache blocks then limits
        admission.
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
        """Steady states by ascending batch; arrays of shape (k,)."""
        return self.steady()

    @cached_property
    def in_flight(self) -> Steady:
        """Steady states with 1, 2, ... concurrent requests, shape (slots,)."""
        return self.at(np.arange(1.0, self.slots + 1.0))

    @cached_property
    def completions(self) -> Array:
        """Throughput with 1, 2, ... concurrent requests, shape (slots,) [requests/s].

        The throughput never decreases with concurrency, because rounding errors of the interpolation are removed.
        """
        rates = self.in_flight.requests_per_second
        return np.asarray(np.minimum(np.maximum.accumulate(rates), rates[-1]))

    @cached_property
    def prompt(self) -> Prefill:
        """Prefill of a prompt with the mean length that runs alone."""
        return self.reading(self.requests.new_tokens, self.requests.cached)

    @property
    def accelerators(self) -> int:
        """Number of chips per instance [1]."""
        return int(self.plans.accelerators[0])

    @property
    def prefill_seconds(self) -> float:
        """Prefill time of a prompt with the mean length that runs alone [s]."""
        return float(self.prompt.seconds[0])

    @property
    def prefill_busy_seconds(self) -> float:
        """Instance time of a mean-length prompt that runs alone, while other attention-DP groups wait [s]."""
        return float(self.prompt.busy_seconds[0])

    @property
    def most_in_flight(self) -> float:
        """Mean concurrency under overload; it is at most the maximum concurrency [1]."""
        return min(float(self.slots), self.running)

    @cached_property
    def most_requests_per_second(self) -> float:
        """Capacity of the instance: throughput at maximum concurrency [requests/s]."""
        return float(self.at(self.slots).requests_per_second)

    def at(self, concurrency: npt.ArrayLike) -> Steady:
        """Steady state at a concurrency, shape (...); limited to the concurrency of a full instance."""
        return self.states.at(np.clip(np.asarray(concurrency, dtype=float), 1.0, self.most_in_flight))

    def step_seconds(self, batch: npt.ArrayLike) -> Array:
        """Time of decode steps without prefill at a batch, shape (...) [s]."""
        return np.asarray(np.interp(np.asarray(batch, dtype=float), *self.decoding()))

    def reading(self, tokens: float, cached: float = 0.0) -> Prefill:
        """Prefill of ``tokens`` new tokens after ``cached`` tokens, including the prefill of the draft model."""
        return read_prompt(self.setup, self.plans, tokens, cached, self.speculation)

    def shared_prefill_seconds(self, prompts: npt.ArrayLike) -> Array:
        """Instance time per prompt if ``prompts`` prompts are processed together, shape (...) [s]."""
        requests = self.requests
        share = shared_steps(self.setup, self.plans, requests.new_tokens, requests.cached, prompts)
        return np.reshape(self.prefill_busy_seconds * share, np.shape(prompts))

    def full_prefill_seconds(self, tokens: float, cached: float = 0.0) -> float:
        """Instance time per prompt in steps that are full of prompts [s]."""
        prompt = self.reading(tokens, cached)
        most = prompts_of_a_step(self.setup, tokens)
        if prompt.chunks > 1 or most <= 1.0:
            return float(prompt.full_seconds[0])
        full = np.array([most * float(prompts_together(self.setup, self.plans)[0])])
        share = float(shared_steps(self.setup, self.plans, tokens, cached, full)[0])
        return min(float(prompt.busy_seconds[0]) * share, float(prompt.full_seconds[0]))

    @cached_property
    def uncached_share(self) -> float:
        """Prefill time of a mean prompt's new tokens without a cached prefix, relative to with the prefix [1]."""
        new, cached = self.requests.new_tokens, self.requests.cached
        if not cached:
            return 1.0
        return min(self.full_prefill_seconds(new) / self.full_prefill_seconds(new, cached), 1.0)


def every_service(
    setup: Setup, requests: Requests, grid: InstanceGrid, speculation: Speculation | None = None
) -> Services:
    """Create a service for every layout of a grid that fits in memory.

    Parameters
    ----------
    setup : Setup
        Model, chip, engine and assumptions, at the mean context of the requests.
    requests : Requests
        Request lengths and cached tokens.
    grid : InstanceGrid
        Instance sizes and layouts; the batches of the grid are ignored.
    speculation : Speculation, optional
        Speculation method; a draft model runs on the same chips.

    Returns
    -------
    Services
        Services of all layouts that fit, the smallest instances first.

    Raises
    ------
    InputError
        If the model does not support the speculation method.
    NothingFitsError
        If the weights and the KV cache of one request fit in memory with no layout.
    TooMuchError
        If the grid has too many layouts.
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
    """Create a service for each given layout, without a check that the layout fits in memory.

    Parameters
    ----------
    setup : Setup
        Model, chip, engine and assumptions, at the mean context of the requests.
    requests : Requests
        Request lengths and cached tokens.
    plans : Plans
        Layouts, arrays of shape (n,); the batch of the plans is ignored.
    slots : ndarray, shape (n,)
        Maximum number of concurrent requests [1]. A limit above the concurrency that prefill can sustain is reduced to
        this concurrency.
    batches : int, optional
        Number of steady states per layout, at batches in equal ratios from one request to full memory [1]. By default,
        all layouts have the same batches up to their maximum, so layouts with more memory have additional batches.
    speculation : Speculation, optional
        Speculation method; a draft model runs on the same chips.
    """
    setup = setup.for_role(speculates=speculation is not None)
    slots, chunk = np.minimum(slots, _MOST_SLOTS), setup.assumptions.serving.prefill_chunk
    if chunk and requests.decode_steps > 0.0:
        # Number of prompts that steps can process while one request decodes. The number of requests that decode at the
        # same time cannot be larger.
        groups = prompts_together(setup, plans)
        slots = np.minimum(slots, 1.0 + np.floor(requests.decode_steps * chunk * groups / requests.new_tokens))
    rules = setup.admission
    kept_free = rules is not None and rules.evicted == "nobody"
    crowding = None if kept_free else KvPressure.of(setup, requests, plans, slots, speculation)
    running = slots if crowding is None else crowding.in_flight
    of_running, every = (batch_grid(most, batches) for most in (running, slots))

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
    speculation: Speculation | None,
    crowding: KvPressure | None,
) -> Steady:
    """Steady states of n layouts at given batches [1], shape (n, k).

    Layouts are processed in small groups to limit memory.
    """
    states = Steady.stacked([steady(setup, some, requests, speculation) for some in _portions(plans, batches)])
    return states if crowding is None else states.reading_again(crowding.read_again(batches))


def _decode_seconds(setup: Setup, plans: Plans, batches: Array, speculation: Speculation | None) -> Array:
    """Time of decode steps of n layouts at given batches [1], shape (n, k) [s].

    With speculation, this is the time of a speculation round divided by its tokens per request.
    """
    parts = (decode_steps(setup, some, speculation) for some in _portions(plans, batches))
    return np.concatenate([seconds / tokens for seconds, tokens in parts])


def _portions(plans: Plans, batches: Array) -> Iterator[Plans]:
    """Yield plans for small groups of layouts with all their batches, so that arrays are small."""
    for start in range(0, len(batches), _TOGETHER):
        rows = np.arange(start, min(start + _TOGETHER, len(batches)))
        yield plans.at((rows,)).column(batches[rows])


def batch_grid(most: Array, count: int | None = None) -> Array:
    """Batches in equal ratios from one to each layout's maximum ``most``, shape (n, k) [1].

    If another layout has more batches, the maximum is repeated.
    """
    if count is not None:
        return np.asarray(most[:, None] ** (np.arange(count) / (count - 1.0)))
    steps = math.ceil(math.log(float(most.max(initial=RATIO)), RATIO) - 1e-9)
    return np.asarray(np.minimum(RATIO ** np.arange(steps + 1.0), most[:, None]))


def layouts(setup: Setup, grid: InstanceGrid) -> Plans:
    """All valid layouts of a grid, with one sequence per attention-DP group and pipeline stage; shape (n,)."""
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
    least, most = grid.accelerators.min(), grid.accelerators.max()
    sizes = f"{least:g} to {most:g} accelerators" if least < most else f"{most:g} accelerator{'' if most == 1 else 's'}"
    if not plans.accelerators.size:
        return f"nothing fits: {subject}: no layout of {sizes} divides heads, layers, experts and widths"
    largest = plans.at((np.array([plans.accelerators.size - 1]),))
    weights, cache, available = needed_memory(setup, largest, speculation).of_one_plan()
    included = [] if speculation is None else [f"those of the {PROPOSERS[speculation.proposer]}"]
    served = setup.assumptions.adapters
    included += [f"{served.loras} adapters of rank {served.rank}"] if served.loras else []
    proposer = f", {' and '.join(included)} included" if included else ""
    one_size, enough = distinct(grid.accelerators), ""
    if one_size.size == 1 and available > 0.0:
        enough = f"; at least {math.ceil((weights + cache) / (available / one_size[0]))} would do"
    return (
        f"nothing fits: {subject}, {sizes}: on the largest, {weights / 1e9:.1f} GB of weights and "
        f"{cache / 1e9:.2f} GB of KV cache > {available / 1e9:.1f} GB{proposer}{enough}"
    )
