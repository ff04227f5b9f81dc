"""Request streams: arrival times, lengths and sessions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.errors import InputError
from inference_econ.formulas import queueing
from inference_econ.inputs import Length, Requests, SessionSpec, Step
from inference_econ.serving.lengths import levels, quantiles

#: Maximum number of sampled sessions, and approximate total number of their turns [1].
_DRAWN, _TURNS = 200, 20_000


class Turn(NamedTuple):
    """One turn of a session."""

    prompt: int
    """Length of the full prompt of the turn [tokens]."""
    answer: int
    """Output length [tokens]."""
    carries: int
    """Index of the earlier turn whose prompt and output are the start of this turn's prompt.

    The index is -1 if the prompt starts only with the prefix that all sessions share.
    """
    waits: int
    """Number of turns that must end before this turn starts [1]."""
    followers: tuple[int, ...]
    """Indices of the turns that start only after this turn."""
    pause: float
    """Pause between the end of the last required turn and the start of this turn [s]; 0 for first turns."""


Session = tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Sessions:
    """Sessions of agents or users; a session starts when another session ends, or sessions start at a rate.

    Attributes
    ----------
    drawn : sequence of Session
        Sessions to simulate, in this order; after the last session, the list repeats. Repeated sessions have new text,
        so only the shared prefix can hit the cache.
    shared_tokens : int
        Length of the prefix that all prompts share [tokens].
    under_way : int
        Number of sessions that are already running at the start [1]. Running sessions start at a random turn, with all
        earlier turns cached. If agents pause between sessions, this number is the number of agents.
    count : int
        Number of requests in the run [1].
    sessions_per_second : float
        Rate at which sessions start, as a Poisson process [1/s]; 0 if each session starts when another ends.
    rest_seconds : float
        Mean time between two sessions of an agent [s]; exponentially distributed.
    pause_seconds : float
        Time from the last token of a turn to the arrival of the next turn, in addition to the pause of the next turn
        [s].
    said_token_seconds : float
        Additional time before a turn arrives, per prompt token that repeats earlier turns or the shared prefix [s].
    seed : int
        Seed of the random numbers.
    """

    drawn: Sequence[Session]
    shared_tokens: int
    under_way: int
    count: int
    sessions_per_second: float = 0.0
    rest_seconds: float = 0.0
    pause_seconds: float = 0.0
    said_token_seconds: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Reject inputs for which no session would ever start."""
        if self.under_way < 1 and not self.sessions_per_second > 0.0:
            raise InputError(f"sessions need at least 1 agent or a positive rate, got {self.under_way} agents")


def draw_sessions(spec: SessionSpec, seed: int = 0) -> tuple[Session, ...]:
    """Sample sessions that represent a workload; the same seed gives the same sessions.

    Parameters
    ----------
    spec : SessionSpec
        Structure of a session.
    seed : int
        Seed of the random numbers.

    Returns
    -------
    tuple of Session
        Up to some hundreds of sessions; fewer if sessions are long. The numbers of turns are quantiles of their
        distribution in random order. Lengths are stratified samples: over the turns of each session, or over all
        sessions if a session has one turn. With few turns per session, sample means deviate by about 5%.
    """
    random = np.random.default_rng([seed, 7])
    usual = sum(step.agents * step.turns.mean for step in spec.steps)
    count = int(np.clip(_TURNS / usual, 10, _DRAWN))
    if usual == 1.0 and spec.steps[0].turns.kind == "fixed" and spec.compacts_at is None:
        (step,), shared = spec.steps, round(spec.shared_tokens)
        prompts, answers = (
            _lengths(length, count, random) for length in (step.first_tokens or step.new_tokens, step.answer_tokens)
        )
        return tuple(
            (Turn(shared + prompt, answer, -1, 0, (), 0.0),) for prompt, answer in zip(prompts, answers, strict=True)
        )
    turns = {step.name: _lengths(step.turns, count, random) for step in spec.steps}
    return tuple(
        _session(spec, {name: numbers[which] for name, numbers in turns.items()}, random) for which in range(count)
    )


def _session(spec: SessionSpec, turns: dict[str, int], random: np.random.Generator) -> Session:
    rows: list[tuple[int, int, int, float]] = []
    waits: list[tuple[int, ...]] = []
    ends: dict[str, tuple[int, ...]] = {}
    for step in spec.steps:
        before = tuple(end for name in step.after for end in ends[name])
        last = []
        for _ in range(step.agents):
            carries = -1 if step.continues is None else ends[step.continues][0]
            context = round(spec.shared_tokens) if carries < 0 else rows[carries][0] + rows[carries][1]
            number, after = turns[step.name], before
            news, answers = _lengths(step.new_tokens, number, random), _lengths(step.answer_tokens, number, random)
            if step.first_tokens is not None:
                news[0] = _lengths(step.first_tokens, 1, random)[0]
            for new, answer, pause in zip(news, answers, _pauses(step, number, random), strict=True):
                if spec.compacts_at is not None and context + new + answer > spec.compacts_at:
                    carries, context = -1, round(spec.shared_tokens) + spec.summary_tokens
                    new = max(min(new, spec.compacts_at - context - answer), 1)
                rows.append((context + new, answer, carries, pause if after else 0.0))
                waits.append(after)
                carries = len(rows) - 1
                context, after = context + new + answer, (carries,)
            last.append(carries)
        ends[step.name] = tuple(last)
    followers: list[list[int]] = [[] for _ in rows]
    for turn, after in enumerate(waits):
        for other in after:
            followers[other].append(turn)
    return tuple(
        Turn(prompt, answer, carries, len(waits[turn]), tuple(followers[turn]), pause)
        for turn, (prompt, answer, carries, pause) in enumerate(rows)
    )


def _lengths(length: Length, count: int, random: np.random.Generator) -> list[int]:
    """Stratified sample of integer lengths from a distribution, in random order [tokens]."""
    if length.kind == "fixed":
        return [max(round(length.mean), 1)] * count
    shares = random.permutation(levels(count)) + (random.random(count) - 0.5) / count
    return [max(round(float(value)), 1) for value in quantiles(length, shares)]


def _pauses(step: Step, count: int, random: np.random.Generator) -> list[float]:
    if not step.pause_variation or not step.pause:
        return [float(step.pause)] * count
    variance = math.log1p(step.pause_variation**2)
    drawn = random.lognormal(math.log(step.pause) - variance / 2.0, math.sqrt(variance), count)
    return [float(pause) for pause in drawn]


@dataclass(frozen=True, slots=True)
class Usual:
    """Mean values over sessions and their turns.

    Attributes
    ----------
    turns : float
        Requests per session [1].
    pause_seconds : float
        Mean pause per turn along the longest path of dependent turns in a session [s].
    side_by_side : float
        Number of turns in a session divided by the number of turns on its longest path of dependent turns [1]; above 1
        if agents work in parallel.
    prompts, answers, known : ndarray
        Per turn: prompt tokens, output tokens, and prompt tokens that repeat earlier text of the session or the shared
        prefix [tokens].
    """

    turns: float
    pause_seconds: float
    side_by_side: float
    prompts: Array
    answers: Array
    known: Array


def usual(drawn: Sequence[Session], shared_tokens: float) -> Usual:
    """Compute the mean values over sessions."""

    def carried(session: Session, turn: Turn) -> float:
        before = session[turn.carries]
        return shared_tokens if turn.carries < 0 else before.prompt + before.answer

    turns = [(turn, carried(session, turn)) for session in drawn for turn in session]
    prompts, answers, known = np.array([(turn.prompt, turn.answer, carried) for turn, carried in turns], dtype=float).T
    ways = [_longest_way(session) for session in drawn]
    on_the_way = sum(turns for turns, _ in ways)
    return Usual(
        prompts.size / len(drawn), sum(pauses for _, pauses in ways) / on_the_way, prompts.size / on_the_way,
        prompts, answers, known,
    )  # fmt: skip


def _longest_way(session: Session) -> tuple[int, float]:
    """Number of turns on the longest path of dependent turns [1], and sum of the pauses on this path [s]."""
    ways = [(0, 0.0)] * len(session)
    for number, turn in enumerate(session):
        turns, pauses = ways[number]
        ways[number] = (turns + 1, pauses + turn.pause)
        for follower in turn.followers:
            ways[follower] = max(ways[follower], ways[number])
    return max(ways)


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


class ArrivalProcess(Protocol):
    """Arrival process of requests, which can be scaled to any mean rate."""

    @property
    def scv(self) -> float:
        """Squared coefficient of variation of interarrival times for the analytical model [1]."""

    def times(self, count: int, requests_per_second: float, random: np.random.Generator) -> Array:
        """Arrival times at a mean rate [1/s], ascending, shape (count,) [s]."""

    def among(self, instances: float) -> ArrivalProcess:
        """Arrivals at one of ``instances`` instances [1], if a router assigns requests to instances at random.

        Values below 1 merge streams: 1 / n gives the union of n independent streams.
        """


@dataclass(frozen=True, slots=True)
class Gamma:
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

    def gaps(self, count: int, random: np.random.Generator) -> Array:
        """Interarrival times with mean 1, shape (count,) [1]."""
        return np.full(count, 1.0) if self.scv == 0.0 else random.gamma(1.0 / self.scv, self.scv, count)

    def times(self, count: int, requests_per_second: float, random: np.random.Generator) -> Array:
        """Arrival times at a mean rate [1/s], shape (count,) [s]."""
        return np.asarray(np.cumsum(self.gaps(count, random)) / requests_per_second)

    def among(self, instances: float) -> Gamma:
        """Arrivals at one of several instances [1]; see :func:`inference_econ.formulas.queueing.split_scv`."""
        return Gamma(float(queueing.split_scv(self.scv, instances)))


#: Arrivals of many independent users.
POISSON = Gamma()


@dataclass(frozen=True, slots=True)
class Recorded:
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

    def gaps(self, count: int, random: np.random.Generator) -> Array:
        """Recorded interarrival times scaled to mean 1, shape (count,) [1]."""
        del random  # deterministic
        return np.resize(np.array(self.seconds) / np.mean(self.seconds), count)

    def times(self, count: int, requests_per_second: float, random: np.random.Generator) -> Array:
        """Recorded arrival times scaled to a mean rate [1/s], shape (count,) [s]."""
        return np.asarray(np.cumsum(self.gaps(count, random)) / requests_per_second)

    def among(self, instances: float) -> Recorded:
        """Return the arrivals unchanged, because simulations at lower rates use fewer of the recorded requests."""
        del instances
        return self


@dataclass(frozen=True, slots=True)
class Changing:
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
        passed = np.cumsum(within.gaps(count, random)) / (requests_per_second * period)
        return np.asarray(np.floor(passed) * period + np.interp(passed % 1.0, through, ends))

    def among(self, instances: float) -> Changing:
        """Return the arrivals unchanged. At a lower rate, :meth:`times` selects a random part of the requests."""
        del instances
        return self


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


@dataclass(frozen=True, slots=True)
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


#: Assumed duration of a turn [s], which determines how many agents are between two sessions at the start of a run.
_TURN_SECONDS = 5.0
#: Maximum number of turns per session [1], which keeps the names of runs of cache blocks unique.
_MOST_TURNS = 1 << 24


class Sent(NamedTuple):
    """Request that has been sent to the server."""

    at: float
    """Arrival time at the server [s]."""
    sent: float
    """Sending time [s]."""
    item: int | tuple[_Played, int]
    """Index of the request; for sessions, the running session and the index of its turn."""


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


class _Played:
    """Session during the simulation, with its remaining turns."""

    def __init__(self, number: int, session: Session) -> None:
        self.number, self.session = number, session
        self.waits, self.left = [turn.waits for turn in session], len(session)
        #: Turn after which the run of each turn's cache blocks is named. If only one turn extends a turn, both share
        #: one run.
        carried, self.heads = Counter(turn.carries for turn in session), list(range(len(session)))
        for turn, carries in enumerate(turn.carries for turn in session):
            if carries >= 0 and carried[carries] == 1:
                self.heads[turn] = self.heads[carries]
        #: Runs of cache blocks of the prompt and output of each sent turn, by index of the turn.
        self.parts: dict[int, Parts] = {}


class SessionFeed:
    """Source of the turns of sessions; a turn is sent when all turns on which it depends have ended."""

    def __init__(self, sessions: Sessions) -> None:
        self.count, self._sessions = sessions.count, sessions
        self._random = np.random.default_rng([sessions.seed, 8])
        self._begun, self._block = 0, 1
        #: Prompts that are cached at the start, least recently used first.
        self.known: list[Parts] = []

    def first(self, block_tokens: int) -> Iterator[Sent]:
        """Yield turns of sessions that run at the start, and first turns of sessions that start at a given rate."""
        self._block = block_tokens
        for _ in range(self._sessions.under_way):
            yield from self._under_way()
        rate, now, requests = self._sessions.sessions_per_second, 0.0, 0
        while rate and requests < self.count:
            now += float(self._random.exponential(1.0 / rate))
            played = self._next()
            requests += len(played.session)
            yield from self._roots(played, now)

    def request(self, sent: Sent) -> SimulatedRequest:
        """Turn of a session as the server receives it."""
        assert isinstance(sent.item, tuple)
        played, number = sent.item
        before, own = self._say(played, number)
        return SimulatedRequest(
            played.session[number].prompt, played.session[number].answer, before, own, played.number
        )

    def ended(self, sent: Sent, now: float) -> Iterator[Sent]:
        """Yield turns that can start because a turn has ended.

        After the last turn of a session, the first turns of a new session follow, unless sessions start at a given
        rate.
        """
        assert isinstance(sent.item, tuple)
        played, number = sent.item
        played.left -= 1
        for follower in played.session[number].followers:
            played.waits[follower] -= 1
            if not played.waits[follower]:
                yield self._turn(played, follower, now + played.session[follower].pause)
        if not played.left and not self._sessions.sessions_per_second:
            rest = self._sessions.rest_seconds
            yield from self._roots(self._next(), now + (float(self._random.exponential(rest)) if rest else 0.0))

    def _next(self) -> _Played:
        played = _Played(self._begun, self._sessions.drawn[self._begun % len(self._sessions.drawn)])
        self._begun += 1
        return played

    def _roots(self, played: _Played, now: float) -> Iterator[Sent]:
        for number, turn in enumerate(played.session):
            if not turn.waits:
                yield self._turn(played, number, now)

    def _turn(self, played: _Played, number: int, now: float) -> Sent:
        """Send a turn at time ``now`` [s]. The turn arrives after the CPU has processed its prompt."""
        carries, sessions = played.session[number].carries, self._sessions
        last = played.session[carries]
        said = last.prompt + last.answer if carries >= 0 else sessions.shared_tokens
        return Sent(now + sessions.pause_seconds + sessions.said_token_seconds * said, now, (played, number))

    def _under_way(self) -> Iterator[Sent]:
        """Sample a session's state at the start of a run: at a random turn and pause, or before the first turn."""
        played, rest = self._next(), self._sessions.rest_seconds
        if rest:
            lasts = sum(turn.pause for turn in played.session) + _TURN_SECONDS * len(played.session)
            if self._random.random() < rest / (rest + lasts):
                yield from self._roots(played, float(self._random.exponential(rest)))
                return
        start = int(self._random.integers(len(played.session)))
        for number in range(start):
            self._say(played, number)
            played.left -= 1
            for follower in played.session[number].followers:
                played.waits[follower] -= 1
        if start:
            self.known.append(played.parts[start - 1])
        for number in range(start, len(played.session)):
            if not played.waits[number]:
                pause = played.session[number].pause * float(self._random.random())
                yield self._turn(played, number, pause)

    def _say(self, played: _Played, number: int) -> tuple[Parts, int]:
        """Record the cache blocks of a turn's prompt and output.

        The result is the runs of blocks at the start of the prompt, and the name of the new run. The last output token
        is excluded, because its KV cache is never computed.
        """
        turn, name = played.session[number], (played.number + 1) * _MOST_TURNS + played.heads[number]
        shared = ((0, self._sessions.shared_tokens // self._block),)
        before = played.parts[turn.carries] if turn.carries >= 0 else shared
        blocks = (turn.prompt + turn.answer - 1) // self._block - sum(count for _, count in before)
        played.parts[number] = joined(before, name, blocks)
        return before, name


def feed_of(requests: Stream | Loop | Sessions) -> ListedFeed | SessionFeed:
    """Create the source that sends the requests of a stream, a closed loop or sessions."""
    return SessionFeed(requests) if isinstance(requests, Sessions) else ListedFeed(requests)
