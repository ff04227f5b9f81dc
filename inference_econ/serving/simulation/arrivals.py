"""Request streams: arrival times, lengths, and cache blocks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.engine import Setup, request_seconds
from inference_econ.errors import InputError
from inference_econ.formulas import queueing
from inference_econ.inputs import Requests

#: A prompt as a sequence of runs (consecutive full cache blocks), each with its name and number of blocks. Prompts with
#: a common prefix start with runs of the same names.
Parts = Sequence[tuple[int, int]]


def joined(before: Parts, name: int, blocks: int) -> Parts:
    """Append a run of cache blocks to a prompt; a last run with the same name becomes longer."""
    if before and before[-1][0] == name:
        return (*before[:-1], (name, before[-1][1] + blocks))
    return (*before, (name, blocks))


class Prefixes:
    """Prefix cache of one GPU group or offload tier, with least-recently-used eviction of unused blocks.

    vLLM, SGLang and TensorRT-LLM evict the oldest unused blocks. When a request ends, these engines free its last
    blocks first.

    Examples
    --------
    >>> memory = Prefixes()
    >>> memory.take([(0, 10), (1, 5)]), memory.release([(0, 10), (1, 5)])
    (0, 0)
    >>> memory.forget(3)
    >>> memory.found([(0, 10), (1, 5)]), memory.found([(0, 10), (2, 7)]), memory.idle_blocks
    (12, 10, 12)
    """

    def __init__(self) -> None:
        #: Number of cached blocks of each run, and number of requests that use the run, by name of the run.
        self._held: dict[int, int] = {}
        self._users: dict[int, int] = {}
        #: Names of runs that no request uses, least recently used first.
        self._idle: dict[int, None] = {}
        #: Number of blocks in the unused runs [1].
        self.idle_blocks = 0

    def found(self, parts: Parts) -> int:
        """Number of cached blocks at the start of a prompt [1]."""
        total, held = 0, self._held
        for name, blocks in parts:
            there = held.get(name, 0)
            if there < blocks:
                return total + there
            total += blocks
        return total

    def in_use(self, parts: Parts) -> int:
        """Number of blocks at the start of a prompt that other requests are using [1]."""
        total, users = 0, self._users
        for name, blocks in parts:
            if name not in users:
                break
            total += blocks
        return total

    def take(self, parts: Parts) -> int:
        """Mark all blocks of a prompt as used, and return the number of blocks that other requests also use [1]."""
        shared, held, users, idle = 0, self._held, self._users, self._idle
        for name, blocks in parts:
            before = users.get(name, 0)
            users[name] = before + 1
            if before:
                shared += blocks
                continue
            there = held.get(name, 0)
            if name in idle:
                del idle[name]
                self.idle_blocks -= there
            if blocks > there:
                held[name] = blocks
        return shared

    def release(self, parts: Parts) -> int:
        """Release the blocks of a request, and return the number of blocks that other requests still use [1]."""
        shared, users = 0, self._users
        for name, blocks in reversed(parts):
            left = users[name] - 1
            if left:
                users[name] = left
                shared += blocks
                continue
            del users[name]
            if blocks:
                self._held[name] = blocks
                self._idle[name] = None
                self.idle_blocks += blocks
            else:
                self._held.pop(name, None)
        return shared

    def keep(self, parts: Parts, room: int) -> None:
        """Store a prompt in a cache of ``room`` blocks, and evict the least recently used blocks if necessary."""
        self.take(parts)
        self.release(parts)
        self.forget(self.idle_blocks - room)

    def forget(self, blocks: int) -> None:
        """Evict up to ``blocks`` unused blocks, the least recently used first [1]."""
        while blocks > 0 and self._idle:
            name = next(iter(self._idle))
            there = self._held[name]
            gone = min(there, blocks)
            if gone == there:
                del self._idle[name], self._held[name]
            else:
                self._held[name] = there - gone
            self.idle_blocks -= gone
            blocks -= gone


Counts = npt.NDArray[np.int64]
#: Function that samples lengths [tokens]. Its inputs are the number of samples and a random generator.
LengthLaw = Callable[[int, "np.random.Generator"], Counts]


class ArrivalProcess(ABC):
    """Arrival process of requests, which can be scaled to any mean rate."""

    __slots__ = ()

    @property
    @abstractmethod
    def scv(self) -> float:
        """Squared coefficient of variation of interarrival times for the analytical model [1]."""

    @abstractmethod
    def times(self, count: int, requests_per_second: float, random: np.random.Generator) -> Array:
        """Arrival times at a mean rate [1/s], ascending, shape (count,) [s]."""

    def among(self, instances: float) -> Self:
        """Arrivals at one of ``instances`` instances [1], if a router assigns requests to instances at random.

        Values below 1 merge streams: 1 / n gives the union of n independent streams. By default, the arrivals are
        unchanged, because :meth:`times` at a lower rate returns fewer or random requests of the workload.
        """
        del instances
        return self


@dataclass(frozen=True, slots=True)
class Gamma(ArrivalProcess):
    """Arrivals with independent, gamma-distributed interarrival times; Poisson arrivals by default.

    Attributes
    ----------
    scv : float
        Squared coefficient of variation of interarrival times [1]: 0 for regular arrivals, 1 for Poisson arrivals,
        larger values for bursts.

    Raises
    ------
    InputError
        If the coefficient is negative or not finite.
    """

    scv: float = 1.0

    def __post_init__(self) -> None:
        """Reject negative or infinite variations."""
        if not 0.0 <= self.scv < math.inf:
            raise InputError(f"arrival_scv must be a number >= 0, got {self.scv:g}")

    def times(self, count: int, requests_per_second: float, random: np.random.Generator) -> Array:
        """Arrival times at a mean rate [1/s], shape (count,) [s]."""
        gaps = np.full(count, 1.0) if self.scv == 0.0 else random.gamma(1.0 / self.scv, self.scv, count)
        return np.asarray(np.cumsum(gaps) / requests_per_second)

    def among(self, instances: float) -> Self:
        """Arrivals at one of several instances [1]; see :func:`inference_econ.formulas.queueing.split_scv`."""
        return type(self)(float(queueing.split_scv(self.scv, instances)))


#: Arrivals of many independent users.
POISSON = Gamma()


@dataclass(frozen=True, slots=True)
class Recorded(ArrivalProcess):
    """Recorded arrivals, which repeat after the last recorded request.

    Attributes
    ----------
    seconds : tuple of float
        Interarrival times in recorded order [s].

    Raises
    ------
    InputError
        If an interarrival time is negative or not finite, or if all are zero.
    """

    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        """Reject invalid interarrival times."""
        if not all(0.0 <= gap < math.inf for gap in self.seconds) or not sum(self.seconds) > 0.0:
            raise InputError("times between arrivals must be numbers >= 0, at least one of them positive")

    @property
    def scv(self) -> float:
        """Squared coefficient of variation of interarrival times [1]."""
        return float(np.var(self.seconds) / np.mean(self.seconds) ** 2)

    def times(self, count: int, requests_per_second: float, random: np.random.Generator) -> Array:
        """Recorded arrival times scaled to a mean rate [1/s], shape (count,) [s]."""
        del random  # deterministic
        gaps = np.resize(np.array(self.seconds) / np.mean(self.seconds), count)
        return np.asarray(np.cumsum(gaps) / requests_per_second)


@dataclass(frozen=True, slots=True)
class Changing(ArrivalProcess):
    """Arrivals whose rate follows a periodic curve; a higher mean rate scales the curve, but not its period.

    Attributes
    ----------
    whole_scv : float
        Squared coefficient of variation of the whole workload's interarrival times around the curve [1]; 1 for Poisson
        arrivals.
    rates : tuple of float
        Rate of the whole workload in each interval [1/s].
    interval : float
        Duration of an interval [s]. In a simulation that would end before the last interval, all intervals are shorter.
    """

    whole_scv: float
    rates: tuple[float, ...]
    interval: float

    @property
    def scv(self) -> float:
        """Squared coefficient of variation of interarrival times with independent rates, which is a lower bound [1]."""
        return self.whole_scv + float(np.var(self.rates) / np.mean(self.rates) ** 2)

    def times(self, count: int, requests_per_second: float, random: np.random.Generator) -> Array:
        """Arrival times at a mean rate [1/s], shape (count,) [s].

        At a lower mean rate than the workload's, a random part of the requests arrives. Arrivals are then less bursty:
        the index of dispersion is closer to 1 (Cox and Isham, 1980, section 4.3). At a higher mean rate, several copies
        of the workload are superposed.
        """
        part = min(requests_per_second / float(np.mean(self.rates)), 1.0)
        within = Gamma(1.0 + part * (self.whole_scv - 1.0))
        interval = min(self.interval, count / requests_per_second / len(self.rates))
        period, ends = len(self.rates) * interval, np.arange(len(self.rates) + 1) * interval
        through = np.concatenate(([0.0], np.cumsum(self.rates))) / np.sum(self.rates)
        # ``passed`` is in units of the number of requests in a period.
        passed = within.times(count, requests_per_second * period, random)
        return np.asarray(np.floor(passed) * period + np.interp(passed % 1.0, through, ends))


def arrivals_of(requests: Requests, scv: float) -> ArrivalProcess:
    """Arrival process of a workload: recorded, with a rate curve, or gamma-distributed.

    If the workload has no arrival process, interarrival times are gamma-distributed with the squared coefficient of
    variation ``scv`` [1].
    """
    arrivals = requests.arrivals
    if arrivals is None:
        return Gamma(scv)
    if arrivals.gaps:
        return Recorded(tuple(map(float, arrivals.gaps)))
    if not arrivals.rates or (arrivals.is_steady and arrivals.scv == 1):
        return Gamma(float(arrivals.scv))
    return Changing(float(arrivals.scv), tuple(map(float, arrivals.rates)), arrivals.interval)


def as_poisson(requests: Requests, scv: float) -> ArrivalProcess:
    """Arrival process for the analytical model: the workload's process with at most the burstiness of Poisson arrivals.

    Simulations of the actual arrivals then correct the results. If the workload has no arrival process, ``scv`` is not
    limited.
    """
    arrivals = arrivals_of(requests, scv)
    return arrivals if requests.arrivals is None else Gamma(min(arrivals.scv, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Open-loop stream of requests.

    Attributes
    ----------
    arrival : ndarray, shape (n,)
        Arrival times, ascending [s].
    isl, osl : ndarray of int, shape (n,)
        Prompt and output lengths, at least 1 [tokens].
    parts : sequence of Parts, optional
        Runs of full cache blocks in each prompt; required if prompts share prefixes.
    """

    arrival: Array
    isl: Counts
    osl: Counts
    parts: Sequence[Parts] | None = None

    def __post_init__(self) -> None:
        """Reject arrays of unequal length, unsorted arrival times and invalid lengths."""
        if not self.arrival.shape == self.isl.shape == self.osl.shape or self.arrival.ndim != 1:
            raise InputError(
                "arrival, isl and osl must be lists of the same length, got the shapes "
                f"{self.arrival.shape}, {self.isl.shape} and {self.osl.shape}"
            )
        if not np.isfinite(self.arrival).all() or (np.diff(self.arrival) < 0.0).any():
            raise InputError("times of arrival must be finite and ascending")
        _check_lengths(self.isl, self.osl)

    def feed(self) -> ListedFeed:
        """Create the source of the requests."""
        return ListedFeed(self)

    def delayed(self, setup: Setup, cached: float) -> Self:
        """Return the stream unchanged, because its arrival times do not depend on the server."""
        del setup, cached
        return self


@dataclass(frozen=True, slots=True)
class Loop:
    """Closed loop of clients; each client sends a request when its previous request has ended.

    Attributes
    ----------
    clients : int
        Number of clients, each with one concurrent request [1]; all clients send a request at the start of a run.
    isl, osl : ndarray of int, shape (n,)
        Prompt and output lengths in sending order, at least 1 [tokens].
    pause_seconds : float
        Time from the last token to the arrival of the client's next request [s]; the first requests also have this
        delay.
    parts : sequence of Parts, optional
        Runs of full cache blocks in each prompt; see :class:`Stream`.
    """

    clients: int
    isl: Counts
    osl: Counts
    pause_seconds: float = 0.0
    parts: Sequence[Parts] | None = None

    def __post_init__(self) -> None:
        """Reject invalid lengths, client counts and pauses."""
        if self.clients < 1:
            raise InputError(f"a closed loop needs at least 1 client, got {self.clients}")
        if self.isl.shape != self.osl.shape or self.isl.ndim != 1:
            raise InputError(
                f"isl and osl must be lists of the same length, got the shapes {self.isl.shape} and {self.osl.shape}"
            )
        if not 0.0 <= self.pause_seconds < math.inf:
            raise InputError(f"pause_seconds must be a number >= 0, got {self.pause_seconds:g}")
        _check_lengths(self.isl, self.osl)

    def feed(self) -> ListedFeed:
        """Create the source of the requests."""
        return ListedFeed(self)

    def delayed(self, setup: Setup, cached: float) -> Self:
        """Add the CPU time of a request with ``cached`` cached tokens to the pause of the client."""
        return replace(self, pause_seconds=self.pause_seconds + request_seconds(setup, cached))


def _check_lengths(isl: Counts, osl: Counts) -> None:
    for name, lengths in (("isl", isl), ("osl", osl)):
        if lengths.size and lengths.min() < 1:
            raise InputError(f"{name} must be at least 1 token, got {lengths.min()}")


def fixed(tokens: int) -> LengthLaw:
    """Return a sampler of lengths that are all ``tokens`` tokens."""
    return lambda count, _: np.full(count, tokens, dtype=np.int64)


def draw(
    count: int,
    requests_per_second: float,
    isl: LengthLaw,
    osl: LengthLaw,
    *,
    arrivals: ArrivalProcess = POISSON,
    seed: int = 0,
) -> Stream:
    """Sample a stream of requests; the same seed gives the same stream.

    Parameters
    ----------
    count : int
        Number of requests [1].
    requests_per_second : float
        Mean arrival rate [1/s].
    isl, osl : callable
        Samplers of prompt and output lengths, such as :func:`fixed`.
    arrivals : ArrivalProcess
        Arrival process.
    seed : int
        Seed of the random numbers.

    Returns
    -------
    Stream
        Stream as input for :func:`inference_econ.serving.simulation.events.simulate`.

    Raises
    ------
    InputError
        If a number is out of range.
    """
    if count < 1:
        raise InputError(f"count must be at least 1 request, got {count}")
    if not (0.0 < requests_per_second < math.inf):
        raise InputError(f"requests_per_second must be a positive number, got {requests_per_second:g}")
    times, prompts, outputs = (np.random.default_rng([seed, stream]) for stream in range(3))
    return Stream(arrivals.times(count, requests_per_second, times), isl(count, prompts), osl(count, outputs))


class Sent(NamedTuple):
    """Request that has been sent to the server."""

    at: float
    """Arrival time at the server [s]."""
    sent: float
    """Sending time [s]."""
    item: Any
    """Number of the request, or another identification by its source."""


class SimulatedRequest(NamedTuple):
    """Request as the server receives it."""

    isl: int
    """Prompt length [tokens]."""
    osl: int
    """Output length [tokens]."""
    before: Parts = ()
    """Runs of cache blocks at the start of the prompt that earlier prompts share."""
    own: int = -1
    """Name of the run of cache blocks that this prompt adds; -1 if no later request reuses it."""
    session: int = -1
    """Number of the request's session, in starting order; -1 without a session."""


class Feed(Protocol):
    """Source of the requests of a run."""

    @property
    def count(self) -> int:
        """Number of requests in the run [1]."""

    @property
    def known(self) -> Sequence[Parts]:
        """Prompts that are cached at the start, least recently used first."""

    def first(self, block_tokens: int) -> Iterable[Sent]:
        """Requests that are sent whatever the progress of the server; a cache block has ``block_tokens`` tokens."""

    def request(self, sent: Sent) -> SimulatedRequest:
        """Request as the server receives it."""

    def ended(self, sent: Sent, now: float) -> Iterator[Sent]:
        """Requests that are sent after the end of a request."""


class Demand(Protocol):
    """Requests to simulate: an open-loop stream, a closed loop of clients, or sessions."""

    def feed(self) -> Feed:
        """Create the source of the requests."""

    def delayed(self, setup: Setup, cached: float) -> Self:
        """Add the CPU time of a request with ``cached`` cached tokens to the pauses between requests."""


class ListedFeed:
    """Source of requests for an open-loop stream or a closed loop, with given lengths."""

    #: Prompts that are cached at the start, least recently used first.
    known: Sequence[Parts] = ()

    def __init__(self, requests: Stream | Loop) -> None:
        self.count, self._parts = requests.isl.size, requests.parts
        self._lengths = list(zip(requests.isl.tolist(), requests.osl.tolist(), strict=True))
        if isinstance(requests, Stream):
            self._pause, self._sent = 0.0, self.count
            self._first = [Sent(time, time, number) for number, time in enumerate(requests.arrival.tolist())]
        else:
            self._pause, self._sent = requests.pause_seconds, min(requests.clients, self.count)
            self._first = [Sent(self._pause, 0.0, number) for number in range(self._sent)]

    def first(self, block_tokens: int) -> Iterable[Sent]:
        """Requests whose arrival times do not depend on the progress of the server.

        ``block_tokens`` is the size of a cache block [tokens].
        """
        del block_tokens
        return self._first

    def request(self, sent: Sent) -> SimulatedRequest:
        """Request as the server receives it."""
        assert isinstance(sent.item, int)
        return SimulatedRequest(*self._lengths[sent.item], () if self._parts is None else self._parts[sent.item])

    def ended(self, sent: Sent, now: float) -> Iterator[Sent]:
        """Yield the next request of a closed-loop client whose request ended; nothing if all requests are sent."""
        del sent
        if self._sent < self.count:
            self._sent += 1
            yield Sent(now + self._pause, now, self._sent - 1)
