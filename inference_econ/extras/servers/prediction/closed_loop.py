"""Prefill and decode instances at a constant concurrency, as load generators measure them."""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np

from inference_econ._types import Array
from inference_econ.answers.disaggregated.load import (
    PooledFleet,
    decoder,
    prefill_states,
    prompt_queue,
    seconds_without_waits,
    together,
)
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.errors import InputError
from inference_econ.formulas import special


def closed_loop(pools: Pools, layouts: tuple[int, int], instances: tuple[int, int], concurrency: float) -> PooledFleet:
    """Evaluate prefill and decode instances at a constant concurrency: a new request starts when a request ends.

    Parameters
    ----------
    pools : Pools
        Layouts of prefill and decode instances to choose from.
    layouts, instances : (int, int)
        Prefill layout and decode layout; numbers of prefill instances and of decode instances [1].
    concurrency : float
        Number of concurrent requests, including queued ones, at least one [1].

    Returns
    -------
    PooledFleet
        Deployment under the request stream that results in this concurrency.

    Raises
    ------
    InputError
        If the concurrency is below 1.

    Notes
    -----
    In a closed loop of N requests, an arriving request sees the state of a loop with N - 1 requests (Reiser and
    Lavenberg, 1980). :func:`inference_econ.answers.disaggregated.load.pools_under_load` is therefore evaluated at the
    rate at which there are N - 1 other requests. By Little's law, the number of these requests is rate x (TTFT + steps
    x TPOT). This number grows without bound as the rate approaches the capacity of the slower kind of instances.
    Throughput is N / (TTFT + steps x TPOT), at most the capacity of the slower kind of instances.
    """
    if not concurrency >= 1:
        raise InputError(f"a closed loop has at least one request, got {concurrency:g}")
    (reader, writer), (count, groups) = layouts, instances
    prompts, steps = prefill_states(pools, reader, writer, count), pools.requests.decode_steps
    decoding = decoder(pools, writer, float(pools.transfer.receiving_seconds[reader, writer]))
    most = min(float(prompts.rates[-1]), groups * float(decoding.requests_per_second[-1]))

    def cycle(rate: float) -> float:
        queue = prompt_queue(pools, count, rate, prompts)
        places = decoding.queue(rate / groups)
        first = float(seconds_without_waits(pools, layouts, queue) + queue.wait_seconds + places.wait_seconds)
        return first + steps * float(decoding.tpot_seconds @ places.work)

    others, highest = concurrency - 1.0, 1.0 - 1e-12
    share = special.root(lambda x: x * most * cycle(x * most) - others, 0.0, highest, 1e-15)
    fleet = together(
        pools, layouts, instances,
        prompt_queue(pools, count, share * most, prompts),
        decoding, decoding.load(share * most / groups, instances=groups),
    )  # fmt: skip
    completed = min(concurrency / cycle(share * most), most)
    return replace(fleet, load=replace(fleet.load, completed_per_second=completed))


@dataclass(frozen=True, slots=True)
class PooledRun:
    """Latencies of the simulated requests of a disaggregated deployment, in order of arrival.

    Attributes
    ----------
    ttft, tpot : ndarray, shape (n,)
        Time to first token, and time per output token [s].
    seconds : float
        Time from the first arrival to the last token [s].
    """

    ttft: Array
    tpot: Array
    seconds: float


def played(
    pools: Pools,
    layouts: tuple[int, int],
    instances: tuple[int, int],
    concurrency: int,
    decode_steps: Array,
    *,
    slots: int | None = None,
) -> PooledRun:
    """Simulate prefill and decode instances at a constant concurrency until all requests have arrived.

    Parameters
    ----------
    pools : Pools
        Layouts of prefill and decode instances to choose from.
    layouts, instances : (int, int)
        Prefill layout and decode layout; numbers of prefill instances and of decode instances [1].
    concurrency : int
        Concurrent requests, queued ones included [1].
    decode_steps : ndarray, shape (n,)
        Number of decode steps of each request: its output tokens minus one [1].
    slots : int, optional
        Maximum concurrent requests of a decode instance [1]; by default the memory limit.

    Returns
    -------
    PooledRun
        Latencies of n requests; all prompts have the mean length.

    Raises
    ------
    InputError
        If the concurrency is below 1, or a request has no decode step.

    Notes
    -----
    Prompts wait in one queue. A free prefill instance starts a step with the waiting prompts, up to its token budget
    and its slots. If several prefill instances are free, they share the prompts. Prompts that arrive later wait until
    the step ends. The KV cache is then sent to a decode instance with a free slot. Decode instances share the requests
    evenly. The TPOT of all requests depends on the current concurrency (processor sharing).
    """
    if concurrency < 1:
        raise InputError(f"a closed loop has at least one request, got {concurrency:g}")
    if decode_steps.size == 0 or not decode_steps.min() > 0:
        raise InputError("a run has requests, each with at least one decode step")
    writers = _Writers.of(pools, layouts, instances[1], slots)
    return _Loop(_Readers.of(pools, layouts, instances[0]), writers, decode_steps).play(concurrency)


@dataclass(slots=True)
class _Readers:
    """Simulated prefill instances: step times with 1, 2, ... prompts, and the transfer time after a step [s]."""

    free: int
    steps: list[float]
    after: float

    @classmethod
    def of(cls, pools: Pools, layouts: tuple[int, int], count: int) -> _Readers:
        pool, reader = pools.prefill, layouts[0]
        alone, sending = float(pools.reading_seconds[layouts]), float(pools.transfer.sending_seconds[layouts])
        prompts = pool.waiting_prompts[reader]
        prompt_seconds = pool.shared_prefill_seconds[reader] + float(pools.transfer.handover_seconds[layouts])
        held = np.arange(1.0, math.floor(prompts[-1]) + 1.0)
        steps = np.maximum(held * np.interp(held, prompts, prompt_seconds), held * sending)
        after = float(pools.first_token_seconds[layouts]) - alone
        return cls(count, np.maximum.accumulate(np.maximum(steps, alone)).tolist(), after)

    def taken(self, waiting: int) -> int:
        """Number of waiting prompts that a free prefill instance starts together [1]."""
        return min(math.ceil(waiting / self.free), len(self.steps))


@dataclass(slots=True)
class _Writers:
    """Simulated decode instances: TPOT for each total number of requests [s], and total number of slots [1]."""

    tpot: list[float]
    places: int

    @classmethod
    def of(cls, pools: Pools, layouts: tuple[int, int], count: int, slots: int | None) -> _Writers:
        full = decoder(pools, layouts[1], float(pools.transfer.receiving_seconds[layouts]))
        tpot = full.limited(slots).tpot_seconds
        held = np.arange(1.0, count * tpot.size + 1.0)
        return cls(np.interp(held / count, np.arange(1.0, tpot.size + 1.0), tpot).tolist(), held.size)


@dataclass(slots=True)
class _Loop:
    """State of the simulation of prefill and decode instances.

    ``steps`` is the number of tokens that a request would have if it had decoded since the start of the simulation.
    """

    readers: _Readers
    writers: _Writers
    decode_steps: Array
    now: float = 0.0
    steps: float = 0.0
    come: int = 0
    waiting: deque[int] = field(default_factory=deque)
    reading: list[tuple[float, list[int]]] = field(default_factory=list)
    read: deque[int] = field(default_factory=deque)
    decoding: list[tuple[float, int]] = field(default_factory=list)

    def play(self, concurrency: int) -> PooledRun:
        count, reading, decoding, tpots = self.decode_steps.size, self.reading, self.decoding, self.writers.tpot
        # Elements are set one by one, and Python floats are faster for this than arrays.
        arrived, first, ended = [0.0] * count, [0.0] * count, [0.0] * count
        self._arrive(min(concurrency, count), arrived)
        while reading or decoding:
            tpot = ends = math.inf
            if decoding:
                tpot = tpots[len(decoding) - 1]
                ends = self.now + (decoding[0][0] - self.steps) * tpot
            if reading and reading[0][0] <= ends:
                time, prompts = heapq.heappop(reading)
                if decoding:
                    self.steps += (time - self.now) / tpot
                self.now = time
                self.readers.free += 1
                self.read.extend(prompts)
            else:
                self.now = ends
                self.steps, request = heapq.heappop(decoding)
                ended[request] = ends
                if self.come < count:
                    self._arrive(1, arrived)
            if self.read:
                self._begin(first)
            if self.waiting:
                self._read()
        began, after = np.array(first), self.readers.after
        return PooledRun(
            began - np.array(arrived) + after, (np.array(ended) - began) / self.decode_steps, self.now + after
        )

    def _arrive(self, number: int, arrived: list[float]) -> None:
        for request in range(self.come, self.come + number):
            arrived[request] = self.now
            self.waiting.append(request)
        self.come += number
        self._read()

    def _read(self) -> None:
        while self.waiting and self.readers.free:
            taken = self.readers.taken(len(self.waiting))
            prompts = [self.waiting.popleft() for _ in range(taken)]
            self.readers.free -= 1
            heapq.heappush(self.reading, (self.now + self.readers.steps[taken - 1], prompts))

    def _begin(self, first: list[float]) -> None:
        """Start decoding of requests whose prefill is complete, as long as decode slots are free."""
        while self.read and len(self.decoding) < self.writers.places:
            request = self.read.popleft()
            first[request] = self.now
            heapq.heappush(self.decoding, (self.steps + float(self.decode_steps[request]), request))
