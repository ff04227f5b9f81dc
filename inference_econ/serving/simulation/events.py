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
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, overload

import numpy as np

from inference_econ.errors import InputError
from inference_econ.serving.simulation.arrivals import Counts, Loop, Stream
from inference_econ.serving.simulation.trace import Trace, trace

Policy = Literal["prefill_first", "chunked"]
Evicted = Literal["last", "fewest_tokens", "nobody"]


@dataclass(frozen=True, slots=True)
class Cache:
    """Memory for the cache of requests, and whom an engine lets in and out of it.

    Attributes
    ----------
    blocks : int
        Blocks of each group [1].
    block_tokens : int
        Tokens of a block [tokens].
    request_tokens : int
        What every request holds beside its own prompt and answer: cached tokens, and states as so many tokens [tokens].
    own_answer, other_answers : float
        Shares of its own answer, and of what all requests under way have still to write, that must be free beside the
        prompt for a request to be let in [1].
    evicted : str
        Who leaves when a step does not fit, to be read again later, with what it has written, before all that wait:
        ``last``, the one that was let in last; ``fewest_tokens``, the one that has written least; or ``nobody``, as
        where whole answers have room. One request by itself always stays.
    """

    blocks: int
    block_tokens: int = 1
    request_tokens: int = 0
    own_answer: float = 0.0
    other_answers: float = 0.0
    evicted: Evicted = "last"

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        for name, least in (("blocks", 1), ("block_tokens", 1), ("request_tokens", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name} of a cache must be at least {least}, got {getattr(self, name)}")
        for name in ("own_answer", "other_answers"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InputError(f"{name} of a cache must be a share from 0 to 1, got {getattr(self, name):g}")
        if self.evicted not in ("last", "fewest_tokens", "nobody"):
            raise InputError(f"evicted must be 'last', 'fewest_tokens' or 'nobody', got {self.evicted!r}")

    @overload
    def held(self, tokens: int) -> int: ...

    @overload
    def held(self, tokens: Counts) -> Counts: ...

    def held(self, tokens: int | Counts) -> int | Counts:
        """Blocks of a request of so many tokens [1]."""
        return -(-(self.request_tokens + tokens) // self.block_tokens)


@dataclass(frozen=True, slots=True)
class Server:
    """Server of the requests.

    Attributes
    ----------
    decode_step_seconds : callable
        (requests decoded together, their mean context in tokens) -> seconds of one step [s].
    prefill_seconds : callable
        (new tokens of one prompt, tokens of it that are cached) -> seconds to process them, alone [s].
    slots : int
        Requests in flight at most, the one being prefilled included [1].
    policy : str
        Both read the prompts that have come in the order of arrival, up to ``chunk`` tokens of each group in a step.
        ``prefill_first``: decoding pauses until all are read. ``chunked``: each of these steps carries one token of
        each decoding request too, and lasts as long as both together.
    chunk : int
        Prompt tokens of a group in a step; of the last prompt a part is read, if not all of it has room [tokens].
    chip_seconds : callable, optional
        As ``prefill_seconds``: for how much of it the chips work [s]; always, if not given. The rest they wait for the
        host to launch kernels, once for all prompts of a step, and decode meanwhile (``chunked``).
    together : callable, optional
        (tokens of the group that reads most, tokens of all) in a step -> seconds that the chips take for them if they
        are those of usual prompts: weights are read once for all, and groups wait for the fullest [s]. The prompts of a
        group add up, if not given.
    stages : float
        Prompts that are read in turn, each of which counts for its share of the time [1].
    groups : int
        Groups that step together [1]: each has requests of its own, a step waits for the fullest, and a new request
        goes to the group with the fewest, of which one that waits counts as four (vLLM's rule).
    lone_step_seconds : callable, optional
        As ``decode_step_seconds``, of requests which are all in one group; needed of several groups.
    saved_seconds : callable, optional
        (requests decoded together, prompt tokens of the step) -> what a step with both takes less than two [s].
    steps_ahead : int
        Steps that are prepared while one runs, and that no newcomer can join; an idle server has none [1].
    look_steps : int
        Newcomers are looked at once in so many steps [1].
    most_prompts : float
        Prompts that a group reads in a step at most, whatever their length [1].
    held_steps : int
        While others decode, a prompt is held back for so many steps at most, until every group has one [1].
    cache : Cache, optional
        Memory, beside ``slots``; nothing runs out of it, if not given.
    """

    decode_step_seconds: Callable[[int, float], float]
    prefill_seconds: Callable[[int, int], float]
    slots: int
    policy: Policy = "prefill_first"
    chunk: int = 512
    chip_seconds: Callable[[int, int], float] | None = None
    together: Callable[[int, int], float] | None = None
    stages: float = 1.0
    steps_ahead: int = 0
    groups: int = 1
    lone_step_seconds: Callable[[int, float], float] | None = None
    saved_seconds: Callable[[int, int], float] | None = None
    look_steps: int = 1
    most_prompts: float = math.inf
    held_steps: int = 0
    cache: Cache | None = None

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        if self.slots < 1:
            raise InputError(f"slots must be at least 1, got {self.slots}")
        if self.policy not in ("prefill_first", "chunked"):
            raise InputError(f"policy must be 'prefill_first' or 'chunked', got {self.policy!r}")
        if self.chunk < 1:
            raise InputError(f"chunk must be at least 1 token, got {self.chunk}")
        if not self.stages >= 1.0:
            raise InputError(f"stages must be at least 1, got {self.stages:g}")
        if self.groups < 1 or (self.groups > 1 and self.lone_step_seconds is None):
            raise InputError(
                f"groups must be at least 1, and several of them need lone_step_seconds, got {self.groups} groups"
            )
        if self.steps_ahead < 0:
            raise InputError(f"steps_ahead must be at least 0, got {self.steps_ahead}")
        if self.look_steps < 1:
            raise InputError(f"look_steps must be at least 1, got {self.look_steps}")
        if not self.most_prompts >= 1:
            raise InputError(f"most_prompts must be at least 1, got {self.most_prompts:g}")
        if self.held_steps < 0:
            raise InputError(f"held_steps must be at least 0, got {self.held_steps}")


def simulate(server: Server, requests: Stream | Loop, *, warm_up: float = 0.1, cool_down: float = 0.05) -> Trace:
    """Play requests through a server.

    Parameters
    ----------
    server : Server
        What serves.
    requests : Stream or Loop
        What arrives: at its times, or each when a former one of its client has ended.
    warm_up, cool_down : float
        Shares of the requests, by arrival, that are not measured: the first find the server too empty, and the last
        are joined by nobody [1].

    Returns
    -------
    Trace
        What happened in between.

    Raises
    ------
    InputError
        If the shares leave nothing to measure, or a step time is negative or not finite.

    Notes
    -----
    Decode steps between two events (an arrival that finds a slot, the end of a request) are taken at once. That is
    exact where the time of a step is linear in the mean context of a batch that stays the same, as reading the cache
    is; otherwise the context's part of the sum is a trapezium rule. The prompts' first token comes with the prefill.
    """
    count = requests.isl.size
    first, last = math.floor(warm_up * count), count - math.floor(cool_down * count)
    if not (warm_up >= 0.0 and cool_down >= 0.0) or last - first < min(count, 2) or last <= first:
        raise InputError(
            f"warm_up {warm_up:g} and cool_down {cool_down:g} leave {max(last - first, 0)} of {count} requests to "
            "measure; at least 2 are needed"
        )
    # Most runs never fill the memory, and are faster without counting blocks.
    engine = _Engine(replace(server, cache=None), requests)
    engine.serve()
    if server.cache is not None and engine.may_run_out(server.cache):
        engine = _Engine(server, requests)
        engine.serve()
    times = (np.array(values) for values in (engine.arrived, engine.started, engine.first_token, engine.finished))
    arrived, started, first_token, finished = times
    stream = Stream(arrived, requests.isl, requests.osl)
    return trace(stream, started, first_token, finished, server.slots, slice(first, last), np.array(engine.evictions))


class _Part(NamedTuple):
    """A part of a prompt that is read in a step."""

    tokens: int
    """[tokens]"""
    seconds: float
    """By itself, until the host has launched it and the chips have read it [s]."""
    launch_seconds: float
    """Of that, what the chips wait for the host [s]."""
    beyond_seconds: float
    """Work of the chips beyond what as many tokens of usual prompts are, if the server knows that [s]."""


class _Engine:
    """The state of a server while requests are played through it."""

    def __init__(self, server: Server, requests: Stream | Loop) -> None:
        self.server, self.now = server, 0.0
        self.isl: list[int] = requests.isl.tolist()
        #: What is still to be written when a prompt has been read, and all of it.
        self.osl: list[int] = requests.osl.tolist()
        self.answers: list[int] = list(self.osl)
        count = self.left = len(self.isl)
        #: When clients send each request, when the server gets it, and which have been sent but not got.
        self.arrived, self.pause = [0.0] * count, 0.0
        self.coming: deque[tuple[float, int]] = deque()
        self.sent = count
        if isinstance(requests, Stream):
            self.arrived = requests.arrival.tolist()
            self.coming.extend((time, request) for request, time in enumerate(self.arrived))
        else:
            self.pause, self.sent = requests.pause_seconds, min(requests.clients, count)
            self.coming.extend((self.pause, request) for request in range(self.sent))
        self.let_in, self.started, self.first_token, self.finished = ([-1.0] * count for _ in range(4))
        groups = range(server.groups)
        self.waiting: list[deque[int]] = [deque() for _ in groups]
        #: The group of each request; of each group, requests with a slot, and those that decode.
        self.group_of, self.held, self.writing = [0] * count, [0] * server.groups, [0] * server.groups
        self.in_flight, self.slots_each = 0, -(-server.slots // server.groups)
        #: Requests with a slot whose prompt is still to be looked at, and the step that is the first they can join.
        self.admitted: list[deque[tuple[int, int]]] = [deque() for _ in groups]
        #: A prompt of each group that is part of the way through: request and tokens done.
        self.begun: list[tuple[int, int] | None] = [None for _ in groups]
        #: Decoding requests by the number of the step that ends them.
        self.decoding: list[tuple[int, int]] = []
        self.ends: list[int | None] = [None] * count
        self.steps, self.context = 0, 0
        #: Steps of any kind, those that an idle server need not take included.
        self.taken = 0
        #: The first of these in which prompts are read, and how many requests wait for a slot.
        self.soonest, self.queued = math.inf, 0
        #: Of each group, blocks that are taken now and when all end, requests with a slot as they were let in, and
        #: decoding ones by their tokens beyond whole blocks, as they were at step 0.
        self.cache = server.cache
        self.blocks, self.blocks_at_end = [0] * server.groups, [0] * server.groups
        self.inside: list[list[int]] = [[] for _ in groups]
        self.beyond_blocks = [[0] * (1 if server.cache is None else server.cache.block_tokens) for _ in groups]
        self.evictions = [0] * count
        #: Steps that prompts by themselves are read in, by their tokens and those before them.
        self.known: dict[tuple[int, int], _Part] = {}

    def serve(self) -> None:
        """Until every request has its last token: read prompts, decode, or wait for work."""
        coming = self.coming
        while self.left:
            if coming and coming[0][0] <= self.now:
                self._arrive()
            if not (self.cache is not None and self._evict()) and self.queued:
                self._admit()
            if self.soonest <= self.taken:
                self._read()
            elif self.decoding:
                self._decode()
            else:
                self.now = max(self.now, coming[0][0])

    def may_run_out(self, cache: Cache) -> bool:
        """Say whether requests that were in flight together could not all hold their whole answers in a memory."""
        held, group = cache.held(np.array(self.isl) + np.array(self.osl)), np.array(self.group_of)
        if held.max() * self.slots_each <= cache.blocks:
            return False
        times, changes = np.concatenate((self.let_in, self.finished)), np.concatenate((held, -held))
        order = np.lexsort((changes, times))
        for which in range(self.server.groups):
            chosen = np.where(np.tile(group == which, 2), changes, 0)[order]
            if np.cumsum(chosen).max() > cache.blocks:
                return True
        return False

    def _arrive(self) -> None:
        """Put each request into a queue when its time has come, before those are gone that the step ends."""
        coming, now = self.coming, self.now
        while coming and coming[0][0] <= now:
            request = coming.popleft()[1]
            group = 0
            if self.server.groups > 1:
                group = self.group_of[request] = min(range(self.server.groups), key=self._load)
            self.waiting[group].append(request)
            self.queued += 1

    def _load(self, group: int) -> int:
        """Return the load by which vLLM's balancer chooses a data-parallel group."""
        return 4 * len(self.waiting[group]) + self.held[group]

    def _admit(self) -> None:
        """Give free slots to those who wait, from the first step on that is not prepared yet."""
        server, idle = self.server, not (self.decoding or any(self.begun))
        step = -(-(self.taken + server.steps_ahead) // server.look_steps) * server.look_steps
        for group, waiting in enumerate(self.waiting):
            while waiting and self.held[group] < self.slots_each and self.in_flight < server.slots:
                if self.cache is not None and not self._let_in(waiting[0], group, self.cache):
                    break
                self.held[group] += 1
                self.in_flight += 1
                self.queued -= 1
                self.let_in[waiting[0]] = self.now
                self.admitted[group].append((waiting.popleft(), step))
                if idle:
                    # An idle server has prepared nothing.
                    self.taken = step
        self._look()

    def _let_in(self, request: int, group: int, cache: Cache) -> bool:
        """Take the blocks of a prompt, if they are free, and those that are kept free beside them."""
        inside, prompt = self.inside[group], cache.held(self.isl[request])
        if inside:
            needed = prompt + cache.own_answer * (cache.held(self.isl[request] + self.osl[request]) - prompt)
            needed += cache.other_answers * (self.blocks_at_end[group] - self.blocks[group])
            if self.blocks[group] + needed > cache.blocks:
                return False
        self.blocks[group] += prompt
        self.blocks_at_end[group] += cache.held(self.isl[request] + self.osl[request])
        inside.append(request)
        return True

    def _let_out(self, request: int, group: int, cache: Cache) -> None:
        """Count a request whose blocks are free again."""
        self.inside[group].remove(request)
        self.blocks_at_end[group] -= cache.held(self.isl[request] + self.osl[request])

    def _evict(self) -> bool:
        """Let requests go until the next step fits, and say whether any went."""
        cache, went = self.cache, False
        assert cache is not None
        for group, inside in enumerate(self.inside):
            while self.blocks[group] > cache.blocks and len(inside) > 1 and cache.evicted != "nobody":
                self._send_back(self._victim(group, cache), group, cache)
                went = True
        if went:
            self._look()
        return went

    def _victim(self, group: int, cache: Cache) -> int:
        """The request of a group that has to go."""
        inside = self.inside[group]
        if cache.evicted == "last":
            return inside[-1]
        return min(reversed(inside), key=self._written)

    def _written(self, request: int) -> int:
        """Tokens of an answer that are there."""
        end = self.ends[request]
        return self.answers[request] - (self.osl[request] if end is None else end - self.steps)

    def _send_back(self, request: int, group: int, cache: Cache) -> None:
        """To the head of those that wait; what it has written is read again as a part of its prompt."""
        end = self.ends[request]
        begun = self.begun[group]
        if end is not None:
            written = self.osl[request] - (end - self.steps)
            self._leave(request, group, end)
            self.decoding.remove((end, request))
            heapq.heapify(self.decoding)
            self.isl[request] += written
            self.osl[request] -= written
        else:
            self.blocks[group] -= cache.held(self.isl[request])
            if begun is not None and begun[0] == request:
                self.begun[group] = None
            else:
                self.admitted[group] = deque(entry for entry in self.admitted[group] if entry[0] != request)
        self._let_out(request, group, cache)
        self.held[group] -= 1
        self.in_flight -= 1
        self.waiting[group].appendleft(request)
        self.queued += 1
        self.evictions[request] += 1

    def _join(self, request: int, group: int, end: int) -> None:
        """Count a request that begins to decode."""
        self.ends[request] = end
        self.context += self.isl[request] + 1
        self.writing[group] += 1
        if self.cache is not None:
            cache, key = self.cache, self._beyond(request, end)
            self.blocks[group] += cache.held(self.isl[request] + 1) - cache.held(self.isl[request])
            self.beyond_blocks[group][key] += 1

    def _leave(self, request: int, group: int, end: int) -> None:
        """Count a request that decodes no longer."""
        tokens = self.isl[request] + self.osl[request] - (end - self.steps)
        self.ends[request] = None
        self.context -= tokens
        self.writing[group] -= 1
        if self.cache is not None:
            self.blocks[group] -= self.cache.held(tokens)
            self.beyond_blocks[group][self._beyond(request, end)] -= 1

    def _beyond(self, request: int, end: int) -> int:
        """Tokens of a decoding request beyond whole blocks, as they were at step 0."""
        assert self.cache is not None
        tokens = self.cache.request_tokens + self.isl[request] + self.osl[request] - end
        return tokens % self.cache.block_tokens

    def _growth(self, group: int, steps: int) -> int:
        """Blocks that decoding requests of a group need beyond those they have after some steps."""
        beyond, rest = self.beyond_blocks[group], steps % len(self.beyond_blocks[group])
        size = len(beyond)
        return self.writing[group] * (steps // size) + sum(beyond[-(self.steps + step) % size] for step in range(rest))

    def _steps_that_fit(self, group: int, steps: int) -> int:
        """Of some decode steps, those until memory runs out, at least one."""
        assert self.cache is not None
        free = self.cache.blocks - self.blocks[group]
        if self._growth(group, steps - 1) <= free or len(self.inside[group]) == 1:
            return steps
        low, high = 1, steps
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._growth(group, middle - 1) <= free else (low, middle)
        return low

    def _look(self) -> None:
        """Note the first step that reads prompts."""
        self.soonest = self.taken if any(self.begun) else math.inf
        firsts = [queue[0][1] for queue in self.admitted if queue]
        if not firsts:
            return
        soonest: float = min(firsts)
        if self.server.held_steps and self.decoding:
            # All groups have one, or the first has waited long enough.
            full = max(firsts) if len(firsts) == self.server.groups else math.inf
            soonest = min(soonest + self.server.held_steps, full)
        self.soonest = min(self.soonest, soonest)

    def _read(self) -> None:
        """A step that reads prompts, with one token of each decoding request if these do not wait."""
        server, stages = self.server, self.server.stages
        beside = self.decoding if server.policy == "chunked" else []
        decoding = self._step_seconds(self.context / len(beside)) if beside else 0.0
        ready: list[int] = []
        # What prompts add: the work of chips, and what is launched for longer than it takes to decode.
        work, most, total, longest, every = -math.inf, 0, 0, 0.0, 0.0
        for group in range(server.groups):
            beyond, tokens = 0.0, 0
            for part in self._parts(group, ready):
                beyond += part.beyond_seconds
                tokens += part.tokens
                wait = part.seconds - decoding / stages
                if wait > 0.0:
                    every += wait
                    if wait > longest:
                        longest = wait
            work, most, total = max(work, beyond), max(most, tokens), total + tokens
        if server.together is not None:
            work = max(work + server.together(most, total), 0.0)
        if server.saved_seconds is not None and beside:
            work = max(work - server.saved_seconds(len(beside), total), 0.0)
        self.now += decoding + max(work, min(every, stages * longest))
        self.taken += 1
        if self.coming:
            self._arrive()
        if beside:
            self._advance(1)
        for request in ready:
            self._answer(request)
        self._look()

    def _parts(self, group: int, ready: list[int]) -> list[_Part]:
        """Return the parts of prompts that a group reads in a step; those that it ends are added to ``ready``."""
        chunk, admitted = self.server.chunk, self.admitted[group]
        parts: list[_Part] = []
        budget, begun = chunk, self.begun[group]
        self.begun[group] = None
        while budget and len(parts) < self.server.most_prompts:
            if begun is None:
                if not admitted or admitted[0][1] > self.taken:
                    break
                begun = (admitted.popleft()[0], 0)
                if self.started[begun[0]] < 0.0:
                    self.started[begun[0]] = self.now
            request, done = begun
            left = self.isl[request] - done
            taken = left if left < budget else budget
            parts.append(self._part(self.isl[request], done, taken))
            budget -= taken
            if taken == left:
                ready.append(request)
            else:
                self.begun[group] = (request, done + taken)
                break
            begun = None
        return parts

    def _decode(self) -> None:
        """Steps until a request ends or can join, or until the one in which an arrival finds a free slot."""
        steps, coming = self.decoding[0][0] - self.steps, self.coming
        if self.soonest < self.taken + steps:
            steps = int(self.soonest) - self.taken
        if self.cache is not None:
            for group, writing in enumerate(self.writing):
                if writing:
                    steps = self._steps_that_fit(group, steps)
        mean = self.context / len(self.decoding)
        first = self._step_seconds(mean)
        growth = 0.0 if steps == 1 else (self._step_seconds(mean + steps - 1) - first) / (steps - 1)
        seconds = _sum(first, growth, steps)
        if coming and self.in_flight < self.server.slots and min(self.held) < self.slots_each:
            until = coming[0][0] - self.now
            if until <= seconds:
                steps = min(_steps_begun(first, growth, until), steps)
                seconds = _sum(first, growth, steps)
        self.now += seconds
        self.taken += steps
        if coming:
            self._arrive()
        self._advance(steps)
        if not self.decoding:
            # Nothing is left for which prompts are held back.
            self._look()

    def _advance(self, steps: int) -> None:
        """Count decode steps that have been taken, and let go of the requests that they end."""
        decoding = self.decoding
        if self.cache is not None:
            for group in range(self.server.groups):
                self.blocks[group] += self._growth(group, steps)
        self.steps += steps
        self.context += steps * len(decoding)
        while decoding and decoding[0][0] == self.steps:
            end, request = heapq.heappop(decoding)
            self._leave(request, self.group_of[request], end)
            self._finish(request)

    def _answer(self, request: int) -> None:
        """Note the first token, which comes with the prefill, and begin to decode."""
        if self.first_token[request] < 0.0:
            self.first_token[request] = self.now
        group = self.group_of[request]
        if self.osl[request] == 1:
            if self.cache is not None:
                self.blocks[group] -= self.cache.held(self.isl[request])
            self._finish(request)
            return
        end = self.steps + self.osl[request] - 1
        self._join(request, group, end)
        heapq.heappush(self.decoding, (end, request))

    def _finish(self, request: int) -> None:
        """Note the last token, for which the client of a closed loop sends its next request."""
        self.finished[request] = self.now
        if self.cache is not None:
            self._let_out(request, self.group_of[request], self.cache)
        self.held[self.group_of[request]] -= 1
        self.in_flight -= 1
        self.left -= 1
        if self.sent < len(self.isl):
            self.arrived[self.sent] = self.now
            self.coming.append((self.now + self.pause, self.sent))
            self.sent += 1

    def _step_seconds(self, context: float) -> float:
        """A decode step, between that of all groups as full as the fullest and that of the fullest alone."""
        batch, groups = len(self.decoding), self.server.groups
        if groups == 1:
            seconds = self.server.decode_step_seconds(batch, context)
        else:
            most = max(self.writing)
            even = groups * most
            seconds = float(self.server.decode_step_seconds(even, context))
            if batch < even and self.server.lone_step_seconds is not None:
                alone = float(self.server.lone_step_seconds(most, context))
                seconds = alone + (seconds - alone) * (batch - most) / (even - most)
        if not 0.0 <= seconds < math.inf:
            _refuse(seconds, f"decode_step_seconds for a batch of {batch} at {context:g} tokens of context")
        return seconds

    def _part(self, isl: int, done: int, taken: int) -> _Part:
        """A part of a prompt, as its share of the steps that the prompt by itself is read in.

        Parts of a prompt add up to it, however it is cut; what the host launches for longer than chips work is launched
        for each part again.
        """
        chunk = self.server.chunk
        start = done - done % chunk
        part = self._step_of_prompt(min(chunk, isl - start), start)
        if done == start and taken == part.tokens:
            return part
        beyond = launching = 0.0
        end = done + taken
        while start < end:
            step = self._step_of_prompt(min(chunk, isl - start), start)
            beyond += step.beyond_seconds * (min(end, start + step.tokens) - max(done, start)) / step.tokens
            launching = max(launching, step.launch_seconds)
            start += chunk
        return _Part(taken, self._usual(taken) + beyond + launching, launching, beyond)

    def _usual(self, tokens: int) -> float:
        """Return the time of the chips for some tokens of usual prompts on one group, if the server knows that [s]."""
        return 0.0 if self.server.together is None else self.server.together(tokens, tokens)

    def _step_of_prompt(self, tokens: int, cached: int) -> _Part:
        """A step that a prompt by itself is read in."""
        part = self.known.get((tokens, cached))
        if part is None:
            server, seconds = self.server, float(self.server.prefill_seconds(tokens, cached))
            if not 0.0 <= seconds < math.inf:
                _refuse(seconds, f"prefill_seconds for {tokens} tokens after {cached} cached ones")
            working = seconds if server.chip_seconds is None else float(server.chip_seconds(tokens, cached))
            if not 0.0 <= working < math.inf:
                _refuse(working, f"chip_seconds for {tokens} tokens after {cached} cached ones")
            beyond = working - self._usual(tokens)
            part = self.known[tokens, cached] = _Part(tokens, seconds, seconds - working, beyond)
        return part


def _sum(first: float, growth: float, steps: float) -> float:
    """Time of some steps, each longer than the one before by the same amount [s]."""
    return steps * (first + growth * (steps - 1) / 2.0)


def _steps_begun(first: float, growth: float, seconds: float) -> int:
    """Steps that have begun after some time: the inverse of :func:`_sum`, rounded up, at least one."""
    half = first - growth / 2.0
    root = math.sqrt(max(half**2 + 2.0 * growth * seconds, 0.0))
    below = half + root
    return max(math.ceil(2.0 * seconds / below - 1e-9), 1) if below > 0.0 else 1


def _refuse(seconds: float, what: str) -> None:
    raise InputError(f"{what} must be a finite time >= 0 s, got {seconds:g}")
