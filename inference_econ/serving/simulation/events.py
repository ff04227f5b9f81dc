"""Discrete-event simulator of a server with continuous batching.

The simulator follows every request from arrival to last token. Requests come from open-loop streams, closed-loop
clients or sessions. In the validated range of :mod:`inference_econ.formulas.queueing`, the simulator and the queueing
model agree within the confidence interval. Only the simulator models prompts that share steps, admission at step
boundaries, simultaneous completions, and growing contexts.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Literal, NamedTuple, TypeVar, get_args

import numpy as np

from inference_econ.errors import InputError
from inference_econ.inputs import HBM, Dealing
from inference_econ.serving.simulation.arrivals import (
    Counts,
    Demand,
    Loop,
    Parts,
    Prefixes,
    Sent,
    SimulatedRequest,
    Stream,
    joined,
)
from inference_econ.serving.simulation.trace import Trace, trace

Tokens = TypeVar("Tokens", int, Counts)
Policy = Literal["prefill_first", "chunked"]
Evicted = Literal["last", "fewest_tokens", "nobody"]
#: Difference and ratio of request numbers above which a request goes to the least busy server or group, instead of the
#: server or group with its cached prefix (rule of SGLang's router) [1].
_FAR_BUSIER, _TIMES_BUSIER = 64, 1.5
Router = Literal["round_robin", "least_busy", "prefix_aware"]


class Tier(NamedTuple):
    """KV-cache offload tier.

    The tier stores the most recently used blocks, including blocks that are also in GPU memory.
    """

    name: str
    """Name of the tier."""
    blocks: int
    """Capacity per instance [blocks]."""
    block_seconds: float
    """Time to load one block [s]; a tier loads the blocks of one request after another."""
    access_seconds: float
    """Access latency [s]."""


def _check_least(owner: KvCacheMemory | Server, whose: str, **least: float) -> None:
    """Reject an object with a field below its minimum value."""
    for name, number in least.items():
        value, unit = getattr(owner, name), " token" if name == "chunk" else ""
        if not value >= number:
            raise InputError(f"{name}{whose} must be at least {number:g}{unit}, got {value:g}")


@dataclass(frozen=True, slots=True)
class KvCacheMemory:
    """KV-cache memory of the server, with the engine's policy for admission and preemption."""

    blocks: int
    """Number of blocks in each attention-DP group [1]."""
    block_tokens: int = 1
    """Block size [tokens]."""
    request_tokens: int = 0
    """Additional memory of every request, in tokens: cached tokens, and the equivalent of recurrent states [tokens].

    The prompt and output lengths of requests do not include these tokens.
    """
    own_answer: float = 0.0
    """Share of a request's output for which memory must be free at admission, in addition to its prompt [1]."""
    other_answers: float = 0.0
    """Share of the remaining output of all running requests for which memory must also be free at admission [1]."""
    evicted: Evicted = "last"
    """Rule that selects a request for preemption when a step does not fit in memory.

    The preempted request is recomputed before queued requests start. ``last`` selects the request that was admitted
    last. ``fewest_tokens`` selects the request with the shortest output so far. ``nobody`` disables preemption, for
    engines that reserve memory for full outputs at admission. A request that runs alone is never preempted.
    """

    def __post_init__(self) -> None:
        """Reject sizes, shares and eviction rules that are out of range."""
        _check_least(self, " of a cache", blocks=1, block_tokens=1, request_tokens=0)
        for name in ("own_answer", "other_answers"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InputError(f"{name} of a cache must be a share from 0 to 1, got {getattr(self, name):g}")
        if self.evicted not in get_args(Evicted):
            raise InputError(f"evicted must be 'last', 'fewest_tokens' or 'nobody', got {self.evicted!r}")

    def held(self, tokens: Tokens) -> Tokens:
        """Number of blocks that a request with ``tokens`` tokens needs [1]."""
        return -(-(self.request_tokens + tokens) // self.block_tokens)


class _PromptPart(NamedTuple):
    """Chunk of a prompt that a step processes."""

    tokens: int
    """Chunk length [tokens]."""
    seconds: float
    """CPU and GPU time of a step that processes only this chunk [s]."""
    launch_seconds: float
    """Part of the step time in which the GPU waits for the CPU [s]."""
    beyond_seconds: float
    """GPU time of the chunk minus the GPU time of an equally long chunk of a mean prompt [s].

    If the time of a mean prompt is unknown, the full GPU time of the chunk.
    """


def _nothing(_first: int, _second: int) -> float:
    return 0.0


def _one_token(_batch: int) -> float:
    return 1.0


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Functions that return step times of a server, and tokens per step."""

    decode_step_seconds: Callable[[int, float], float]
    """Function: (number of requests decoded together, mean context in tokens) -> duration of one step [s]."""
    prefill_seconds: Callable[[int, int], float]
    """Function: (new tokens of a prompt, cached tokens of the prompt) -> prefill time if the prompt runs alone [s]."""
    chip_seconds: Callable[[int, int], float] | None = None
    """Function: (new tokens, cached tokens) -> GPU time within ``prefill_seconds`` [s]; by default, the same time.

    In the remaining prefill time, the GPU waits while the CPU launches kernels. The GPU waits only once for all prompts
    of a step. Under the policy ``chunked``, decoding continues during the wait.
    """
    together: Callable[[int, int], float] = _nothing
    """Function: (prompt tokens of the fullest group, prompt tokens of all groups) -> GPU time of a step [s].

    A step reads weights once for all groups, and all groups wait for the fullest group. By default, the times of all
    prompts of a group add up.
    """
    lone_step_seconds: Callable[[int, float], float] | None = None
    """Function like ``decode_step_seconds``, if all requests are in one group [s]; required for several groups."""
    saved_seconds: Callable[[int, int], float] = _nothing
    """Function: (decoding requests, prompt tokens of the step) -> time saved compared with two separate steps [s]."""
    round_tokens: Callable[[int], float] = _one_token
    """Function: (decoding requests) -> tokens per request and speculation round [1].

    With speculation, a simulated step is one token of a round: the round's time divided by its tokens. The CPU launches
    prefill while a full round runs, new prompts wait for rounds to end, and first tokens arrive at the end of a round.
    """
    _known: dict[tuple[int, int], _PromptPart] = field(default_factory=dict, init=False, repr=False, compare=False)

    def decode(self, batch: int, context: float, sizes: list[int]) -> float:
        """Duration of a decode step, given the number of requests in each attention-DP group [s].

        The duration is interpolated between two cases: equally full groups, and all requests in one group.
        """
        if len(sizes) == 1:
            seconds = self.decode_step_seconds(batch, context)
        else:
            most = max(sizes)
            even = len(sizes) * most
            seconds = float(self.decode_step_seconds(even, context))
            if batch < even and self.lone_step_seconds is not None:
                alone = float(self.lone_step_seconds(most, context))
                seconds = alone + (seconds - alone) * (batch - most) / (even - most)
        if not 0.0 <= seconds < math.inf:
            _refuse(seconds, f"decode_step_seconds for a batch of {batch} at {context:g} tokens of context")
        return seconds

    def part(self, chunk: int, prompt: int, cached: int, done: int, taken: int) -> _PromptPart:
        """Time of a chunk of a prompt, from the times of the steps that the prompt would need if it ran alone.

        The GPU times of all chunks of a prompt add up to the GPU time of the prompt. Every chunk also takes the CPU
        time of a step.
        """
        start = done - (done - cached) % chunk
        part = self._step(min(chunk, prompt - start), start)
        if done == start and taken == part.tokens:
            return part
        beyond = launching = 0.0
        end = done + taken
        while start < end:
            step = self._step(min(chunk, prompt - start), start)
            beyond += step.beyond_seconds * (min(end, start + step.tokens) - max(done, start)) / step.tokens
            launching = max(launching, step.launch_seconds)
            start += chunk
        return _PromptPart(taken, self.together(taken, taken) + beyond + launching, launching, beyond)

    def _step(self, tokens: int, cached: int) -> _PromptPart:
        """Time of a step that processes only ``tokens`` tokens of one prompt, after ``cached`` tokens."""
        part = self._known.get((tokens, cached))
        if part is None:
            seconds = float(self.prefill_seconds(tokens, cached))
            if not 0.0 <= seconds < math.inf:
                _refuse(seconds, f"prefill_seconds for {tokens} tokens after {cached} cached ones")
            working = seconds if self.chip_seconds is None else float(self.chip_seconds(tokens, cached))
            if not 0.0 <= working < math.inf:
                _refuse(working, f"chip_seconds for {tokens} tokens after {cached} cached ones")
            part = _PromptPart(tokens, seconds, seconds - working, working - self.together(tokens, tokens))
            self._known[tokens, cached] = part
        return part


def _refuse(seconds: float, what: str) -> None:
    raise InputError(f"{what} must be a finite time >= 0 s, got {seconds:g}")


@dataclass(frozen=True, slots=True)
class Server:
    """Configuration of a simulated server."""

    times: StepTimes
    """Step times of the server."""
    slots: int
    """Maximum number of concurrent requests, including requests in prefill [1]."""
    policy: Policy = "prefill_first"
    """Scheduling of prompts. Prompts are processed in order of arrival, with up to ``chunk`` tokens per group and step.

    With ``prefill_first``, decoding pauses until all prompts are processed. With ``chunked``, a step with prompts also
    decodes one token per request. A step then takes the sum of prefill and decode time.
    """
    chunk: int = 512
    """Token budget: maximum number of prompt tokens per group and step [tokens]; the last prompt of a step is split."""
    stages: float = 1.0
    """Number of pipeline stages [1]; each stage processes one prompt after the other."""
    steps_ahead: int = 0
    """Number of steps that the engine schedules ahead [1].

    A new request cannot join scheduled steps. An idle server has no scheduled steps.
    """
    groups: int = 1
    """Number of attention-DP groups that step together [1].

    Groups have separate requests, and every step takes as long as the step of the fullest group.
    """
    dealing: Dealing = "least_busy"
    """Rule that assigns a new request to an attention-DP group.

    ``round_robin`` selects the next group, and ``least_busy`` selects the group with the fewest requests.

    Under ``least_busy``, a queued request has the weight of four running requests (vLLM's rule).
    """
    look_steps: int = 1
    """Number of steps between two checks of the queue for new requests [1]."""
    most_prompts: float = math.inf
    """Maximum number of prompts per group and step, regardless of their length [1]."""
    held_steps: int = 0
    """Longest delay of prefill, during which the server waits for a prompt in every group and decodes [steps]."""
    cache: KvCacheMemory | None = None
    """KV-cache memory, which limits the number of requests in addition to ``slots``; unlimited by default."""
    tiers: tuple[Tier, ...] = ()
    """KV-cache offload tiers from which cached prefixes are loaded, the fastest first."""

    def __post_init__(self) -> None:
        """Reject values and rules that are out of range."""
        _check_least(self, "", slots=1, chunk=1, stages=1, steps_ahead=0, look_steps=1, most_prompts=1, held_steps=0)
        if self.policy not in get_args(Policy):
            raise InputError(f"policy must be 'prefill_first' or 'chunked', got {self.policy!r}")
        if self.groups < 1 or (self.groups > 1 and self.times.lone_step_seconds is None):
            raise InputError(
                f"groups must be at least 1, and several of them need lone_step_seconds, got {self.groups} groups"
            )
        if self.dealing not in get_args(Dealing):
            raise InputError(f"dealing must be 'round_robin' or 'least_busy', got {self.dealing!r}")


def simulate(
    server: Server,
    requests: Demand,
    *,
    warm_up: float = 0.1,
    cool_down: float = 0.05,
    instances: int = 1,
    router: Router = "least_busy",
    stop_after: int | None = None,
) -> Trace:
    """Simulate requests on one server, or on several servers behind a router.

    Parameters
    ----------
    server : Server
        Configuration of every server.
    requests : Demand
        Open-loop stream, closed loop, or sessions.
    warm_up, cool_down : float
        Shares of the requests that are not measured: the first and the last arrivals [1]. During these periods, the
        concurrency is lower than in the steady state.
    instances : int
        Number of servers [1].
    router : str
        Rule that selects the server of a request. ``round_robin`` selects the next server, and ``least_busy`` the
        server with the fewest requests. ``prefix_aware`` selects the server with the longest cached prefix, unless this
        server is much busier than others (as SGLang's router does). Within a server, ``prefix_aware`` also selects the
        attention-DP group.
    stop_after : int, optional
        Number of completed requests after which the run ends [1].

    Returns
    -------
    Trace
        Latencies of the measured requests.

    Raises
    ------
    InputError
        If warm-up and cool-down leave no request to measure, a step time is negative or not finite, or the router is
        unknown.

    Notes
    -----
    All decode steps between two events are simulated at once. Events are arrivals that find a free slot, and ends of
    requests. The total time of these steps is exact if the step time is linear in the mean context, as for cache reads.
    For other step times, the total is a trapezoidal approximation.

    The first token of a request arrives when its prefill ends.
    """
    measured = measured_requests(requests.feed().count, warm_up, cool_down)
    if instances < 1 or router not in get_args(Router):
        raise InputError(
            f"instances must be at least 1, and a router one of {', '.join(get_args(Router))}, got {instances} and "
            f"{router!r}"
        )
    # Most runs without shared prefixes never fill the KV-cache memory. These runs are first simulated without block
    # counts, which is faster.
    apart = instances == 1 and isinstance(requests, Stream | Loop) and requests.parts is None
    fleet = ServerFleet(replace(server, cache=None) if apart else server, requests, instances, router)
    fleet.play(stop_after)
    if apart and server.cache is not None and _may_run_out(fleet.engines[0], server.cache):
        fleet = ServerFleet(server, requests, instances, router)
        fleet.play(stop_after)
    return fleet.seen(server, measured, server.slots * instances)


def _may_run_out(engine: Engine, cache: KvCacheMemory) -> bool:
    """Check whether the requests of a finished run could have exceeded the KV-cache memory at their full lengths."""
    log, everything = engine.log, slice(engine.log.count)
    held = cache.held(np.array(log.isl[everything]) + np.array(log.osl[everything]))
    group = np.array([engine.group_of[request] for request in range(held.size)])
    if held.max() * engine.slots_each <= cache.blocks:
        return False
    times = np.concatenate((log.let_in[everything], log.finished[everything]))
    changes = np.concatenate((held, -held))
    order = np.lexsort((changes, times))
    of_groups = (np.where(np.tile(group == which, 2), changes, 0)[order] for which in range(engine.server.groups))
    return any(np.cumsum(chosen).max() > cache.blocks for chosen in of_groups)


def measured_requests(count: int, warm_up: float, cool_down: float) -> slice:
    """Slice of the requests, by arrival, that are measured.

    Raises
    ------
    InputError
        If warm-up and cool-down leave no request to measure.
    """
    first, last = math.floor(warm_up * count), count - math.floor(cool_down * count)
    if not (warm_up >= 0.0 and cool_down >= 0.0) or last - first < min(count, 2) or last <= first:
        raise InputError(
            f"warm_up {warm_up:g} and cool_down {cool_down:g} leave {max(last - first, 0)} of {count} requests to "
            "measure; at least 2 are needed"
        )
    return slice(first, last)


class _Log:
    """Log of all simulated requests, in order of arrival at the servers."""

    def __init__(self, count: int, places: int) -> None:
        #: Per request: prompt and output lengths as sent, then prefill tokens and output tokens after prefill.
        #: Preemption changes the prefill tokens and the output tokens after prefill.
        self.prompts, self.answers, self.isl, self.osl = ([0] * count for _ in range(4))
        self.sent, self.let_in, self.started, self.first_token, self.finished = ([-1.0] * count for _ in range(5))
        self.evictions, self.session = [0] * count, [-1] * count
        #: Shared runs at the start of each prompt, their number of blocks, and the name of the run that the prompt
        #: adds.
        self.before: list[Parts] = [()] * count
        self.blocks_before, self.own = [0] * count, [-1] * count
        #: Tokens that need no prefill, and tokens that each memory had cached at the first admission.
        self.reused, self.found = [0] * count, [(0,) * places] * count
        #: Last result of ``_Memory.parts_of``: the request with its number of tokens, and the runs of these tokens.
        self.parts: tuple[tuple[int, int], Parts] = ((-1, 0), ())
        #: Generated tokens of each request at the end of the run.
        self.written = [0] * count
        #: Arrived requests, completed requests, and prefill tokens of all servers.
        self.count, self.ended, self.tokens_read = 0, 0, 0

    def add(self, sent: float, request: SimulatedRequest) -> int:
        """Record an arriving request, and return its index."""
        number = self.count
        self.count += 1
        self.sent[number] = sent
        self.prompts[number] = self.isl[number] = request.isl
        self.answers[number] = self.osl[number] = self.written[number] = request.osl
        if request.before or request.own >= 0:
            self.before[number], self.own[number], self.session[number] = request.before, request.own, request.session
            self.blocks_before[number] = sum(blocks for _, blocks in request.before)
        return number


class ServerFleet:
    """Servers behind a router, and the queue of future events."""

    def __init__(
        self,
        server: Server,
        requests: Demand,
        instances: int,
        router: Router,
        kind: type[Engine] | None = None,
    ) -> None:
        self.feed, self.router = requests.feed(), router
        self.log = _Log(self.feed.count, 1 + len(server.tiers))
        #: Servers at which requests arrive, and all servers.
        self.engines = [(kind or Engine)(server, self) for _ in range(instances)]
        self.everyone = self.engines
        self.sent: list[Sent] = []
        #: Future events: arrivals, and requests whose cached blocks are loaded. Numbers order events of the same time.
        first = self.feed.first(1 if server.cache is None else server.cache.block_tokens)
        self.coming: list[tuple[float, int, Sent | tuple[Engine, int, int]]] = [
            (sent.at, number, sent) for number, sent in enumerate(first)
        ]
        self.numbered = len(self.coming)
        heapq.heapify(self.coming)
        for number, parts in enumerate(self.feed.known):
            memory = self.engines[number % instances].memory
            if memory is not None:
                memory.remember(number // instances, parts)

    def later(self, at: float, what: Sent | tuple[Engine, int, int]) -> None:
        """Schedule an event: an arrival, or the end of a KV-cache transfer."""
        heapq.heappush(self.coming, (at, self.numbered, what))
        self.numbered += 1

    def play(self, stop_after: int | None = None) -> None:
        """Process arrivals and ends of steps until no event is left, or until ``stop_after`` requests have ended."""
        engines, coming, now = self.everyone, self.coming, attrgetter("now")
        only, several = engines[0], len(engines) > 1
        while True:
            engine = min(engines, key=now) if several else only
            if coming and coming[0][0] <= engine.now:
                self._receive()
                continue
            if engine.now == math.inf:
                break
            engine.end()
            if stop_after is not None and self.log.ended >= stop_after:
                for other in engines:
                    other.stop(engine.now)
                return
            # Clients without a pause send requests that the next step can process.
            while coming and coming[0][0] <= engine.now:
                self._receive()
            engine.begin()
        assert not any(map(requests_of, engines)), "requests wait for what nobody does"

    def _receive(self) -> None:
        """Process the next event of the queue."""
        time, _, what = heapq.heappop(self.coming)
        if not isinstance(what, Sent):
            engine, request, attempt = what
            engine.loaded(request, attempt, time)
        elif len(self.sent) < self.feed.count:
            request, engines = self.log.add(what.sent, self.feed.request(what)), self.engines
            self.sent.append(what)
            if len(engines) == 1 or self.router == "round_robin":
                engine = engines[request % len(engines)]
            elif self.router == "least_busy":
                engine = min(engines, key=requests_of)
            else:
                parts = engines[0].parts_of(request)
                hits = [max(engine.found(parts)) for engine in engines]
                engine = engines[_nearest(hits, [requests_of(engine) for engine in engines])]
            engine.receive(request, time)

    def ended(self, request: int, now: float) -> None:
        """Record the end of a request, and send the requests that were waiting for this end."""
        self.log.ended += 1
        for sent in self.feed.ended(self.sent[request], now):
            self.later(sent.at, sent)

    def seen(self, server: Server, measured: slice, slots: int) -> Trace:
        """Latencies of the measured requests that arrived during the run; ``slots`` is the maximum concurrency [1]."""
        log, count = self.log, self.log.count
        # Order by sending time: long prompts take more CPU time and may arrive after shorter ones.
        order = np.argsort(log.sent[:count], kind="stable")
        sent, isl, osl, started, first_token, finished, evictions, before, sessions, written = (
            np.array(values[:count])[order]
            for values in (
                log.sent, log.prompts, log.answers, log.started, log.first_token, log.finished, log.evictions,
                log.blocks_before, log.session, log.written,
            )
        )  # fmt: skip
        measured = slice(measured.start, min(measured.stop, count))
        times = trace(Stream(sent, isl, osl), started, first_token, finished, slots, measured, evictions)
        tokens_found = np.array(log.found[:count])[order][measured].T
        places, size = (HBM, *(tier.name for tier in server.tiers)), server.cache.block_tokens if server.cache else 1
        return replace(
            times,
            prompt_tokens=isl[measured],
            found_tokens=dict(zip(places, tokens_found, strict=True)),
            known_tokens=size * np.minimum(before, (isl - 1) // size)[measured],
            tokens_read=log.tokens_read,
            sessions=sessions[measured],
            written=written[measured],
        )


def _nearest(hits: list[int], busy: list[int]) -> int:
    """Index of the server or group that has cached the longest prefix of a prompt.

    If this server or group is much busier than the least busy one, the index of the least busy one is returned.
    """
    most = max(hits)
    best = min((place for place, hit in enumerate(hits) if hit == most), key=busy.__getitem__)
    least = min(busy)
    if busy[best] - least > _FAR_BUSIER and busy[best] > _TIMES_BUSIER * least:
        return busy.index(least)
    return best


def requests_of(engine: Engine) -> int:
    """Number of running and queued requests of a server [1]."""
    return engine.in_flight + engine.queued


class _Memory:
    """KV-cache blocks of a server by attention-DP group, and prompts in the offload tiers."""

    def __init__(self, server: Server, cache: KvCacheMemory, log: _Log, writing: list[int], *, shared: bool) -> None:
        groups = range(server.groups)
        #: ``writing`` is the number of decoding requests per group, which the server updates. If ``shared`` is True,
        #: requests share prefix blocks.
        self.cache, self.tiers, self.log, self.writing, self.shared = cache, server.tiers, log, writing, shared
        #: Per group: number of blocks in use, number of blocks at full output lengths, and admitted requests in order
        #: of admission.
        self.blocks, self.blocks_at_end = [0] * server.groups, [0] * server.groups
        self.inside: list[dict[int, None]] = [{} for _ in groups]
        #: Number of decode steps so far. Decoding requests need a new block at different steps. ``beyond_of`` is each
        #: request's number of tokens after its last full block, extrapolated to step 0. ``beyond`` is the number of
        #: requests per group with each such number of tokens.
        self.steps = 0
        self.beyond = [[0] * cache.block_tokens for _ in groups]
        self.beyond_of: dict[int, int] = {}
        #: Prefix cache of each group and of each offload tier, and time until which each tier is busy with loads [s].
        self.prefixes = [Prefixes() for _ in groups]
        self.behind = [Prefixes() for _ in server.tiers]
        self.busy_until = [0.0 for _ in server.tiers]
        #: Number of blocks that each tier must load for the request that was admitted last.
        self.to_load: list[int] = []

    def parts_of(self, request: int, tokens: int) -> Parts:
        """Runs of full cache blocks that contain the first ``tokens`` tokens of a request."""
        log = self.log
        before, own = log.before[request], log.own[request]
        if not self.shared or own < 0:
            return before if self.shared else ()
        # All servers look for the same prompt.
        if log.parts[0] != (request, tokens):
            blocks = max(tokens // self.cache.block_tokens - log.blocks_before[request], 0)
            log.parts = ((request, tokens), joined(before, own, blocks))
        return log.parts[1]

    def remember(self, number: int, parts: Parts) -> None:
        """Insert a prompt into the prefix cache of a group and into the offload tiers before the run."""
        self.prefixes[number % len(self.prefixes)].keep(parts, self.cache.blocks)
        self._keep_behind(parts)

    def _keep_behind(self, parts: Parts) -> None:
        for tier, memory in zip(self.tiers, self.behind, strict=True):
            memory.keep(parts, tier.blocks)

    def let_in(self, request: int, group: int) -> bool:
        """Reserve the blocks of a prompt and return True, if memory is free for them and for the admission reserve."""
        cache, log, inside, prefixes = self.cache, self.log, self.inside[group], self.prefixes[group]
        isl = log.isl[request]
        parts = self.parts_of(request, isl)
        used = prefixes.in_use(parts)
        prompt, whole = cache.held(isl) - used, cache.held(isl + log.osl[request]) - used
        if inside:
            needed = prompt + cache.own_answer * (whole - prompt)
            needed += cache.other_answers * (self.blocks_at_end[group] - self.blocks[group])
            if self.blocks[group] + needed > cache.blocks:
                return False
        self.to_load = []
        if parts:
            # At least one token needs prefill.
            size, most, reached, found = cache.block_tokens, (isl - 1) // cache.block_tokens, 0, list[int]()
            for memory in (prefixes, *self.behind):
                there = max(min(memory.found(parts), most), reached)
                found.append(there - reached)
                reached = there
            if not log.evictions[request]:
                log.found[request] = tuple(blocks * size for blocks in found)
            log.reused[request] = reached * size
            self.to_load = found[1:]
            prefixes.take(parts)
        self.blocks[group] += prompt
        self.blocks_at_end[group] += whole
        inside[request] = None
        self._make_room(group)
        return True

    def load(self, now: float) -> float:
        """Load the cached blocks of the last admitted request from the tiers; return the time when the load ends [s].

        Each tier loads the blocks of one request after another.
        """
        last = now
        for which, (tier, blocks) in enumerate(zip(self.tiers, self.to_load, strict=True)):
            if blocks:
                self.busy_until[which] = max(self.busy_until[which], now) + blocks * tier.block_seconds
                last = max(last, self.busy_until[which] + tier.access_seconds)
        return last

    def let_out(self, request: int, group: int, tokens: int) -> None:
        """Free the blocks of a request with ``tokens`` tokens; full blocks stay cached until memory is needed."""
        cache, log = self.cache, self.log
        parts = self.parts_of(request, max(tokens - (tokens > log.prompts[request]), 0))
        shared = self.prefixes[group].release(parts) if parts else 0
        del self.inside[group][request]
        self.blocks[group] -= cache.held(tokens) - shared
        self.blocks_at_end[group] -= cache.held(log.isl[request] + log.osl[request]) - shared
        self._make_room(group)
        self._keep_behind(parts)

    def _make_room(self, group: int) -> None:
        """Evict unused cached blocks of a group if its requests need the memory."""
        prefixes = self.prefixes[group]
        excess = self.blocks[group] + prefixes.idle_blocks - self.cache.blocks
        if excess > 0 and prefixes.idle_blocks:
            prefixes.forget(excess)

    def join(self, request: int, group: int) -> None:
        """Update the block counts of a group in which a request starts to decode."""
        cache, isl = self.cache, self.log.isl[request]
        self.blocks[group] += cache.held(isl + 1) - cache.held(isl)
        beyond = self.beyond_of[request] = (cache.request_tokens + isl + 1 - self.steps) % cache.block_tokens
        self.beyond[group][beyond] += 1

    def advance(self, steps: int) -> None:
        """Update the block counts after ``steps`` decode steps."""
        for group, writing in enumerate(self.writing):
            if writing:
                more = self.growth(group, steps)
                if more:
                    self.blocks[group] += more
                    self._make_room(group)
        self.steps += steps

    def growth(self, group: int, steps: int) -> int:
        """Number of additional blocks that the decoding requests of a group need during the next ``steps`` steps."""
        beyond = self.beyond[group]
        size = len(beyond)
        # At each step, the requests whose last block is full need a new block.
        end = -self.steps % size + 1
        if steps == 1:
            return beyond[end - 1] if size > 1 else self.writing[group]
        whole, rest = divmod(steps, size)
        more = sum(beyond[end - rest : end]) if rest <= end else sum(beyond[:end]) + sum(beyond[end - rest :])
        return self.writing[group] * whole + more

    def steps_that_fit(self, steps: int) -> int:
        """Largest number of decode steps, up to ``steps`` and at least one, for which the KV cache fits in memory."""
        for group, writing in enumerate(self.writing):
            free = self.cache.blocks - self.blocks[group]
            # Each request needs at most one more block than the number of blocks that the steps fill.
            if writing * (steps // self.cache.block_tokens + 1) <= free or len(self.inside[group]) == 1:
                continue
            if self.growth(group, steps - 1) <= free:
                continue
            low, high = 1, steps
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if self.growth(group, middle - 1) <= free else (low, middle)
            steps = low
        return steps


class Engine:
    """Simulated server: its queues, running step and KV-cache memory."""

    #: True if requests share blocks of common prefixes.
    shares_prompts = True

    def __init__(self, server: Server, fleet: ServerFleet) -> None:
        #: ``now`` is the end of the running step; it is infinite if no step runs.
        self.server, self.fleet, self.log, self.now = server, fleet, fleet.log, math.inf
        self.isl, self.osl = fleet.log.isl, fleet.log.osl
        groups = range(server.groups)
        self.waiting: list[deque[int]] = [deque() for _ in groups]
        #: Group of each request, then admitted and decoding requests per group, then the next group for round robin.
        self.group_of: dict[int, int] = {}
        self.held, self.writing, self.turn = [0] * server.groups, [0] * server.groups, 0
        self.in_flight, self.queued, self.slots_each = 0, 0, -(-server.slots // server.groups)
        #: Admitted requests before prefill, each with the first step that it can join.
        self.admitted: list[deque[tuple[int, int]]] = [deque() for _ in groups]
        #: Requests whose cached blocks have been loaded; then the partly processed prompt of each group as (request,
        #: tokens).
        self.brought: list[int] = []
        self.begun: list[tuple[int, int] | None] = [None for _ in groups]
        #: Decoding requests by the step at which they end, and the sum of their contexts.
        self.decoding: list[tuple[int, int]] = []
        self.ends: dict[int, int] = {}
        self.steps, self.context = 0, 0
        #: Number of steps so far, including steps that an idle server skips; and the first future step with a prefill.
        self.taken, self.soonest = 0, math.inf
        #: ``planned`` is the number of scheduled decode steps. ``plan`` is their start time, the duration of the first
        #: step, and the increase per step. ``reading`` lists the prompts that the running step completes.
        self.planned, self.plan = 0, (0.0, 0.0, 0.0)
        self.reading: list[int] | None = None
        #: Time by which speculation rounds delay a first token: half a round at arrival, the rounds that were already
        #: scheduled, and the round with the prefill.
        self.rounds_left = 0.0
        self.late: dict[int, float] = {}
        self.memory = (
            None
            if server.cache is None
            else _Memory(server, server.cache, fleet.log, self.writing, shared=self.shares_prompts)
        )

    def begin(self) -> None:
        """Start the next step: admit requests, then prefill, decode or idle."""
        memory = self.memory
        full = memory is not None and max(memory.blocks) > memory.cache.blocks
        if not (full and self._evict()) and (self.queued or self.brought):
            self.admit()
        if not self.decoding and self.soonest < math.inf:
            # An idle server has no scheduled steps, so a new prompt does not wait for them.
            self.taken = max(self.taken, int(self.soonest))
        if self.soonest <= self.taken:
            self._read()
        elif self.decoding:
            self._decode()
        else:
            self.now = math.inf

    def end(self) -> None:
        """End the running step, or the scheduled decode steps, and record the results."""
        if self.planned:
            steps, self.planned = self.planned, 0
            self.taken += steps
            self._advance(steps)
            if not self.decoding:
                # No further prompts will arrive, so prefill is not delayed any longer.
                self.look()
        elif self.reading is not None:
            ready, self.reading = self.reading, None
            self.taken += 1
            if self.decoding and self.server.policy == "chunked":
                self._advance(1)
            for request in ready:
                self.answer(request)
            self.look()

    def stop(self, time: float) -> None:
        """Stop the simulation at ``time``: finish started decode steps, and record the output of running requests."""
        log = self.log
        if self.planned:
            start, first, growth = self.plan
            steps, self.planned = min(_steps_begun(first, growth, time - start), self.planned), 0
            self._advance(steps)
        for request in self.group_of:
            if log.finished[request] < 0.0:
                log.written[request] = self._written(request)
                for times in (log.let_in, log.started, log.first_token, log.finished):
                    if times[request] < 0.0:
                        times[request] = max(time, log.first_token[request])

    def receive(self, request: int, time: float) -> None:
        """Queue a request in an attention-DP group, which is selected by cached prefix, round robin or lowest load."""
        group, server, waiting, held = 0, self.server, self.waiting, self.held
        if server.groups > 1:
            groups = range(server.groups)
            if self.fleet.router == "prefix_aware" and self.log.before[request]:
                found = self.found(self.parts_of(request))
                group = _nearest(found, [held[group] + len(waiting[group]) for group in groups])
            elif server.dealing == "round_robin":
                group, self.turn = self.turn, (self.turn + 1) % server.groups
            else:
                group = min(groups, key=lambda group: 4 * len(waiting[group]) + held[group])
        self.group_of[request] = group
        waiting[group].append(request)
        self.queued += 1
        self._wake(time, free=self.in_flight < server.slots and min(held) < self.slots_each)

    def loaded(self, request: int, attempt: int, time: float) -> None:
        """Record that the cached blocks of a request are loaded, unless the request was preempted meanwhile."""
        if self.log.evictions[request] == attempt:
            self.brought.append(request)
            self._wake(time, free=True)

    def _wake(self, time: float, *, free: bool) -> None:
        """Schedule the next admission of queued requests.

        If a slot is free, requests are admitted at the next decode step. An idle server admits requests immediately.
        """
        if self.now == math.inf:
            self.now = time
        elif self.planned and free:
            start, first, growth = self.plan
            self.planned = min(_steps_begun(first, growth, time - start), self.planned)
            self.now = start + _sum(first, growth, self.planned)

    def parts_of(self, request: int) -> Parts:
        """Runs of full cache blocks of a request's prompt."""
        return () if self.memory is None else self.memory.parts_of(request, self.isl[request])

    def found(self, parts: Parts) -> list[int]:
        """Number of cached blocks of a prompt in each group [1]."""
        if self.memory is None:
            return [0] * self.server.groups
        return [prefixes.found(parts) for prefixes in self.memory.prefixes]

    def admit(self) -> None:
        """Admit queued requests to free slots; admitted requests join the first step that is not scheduled yet."""
        server, log, memory = self.server, self.log, self.memory
        step = -(-(self.taken + server.steps_ahead) // server.look_steps) * server.look_steps
        ready, self.brought = self.brought, []
        for group, waiting in enumerate(self.waiting):
            while waiting and self.held[group] < self.slots_each and self.in_flight < server.slots:
                request = waiting[0]
                if memory is not None and not memory.let_in(request, group):
                    break
                self.held[group] += 1
                self.in_flight += 1
                self.queued -= 1
                log.let_in[request] = self.now
                waiting.popleft()
                if memory is not None and any(memory.to_load):
                    self.fleet.later(memory.load(self.now), (self, request, log.evictions[request]))
                else:
                    ready.append(request)
        for request in ready:
            self.admitted[self.group_of[request]].append((request, step))
        self.look()

    def _evict(self) -> bool:
        """Preempt requests until the next step fits in memory; return True if a request was preempted."""
        memory, went = self.memory, False
        if memory is None or memory.cache.evicted == "nobody":
            return False
        for group, inside in enumerate(memory.inside):
            while memory.blocks[group] > memory.cache.blocks and len(inside) > 1:
                latest = reversed(inside)
                last = memory.cache.evicted == "last"
                self.send_back(next(latest) if last else min(latest, key=self._written), group)
                went = True
        if went:
            self.look()
        return went

    def _written(self, request: int) -> int:
        """Number of tokens that a request has generated."""
        end = self.ends.get(request)
        return self.log.answers[request] - (self.osl[request] if end is None else end - self.steps)

    def send_back(self, request: int, group: int) -> None:
        """Preempt a request and move it to the head of its queue; its output so far becomes part of its prompt."""
        end, begun, tokens = self.ends.get(request), self.begun[group], self.isl[request]
        if end is not None:
            tokens += self.osl[request] - (end - self.steps)
            self._leave(request, group)
            self.decoding.remove((end, request))
            heapq.heapify(self.decoding)
        elif begun is not None and begun[0] == request:
            self.begun[group] = None
        else:
            self.admitted[group] = deque(entry for entry in self.admitted[group] if entry[0] != request)
            self.brought = [other for other in self.brought if other != request]
        self.let_out(request, tokens)
        self.osl[request] -= tokens - self.isl[request]
        self.isl[request] = tokens
        self.waiting[group].appendleft(request)
        self.queued += 1
        self.log.evictions[request] += 1

    def let_out(self, request: int, tokens: int) -> None:
        """Free the slot and the blocks of a request with ``tokens`` tokens."""
        group = self.group_of[request]
        if self.memory is not None:
            self.memory.let_out(request, group, tokens)
        self.held[group] -= 1
        self.in_flight -= 1

    def look(self) -> None:
        """Set the first future step with a prefill, considering delayed prefill."""
        self.soonest = self.taken if any(self.begun) else math.inf
        firsts = [queue[0][1] for queue in self.admitted if queue]
        if not firsts:
            return
        soonest: float = min(firsts)
        if self.server.held_steps and self.decoding:
            # Prefill starts when every group has a prompt, or when the first prompt reaches the longest delay.
            full = max(firsts) if len(firsts) == self.server.groups else math.inf
            rounds = self.server.times.round_tokens(len(self.decoding))
            soonest = min(soonest + round(self.server.held_steps * rounds), full)
        self.soonest = min(self.soonest, soonest)

    def _read(self) -> None:
        """Run a step with prompts; under the policy ``chunked``, each decoding request also gets one token."""
        server, times, stages = self.server, self.server.times, self.server.stages
        batch = len(self.decoding) if server.policy == "chunked" else 0
        decoding = times.decode(batch, self.context / batch, self.writing) if batch else 0.0
        running = decoding * times.round_tokens(batch) if batch else 0.0
        ready: list[int] = []
        # Time that prompts add to a step: their GPU time, and the launch time that exceeds the decode step.
        work, most, total, longest, every = -math.inf, 0, 0, 0.0, 0.0
        for group in range(server.groups):
            beyond, tokens = 0.0, 0
            if not self.admitted[group] and self.begun[group] is None:
                work = max(work, 0.0)
                continue
            for part in self._parts(group, ready):
                beyond += part.beyond_seconds
                tokens += part.tokens
                wait = part.seconds - running / stages
                if wait > 0.0:
                    every += wait
                    if wait > longest:
                        longest = wait
            work, most, total = max(work, beyond), max(most, tokens), total + tokens
        work = max(work + times.together(most, total), 0.0)
        if batch:
            work = max(work - times.saved_seconds(batch, total), 0.0)
        self.rounds_left = (1.5 + server.steps_ahead) * (running - decoding)
        self.now += decoding + max(work, min(every, stages * longest))
        self.reading = ready

    def _parts(self, group: int, ready: list[int]) -> list[_PromptPart]:
        """Chunks of prompts that a group processes in a step; completed prompts are appended to ``ready``."""
        admitted, log, times, chunk = self.admitted[group], self.log, self.server.times, self.server.chunk
        parts: list[_PromptPart] = []
        budget, begun = chunk, self.begun[group]
        self.begun[group] = None
        while budget and len(parts) < self.server.most_prompts:
            if begun is None:
                if not admitted or admitted[0][1] > self.taken:
                    break
                request = admitted.popleft()[0]
                begun = (request, log.reused[request])
                if log.started[request] < 0.0:
                    log.started[request] = self.now
            request, done = begun
            prompt = self.isl[request]
            taken = min(prompt - done, budget)
            parts.append(times.part(chunk, prompt, log.reused[request], done, taken))
            budget -= taken
            log.tokens_read += taken
            if done + taken < prompt:
                self.begun[group] = (request, done + taken)
                break
            ready.append(request)
            begun = None
        return parts

    def _decode(self) -> None:
        """Schedule decode steps until a request ends or a new request can join.

        If a request arrives during these steps and a slot is free, the remaining steps are cancelled.
        """
        times, batch = self.server.times, len(self.decoding)
        steps = self.decoding[0][0] - self.steps
        if self.soonest < self.taken + steps:
            steps = int(self.soonest) - self.taken
        if self.memory is not None:
            steps = self.memory.steps_that_fit(steps)
        mean, growth = self.context / batch, 0.0
        first = times.decode(batch, mean, self.writing)
        if steps > 1:
            growth = (times.decode(batch, mean + steps - 1, self.writing) - first) / (steps - 1)
        self.planned, self.plan = steps, (self.now, first, growth)
        self.now += _sum(first, growth, steps)

    def _advance(self, steps: int) -> None:
        """Record ``steps`` completed decode steps, and release the requests that end."""
        decoding = self.decoding
        if self.memory is not None:
            self.memory.advance(steps)
        self.steps += steps
        self.context += steps * len(decoding)
        while decoding and decoding[0][0] == self.steps:
            _, request = heapq.heappop(decoding)
            self._leave(request, self.group_of[request])
            self._finish(request, self.isl[request] + self.osl[request])

    def answer(self, request: int) -> None:
        """Record the first token of a request whose prefill has ended, and start to decode the request."""
        if self.log.first_token[request] < 0.0:
            self.late[request] = self.rounds_left
            self.log.first_token[request] = self.now + self.rounds_left
        if self.osl[request] == 1:
            self._finish(request, self.isl[request])
            return
        group, end = self.group_of[request], self.steps + self.osl[request] - 1
        self.ends[request] = end
        self.context += self.isl[request] + 1
        self.writing[group] += 1
        if self.memory is not None:
            self.memory.join(request, group)
        heapq.heappush(self.decoding, (end, request))

    def _leave(self, request: int, group: int) -> None:
        """Remove a request from the decode batch of its group."""
        self.context -= self.isl[request] + self.osl[request] - (self.ends.pop(request) - self.steps)
        self.writing[group] -= 1
        if self.memory is not None:
            self.memory.beyond[group][self.memory.beyond_of.pop(request)] -= 1

    def _finish(self, request: int, tokens: int) -> None:
        """Record the last token of a request, and send the requests that were waiting for its end."""
        self.log.finished[request] = self.now + self.late.pop(request, 0.0)
        self.let_out(request, tokens)
        self.fleet.ended(request, self.now)


def _sum(first: float, growth: float, steps: float) -> float:
    """Total duration of ``steps`` steps, if each step takes ``growth`` longer than the previous step [s]."""
    return steps * (first + growth * (steps - 1) / 2.0)


def _steps_begun(first: float, growth: float, seconds: float) -> int:
    """Number of steps that start within ``seconds``, at least 1: the inverse of :func:`_sum`, rounded up [1]."""
    half = first - growth / 2.0
    root = math.sqrt(max(half**2 + 2.0 * growth * seconds, 0.0))
    below = half + root
    return max(math.ceil(2.0 * seconds / below - 1e-9), 1) if below > 0.0 else 1
