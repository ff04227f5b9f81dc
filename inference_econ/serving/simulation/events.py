"""A server with continuous batching, played step by step: a second opinion on the formulas of a queue.

Every request is followed from its arrival to its last token. Where the closed forms of
:mod:`inference_econ.formulas.queueing` hold, the simulation agrees with them within its confidence; beyond them it
knows what they leave out: prefill that holds up the decode steps of others, steps that must end before a newcomer
is looked at, and contexts that grow.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from inference_econ.errors import InputError
from inference_econ.serving.simulation.arrivals import Stream
from inference_econ.serving.simulation.trace import Trace, trace

if TYPE_CHECKING:
    import simpy

Policy = Literal["prefill_first", "chunked"]


@dataclass(frozen=True, slots=True)
class Server:
    """What serves the requests.

    Attributes
    ----------
    decode_step_seconds : callable
        (requests decoded together, their mean context in tokens) -> seconds of one step [s].
    prefill_seconds : callable
        (new tokens of one prompt, tokens of it that are cached) -> seconds to process them, alone [s].
    slots : int
        Requests in flight at most, the one being prefilled included [1].
    policy : str
        ``prefill_first``: while a prompt waits and a slot is free, decoding pauses and prompts are prefilled one
        after another. ``chunked``: every step carries one token of each decoding request and up to ``chunk`` prompt
        tokens of each group, in the order of arrival, and lasts as long as both together.
    chunk : int
        Prompt tokens of a group in a step [tokens]; without effect on ``prefill_first``.
    chip_seconds : callable, optional
        As ``prefill_seconds``: for how much of it the chips work [s]; always, if not given. The rest they wait for the
        host to launch kernels, once for all prompts of a step, and decode meanwhile (``chunked``).
    together : callable, optional
        (prompts of the group that reads most, prompts of all) in a step -> share of their ``chip_seconds`` that it
        takes, as weights are read once for all [1]; 1 if not given.
    stages : float
        Prompts that are read in turn, each of which counts for its share of the time [1].
    groups : int
        Groups that step together [1]: each has requests of its own, a step waits for the fullest, and a new request
        goes to the group with the fewest, of which one that waits counts as four (vLLM's rule).
    lone_step_seconds : callable, optional
        As ``decode_step_seconds``, of requests which are all in one group; needed of several groups.
    own_share : float
        Share of ``chip_seconds`` that is work of the prompt's group alone; the rest is shared by all groups [1].
    saved_seconds : callable, optional
        (requests decoded together, prompts of the step) -> what a step with both takes less than two [s].
    steps_ahead : int
        Steps that are prepared while one runs, and that no newcomer can join; an idle server has none [1].
    """

    decode_step_seconds: Callable[[int, float], float]
    prefill_seconds: Callable[[int, int], float]
    slots: int
    policy: Policy = "prefill_first"
    chunk: int = 512
    chip_seconds: Callable[[int, int], float] | None = None
    together: Callable[[float, float], float] | None = None
    stages: float = 1.0
    steps_ahead: int = 0
    groups: int = 1
    lone_step_seconds: Callable[[int, float], float] | None = None
    own_share: float = 1.0
    saved_seconds: Callable[[int, float], float] | None = None

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
        if not 0.0 <= self.own_share <= 1.0:
            raise InputError(f"own_share must be a share from 0 to 1, got {self.own_share:g}")
        if self.steps_ahead < 0:
            raise InputError(f"steps_ahead must be at least 0, got {self.steps_ahead}")


def simulate(server: Server, stream: Stream, *, warm_up: float = 0.1, cool_down: float = 0.05) -> Trace:
    """Play a stream of requests through a server.

    Parameters
    ----------
    server : Server
        What serves.
    stream : Stream
        What arrives.
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
    import simpy

    count = stream.arrival.size
    first, last = math.floor(warm_up * count), count - math.floor(cool_down * count)
    if not (warm_up >= 0.0 and cool_down >= 0.0) or last - first < 2:
        raise InputError(
            f"warm_up {warm_up:g} and cool_down {cool_down:g} leave {max(last - first, 0)} of {count} requests to "
            "measure; at least 2 are needed"
        )
    environment = simpy.Environment()
    engine = _Engine(environment, server, stream)
    environment.process(engine.arrivals())
    environment.run(until=environment.process(engine.serve()))
    started, first_token, finished = (
        np.array(times) for times in (engine.started, engine.first_token, engine.finished)
    )
    return trace(stream, started, first_token, finished, server.slots, slice(first, last))


class _Engine:
    """The state of a server while requests are played through it."""

    def __init__(self, environment: simpy.Environment, server: Server, stream: Stream) -> None:
        self.environment, self.server = environment, server
        self.times: list[float] = stream.arrival.tolist()
        self.isl: list[int] = stream.isl.tolist()
        self.osl: list[int] = stream.osl.tolist()
        count = len(self.times)
        self.started, self.first_token, self.finished = [0.0] * count, [0.0] * count, [0.0] * count
        self.to_come, self.left = count, count
        self.waiting: list[deque[int]] = [deque() for _ in range(server.groups)]
        #: The group of each request; of each group, requests with a slot, and those that decode.
        self.group_of, self.held, self.writing = [0] * count, [0] * server.groups, [0] * server.groups
        self.slots_each = -(-server.slots // server.groups)
        #: Requests with a slot whose prompt is still to be looked at, and the step that is the first they can join.
        self.admitted: deque[tuple[int, int]] = deque()
        #: Prompts that are part of the way through: request and tokens done (chunked prefill).
        self.prompts: deque[list[int]] = deque()
        #: Decoding requests by the number of the step that ends them.
        self.decoding: list[tuple[int, int]] = []
        self.steps, self.context = 0, 0
        #: Steps of any kind, those that an idle server need not take included.
        self.taken = 0
        self.arrived = environment.event()

    def arrivals(self) -> Generator[simpy.Event]:
        """Put each request into the queue when its time has come."""
        for request, time in enumerate(self.times):
            yield self.environment.timeout(max(time - self.environment.now, 0.0))
            group = min(range(self.server.groups), key=self._load)
            self.group_of[request] = group
            self.waiting[group].append(request)
            self.to_come -= 1
            if not self.arrived.triggered:
                self.arrived.succeed()

    def serve(self) -> Generator[simpy.Event]:
        """Until every request has its last token: prefill, decode, or wait for work."""
        while self.left:
            self._admit()
            if self.prompts or self._next_is_due():
                yield from self._mixed_step() if self.server.policy == "chunked" else self._prefill()
            elif self.decoding:
                yield from self._decode()
            else:
                yield self._next_arrival()

    def _load(self, group: int) -> int:
        """What vLLM's balancer of data-parallel groups goes by."""
        return 4 * len(self.waiting[group]) + self.held[group]

    def _slot_is_free(self) -> bool:
        return sum(self.held) < self.server.slots and min(self.held) < self.slots_each

    def _admit(self) -> None:
        """Give free slots to those who wait, from the first step on that is not prepared yet."""
        for group, waiting in enumerate(self.waiting):
            while waiting and self.held[group] < self.slots_each and sum(self.held) < self.server.slots:
                self.held[group] += 1
                self.admitted.append((waiting.popleft(), self.taken + self.server.steps_ahead))
        if self.admitted and not (self.decoding or self.prompts):
            # An idle server has prepared nothing.
            self.taken = self.admitted[-1][1]

    def _next_is_due(self) -> bool:
        return bool(self.admitted) and self.admitted[0][1] <= self.taken

    def _next_arrival(self) -> simpy.Event:
        self.arrived = self.environment.event()
        return self.arrived

    def _prefill(self) -> Generator[simpy.Event]:
        """One prompt, alone; of several groups one each."""
        prompts: dict[int, int] = {}
        for request in self._due():
            prompts.setdefault(self.group_of[request], request)
        for request in prompts.values():
            self.admitted.remove(next(entry for entry in self.admitted if entry[0] == request))
            self.started[request] = self.environment.now
        each = [self._prompt_seconds(self.isl[request], 0) for request in prompts.values()]
        yield self.environment.timeout(self._in_step(max(each), sum(each)))
        self.taken += 1
        for request in prompts.values():
            self._answer(request)

    def _mixed_step(self) -> Generator[simpy.Event]:
        """One token of each decoding request, and a chunk of the prompts."""
        budget, decoding, stages = [self.server.chunk] * self.server.groups, 0.0, self.server.stages
        ready: list[list[int]] = []
        if self.decoding:
            decoding = self._step_seconds(self.context / len(self.decoding))
        # What prompts add: the work of chips, and what is launched for longer than it takes to decode.
        working, prompts = [0.0] * self.server.groups, [0.0] * self.server.groups
        waits = list[float]()
        for entry in self._prompts_in_order(budget):
            (request, done), group = entry, self.group_of[entry[0]]
            whole = min(self.server.chunk, self.isl[request] - done)
            taken = min(budget[group], whole)
            # What is begun because there is room left takes its part of the time.
            part, alone = taken / whole, self._prompt_seconds(whole, done)
            working[group] += part * self._chip_seconds(whole, done, alone)
            prompts[group] += part
            waits.append(max(part * alone - decoding / stages, 0.0))
            entry[1] += taken
            budget[group] -= taken
            if entry[1] == self.isl[request]:
                ready.append(entry)
        work = self._in_step(max(working), sum(working))
        if self.server.together is not None:
            work *= self.server.together(max(prompts), sum(prompts))
        if self.server.saved_seconds is not None and self.decoding:
            work = max(work - self.server.saved_seconds(len(self.decoding), sum(prompts)), 0.0)
        yield self.environment.timeout(decoding + max(work, min(sum(waits), stages * max(waits))))
        self.taken += 1
        if self.decoding:
            self._advance(1)
        for entry in ready:
            self.prompts.remove(entry)
            self._answer(entry[0])

    def _in_step(self, fullest: float, every: float) -> float:
        """Seconds of the fullest group's own work and of all groups' shared work, from those of prompts alone."""
        return fullest * self.server.own_share + every * (1.0 - self.server.own_share)

    def _due(self) -> list[int]:
        """Requests that can join the step, in order."""
        return [request for request, step in self.admitted if step <= self.taken]

    def _prompts_in_order(self, budget: list[int]) -> Generator[list[int]]:
        """Prompts that have begun, then those that can join the step, of groups that have some of their budget left."""
        for entry in list(self.prompts):
            if budget[self.group_of[entry[0]]]:
                yield entry
        for admitted in list(self.admitted):
            request, step = admitted
            if step > self.taken or not any(budget):
                break
            if budget[self.group_of[request]]:
                self.admitted.remove(admitted)
                self.started[request] = self.environment.now
                self.prompts.append([request, 0])
                yield self.prompts[-1]

    def _decode(self) -> Generator[simpy.Event]:
        """Steps until a request ends or can join, or until the one in which an arrival finds a free slot."""
        now, batch = self.environment.now, len(self.decoding)
        steps = self.decoding[0][0] - self.steps
        if self.admitted:
            steps = min(steps, self.admitted[0][1] - self.taken)
        mean = self.context / batch
        first = self._step_seconds(mean)
        growth = 0.0 if steps == 1 else (self._step_seconds(mean + steps - 1) - first) / (steps - 1)
        end = self.environment.timeout(_sum(first, growth, steps))
        if self._slot_is_free() and self.to_come:
            arrival = self._next_arrival()
            yield arrival | end
            if not end.processed:
                steps = min(_steps_begun(first, growth, self.environment.now - now), steps)
                left = now + _sum(first, growth, steps) - self.environment.now
                yield self.environment.timeout(max(left, 0.0))
        else:
            yield end
        self.taken += steps
        self._advance(steps)

    def _advance(self, steps: int) -> None:
        """Count decode steps that have been taken, and let go of the requests that they end."""
        self.steps += steps
        self.context += steps * len(self.decoding)
        while self.decoding and self.decoding[0][0] == self.steps:
            _, request = heapq.heappop(self.decoding)
            self.context -= self.isl[request] + self.osl[request]
            self.writing[self.group_of[request]] -= 1
            self._finish(request)

    def _answer(self, request: int) -> None:
        """Note the first token, which comes with the prefill, and begin to decode."""
        self.first_token[request] = self.environment.now
        if self.osl[request] == 1:
            self._finish(request)
            return
        self.context += self.isl[request] + 1
        self.writing[self.group_of[request]] += 1
        heapq.heappush(self.decoding, (self.steps + self.osl[request] - 1, request))

    def _finish(self, request: int) -> None:
        self.finished[request] = self.environment.now
        self.held[self.group_of[request]] -= 1
        self.left -= 1

    def _step_seconds(self, context: float) -> float:
        """A decode step, between that of all groups as full as the fullest and that of the fullest alone."""
        batch, groups = len(self.decoding), self.server.groups
        most = max(self.writing)
        even = groups * most if groups > 1 else batch
        seconds = float(self.server.decode_step_seconds(even, context))
        if batch < even and self.server.lone_step_seconds is not None:
            alone = float(self.server.lone_step_seconds(most, context))
            seconds = alone + (seconds - alone) * (batch - most) / (even - most)
        return _checked(seconds, f"decode_step_seconds for a batch of {batch} at {context:g} tokens of context")

    def _prompt_seconds(self, tokens: int, cached: int) -> float:
        seconds = float(self.server.prefill_seconds(tokens, cached))
        return _checked(seconds, f"prefill_seconds for {tokens} tokens after {cached} cached ones")

    def _chip_seconds(self, tokens: int, cached: int, alone: float) -> float:
        if self.server.chip_seconds is None:
            return alone
        seconds = float(self.server.chip_seconds(tokens, cached))
        return _checked(seconds, f"chip_seconds for {tokens} tokens after {cached} cached ones")


def _sum(first: float, growth: float, steps: int) -> float:
    """Time of some steps, each longer than the one before by the same amount [s]."""
    return steps * (first + growth * (steps - 1) / 2.0)


def _steps_begun(first: float, growth: float, seconds: float) -> int:
    """Steps that have begun after some time: the inverse of :func:`_sum`, rounded up, at least one."""
    half = first - growth / 2.0
    root = math.sqrt(max(half**2 + 2.0 * growth * seconds, 0.0))
    below = half + root
    return max(math.ceil(2.0 * seconds / below - 1e-9), 1) if below > 0.0 else 1


def _checked(seconds: float, what: str) -> float:
    if not 0.0 <= seconds < math.inf:
        raise InputError(f"{what} must be a finite time >= 0 s, got {seconds:g}")
    return seconds
