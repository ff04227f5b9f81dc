"""Sessions that are played: turns that begin when others have ended, and whose prompts carry on what was said."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from inference_econ._types import Array
from inference_econ.errors import InputError
from inference_econ.inputs import Length, SessionSpec, Step
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
    turns = [(turn, _carried(session, turn, shared_tokens)) for session in drawn for turn in session]
    prompts, answers, known = np.array([(turn.prompt, turn.answer, carried) for turn, carried in turns], dtype=float).T
    ways = [_longest_way(session) for session in drawn]
    on_the_way = sum(turns for turns, _ in ways)
    return Usual(
        prompts.size / len(drawn), sum(pauses for _, pauses in ways) / on_the_way, prompts.size / on_the_way,
        prompts, answers, known,
    )  # fmt: skip


def _carried(session: Session, turn: Turn, shared_tokens: float) -> float:
    """Tokens of a prompt that were there before it."""
    if turn.carries < 0:
        return shared_tokens
    before = session[turn.carries]
    return before.prompt + before.answer


def _longest_way(session: Session) -> tuple[int, float]:
    """Turns of the longest chain of turns that wait for each other, and the pauses in it [s]."""
    ways = [(0, 0.0)] * len(session)
    for number, turn in enumerate(session):
        turns, pauses = ways[number]
        ways[number] = (turns + 1, pauses + turn.pause)
        for follower in turn.followers:
            ways[follower] = max(ways[follower], ways[number])
    return max(ways)
