"""Prompts with cached prefixes, against a second count of the blocks, and sessions against invariants."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.errors import InputError
from inference_econ.extras.agents.sessions import SessionFeed, Sessions, draw_sessions, usual
from inference_econ.inputs import SessionSpec, Step
from inference_econ.serving.simulation import simulator
from inference_econ.serving.simulation.arrivals import Loop, Stream
from inference_econ.serving.simulation.events import KvCacheMemory, Server, StepTimes, Tier, simulate
from tests.offered import service_of

BLOCK = 4


def _server(blocks: int = 10_000, slots: int = 64, **changes: object) -> Server:
    """Return a server with 0.1 ms per prompt token and 10 ms per decode step."""
    server = Server(StepTimes(lambda *_: 0.01, lambda tokens, _: 1e-4 * tokens), slots, "chunked", 4096)
    return replace(server, cache=KvCacheMemory(blocks, BLOCK), **changes)  # type: ignore[arg-type]


def _least_recently_used(prompts: list[list[int]], room: int) -> list[int]:
    """Count the blocks that each prompt finds, one by one: those of a prompt are used in turn, the first one last."""
    memory: OrderedDict[tuple[int, ...], None] = OrderedDict()
    found = []
    for prompt in prompts:
        names = [tuple(prompt[: end + 1]) for end in range(len(prompt))]
        hits = next((place for place, name in enumerate(names) if name not in memory), len(names))
        found.append(hits)
        for name in names[:hits]:
            del memory[name]
        while len(memory) + len(names) > room:
            memory.popitem(last=False)
        memory.update(dict.fromkeys(reversed(names)))
    return found


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9), min_size=2, max_size=40), st.integers(11, 60))
def test_an_independent_cache_finds_the_same_blocks(prompts: list[list[int]], room: int) -> None:
    names: dict[tuple[int, ...], int] = {}
    parts = [
        [(names.setdefault(tuple(prompt[: end + 1]), len(names)), 1) for end in range(len(prompt))]
        for prompt in prompts
    ]
    # One token more than the blocks, which is always computed and fills a block without reuse.
    isl = np.array([BLOCK * len(prompt) + 1 for prompt in prompts])
    stream = Stream(10.0 * np.arange(len(prompts), dtype=float), isl, np.ones_like(isl), parts)
    trace = simulate(_server(room), stream, warm_up=0.0, cool_down=0.0)
    expected = _least_recently_used(prompts, room - 1)
    assert (trace.found_tokens["HBM"] // BLOCK).tolist() == expected
    assert trace.tokens_read == int(isl.sum()) - BLOCK * sum(expected)


def _chat(turns: str = "4", pause: float = 2.0, agents: int = 1, shared: int = 40) -> SessionSpec:
    step = Step(name="chat", turns=turns, new_tokens=20, answer_tokens=20, pause=pause, agents=agents)
    return SessionSpec(shared_tokens=shared, steps=[step])


def _play(spec: SessionSpec, agents: int, server: Server, count: int = 400, **choices: object):  # type: ignore[no-untyped-def]
    sessions = Sessions(draw_sessions(spec), int(spec.shared_tokens), agents, count)
    return simulate(server, sessions, warm_up=0.0, cool_down=0.0, **choices)  # type: ignore[arg-type]


@pytest.mark.parametrize("agents", [1, 3, 40])
@pytest.mark.parametrize("blocks", [60, 200, 10_000])
@pytest.mark.parametrize("router", ["round_robin", "least_busy", "prefix_aware"])
def test_prompts_are_read_or_found(agents: int, blocks: int, router: str) -> None:
    """All tokens of prompts, and the recomputed tokens of preempted requests, are computed or found."""
    trace = _play(_chat("lognormal:6:1"), agents, _server(blocks), instances=2, router=router)
    found = sum(int(tokens.sum()) for tokens in trace.found_tokens.values())
    assert np.all(sum(trace.found_tokens.values()) <= trace.known_tokens)
    if not trace.preemptions:
        assert trace.tokens_read + found == trace.prompt_tokens.sum()
    assert trace.tokens_read + found >= trace.prompt_tokens.sum()


def test_a_session_finds_all_that_was_said_in_whole_blocks() -> None:
    """40 shared tokens, then 20 of the user and 20 of the output per turn; its last token is not computed."""
    trace = _play(_chat(), 1, _server(), count=40)
    whole = trace.sessions == 5
    assert trace.found_tokens["HBM"][whole].tolist() == [40, 76, 116, 156]
    assert trace.known_tokens[whole].tolist() == [40, 76, 116, 156]
    # One session at once: 24 new tokens, 19 further steps, 2 s of pause.
    assert trace.ttft[whole][1:] == pytest.approx(1e-4 * 24)
    assert np.diff(trace.arrival[whole]) == pytest.approx(1e-4 * 24 + 19 * 0.01 + 2.0, abs=1e-3)


def test_hits_fall_and_waits_grow_with_the_number_of_agents() -> None:
    traces = [_play(_chat("10", pause=1.0), agents, _server(600), count=2000) for agents in (2, 8, 32, 64)]
    hits, ttft = [trace.hit_rates["HBM"] for trace in traces], [float(trace.ttft.mean()) for trace in traces]
    assert hits == sorted(hits, reverse=True) and hits[0] > 0.8 > 0.5 > hits[-1]
    assert ttft == sorted(ttft)


def test_what_memory_loses_is_brought_back_from_the_one_behind_it() -> None:
    """Without decode, a prompt waits for its blocks, 10 ms each, and those of earlier prompts."""
    tier = Tier("host", 10_000, 0.01, 0.5)
    without, behind = (_play(_chat("10", pause=1.0), 32, _server(600, tiers=it), count=2000) for it in ((), (tier,)))
    assert sum(behind.hit_rates.values()) > 0.8 > without.hit_rates["HBM"]
    assert behind.found_tokens["host"].sum() > 0
    loading = behind.found_tokens["host"] > 0
    least = 0.5 + 0.01 * behind.found_tokens["host"][loading] / BLOCK
    assert (behind.ttft[loading] >= least).all() and behind.ttft[~loading].min() < 0.5


def test_a_router_that_follows_prefixes_finds_more() -> None:
    hits = {
        router: _play(_chat("10", pause=1.0), 16, _server(400), count=2000, instances=4, router=router).hit_rates["HBM"]
        for router in ("round_robin", "least_busy", "prefix_aware")
    }
    assert hits["prefix_aware"] > 1.2 * max(hits["round_robin"], hits["least_busy"])
    with pytest.raises(InputError, match="a router one of round_robin, least_busy, prefix_aware, got 1 and 'nearest'"):
        simulate(_server(), Sessions((), 0, 1, 10), router="nearest")  # type: ignore[arg-type]


def test_turns_that_go_on_alone_are_one_part_of_a_prompt() -> None:
    """The last of 100 turns starts with the shared prefix and its session's tokens, like the second."""
    feed = SessionFeed(Sessions(draw_sessions(_chat("100")), 40, 1, 300))
    (sent,) = feed.first(BLOCK)
    for _ in range(250):
        assert len(feed.request(sent).before) <= 2
        (sent,) = feed.ended(sent, 1.0)


def test_the_host_takes_longer_for_what_was_said_before() -> None:
    """Turns have 40, 80, .. earlier tokens, for a single agent; traces are in order of submission."""
    work = Sessions(draw_sessions(_chat()), 40, 1, 400)
    plain, more = (simulate(_server(), replace(work, said_token_seconds=each)) for each in (0.0, 1e-3))
    said = more.known_tokens
    assert np.ptp(said) > 0
    assert more.ttft - plain.ttft == pytest.approx(1e-3 * said, abs=1.1e-3 * BLOCK)
    many = simulate(_server(), replace(work, under_way=20, said_token_seconds=1e-3))
    assert (np.diff(many.arrival) >= 0.0).all()


def test_agents_side_by_side_wait_for_each_other() -> None:
    """A plan of 10 tokens, three agents of two turns each, and a report that continues the plan."""
    plan = Step(name="plan", new_tokens=100, answer_tokens=11)
    search = Step(name="search", after=["plan"], turns=2, new_tokens=50, answer_tokens=21, agents=3, pause=1.0)
    report = Step(name="report", after=["plan", "search"], continues="plan", new_tokens=30, answer_tokens=5)
    (session, *_) = draw_sessions(SessionSpec(shared_tokens=8, steps=[plan, search, report]))
    assert [turn.prompt for turn in session] == [108, *[58, 129] * 3, 149]
    assert [turn.waits for turn in session] == [0, *[1] * 6, 4]
    means = usual([session], 8)
    assert (means.turns, means.side_by_side, means.pause_seconds) == (8, 2.0, 0.5)
    assert means.known.tolist() == [8, *[8, 79] * 3, 119]
    trace = simulate(_server(), Sessions([session], 8, 1, 80), warm_up=0.5, cool_down=0.0)
    whole = trace.sessions == trace.sessions[20]
    sent, ended = trace.arrival[whole], (trace.arrival + trace.e2e)[whole]
    assert sent[1] == sent[2] == sent[3] == pytest.approx(ended[0] + 1.0)
    assert sent[-1] == ended[:-1].max()


@cache
def _without_reuse(agents: int):  # type: ignore[no-untyped-def]
    service = service_of(isl="2000", osl="300")
    spec = SessionSpec(steps=[Step(name="batch", new_tokens=2000, answer_tokens=300)], rest=20.0)
    server = simulator.server(service, np.array([2000]), slots=min(agents, service.slots))
    sessions = Sessions(draw_sessions(spec), 0, agents, 3000, rest_seconds=20.0)
    return service, simulator.play(service, server, sessions, warm_up=0.2)


@pytest.mark.parametrize("agents", [40, 120])
def test_sessions_without_reuse_agree_with_closed_forms(agents: int) -> None:
    """Little's law with a pause: agents = requests/s x (pause + latency), at the steady state of the concurrency."""
    service, trace = _without_reuse(agents)
    state = service.at(trace.in_flight)
    assert trace.requests_per_second == pytest.approx(agents / (20.0 + trace.e2e.mean()), rel=0.02)
    assert trace.tpot.mean() == pytest.approx(float(state.tpot_seconds), rel=0.05)
    assert trace.hit_rates["HBM"] == 0.0


def test_a_loop_of_one_turn_sessions_is_a_closed_loop() -> None:
    spec = SessionSpec(steps=[Step(name="once", new_tokens=20, answer_tokens=20)])
    ours = _play(spec, 8, _server(), count=200)
    loop = simulate(_server(), Loop(8, np.full(200, 20), np.full(200, 20)), warm_up=0.0, cool_down=0.0)
    assert ours.e2e.tolist() == pytest.approx(loop.e2e.tolist())


@pytest.mark.parametrize("turns", [1, 10])
def test_lengths_have_the_mean_of_their_distribution(turns: int) -> None:
    """The sampler draws two hundred single turns together; independent draws would move their mean by 7% and more."""
    step = Step(name="chat", turns=turns, new_tokens="lognormal:520:1", answer_tokens="lognormal:300:1")
    drawn = draw_sessions(SessionSpec(shared_tokens=40, steps=[step]))
    assert np.mean([turn.answer for session in drawn for turn in session]) == pytest.approx(300, rel=0.01)
    assert np.mean([session[0].prompt for session in drawn]) == pytest.approx(560, rel=0.01 if turns == 1 else 0.2)


def test_ten_thousand_requests_of_open_sessions_begin_at_their_rate() -> None:
    sessions = Sessions(draw_sessions(_chat()), 40, 5, 10_000, sessions_per_second=1.0)
    trace = simulate(_server(), sessions)
    assert trace.requests_per_second == pytest.approx(4.0, rel=0.05)
    with pytest.raises(InputError, match="at least 1 agent or a positive rate, got 0 agents"):
        replace(sessions, under_way=0, sessions_per_second=0.0)


def test_agents_rest_between_sessions_from_the_beginning() -> None:
    """Ten minutes of rest, and four turns with 2 s between them: a session every 607 s for each of 500."""
    spec = SessionSpec(steps=[Step(name="chat", turns=4, new_tokens=20, answer_tokens=20, pause=2)], rest=600)
    sessions = Sessions(draw_sessions(spec), 0, 500, 4000, rest_seconds=600.0)
    trace = simulate(_server(), sessions, warm_up=0.1)
    assert trace.requests_per_second == pytest.approx(4 * 500 / (600 + 3 * 2 + 4 * 0.19), rel=0.08)
