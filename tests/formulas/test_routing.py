"""Conversations on one or several replicas with caches, against simulated conversations."""

from __future__ import annotations

import heapq
from collections import OrderedDict

import numpy as np
import pytest

from inference_econ.errors import InputError
from inference_econ.formulas import prefix_cache, routing
from inference_econ.formulas.prefix_cache import ConversationShape

TURNS, USER, ANSWER, SYSTEM, THINK, RATE = 6, 100, 300, 500, 50.0, 10.0
TALK = ConversationShape(TURNS, USER, ANSWER, think_seconds=THINK)
WITH_SYSTEM = TALK._replace(system_tokens=SYSTEM)


def play(replicas: int, routed: str, lifetime: float = np.inf, room: float = np.inf) -> tuple[float, float]:
    """Simulate tokens found per prompt and mean tokens stored per replica, one event after the other.

    Every replica has the same rate of turns. Round robin assigns all requests in order of arrival. A prefix-aware
    router sends a conversation to its first replica. The first quarter, in which caches fill, is excluded.
    """
    random = np.random.default_rng(7)
    starts = np.cumsum(random.exponential(TURNS / (RATE * replicas), 6_000 * replicas))
    begin, end = float(starts[-1]) / 4, float(starts[-1])
    events = [(float(start), conversation, 1) for conversation, start in enumerate(starts)]
    heapq.heapify(events)
    kept: list[OrderedDict[int, tuple[float, int]]] = [OrderedDict() for _ in range(replicas)]
    stored = [0.0] * replicas
    area = cached = 0.0
    prompts = dealt = 0

    def leave(replica: int, conversation: int, until: float) -> int:
        """Remove an entry, add its stored tokens times seconds, and return its tokens."""
        nonlocal area
        since, size = kept[replica].pop(conversation)
        stored[replica] -= size
        area += size * max(until - max(since, begin), 0.0)
        return size

    while (event := heapq.heappop(events))[0] < end:
        now, conversation, turn = event
        replica = dealt % replicas if routed == "round_robin" else conversation % replicas
        dealt += 1
        holding = kept[replica]
        while holding and next(iter(holding.values()))[0] + lifetime < now:
            oldest = next(iter(holding))
            leave(replica, oldest, holding[oldest][0] + lifetime)
        found = leave(replica, conversation, now) if conversation in holding else 0
        if now > begin:
            cached, prompts = cached + found + SYSTEM, prompts + 1
        size = turn * (USER + ANSWER)
        holding[conversation] = (now, size)
        stored[replica] += size
        while stored[replica] > room:
            leave(replica, next(iter(holding)), now)
        if turn < TURNS:
            heapq.heappush(events, (now + float(random.exponential(THINK)), conversation, turn + 1))
    for replica, holding in enumerate(kept):
        for conversation in list(holding):
            leave(replica, conversation, min(holding[conversation][0] + lifetime, end))
    return cached / prompts, area / (end - begin) / replicas


@pytest.mark.parametrize(("replicas", "lifetime"), [(2, 60.0), (4, 60.0), (4, 400.0), (8, 200.0)])
def test_what_is_found_and_stored_is_that_of_conversations_that_are_played(replicas: int, lifetime: float) -> None:
    cached, stored = play(replicas, "round_robin", lifetime)
    found = routing.scattered_turns(WITH_SYSTEM, replicas, lifetime)
    assert float(found.cached) == pytest.approx(cached, rel=0.02)
    tokens = routing.scattered_tokens(TALK, RATE, replicas, lifetime)
    assert tokens == pytest.approx(stored, rel=0.03)


def returned(lifetime: float) -> float:
    """Return the tokens that a prompt finds in a single cache, by a formula."""
    back = prefix_cache.returning(lifetime, THINK)
    return float(prefix_cache.turns(WITH_SYSTEM, back).cached)


@pytest.mark.parametrize(("replicas", "lifetime"), [(1, 10.0), (1, 60.0), (1, 400.0), (2, 60.0), (8, 60.0)])
def test_a_router_that_follows_prefixes_finds_what_one_replica_finds(replicas: int, lifetime: float) -> None:
    cached, stored = play(replicas, "prefix_aware", lifetime)
    assert returned(lifetime) == pytest.approx(cached, rel=0.02)
    expected = prefix_cache.stored_tokens(TALK, RATE, lifetime)
    assert float(expected) == pytest.approx(stored, rel=0.03)


@pytest.mark.parametrize(("replicas", "room"), [(1, 1e5), (1, 3e5), (1, 1e6), (2, 3e5), (4, 3e5), (4, 1e6)])
def test_a_short_room_keeps_entries_for_the_characteristic_time(replicas: int, room: float) -> None:
    cached, _ = play(replicas, "round_robin", room=room)
    if replicas == 1:
        lifetime = float(prefix_cache.lifetime_that_fits(TALK, RATE, room))
        assert returned(lifetime) == pytest.approx(cached, rel=0.03)
    lifetime = routing.scattered_lifetime(TALK, RATE, replicas, room)
    found = routing.scattered_turns(WITH_SYSTEM, replicas, lifetime)
    assert float(found.cached) == pytest.approx(cached, rel=0.04)


def test_one_replica_is_the_closed_form() -> None:
    for lifetime in (1.0, 60.0, 1e4):
        found = routing.scattered_turns(WITH_SYSTEM, 1, lifetime)
        back = prefix_cache.returning(lifetime, THINK)
        alone = prefix_cache.turns(WITH_SYSTEM, back)
        assert [float(one) for one in found] == pytest.approx([float(one) for one in alone])
        tokens = routing.scattered_tokens(WITH_SYSTEM, RATE, 1, lifetime)
        assert tokens == pytest.approx(float(prefix_cache.stored_tokens(WITH_SYSTEM, RATE, lifetime)))
        again = routing.scattered_lifetime(WITH_SYSTEM, RATE, 1, tokens)
        assert again == pytest.approx(lifetime)


def test_the_lifetime_that_fits_is_the_inverse_of_what_is_stored() -> None:
    lifetimes = np.array([1.0, 30.0, 600.0, 1e5])
    room = prefix_cache.stored_tokens(WITH_SYSTEM, RATE, lifetimes)
    assert prefix_cache.lifetime_that_fits(WITH_SYSTEM, RATE, room) == pytest.approx(lifetimes)
    assert float(prefix_cache.lifetime_that_fits(WITH_SYSTEM, RATE, SYSTEM / 2)) == 0.0


def test_more_replicas_find_less_in_the_same_time() -> None:
    found = [float(routing.scattered_turns(TALK, count, 300.0).cached) for count in (1, 2, 4, 64)]
    assert found == sorted(found, reverse=True)
    assert found[-1] < 0.05 * found[0]
    room = [routing.scattered_lifetime(TALK, RATE, count, 1e6) for count in (1, 2, 4)]
    assert room == sorted(room, reverse=True)


def test_limits() -> None:
    only = routing.scattered_turns(WITH_SYSTEM._replace(turns=1), 4, 9.0)
    assert [float(one) for one in only] == [SYSTEM + USER, SYSTEM, SYSTEM]
    assert routing.scattered_lifetime(ConversationShape(3, 100, 100, 200.0, 9.0), 1.0, 2, 100.0) == 0.0
    assert prefix_cache.returning(np.inf, 1.0) == 1.0
    assert prefix_cache.turns(TALK, returning=0.0).cached == 0.0


@pytest.mark.rows
def test_parts_of_turns_and_replicas_are_refused(count: float, replicas: int, message: str) -> None:
    with pytest.raises(InputError) as caught:
        routing.scattered_turns(TALK._replace(turns=count), replicas, 9.0)
    assert str(caught.value) == message
