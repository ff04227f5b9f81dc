"""Feeds that send requests to servers while they are played: a stream, a closed loop, sessions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from inference_econ.serving.simulation.arrivals import Loop, Stream
from inference_econ.serving.simulation.prefixes import Parts, joined
from inference_econ.serving.simulation.sessions import Session, Sessions

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


class Request(NamedTuple):
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


class Feed(ABC):
    """A source of requests."""

    count: int

    @abstractmethod
    def first(self, block_tokens: int) -> Iterable[Sent]:
        """Requests that are sent whatever happens; blocks of the cache have so many tokens."""

    @abstractmethod
    def request(self, sent: Sent) -> Request:
        """Request as the server gets it."""

    def ended(self, sent: Sent, now: float) -> Iterable[Sent]:  # noqa: ARG002
        """Requests that are sent because one has ended."""
        return ()

    def known(self) -> Iterable[Parts]:
        """Prompts that were read before the run, in the order of their last use."""
        return ()


class _ListedFeed(Feed):
    """Requests whose lengths are listed, by their numbers."""

    def __init__(self, requests: Stream | Loop) -> None:
        self.count, self._parts = requests.isl.size, requests.parts
        self._lengths = list(zip(requests.isl.tolist(), requests.osl.tolist(), strict=True))

    def request(self, sent: Sent) -> Request:
        """The one of a number."""
        assert isinstance(sent.item, int)
        return Request(*self._lengths[sent.item], () if self._parts is None else self._parts[sent.item])


class StreamFeed(_ListedFeed):
    """Requests at times of their own."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self._arrival: list[float] = stream.arrival.tolist()

    def first(self, block_tokens: int) -> Iterator[Sent]:
        """All of them."""
        del block_tokens
        return (Sent(time, time, number) for number, time in enumerate(self._arrival))


class LoopFeed(_ListedFeed):
    """Clients, each of which sends its next request when its last one has ended."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(loop)
        self._pause, self._sent = loop.pause_seconds, min(loop.clients, self.count)

    def first(self, block_tokens: int) -> Iterator[Sent]:
        """One of each client."""
        del block_tokens
        return (Sent(self._pause, 0.0, number) for number in range(self._sent))

    def ended(self, sent: Sent, now: float) -> Iterator[Sent]:
        """The next one, if any is left."""
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


class SessionFeed(Feed):
    """Sessions, whose turns are sent when those that they wait for have ended."""

    def __init__(self, sessions: Sessions) -> None:
        self.count, self._sessions = sessions.count, sessions
        self._random = np.random.default_rng([sessions.seed, 8])
        self._begun, self._block = 0, 1
        self._known: list[Parts] = []

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

    def request(self, sent: Sent) -> Request:
        """The turn of a session."""
        assert isinstance(sent.item, tuple)
        played, number = sent.item
        turn = played.session[number]
        before = self._before(played, turn.carries)
        self._say(played, number, before)
        return Request(turn.prompt, turn.answer, before, self._name(played, number), played.number)

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

    def known(self) -> Iterable[Parts]:
        """Return the prompts that were read before the run."""
        return self._known

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
            self._say(played, number, self._before(played, played.session[number].carries))
            played.left -= 1
            for follower in played.session[number].followers:
                played.waits[follower] -= 1
        if start:
            self._known.append(played.parts[start - 1])
        for number in range(start, len(played.session)):
            if not played.waits[number]:
                pause = played.session[number].pause * float(self._random.random())
                yield self._turn(played, number, pause)

    def _before(self, played: _Played, carries: int) -> Parts:
        """Parts that a prompt begins with: of the turn that it carries on, or what all sessions share."""
        if carries >= 0:
            return played.parts[carries]
        return ((0, self._sessions.shared_tokens // self._block),)

    def _say(self, played: _Played, number: int, before: Parts) -> None:
        """Note the parts of the prompt and answer of a turn; the last token of an answer is never computed."""
        turn = played.session[number]
        blocks = (turn.prompt + turn.answer - 1) // self._block - sum(count for _, count in before)
        played.parts[number] = joined(before, self._name(played, number), blocks)

    def _name(self, played: _Played, number: int) -> int:
        return (played.number + 1) * _MOST_TURNS + played.heads[number]


def feed_of(requests: Stream | Loop | Sessions) -> Feed:
    """Return what sends some requests."""
    if isinstance(requests, Stream):
        return StreamFeed(requests)
    return LoopFeed(requests) if isinstance(requests, Loop) else SessionFeed(requests)
