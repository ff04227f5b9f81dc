"""A server with continuous batching, played step by step: a second opinion on the formulas of a queue.

Every request is followed from its arrival to its last token, whether requests come as a stream or clients send their
next one when the last has ended. Where the closed forms of :mod:`inference_econ.formulas.queueing` hold, the simulation
agrees with them within its confidence; beyond them it knows what they leave out: prompts that are read together, steps
that must end before a newcomer is looked at, requests that end together, and contexts that grow.
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
from inference_econ.inputs import Dealing
from inference_econ.serving.simulation.arrivals import (
    Counts,
    Loop,
    Parts,
    Prefixes,
    Sent,
    Sessions,
    SimulatedRequest,
    Stream,
    feed_of,
    joined,
)
from inference_econ.serving.simulation.trace import Trace, trace

Tokens = TypeVar("Tokens", int, Counts)
Policy = Literal["prefill_first", "chunked"]
Evicted = Literal["last", "fewest_tokens", "nobody"]
#: What the memory of the accelerators is called among those that have beginnings of prompts.
HBM = "HBM"
#: Requests more than at another place, and times as many, from which prompts go there instead: SGLang's router [1].
_FAR_BUSIER, _TIMES_BUSIER = 64, 1.5
Router = Literal["round_robin", "least_busy", "prefix_aware"]


class Tier(NamedTuple):
    """Memory behind that of the accelerators, which has what was used last, and what is there too."""

    name: str
    """Name of the tier."""
    blocks: int
    """Of an instance [1]."""
    block_seconds: float
    """To bring one block of one request, one request after the other [s]."""
    access_seconds: float
    """From asking to the first byte [s]."""


def _check_least(owner: KvCacheMemory | Server, whose: str, **least: float) -> None:
    """Refuse fields that are below the least that each can be."""
    for name, number in least.items():
        value, unit = getattr(owner, name), " token" if name == "chunk" else ""
        if not value >= number:
            raise InputError(f"{name}{whose} must be at least {number:g}{unit}, got {value:g}")


@dataclass(frozen=True, slots=True)
class KvCacheMemory:
    """Memory for the cache of requests, and which requests an engine admits and preempts."""

    blocks: int
    """Blocks of each group [1]."""
    block_tokens: int = 1
    """Tokens of a block [tokens]."""
    request_tokens: int = 0
    """Tokens of every request in addition to its prompt and output: cached ones, and states as a number of tokens."""
    own_answer: float = 0.0
    """Share of its own output that must be free in addition to the prompt before a request is admitted [1]."""
    other_answers: float = 0.0
    """Share of the remaining output of all running requests that must be free as well [1]."""
    evicted: Evicted = "last"
    """Request that is preempted when a step does not fit, and recomputed with its output before all that wait.

    ``last``: the one that was admitted last; ``fewest_tokens``: the one with the shortest output so far; ``nobody``:
    none, as where complete outputs have room. A request that runs alone always stays.
    """

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        _check_least(self, " of a cache", blocks=1, block_tokens=1, request_tokens=0)
        for name in ("own_answer", "other_answers"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InputError(f"{name} of a cache must be a share from 0 to 1, got {getattr(self, name):g}")
        if self.evicted not in get_args(Evicted):
            raise InputError(f"evicted must be 'last', 'fewest_tokens' or 'nobody', got {self.evicted!r}")

    def held(self, tokens: Tokens) -> Tokens:
        """Blocks of a request with a number of tokens [1]."""
        return -(-(self.request_tokens + tokens) // self.block_tokens)


class _PromptPart(NamedTuple):
    """Part of a prompt that a step processes."""

    tokens: int
    """[tokens]"""
    seconds: float
    """Time of the part alone, until the host has launched it and the chips have processed it [s]."""
    launch_seconds: float
    """Part of this time in which the chips wait for the host [s]."""
    beyond_seconds: float
    """Work of the chips beyond that for the same number of tokens of usual prompts, if the server knows that [s]."""


def _nothing(_first: int, _second: int) -> float:
    return 0.0


def _one_token(_batch: int) -> float:
    return 1.0


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Times of the steps of a server, and the tokens that a step gives."""

    decode_step_seconds: Callable[[int, float], float]
    """(requests decoded together, their mean context in tokens) -> seconds of one step [s]."""
    prefill_seconds: Callable[[int, int], float]
    """(new tokens of one prompt, tokens of it that are cached) -> seconds to process them, alone [s]."""
    chip_seconds: Callable[[int, int], float] | None = None
    """As ``prefill_seconds``: the part of it in which the chips work [s]; all of it, if not given.

    In the rest the chips wait for the host to launch kernels, once for all prompts of a step, and decode meanwhile
    (``chunked``).
    """
    together: Callable[[int, int], float] = _nothing
    """(tokens of the group with most, tokens of all) in a step -> seconds of the chips for those of usual prompts [s].

    Weights are read once for all, and groups wait for the fullest. The prompts of a group add up, if not given.
    """
    lone_step_seconds: Callable[[int, float], float] | None = None
    """As ``decode_step_seconds``, for requests which are all in one group; needed for several groups."""
    saved_seconds: Callable[[int, int], float] = _nothing
    """(requests decoded together, prompt tokens of the step) -> what a step with both takes less than two [s]."""
    round_tokens: Callable[[int], float] = _one_token
    """(requests decoded together) -> tokens that a speculation round gives each of them [1]; a step is for one of them.

    The host launches prompts while all of a round runs, prompts are delayed by rounds, and a first token comes at the
    end of one.
    """
    _known: dict[tuple[int, int], _PromptPart] = field(default_factory=dict, init=False, repr=False, compare=False)

    def decode(self, batch: int, context: float, sizes: list[int]) -> float:
        """Decode step of groups of some sizes: between all as full as the fullest and the fullest alone [s]."""
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
        """Part of a prompt, as its share of the steps that the prompt alone takes.

        The parts of a prompt add up to it, however it is cut. The time of the host beyond that of the chips is needed
        for each part again.
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
        """Step that processes a prompt, or a part of it, alone."""
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
    """Server of the requests."""

    times: StepTimes
    """Times of its steps."""
    slots: int
    """Maximum concurrent requests, the one in prefill included [1]."""
    policy: Policy = "prefill_first"
    """How prompts are processed: in the order of arrival, up to ``chunk`` tokens of each group in a step.

    ``prefill_first``: decoding pauses until all are processed. ``chunked``: each of these steps carries one token of
    each decoding request too, and lasts as long as both together.
    """
    chunk: int = 512
    """Prompt tokens of a group in a step; the last prompt is cut if it does not fit completely [tokens]."""
    stages: float = 1.0
    """Prompts that are processed in turn, each of which takes its share of the time [1]."""
    steps_ahead: int = 0
    """Steps that are prepared while one runs, and that no new request can join; an idle server has none [1]."""
    groups: int = 1
    """Groups that step together [1]: each has requests of its own, and a step waits for the fullest."""
    dealing: Dealing = "least_busy"
    """Group of a new request: ``round_robin``, the next one in turn; or ``least_busy``, that with the fewest requests.

    In the latter, a waiting request counts as four (vLLM's rule).
    """
    look_steps: int = 1
    """Steps between two looks at new requests [1]."""
    most_prompts: float = math.inf
    """Prompts that a group processes in a step at most, whatever their length [1]."""
    held_steps: int = 0
    """Steps for which a prompt is delayed at most, while others decode, until every group has one [1]."""
    cache: KvCacheMemory | None = None
    """Memory that limits requests in addition to ``slots``; unlimited, if not given."""
    tiers: tuple[Tier, ...] = ()
    """Memories behind it, the fastest first, from which cached prefixes are loaded."""

    def __post_init__(self) -> None:
        """Refuse impossible values."""
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
    requests: Stream | Loop | Sessions,
    *,
    warm_up: float = 0.1,
    cool_down: float = 0.05,
    instances: int = 1,
    router: Router = "least_busy",
    stop_after: int | None = None,
) -> Trace:
    """Play requests through a server, or through several that share them.

    Parameters
    ----------
    server : Server
        What serves.
    requests : Stream, Loop or Sessions
        What arrives: at its times, each when a former one of its client has ended, or turns of sessions.
    warm_up, cool_down : float
        Shares of the requests, by arrival, that are not measured: the first find the server too empty, and the last
        are joined by nobody [1].
    instances : int
        Servers of this kind [1].
    router : str
        Which of them a request goes to: ``round_robin``; ``least_busy``, that with the fewest requests; or
        ``prefix_aware``, that which has most of its prompt, the least busy of equals, unless it is far busier than
        others (the rule of SGLang's router, and its limits); inside of a server the group of which that is so.
    stop_after : int, optional
        Ended requests with which the run stops, whatever is under way [1].

    Returns
    -------
    Trace
        What happened in between.

    Raises
    ------
    InputError
        If the shares leave nothing to measure, a step time is negative or not finite, or there is no such router.

    Notes
    -----
    Decode steps between two events (an arrival that finds a slot, the end of a request) are taken at once. That is
    exact where the time of a step is linear in the mean context of a batch that stays the same, as reading the cache
    is; otherwise the context's part of the sum is a trapezium rule. The prompts' first token comes with the prefill.
    """
    measured = measured_requests(feed_of(requests).count, warm_up, cool_down)
    if instances < 1 or router not in get_args(Router):
        raise InputError(
            f"instances must be at least 1, and a router one of {', '.join(get_args(Router))}, got {instances} and "
            f"{router!r}"
        )
    # Most runs whose prompts repeat nothing never fill the memory, and are faster without counting blocks.
    apart = instances == 1 and not isinstance(requests, Sessions) and getattr(requests, "parts", None) is None
    fleet = ServerFleet(replace(server, cache=None) if apart else server, requests, instances, router)
    fleet.play(stop_after)
    if apart and server.cache is not None and _may_run_out(fleet.engines[0], server.cache):
        fleet = ServerFleet(server, requests, instances, router)
        fleet.play(stop_after)
    return fleet.seen(server, measured, server.slots * instances)


def _may_run_out(engine: Engine, cache: KvCacheMemory) -> bool:
    """Say whether requests that were in flight together could not all hold their whole answers in a memory."""
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
    """Of some requests those that are measured.

    Raises
    ------
    InputError
        If the shares at the beginning and the end [1] leave none.
    """
    first, last = math.floor(warm_up * count), count - math.floor(cool_down * count)
    if not (warm_up >= 0.0 and cool_down >= 0.0) or last - first < min(count, 2) or last <= first:
        raise InputError(
            f"warm_up {warm_up:g} and cool_down {cool_down:g} leave {max(last - first, 0)} of {count} requests to "
            "measure; at least 2 are needed"
        )
    return slice(first, last)


class _Log:
    """Log of some requests, in the order in which servers get them."""

    def __init__(self, count: int, places: int) -> None:
        #: Prompts and answers as they were sent; what is to be read of requests, which grows with what is lost, and
        #: what is still to be written when it has been read.
        self.prompts, self.answers, self.isl, self.osl = ([0] * count for _ in range(4))
        self.sent, self.let_in, self.started, self.first_token, self.finished = ([-1.0] * count for _ in range(5))
        self.evictions, self.session = [0] * count, [-1] * count
        #: Parts of earlier prompts that a prompt begins with, their blocks, and the name of its own part.
        self.before: list[Parts] = [()] * count
        self.blocks_before, self.own = [0] * count, [-1] * count
        #: Tokens that need not be read, and of the first time those that each memory had.
        self.reused, self.found = [0] * count, [(0,) * places] * count
        #: Of each answer, the tokens that are there when the run ends.
        self.written = [0] * count
        #: Requests that servers have got, and those that have ended; tokens of prompts that were read by all servers
        #: [tokens].
        self.count, self.ended, self.tokens_read = 0, 0, 0

    def add(self, sent: float, request: SimulatedRequest) -> int:
        """Note a request that a server gets, and return its number."""
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
    """Servers, and what arrives at them, in the order of time."""

    def __init__(
        self,
        server: Server,
        requests: Stream | Loop | Sessions,
        instances: int,
        router: Router,
        kind: type[Engine] | None = None,
    ) -> None:
        self.feed, self.router = feed_of(requests), router
        self.log = _Log(self.feed.count, 1 + len(server.tiers))
        #: Servers that requests arrive at, and all servers.
        self.engines = [(kind or Engine)(server, self) for _ in range(instances)]
        self.everyone = self.engines
        self.sent: list[Sent] = []
        #: What is to come, each with a number that tells equal times apart: a request, or one that has been loaded.
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
        """Note what comes at a time."""
        heapq.heappush(self.coming, (at, self.numbered, what))
        self.numbered += 1

    def play(self, stop_after: int | None = None) -> None:
        """Until nothing is left to come, or some have ended: what comes first, an arrival or the end of a step."""
        engines = self.everyone
        only, several = engines[0], len(engines) > 1
        while True:
            engine = min(engines, key=attrgetter("now")) if several else only
            if not self._received(engine.now):
                if engine.now == math.inf:
                    break
                engine.end()
                if stop_after is not None and self.log.ended >= stop_after:
                    for other in engines:
                        other.stop(engine.now)
                    return
                # Clients that do not pause send again what the next step can read.
                while self._received(engine.now):
                    pass
                engine.begin()
        assert not any(map(requests_of, engines)), "requests wait for what nobody does"

    def _received(self, until: float) -> bool:
        """Let a server have what comes first, if that is not later than some time."""
        if not self.coming or self.coming[0][0] > until:
            return False
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
                hits = [max(engine.found(request)) for engine in engines]
                engine = engines[_nearest(hits, [requests_of(engine) for engine in engines])]
            engine.receive(request, time)
        return True

    def ended(self, request: int, now: float) -> None:
        """Let be sent what waits for a request."""
        self.log.ended += 1
        for sent in self.feed.ended(self.sent[request], now):
            self.later(sent.at, sent)

    def seen(self, server: Server, measured: slice, slots: int) -> Trace:
        """Record of the requests that are measured and have come, of so many in flight at most [1]."""
        log, count = self.log, self.log.count
        # As they were sent: long prompts take the host longer, and come after shorter ones that were sent later.
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
    """Of some places the one that has most of a prompt, or where that is far busier than another the least busy."""
    most = max(hits)
    best = min((place for place, hit in enumerate(hits) if hit == most), key=busy.__getitem__)
    least = min(busy)
    if busy[best] - least > _FAR_BUSIER and busy[best] > _TIMES_BUSIER * least:
        return busy.index(least)
    return best


def requests_of(engine: Engine) -> int:
    """Return the requests of a server that have a slot or wait for one [1]."""
    return engine.in_flight + engine.queued


class _Memory:
    """Blocks of the cache of a server, by group, and what the memories behind it have of prompts."""

    def __init__(self, server: Server, cache: KvCacheMemory, log: _Log, writing: list[int], *, shared: bool) -> None:
        groups = range(server.groups)
        #: Decoding requests of each group, which the server counts; requests share blocks of prompts if ``shared``.
        self.cache, self.tiers, self.log, self.writing, self.shared = cache, server.tiers, log, writing, shared
        #: Of each group, blocks that are taken now and when all end, and requests with a slot as they were admitted.
        self.blocks, self.blocks_at_end = [0] * server.groups, [0] * server.groups
        self.inside: list[dict[int, None]] = [{} for _ in groups]
        #: Decode steps taken; of each group, decoding requests by their tokens beyond full blocks, as at step 0; and
        #: that number of tokens of each of them.
        self.steps = 0
        self.beyond = [[0] * cache.block_tokens for _ in groups]
        self.beyond_of: dict[int, int] = {}
        #: What each group, and each memory behind all of them, has of prompts; until when each of these is busy.
        self.prefixes = [Prefixes() for _ in groups]
        self.behind = [Prefixes() for _ in server.tiers]
        self.busy_until = [0.0 for _ in server.tiers]
        #: Blocks that each of these has to bring for the request that was admitted last.
        self.to_load: list[int] = []

    def parts_of(self, request: int, tokens: int) -> Parts:
        """Parts of the full blocks of the first tokens of a request."""
        if not self.shared:
            return ()
        before, own = self.log.before[request], self.log.own[request]
        if own < 0:
            return before
        return joined(before, own, max(tokens // self.cache.block_tokens - self.log.blocks_before[request], 0))

    def remember(self, number: int, parts: Parts) -> None:
        """Have a prompt in the memory of a group, and in those behind, before the run."""
        self.prefixes[number % len(self.prefixes)].keep(parts, self.cache.blocks)
        self._keep_behind(parts)

    def _keep_behind(self, parts: Parts) -> None:
        for tier, memory in zip(self.tiers, self.behind, strict=True):
            memory.keep(parts, tier.blocks)

    def let_in(self, request: int, group: int) -> bool:
        """Take the blocks of a prompt, if they and those that are kept free in addition to them are free."""
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
            # At least one token is read in any case.
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
        """Load the blocks of the last admitted request from the memories behind; return when they are there [s].

        Each memory loads for one request after the other.
        """
        last = now
        for which, (tier, blocks) in enumerate(zip(self.tiers, self.to_load, strict=True)):
            if blocks:
                self.busy_until[which] = max(self.busy_until[which], now) + blocks * tier.block_seconds
                last = max(last, self.busy_until[which] + tier.access_seconds)
        return last

    def let_out(self, request: int, group: int, tokens: int) -> None:
        """Free the blocks of a request that has so many tokens; they stay until others need the room."""
        cache, log = self.cache, self.log
        parts = self.parts_of(request, max(tokens - (tokens > log.prompts[request]), 0))
        shared = self.prefixes[group].release(parts) if parts else 0
        del self.inside[group][request]
        self.blocks[group] -= cache.held(tokens) - shared
        self.blocks_at_end[group] -= cache.held(log.isl[request] + log.osl[request]) - shared
        self._make_room(group)
        self._keep_behind(parts)

    def _make_room(self, group: int) -> None:
        """Drop what no request uses for what requests need."""
        prefixes = self.prefixes[group]
        if prefixes.idle_blocks:
            prefixes.forget(self.blocks[group] + prefixes.idle_blocks - self.cache.blocks)

    def join(self, request: int, group: int) -> None:
        """Count a request that begins to decode."""
        cache, isl = self.cache, self.log.isl[request]
        self.blocks[group] += cache.held(isl + 1) - cache.held(isl)
        beyond = self.beyond_of[request] = (cache.request_tokens + isl + 1 - self.steps) % cache.block_tokens
        self.beyond[group][beyond] += 1

    def advance(self, steps: int) -> None:
        """Count decode steps that have been taken."""
        for group in range(len(self.blocks)):
            self.blocks[group] += self.growth(group, steps)
            self._make_room(group)
        self.steps += steps

    def growth(self, group: int, steps: int) -> int:
        """Blocks that decoding requests of a group need beyond those they have after some steps."""
        beyond = self.beyond[group]
        size = len(beyond)
        whole, rest = divmod(steps, size)
        # Each step those whose last block is full then: one place before those of the step before.
        end = -self.steps % size + 1
        more = sum(beyond[end - rest : end]) if rest <= end else sum(beyond[:end]) + sum(beyond[end - rest :])
        return self.writing[group] * whole + more

    def steps_that_fit(self, steps: int) -> int:
        """Of some decode steps, those until memory runs out, at least one."""
        for group, writing in enumerate(self.writing):
            free = self.cache.blocks - self.blocks[group]
            if not writing or self.growth(group, steps - 1) <= free or len(self.inside[group]) == 1:
                continue
            low, high = 1, steps
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if self.growth(group, middle - 1) <= free else (low, middle)
            steps = low
        return steps


class Engine:
    """State of a server while requests are simulated: its queues, and the step under way."""

    #: Whether requests share the blocks of what their prompts begin with.
    shares_prompts = True

    def __init__(self, server: Server, fleet: ServerFleet) -> None:
        #: When the step ends that is under way; nothing is, where it never ends.
        self.server, self.fleet, self.log, self.now = server, fleet, fleet.log, math.inf
        self.isl, self.osl = fleet.log.isl, fleet.log.osl
        groups = range(server.groups)
        self.waiting: list[deque[int]] = [deque() for _ in groups]
        #: The group of each request; of each group, requests with a slot, and those that decode; whose turn it is.
        self.group_of: dict[int, int] = {}
        self.held, self.writing, self.turn = [0] * server.groups, [0] * server.groups, 0
        self.in_flight, self.queued, self.slots_each = 0, 0, -(-server.slots // server.groups)
        #: Requests with a slot whose prompt is still to be looked at, and the step that is the first they can join.
        self.admitted: list[deque[tuple[int, int]]] = [deque() for _ in groups]
        #: Requests whose blocks have been loaded, and a prompt of each group that is part of the way through: request
        #: and tokens done.
        self.brought: list[int] = []
        self.begun: list[tuple[int, int] | None] = [None for _ in groups]
        #: Decoding requests by the number of the step that ends them, and tokens of their contexts.
        self.decoding: list[tuple[int, int]] = []
        self.ends: dict[int, int] = {}
        self.steps, self.context = 0, 0
        #: Steps of any kind, those that an idle server need not take included; the first in which prompts are read.
        self.taken, self.soonest = 0, math.inf
        #: Decode steps under way: their number, when they began, the first of them and what each takes longer; or the
        #: prompts that the step under way ends.
        self.planned, self.plan = 0, (0.0, 0.0, 0.0)
        self.reading: list[int] | None = None
        #: What rounds last longer than their steps of one token, for those whose first token comes: half of the one
        #: that ran when a prompt came, those that were prepared then, and that in which it was read.
        self.rounds_left = 0.0
        self.late: dict[int, float] = {}
        self.memory = (
            None
            if server.cache is None
            else _Memory(server, server.cache, fleet.log, self.writing, shared=self.shares_prompts)
        )

    def begin(self) -> None:
        """Begin the next step: read prompts, decode, or wait for work."""
        if not self._evict() and (self.queued or self.brought):
            self.admit()
        if not self.decoding and self.soonest < math.inf:
            # An idle server has prepared nothing, and need not take the steps that a prompt would have waited for.
            self.taken = max(self.taken, int(self.soonest))
        if self.soonest <= self.taken:
            self._read()
        elif self.decoding:
            self._decode()
        else:
            self.now = math.inf

    def end(self) -> None:
        """End the step, or the decode steps, under way."""
        if self.planned:
            steps, self.planned = self.planned, 0
            self.taken += steps
            self._advance(steps)
            if not self.decoding:
                # Nothing is left for which prompts are held back.
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
        """Take the decode steps that have begun by then, and note what requests under way have written."""
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
        """Put a request into a queue, before those are gone that the step under way ends."""
        group, server, waiting, held = 0, self.server, self.waiting, self.held
        if server.groups > 1:
            groups = range(server.groups)
            if self.fleet.router == "prefix_aware" and self.log.before[request]:
                group = _nearest(self.found(request), [held[group] + len(waiting[group]) for group in groups])
            elif server.dealing == "round_robin":
                group, self.turn = self.turn, (self.turn + 1) % server.groups
            else:
                group = min(groups, key=lambda group: 4 * len(waiting[group]) + held[group])
        self.group_of[request] = group
        waiting[group].append(request)
        self.queued += 1
        self._wake(time, free=self.in_flight < server.slots and min(held) < self.slots_each)

    def loaded(self, request: int, attempt: int, time: float) -> None:
        """Note that the blocks of a request have come, unless it was sent back meanwhile."""
        if self.log.evictions[request] == attempt:
            self.brought.append(request)
            self._wake(time, free=True)

    def _wake(self, time: float, *, free: bool) -> None:
        """Look at what came with the next decode step, if it can join, or at once if there is nothing to do."""
        if self.now == math.inf:
            self.now = time
        elif self.planned and free:
            start, first, growth = self.plan
            self.planned = min(_steps_begun(first, growth, time - start), self.planned)
            self.now = start + _sum(first, growth, self.planned)

    def found(self, request: int) -> list[int]:
        """Blocks of a request that each group has [1]."""
        if self.memory is None:
            return [0] * self.server.groups
        parts = self.memory.parts_of(request, self.isl[request])
        return [prefixes.found(parts) for prefixes in self.memory.prefixes]

    def admit(self) -> None:
        """Give free slots to those who wait, from the first step on that is not prepared yet."""
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
        """Let requests go until the next step fits, and say whether any went."""
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
        """Tokens of an answer that are there."""
        end = self.ends.get(request)
        return self.log.answers[request] - (self.osl[request] if end is None else end - self.steps)

    def send_back(self, request: int, group: int) -> None:
        """To the head of those that wait; what it has written is read again as a part of its prompt."""
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
        """Free the slot, and the blocks, of a request that has so many tokens."""
        group = self.group_of[request]
        if self.memory is not None:
            self.memory.let_out(request, group, tokens)
        self.held[group] -= 1
        self.in_flight -= 1

    def look(self) -> None:
        """Note the first step that reads prompts."""
        self.soonest = self.taken if any(self.begun) else math.inf
        firsts = [queue[0][1] for queue in self.admitted if queue]
        if not firsts:
            return
        soonest: float = min(firsts)
        if self.server.held_steps and self.decoding:
            # All groups have one, or the first has waited long enough.
            full = max(firsts) if len(firsts) == self.server.groups else math.inf
            rounds = self.server.times.round_tokens(len(self.decoding))
            soonest = min(soonest + round(self.server.held_steps * rounds), full)
        self.soonest = min(self.soonest, soonest)

    def _read(self) -> None:
        """A step that reads prompts, with one token of each decoding request if these do not wait."""
        server, times, stages = self.server, self.server.times, self.server.stages
        batch = len(self.decoding) if server.policy == "chunked" else 0
        decoding = times.decode(batch, self.context / batch, self.writing) if batch else 0.0
        running = decoding * times.round_tokens(batch) if batch else 0.0
        ready: list[int] = []
        # What prompts add: the work of chips, and what is launched for longer than it takes to decode.
        work, most, total, longest, every = -math.inf, 0, 0, 0.0, 0.0
        for group in range(server.groups):
            beyond, tokens = 0.0, 0
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
        """Return the parts of prompts that a group reads in a step; those that it ends are added to ``ready``."""
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
        """Steps until a request ends or can join; an arrival that finds a free slot makes them fewer."""
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
        """Count decode steps that have been taken, and let go of the requests that they end."""
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
        """Note the first token, which comes with the prefill, and begin to decode."""
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
        """Count a request that decodes no longer."""
        self.context -= self.isl[request] + self.osl[request] - (self.ends.pop(request) - self.steps)
        self.writing[group] -= 1
        if self.memory is not None:
            self.memory.beyond[group][self.memory.beyond_of.pop(request)] -= 1

    def _finish(self, request: int, tokens: int) -> None:
        """Note the last token; requests that wait for it are sent."""
        self.log.finished[request] = self.now + self.late.pop(request, 0.0)
        self.let_out(request, tokens)
        self.fleet.ended(request, self.now)


def _sum(first: float, growth: float, steps: float) -> float:
    """Time of some steps, each longer than the one before by the same amount [s]."""
    return steps * (first + growth * (steps - 1) / 2.0)


def _steps_begun(first: float, growth: float, seconds: float) -> int:
    """Steps that have begun after some time: the inverse of :func:`_sum`, rounded up, at least one."""
    half = first - growth / 2.0
    root = math.sqrt(max(half**2 + 2.0 * growth * seconds, 0.0))
    below = half + root
    return max(math.ceil(2.0 * seconds / below - 1e-9), 1) if below > 0.0 else 1
