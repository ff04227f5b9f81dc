"""Sessions of agents and users as requests of a simulation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from inference_econ._types import Array
from inference_econ.engine import Setup
from inference_econ.errors import InputError
from inference_econ.inputs import Length, SessionSpec, Step
from inference_econ.serving import levels, quantiles
from inference_econ.serving.simulation.arrivals import Parts, Sent, SimulatedRequest, joined

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

    def feed(self) -> SessionFeed:
        """Create the source of the turns."""
        return SessionFeed(self)

    def delayed(self, setup: Setup, cached: float) -> Self:
        """Add the CPU time of a request to the pauses; it depends on the earlier tokens of each turn."""
        del cached
        host = setup.assumptions.host
        pause = self.pause_seconds + host.request_overhead
        return replace(self, pause_seconds=pause, said_token_seconds=host.cached_token_overhead)


def draw_sessions(spec: SessionSpec) -> tuple[Session, ...]:
    """Sample sessions that represent a workload; the sample is the same each time.

    Parameters
    ----------
    spec : SessionSpec
        Structure of a session.

    Returns
    -------
    tuple of Session
        Up to some hundreds of sessions; fewer if sessions are long. The numbers of turns are quantiles of their
        distribution in random order. Lengths are stratified samples: over the turns of each session, or over all
        sessions if a session has one turn. With few turns per session, sample means deviate by about 5%.
    """
    random = np.random.default_rng([0, 7])
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


#: Assumed duration of a turn [s], which determines how many agents are between two sessions at the start of a run.
_TURN_SECONDS = 5.0
#: Maximum number of turns per session [1], which keeps the names of runs of cache blocks unique.
_MOST_TURNS = 1 << 24


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
