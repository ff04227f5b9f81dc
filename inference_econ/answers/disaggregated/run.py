"""A fleet xPyD under a run of a load generator, played from its first request to its last."""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from inference_econ._types import Array
from inference_econ.answers.disaggregated.load import decoder
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.errors import InputError


@dataclass(frozen=True, slots=True)
class Run:
    """Latencies that the requests of a run saw, in the order in which they came.

    Attributes
    ----------
    ttft, tpot : ndarray, shape (n,)
        From arrival to the first token, and between two tokens of the answer [s].
    seconds : float
        From the first arrival to the last token [s].
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
) -> Run:
    """Play a closed loop: some requests at once, and a new one whenever one ends, until all have come.

    Parameters
    ----------
    pools : Pools
        The layouts to choose from.
    layouts, instances : (int, int)
        Which layout prefill and decode instances have, and how many there are [1].
    concurrency : int
        Requests in the fleet, those that wait included [1].
    decode_steps : ndarray, shape (n,)
        Of each request of the run, one less than its tokens [1].
    slots : int, optional
        Requests in flight of a decode instance at most [1]; by default as many as its memory holds.

    Returns
    -------
    Run
        Of n requests; prompts are of mean length.

    Raises
    ------
    InputError
        If there is less than one request at a time, or a request without a step.

    Notes
    -----
    Prompts wait in one line. An instance that is free reads those that have come, or its share of them where others
    are free as well, as many in a step as its tokens and its slots allow; the others wait until it is done. A cache
    then goes to a decode instance when that has a place; all of them decode equally many at a speed that depends on
    how many there are at that moment (processor sharing), so that the fleet decodes what prefill feeds it.
    """
    if concurrency < 1:
        raise InputError(f"a closed loop has at least one request, got {concurrency:g}")
    if decode_steps.size == 0 or not decode_steps.min() > 0:
        raise InputError("a run has requests, each with at least one decode step")
    writers = _Writers.of(pools, layouts, instances[1], slots)
    return _Loop(_Readers.of(pools, layouts, instances[0]), writers, decode_steps).play(concurrency)


@dataclass(slots=True)
class _Readers:
    """Prefill instances: how long a step takes that reads 1, 2, .. prompts [s], and what follows it [s]."""

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
        """Prompts of the next step of an instance [1]."""
        return min(math.ceil(waiting / self.free), len(self.steps))


@dataclass(slots=True)
class _Writers:
    """Decode instances: the time between tokens with 1, 2, .. requests in all of them [s]."""

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
    """The state of a run; ``steps`` counts the tokens that a request which decodes from the beginning would have."""

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

    def play(self, concurrency: int) -> Run:
        count, reading, decoding, tpots = self.decode_steps.size, self.reading, self.decoding, self.writers.tpot
        # Plain numbers: each is written by itself.
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
        return Run(began - np.array(arrived) + after, (np.array(ended) - began) / self.decode_steps, self.now + after)

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
        """Requests whose prompts have been read take free places."""
        while self.read and len(self.decoding) < self.writers.places:
            request = self.read.popleft()
            first[request] = self.now
            heapq.heappush(self.decoding, (self.steps + float(self.decode_steps[request]), request))
