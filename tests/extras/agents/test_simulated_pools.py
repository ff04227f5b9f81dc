"""Simulated prefill and decode instances: against times by hand, and cache hits of sessions."""

from __future__ import annotations

import numpy as np
import pytest

from inference_econ.errors import InputError
from inference_econ.extras.agents.sessions import Sessions, Turn
from inference_econ.extras.agents.simulated_pools import Writing, simulate_apart
from inference_econ.serving.simulation.arrivals import Loop, Stream
from inference_econ.serving.simulation.events import KvCacheMemory, Server, StepTimes, simulate

#: A millisecond per token of a prompt, and ten per step however many decode.
_SERVER = Server(StepTimes(lambda batch, context: 0.01, lambda tokens, cached: 1e-3 * tokens), slots=8, chunk=10_000)  # noqa: ARG005


def _caching(blocks: int = 10_000) -> Server:
    return Server(
        StepTimes(_SERVER.times.decode_step_seconds, _SERVER.times.prefill_seconds),
        slots=8,
        chunk=10_000,
        cache=KvCacheMemory(blocks, block_tokens=10),
    )


def test_one_request_takes_what_each_part_of_its_way_takes() -> None:
    """0.1 s to process 100 tokens, 0.02 s to transfer a prompt of 50, 10 ms for each of 4 tokens after the first."""
    stream = Stream(np.array([0.0, 10.0]), np.array([100, 100]), np.array([5, 5]))
    writing = Writing(_SERVER, 1, prompt_tokens=50.0, exposed_seconds=0.02)
    trace = simulate_apart(_SERVER, writing, stream, warm_up=0.0, cool_down=0.0)
    assert trace.ttft == pytest.approx([0.14, 0.14]) and trace.tpot == pytest.approx([0.01, 0.01])


def test_links_carry_one_cache_after_the_other() -> None:
    """Two prompts of one prefill instance that arrive together leave in turn; two instances also share one link."""
    stream = Stream(np.array([0.0, 0.0]), np.array([100, 100]), np.array([2, 2]))
    fast = Server(StepTimes(_SERVER.times.decode_step_seconds, lambda tokens, cached: 0.0), slots=8, chunk=10_000)  # noqa: ARG005
    for kind, readers in (("sending_seconds", 1), ("receiving_seconds", 2)):
        writing = Writing(_SERVER, 2 if readers == 1 else 1, prompt_tokens=100.0, **{kind: 0.5})
        trace = simulate_apart(fast, writing, stream, warm_up=0.0, cool_down=0.0, instances=readers)
        assert sorted(trace.ttft) == pytest.approx([0.5, 1.0], abs=0.011), kind


def test_decoding_waits_for_no_prompt() -> None:
    """In a closed loop with long prompts, decode steps are as short as without prefill."""
    loop = Loop(4, np.full(400, 300), 10 + np.arange(400) % 23)
    apart = simulate_apart(_SERVER, Writing(_SERVER, 1, prompt_tokens=300.0), loop, instances=2)
    both = simulate(_SERVER, loop, instances=1)
    assert np.max(apart.tpot) == pytest.approx(0.01, rel=0.06) and np.mean(both.tpot) > 0.02
    # Little's law: four are in it all the time.
    assert apart.requests_per_second * np.mean(apart.e2e) == pytest.approx(4.0, rel=0.03)


def _sessions(count: int = 60) -> Sessions:
    """Return two turns: a prompt of 100 tokens, and one of 160 that starts with it and its output of 40."""
    turns = (Turn(100, 40, -1, 0, (1,), 0.0), Turn(160, 40, 0, 1, (), 0.1))
    return Sessions([turns], 0, 1, count)


def test_answers_are_read_again() -> None:
    together = simulate(_caching(), _sessions(), warm_up=0.2)
    apart = simulate_apart(_caching(), Writing(_caching(), 1, prompt_tokens=130.0), _sessions(), warm_up=0.2)
    second = apart.prompt_tokens == 160
    assert set(apart.found_tokens["HBM"][second]) == {100} and not apart.found_tokens["HBM"][~second].any()
    # The last token of an output is written before its cache arrives.
    assert set(together.found_tokens["HBM"][second]) == {130}
    for trace, found in ((apart, 100), (together, 130)):
        assert trace.tokens_read == 30 * (100 + 160 - found)


def test_readers_forget_what_has_no_room() -> None:
    """With memory for one prompt, the other agent's prompt replaces the first turn."""
    work = Sessions(_sessions().drawn, 0, 2, 60)
    small = simulate_apart(_caching(17), Writing(_caching(), 1, prompt_tokens=130.0), work)
    large = simulate_apart(_caching(), Writing(_caching(), 1, prompt_tokens=130.0), work)
    assert small.hit_rates["HBM"] < 0.6 * large.hit_rates["HBM"]


def test_what_decoding_has_no_room_for_is_read_again_there() -> None:
    """Two outputs grow past the memory: one request is preempted, and both end."""
    stream = Stream(np.array([0.0, 0.0, 50.0]), np.full(3, 50), np.full(3, 100))
    writing = Writing(_caching(20), 1, prompt_tokens=50.0)
    trace = simulate_apart(_caching(), writing, stream, warm_up=0.0, cool_down=0.0)
    assert trace.preemptions and np.isfinite(trace.e2e).all()
    assert trace.tokens_read > 150


def test_there_are_instances_of_both_kinds() -> None:
    with pytest.raises(InputError, match="decode instances must be at least 1, got 0"):
        Writing(_SERVER, 0, prompt_tokens=1.0)
    with pytest.raises(InputError, match="read must be at least 1, got 0"):
        simulate_apart(_SERVER, Writing(_SERVER, 1, prompt_tokens=1.0), _sessions(), instances=0)
