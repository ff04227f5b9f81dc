"""Streams of requests: how they arrive, when, and how long they are."""

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

#: Sessions that stand for all, and turns of all of them together, about [1].
_DRAWN, _TURNS = 200, 20_000


class Turn(NamedTuple):
    """A turn of a session."""

    prompt: int
    """All that its prompt consists of [tokens]."""
    answer: int
    """[tokens]"""
    carries: int
    """The turn whose prompt and answer it carries on; -1 if it begins with what all sessions share."""
    waits: int
    """Turns that must have ended before it [1]."""
    followers: tuple[int, ...]
    """Turns that wait for it."""
    pause: float
    """From the end of the last of those that it waits for until it is sent; before the first, none [s]."""


Session = tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Sessions:
    """Agents or users, each of whom plays one session after the other; or sessions that begin at a rate.

    Attributes
    ----------
    drawn : sequence of Session
        Sessions that are played, in this order and again from the first, each time with other contents.
    shared_tokens : int
        What the prompts of all begin with [tokens].
    under_way : int
        Sessions that are under way when a run begins, each at a random turn, what came before in the cache; or agents
        that rest then, if they do [1].
    count : int
        Requests of the run [1].
    sessions_per_second : float
        With which further sessions begin, Poisson; 0 if one begins when another has ended [1/s].
    rest_seconds : float
        Mean time from the end of a session to the one that follows it, exponential [s].
    pause_seconds : float
        From the last token of a turn until the server has the next one, beside the pause of the turn itself [s].
    said_token_seconds : float
        What that takes longer per token of the prompt that was said before [s].
    seed : int
        Of the random numbers.
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
        """Refuse what nobody plays."""
        if self.under_way < 1 and not self.sessions_per_second > 0.0:
            raise InputError(f"sessions need at least 1 agent or a positive rate, got {self.under_way} agents")


def draw_sessions(spec: SessionSpec, seed: int = 0) -> tuple[Session, ...]:
    """Draw sessions that stand for all, the same for the same seed.

    Parameters
    ----------
    spec : SessionSpec
        What a session consists of.
    seed : int
        Of the random numbers.

    Returns
    -------
    tuple of Session
        Some hundreds, fewer where they are long. Numbers of turns are as often as they occur, in random order, and so
        are lengths within a session, or over all sessions of a single turn each. Means over sessions of a few turns
        differ from those of the distributions by chance: of some hundred lognormal ones by 5 % or so.
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
    """Whole numbers of a distribution: of many as often as they occur, of few at random."""
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
    """Means over the turns of sessions.

    Attributes
    ----------
    turns : float
        Requests of a session [1].
    pause_seconds : float
        Pauses of a session on its longest way, over its turns on that way [s].
    side_by_side : float
        Turns of a session over those on its longest way [1]: above 1 where agents work side by side.
    prompts, answers, known : ndarray
        Of every turn: its prompt, its answer, and what of the prompt was there before [tokens].
    """

    turns: float
    pause_seconds: float
    side_by_side: float
    prompts: Array
    answers: Array
    known: Array


def usual(drawn: Sequence[Session], shared_tokens: float) -> Usual:
    """Return the means over some sessions."""

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
    """Turns of the longest chain of turns that wait for each other, and the pauses in it [s]."""
    ways = [(0, 0.0)] * len(session)
    for number, turn in enumerate(session):
        turns, pauses = ways[number]
        ways[number] = (turns + 1, pauses + turn.pause)
        for follower in turn.followers:
            ways[follower] = max(ways[follower], ways[number])
    return max(ways)


#: Parts of a prompt in their order: the name of each, and its whole blocks [1].
Parts = Sequence[tuple[int, int]]


def joined(before: Parts, name: int, blocks: int) -> Parts:
    """Return parts with some blocks more at their end: of the last one, if that has the name."""
    if before and before[-1][0] == name:
        return (*before[:-1], (name, before[-1][1] + blocks))
    return (*before, (name, blocks))


class Prefixes:
    """Blocks of one memory that are in use, and those that nobody uses, of which the least recently used go first.

    Engines do so: vLLM, SGLang and TensorRT-LLM free the last blocks of a request first, and take the oldest of those
    that no request uses when they need room.

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
        #: Blocks of each part that are there, and requests that use it.
        self._held: dict[int, int] = {}
        self._users: dict[int, int] = {}
        #: Parts that nobody uses, the least recently used first.
        self._idle: dict[int, None] = {}
        #: Blocks of these [1].
        self.idle_blocks = 0

    def found(self, parts: Parts) -> int:
        """Return the first blocks of a prompt that are there [1]."""
        total, held = 0, self._held
        for name, blocks in parts:
            there = held.get(name, 0)
            if there < blocks:
                return total + there
            total += blocks
        return total

    def in_use(self, parts: Parts) -> int:
        """Return the first blocks of a prompt that other requests use [1]."""
        total, users = 0, self._users
        for name, blocks in parts:
            if name not in users:
                break
            total += blocks
        return total

    def take(self, parts: Parts) -> int:
        """Use all blocks of a prompt, and return those of them that other requests use as well [1]."""
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
        """Use the blocks of a prompt and its answer no longer, and return those that other requests still use [1]."""
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
        """Note the use of a prompt in a memory of so many blocks that no request runs in."""
        self.take(parts)
        self.release(parts)
        self.forget(self.idle_blocks - room)

    def forget(self, blocks: int) -> None:
        """Drop some blocks that nobody uses, as far as there are any; nothing if their number is not positive [1]."""
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
#: Lengths of some requests [tokens], from how many there are and a source of randomness.
LengthLaw = Callable[[int, "np.random.Generator"], Counts]


class ArrivalProcess(Protocol):
    """Arrivals of requests, whatever their rate."""

    @property
    def scv(self) -> float:
        """Squared coefficient of variation of the times between arrivals, all that closed forms know of them [1]."""

    def times(self, count: int, requests_per_second: float, random: np.random.Generator) -> Array:
        """Return times of arrival at a mean rate [1/s], ascending, shape (count,) [s]."""

    def among(self, instances: float) -> ArrivalProcess:
        """Return those at one of some instances that they are dealt to at random [1]; of 1 / n all that n get."""


@dataclass(frozen=True, slots=True)
class Gamma:
    """Arrivals that do not know of each other, after gamma-distributed times: Poisson if nothing else is said.

    Attributes
    ----------
    scv : float
        Squared coefficient of variation of the times between arrivals [1]: 1 makes them Poisson, 0 regular, more
        bursty.

    Raises
    ------
    InputError
        If it is negative or not finite.
    """

    scv: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is no variation."""
        if not 0.0 <= self.scv < math.inf:
            raise InputError(f"arrival_scv must be a number >= 0, got {self.scv:g}")

    def gaps(self, count: int, random: np.random.Generator) -> Array:
        """Return times between arrivals, shape (count,), 1 on average [1]."""
        return np.full(count, 1.0) if self.scv == 0.0 else random.gamma(1.0 / self.scv, self.scv, count)

    def times(self, count: int, requests_per_second: float, random: np.random.Generator) -> Array:
        """Return times of arrival at a mean rate [1/s], shape (count,) [s]."""
        return np.asarray(np.cumsum(self.gaps(count, random)) / requests_per_second)

    def among(self, instances: float) -> Gamma:
        """Return those at one of some instances [1]; see :func:`inference_econ.formulas.queueing.split_scv`."""
        return Gamma(float(queueing.split_scv(self.scv, instances)))


#: Arrivals of many users who do not know of each other.
POISSON = Gamma()


@dataclass(frozen=True, slots=True)
class Recorded:
    """Arrivals as somebody recorded them, again and again.

    Attributes
    ----------
    seconds : tuple of float
        Times between arrivals in the order in which they occurred [s].

    Raises
    ------
    InputError
        If one is negative or not finite, or none is positive.
    """

    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse what was never recorded."""
        if not all(0.0 <= gap < math.inf for gap in self.seconds) or not sum(self.seconds) > 0.0:
            raise InputError("times between arrivals must be numbers >= 0, at least one of them positive")

    @property
    def scv(self) -> float:
        """Squared coefficient of variation of the times between arrivals [1]."""
        return float(np.var(self.seconds) / np.mean(self.seconds) ** 2)

    def gaps(self, count: int, random: np.random.Generator) -> Array:
        """Return times between arrivals as they were recorded, shape (count,), 1 on average [1]."""
        del random  # nothing is left to chance
        return np.resize(np.array(self.seconds) / np.mean(self.seconds), count)

    def times(self, count: int, requests_per_second: float, random: np.random.Generator) -> Array:
        """Return times of arrival, recorded ones stretched to a mean rate [1/s], shape (count,) [s]."""
        return np.asarray(np.cumsum(self.gaps(count, random)) / requests_per_second)

    def among(self, instances: float) -> Recorded:
        """Return the same: of a lower rate fewer of the recorded requests are played."""
        del instances
        return self


@dataclass(frozen=True, slots=True)
class Changing:
    """Arrivals whose rate follows a curve, again and again: more users make it higher, and no quicker.

    Attributes
    ----------
    whole_scv : float
        Squared coefficient of variation of gaps while the rate stays the same, of the whole traffic [1].
    rates : tuple of float
        Of each interval, of the whole traffic [1/s].
    interval : float
        How long each is [s]; shorter in a run that would end before the last.
    """

    whole_scv: float
    rates: tuple[float, ...]
    interval: float

    @property
    def scv(self) -> float:
        """As if the rate of each gap were drawn anew: a lower bound of how bursty the whole traffic is [1]."""
        return self.whole_scv + float(np.var(self.rates) / np.mean(self.rates) ** 2)

    def times(self, count: int, requests_per_second: float, random: np.random.Generator) -> Array:
        """Return times of arrival at a mean rate [1/s], shape (count,) [s].

        Of a lower rate than that of the whole traffic they are a random part of it, whose index of dispersion is nearer
        to 1: Cox and Isham (1980), section 4.3. A higher one is that of several such traffics.
        """
        part = min(requests_per_second / float(np.mean(self.rates)), 1.0)
        within = Gamma(1.0 + part * (self.whole_scv - 1.0))
        interval = min(self.interval, count / requests_per_second / len(self.rates))
        period, ends = len(self.rates) * interval, np.arange(len(self.rates) + 1) * interval
        through = np.concatenate(([0.0], np.cumsum(self.rates))) / np.sum(self.rates)
        # In units of the requests of a period.
        passed = np.cumsum(within.gaps(count, random)) / (requests_per_second * period)
        return np.asarray(np.floor(passed) * period + np.interp(passed % 1.0, through, ends))

    def among(self, instances: float) -> Changing:
        """Return the same: :meth:`times` of a lower rate are a random part."""
        del instances
        return self


def arrivals_of(requests: Requests, scv: float) -> ArrivalProcess:
    """Return how all of some requests arrive: as their traffic says, else independently with some variation [1]."""
    arrivals = requests.arrivals
    if arrivals is None:
        return Gamma(scv)
    if arrivals.gaps:
        return Recorded(tuple(map(float, arrivals.gaps)))
    if not arrivals.rates or (arrivals.is_steady and arrivals.scv == 1):
        return Gamma(float(arrivals.scv))
    return Changing(float(arrivals.scv), tuple(map(float, arrivals.rates)), arrivals.interval)


def as_poisson(requests: Requests, scv: float) -> ArrivalProcess:
    """Return arrivals that are no burstier, from which closed forms begin that are corrected by playing the others."""
    arrivals = arrivals_of(requests, scv)
    return arrivals if requests.arrivals is None else Gamma(min(arrivals.scv, 1.0))


@dataclass(frozen=True, slots=True)
class Stream:
    """Requests that arrive one after the other.

    Attributes
    ----------
    arrival : ndarray, shape (n,)
        Times of arrival, ascending [s].
    isl, osl : ndarray of int, shape (n,)
        Prompt tokens, and output tokens, at least 1 each [tokens].
    parts : sequence of Parts, optional
        What each prompt consists of, if prompts repeat what others had: all of the whole blocks of it.
    """

    arrival: Array
    isl: Counts
    osl: Counts
    parts: Sequence[Parts] | None = None

    def __post_init__(self) -> None:
        """Refuse what is no stream of requests."""
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
    """A closed loop: some clients, each of which sends its next request when its last one has ended.

    Attributes
    ----------
    clients : int
        Requests at a time, all of which are sent at once when the run begins [1].
    isl, osl : ndarray of int, shape (n,)
        Prompt tokens, and output tokens, at least 1 each, in the order in which requests are sent [tokens].
    pause_seconds : float
        From the last token of a request until the server has the client's next one, and from the beginning of the run
        until it has the first ones [s].
    parts : sequence of Parts, optional
        See :class:`Stream`.
    """

    clients: int
    isl: Counts
    osl: Counts
    pause_seconds: float = 0.0
    parts: Sequence[Parts] | None = None

    def __post_init__(self) -> None:
        """Refuse what is no closed loop."""
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
    """Every request alike."""
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
    """Draw a stream of requests, the same for the same seed.

    Parameters
    ----------
    count : int
        Requests [1].
    requests_per_second : float
        Arrivals, on average [1/s].
    isl, osl : callable
        Laws of the lengths, such as :func:`fixed`.
    arrivals : Arrivals
        How they arrive.
    seed : int
        Of the random numbers.

    Returns
    -------
    Stream
        For :func:`inference_econ.serving.simulation.events.simulate`.

    Raises
    ------
    InputError
        If a number is not allowed.
    """
    if count < 1:
        raise InputError(f"count must be at least 1 request, got {count}")
    if not (0.0 < requests_per_second < math.inf):
        raise InputError(f"requests_per_second must be a positive number, got {requests_per_second:g}")
    times, prompts, outputs = (np.random.default_rng([seed, stream]) for stream in range(3))
    return Stream(arrivals.times(count, requests_per_second, times), isl(count, prompts), osl(count, outputs))


#: What a turn takes, about, where a run begins: how many agents rest then [s].
_TURN_SECONDS = 5.0
#: Turns of a session have names up to this number [1].
_MOST_TURNS = 1 << 24


class Sent(NamedTuple):
    """A request, or what sends one."""

    at: float
    """When the server has it [s]."""
    sent: float
    """When it was sent [s]."""
    item: int | tuple[_Played, int]
    """Its number; or a session, and its turn."""


class SimulatedRequest(NamedTuple):
    """Request that a server gets."""

    isl: int
    """[tokens]"""
    osl: int
    """[tokens]"""
    before: Parts = ()
    """Parts of earlier prompts that its prompt begins with."""
    own: int = -1
    """Name of the part that it adds; -1 if nobody will have it again."""
    session: int = -1
    """Number of its session, in the order in which they begin."""


class ListedFeed:
    """Requests with listed lengths: at their times, or each when a former one of its client has ended."""

    #: Prompts that were read before the run, in the order of their last use.
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
        """Requests that are sent whatever happens; blocks of the cache have so many tokens."""
        del block_tokens
        return self._first

    def request(self, sent: Sent) -> SimulatedRequest:
        """Request as the server gets it."""
        assert isinstance(sent.item, int)
        return SimulatedRequest(*self._lengths[sent.item], () if self._parts is None else self._parts[sent.item])

    def ended(self, sent: Sent, now: float) -> Iterator[Sent]:
        """The next request of a client, if any is left."""
        del sent
        if self._sent < self.count:
            self._sent += 1
            yield Sent(now + self._pause, now, self._sent - 1)


class _Played:
    """A session under way."""

    def __init__(self, number: int, session: Session) -> None:
        self.number, self.session = number, session
        self.waits, self.left = [turn.waits for turn in session], len(session)
        #: Turns that a turn goes on with alone have one part together, which grows: named by the first of them.
        carried, self.heads = Counter(turn.carries for turn in session), list(range(len(session)))
        for turn, carries in enumerate(turn.carries for turn in session):
            if carries >= 0 and carried[carries] == 1:
                self.heads[turn] = self.heads[carries]
        #: Parts of the prompt and answer of each turn that has been sent.
        self.parts: dict[int, Parts] = {}


class SessionFeed:
    """Sessions, whose turns are sent when those that they wait for have ended."""

    def __init__(self, sessions: Sessions) -> None:
        self.count, self._sessions = sessions.count, sessions
        self._random = np.random.default_rng([sessions.seed, 8])
        self._begun, self._block = 0, 1
        #: Prompts that were read before the run, in the order of their last use.
        self.known: list[Parts] = []

    def first(self, block_tokens: int) -> Iterator[Sent]:
        """Turns of the sessions that are under way, and those that begin later whatever happens."""
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
        """The turn of a session."""
        assert isinstance(sent.item, tuple)
        played, number = sent.item
        before, own = self._say(played, number)
        return SimulatedRequest(
            played.session[number].prompt, played.session[number].answer, before, own, played.number
        )

    def ended(self, sent: Sent, now: float) -> Iterator[Sent]:
        """Turns that have waited for one; after the last of a session the next session."""
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
        """A turn that is sent now, and reaches the server when the host is through with its prompt."""
        carries, sessions = played.session[number].carries, self._sessions
        last = played.session[carries]
        said = last.prompt + last.answer if carries >= 0 else sessions.shared_tokens
        return Sent(now + sessions.pause_seconds + sessions.said_token_seconds * said, now, (played, number))

    def _under_way(self) -> Iterator[Sent]:
        """A session from a random turn on, with a random part of the pause before it to come; or one after a rest."""
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
        """Note the parts of the prompt and answer of a turn; the last token of an answer is never computed.

        Return the parts that the prompt begins with, of the turn that it carries on or what all sessions share, and the
        name of its own part.
        """
        turn, name = played.session[number], (played.number + 1) * _MOST_TURNS + played.heads[number]
        shared = ((0, self._sessions.shared_tokens // self._block),)
        before = played.parts[turn.carries] if turn.carries >= 0 else shared
        blocks = (turn.prompt + turn.answer - 1) // self._block - sum(count for _, count in before)
        played.parts[number] = joined(before, name, blocks)
        return before, name


def feed_of(requests: Stream | Loop | Sessions) -> ListedFeed | SessionFeed:
    """Return what sends some requests."""
    return SessionFeed(requests) if isinstance(requests, Sessions) else ListedFeed(requests)
