"""Conversations and their cache: against conversations that are played, and bad input."""

from __future__ import annotations

import heapq
from collections import OrderedDict

import numpy as np
import pytest

from inference_econ.formulas import prefix_cache

TURNS, USER, ANSWER, SYSTEM, THINK, RATE = 4, 100, 300, 500, 50.0, 20.0


def play(lifetime: float, room: float) -> tuple[float, float]:
    """Tokens found per prompt, and tokens stored on average, of conversations one event after the other.

    Answers take no time. An entry is dropped after a lifetime, or as the least recently used one if room is short.
    The first quarter, in which the cache fills, does not count.
    """
    random = np.random.default_rng(11)
    starts = np.cumsum(random.exponential(TURNS / RATE, 30_000))
    begin = float(starts[-1]) / 4
    events = [(float(start), conversation, 1) for conversation, start in enumerate(starts)]
    heapq.heapify(events)
    kept: OrderedDict[int, tuple[float, int]] = OrderedDict()
    stored = area = cached = 0.0
    prompts, last = 0, 0.0

    def advance(now: float) -> None:
        nonlocal area, last
        area, last = area + stored * max(now - max(last, begin), 0.0), now

    while (event := heapq.heappop(events))[0] < starts[-1]:
        now, conversation, turn = event
        while kept and next(iter(kept.values()))[0] + lifetime < now:
            since, size = kept.popitem(last=False)[1]
            advance(since + lifetime)
            stored -= size
        advance(now)
        found = kept.pop(conversation, (0.0, 0))[1]
        stored -= found
        if now > begin:
            cached, prompts = cached + found + SYSTEM, prompts + 1
        size = turn * (USER + ANSWER)
        kept[conversation], stored = (now, size), stored + size
        while stored > room:
            stored -= kept.popitem(last=False)[1][1]
        if turn < TURNS:
            heapq.heappush(events, (now + float(random.exponential(THINK)), conversation, turn + 1))
    return cached / prompts, area / (last - begin)


@pytest.mark.parametrize("lifetime", [10.0, 60.0, 400.0])
def test_tokens_found_and_stored_are_those_of_conversations_that_are_played(lifetime: float) -> None:
    cached, stored = play(lifetime, np.inf)
    mean = prefix_cache.turns(
        TURNS, USER, ANSWER, system_tokens=SYSTEM, returning=prefix_cache.returning(lifetime, THINK)
    )
    assert float(mean.cached) == pytest.approx(cached, rel=0.02)
    expected = prefix_cache.stored_tokens(RATE, TURNS, USER, ANSWER, lifetime_seconds=lifetime, think_seconds=THINK)
    assert float(expected) == pytest.approx(stored, rel=0.06)


@pytest.mark.parametrize("room", [2e5, 6e5, 2e6])
def test_a_short_room_keeps_entries_for_the_characteristic_time(room: float) -> None:
    cached, _ = play(np.inf, room)
    lifetime = prefix_cache.lifetime_that_fits(room, RATE, TURNS, USER, ANSWER, think_seconds=THINK)
    found = prefix_cache.turns(
        TURNS, USER, ANSWER, system_tokens=SYSTEM, returning=prefix_cache.returning(lifetime, THINK)
    )
    assert float(found.cached) == pytest.approx(cached, rel=0.03)


def test_the_lifetime_that_fits_is_the_inverse_of_what_is_stored() -> None:
    lifetimes = np.array([1.0, 30.0, 600.0, 1e5])
    room = prefix_cache.stored_tokens(
        RATE, TURNS, USER, ANSWER, lifetime_seconds=lifetimes, think_seconds=THINK, system_tokens=SYSTEM
    )
    found = prefix_cache.lifetime_that_fits(room, RATE, TURNS, USER, ANSWER, think_seconds=THINK, system_tokens=SYSTEM)
    assert found == pytest.approx(lifetimes)
    nothing = prefix_cache.lifetime_that_fits(
        SYSTEM / 2, RATE, TURNS, USER, ANSWER, think_seconds=THINK, system_tokens=SYSTEM
    )
    assert float(nothing) == 0.0


def test_limits() -> None:
    only = prefix_cache.turns(1, USER, ANSWER, system_tokens=SYSTEM)
    assert [float(one) for one in only] == [SYSTEM + USER, SYSTEM, SYSTEM]
    assert prefix_cache.returning(np.inf, 1.0) == 1.0
    assert prefix_cache.turns(3, USER, ANSWER, returning=0.0).cached == 0.0
