"""Steps with contexts of different lengths: sums by hand, windows, and groups that wait."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_econ.answers.explain import explain
from inference_econ.answers.layout_services import decode_frontier
from inference_econ.engine import Pins, Plans, Setup, Space, evaluate, mean_context
from inference_econ.engine.operators.work import Contexts, fullest_tokens
from inference_econ.errors import InputError
from inference_econ.inputs import Traffic
from tests.planned import plan_of
from tests.reading import scalar

#: Llama 3 8B: keys and values of a token in 32 layers [B].
TOKEN = 32 * 2 * 8 * 128 * 2.0
MIX: Contexts = ((500.0, 16), (32000.0, 2))


def _setup(model: str, contexts: Contexts, *changes: str) -> Setup:
    setup = Setup.of(model, "h100_sxm", assumptions="deployable", changes=("assumptions.attention.scores={}", *changes))
    return replace(setup, context=mean_context(contexts), contexts=contexts)


def _read(setup: Setup, plan: Plans, name: str = "attention") -> float:
    """Return the cache that one chip reads for one occurrence of a row [B]."""
    work = setup.work(plan)
    row = next(row for row in work.operators if row.name == name)
    return scalar(np.asarray(row.kv_bytes_per_sequence * work.sequences_of(row) * row.repeats))


def test_reads_and_room_by_hand() -> None:
    setup = _setup("llama_3_8b", MIX)
    assert _read(setup, plan_of(batch=18.0)) == pytest.approx((16 * 500 + 2 * 32000) * TOKEN, rel=1e-12)
    # Full blocks of 16 tokens: 500 need 512.
    held = scalar(setup.memory(plan_of(batch=18.0)).kv_bytes)
    assert held == pytest.approx((16 * 512 + 2 * 32000) * TOKEN, rel=1e-12)
    taken = setup.memory_of_one_accelerator(plan_of(batch=18.0))
    assert taken["kv_cache"] == pytest.approx(held, rel=1e-12)
    assert sum(taken.values()) == pytest.approx(setup.hardware.hbm_bytes, rel=1e-12)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.integers(1, 50000), st.integers(1, 20)), min_size=1, max_size=4))
def test_attention_is_linear_so_that_the_mean_tells_it(mix: list[tuple[int, int]]) -> None:
    contexts = tuple((float(length), count) for length, count in mix)
    plan = plan_of(batch=float(sum(count for _, count in mix)))
    mixed = _setup("llama_3_8b", contexts)
    mean = replace(mixed, contexts=())
    assert scalar(evaluate(mixed, plan, "1d").seconds) == pytest.approx(
        scalar(evaluate(mean, plan, "1d").seconds), rel=1e-9
    )


def test_windows_end_long_contexts_only() -> None:
    """With 16 sequences of 100 tokens and 2 of 20,000, a window has 16 x 100 + 2 x 128; the mean gives 128 each."""
    contexts: Contexts = ((100.0, 16), (20000.0, 2))
    setup = _setup("gpt_oss_120b", contexts)
    token, name = 18 * 2 * 8 * 64 * 2.0, "attention (last 128)"
    assert _read(setup, plan_of(batch=18.0), name) == pytest.approx((16 * 100 + 2 * 128) * token, rel=1e-12)
    assert _read(replace(setup, contexts=()), plan_of(batch=18.0), name) == pytest.approx(18 * 128 * token, rel=1e-12)


def test_a_group_with_a_long_sequence_is_waited_for() -> None:
    """With four groups and two long sequences, one group has a sequence of 32,000 tokens and none of 500; another has 9
    short ones.
    """
    contexts: Contexts = ((500.0, 18), (32000.0, 2))
    assert fullest_tokens(contexts, 4) == pytest.approx(32000 / 5 / 3650, rel=1e-12)
    setup = _setup("llama_3_8b", contexts)
    assert _read(setup, plan_of(dp=4.0, batch=20.0)) == pytest.approx(32000 * TOKEN, rel=1e-12)
    assert _read(replace(setup, contexts=()), plan_of(dp=4.0, batch=20.0)) == pytest.approx(5 * 3650 * TOKEN, rel=1e-12)
    assert fullest_tokens(contexts, 1) == 1.0
    assert fullest_tokens(((700.0, 8),), 4) == 1.0


def test_equal_contexts_are_one_context() -> None:
    mixed = explain(Setup.of("llama_3_70b", "h100_sxm"), Pins(tp=8), contexts=((3000.0, 8), (3000.0, 24)))
    plain = explain(Setup.of("llama_3_70b", "h100_sxm"), Pins(tp=8, batch=32), context=3000)
    assert mixed.seconds == pytest.approx(plain.seconds, rel=1e-12)
    assert mixed.beside_seconds == pytest.approx(plain.seconds, rel=1e-12)
    assert mixed.batch == 32


def test_a_prefix_in_common_is_read_once_of_a_mix_as_well() -> None:
    setup = replace(_setup("llama_3_8b", MIX, "assumptions.attention.shared_prefix=once"), shared_prefix=400.0)
    work = setup.work(plan_of(batch=18.0))
    row = next(row for row in work.operators if row.name == "attention")
    own = scalar(np.asarray(row.kv_bytes_per_sequence * work.sequences * row.repeats))
    assert own == pytest.approx((16 * 100 + 2 * 31600) * TOKEN, rel=1e-12)
    assert scalar(np.asarray(row.shared_kv_bytes * row.repeats)) == pytest.approx(400 * TOKEN, rel=1e-12)


@pytest.mark.rows
def test_mixes_that_cannot_be(contexts: Contexts, more: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        explain(Setup.of("llama_3_8b", "h100_sxm"), Pins(), contexts=contexts, **more)  # type: ignore[arg-type]


def test_a_mix_says_the_batch() -> None:
    setup = Setup.of("llama_3_8b", "h100_sxm")
    with pytest.raises(InputError, match="contexts are those of 18 sequences, which contradicts a batch of 4"):
        explain(setup, Pins(batch=4), contexts=MIX)
    none = Setup.of("llama_3_8b", "h100_sxm", changes=["assumptions.attention.cache=recomputed"])
    with pytest.raises(InputError, match="different contexts require a KV cache"):
        explain(none, Pins(), contexts=MIX)


def test_a_frontier_of_a_mix_is_that_of_its_mean_where_attention_is_linear() -> None:
    """In each attention-DP group, one sequence of 4,096 tokens among 4 and others of none average 1,024 tokens."""
    linear = ["assumptions.attention.scores={}"]
    setup = Setup.of("llama_3_8b", "h100_sxm", assumptions="deployable", changes=linear)
    space = Space(max_accelerators=4)
    mixed, mean = (
        decode_frontier(setup, Traffic(**lengths), space)
        for lengths in ({"contexts": [(0, 30), (4096, 10)]}, {"context": 1024})
    )
    assert mixed.setup.contexts == ((0.0, 0.75), (4096.0, 0.25))
    assert mixed.dollars == pytest.approx(mean.dollars, rel=1e-9)
    assert mixed.tokens_per_second == pytest.approx(mean.tokens_per_second, rel=1e-9)


def test_a_batch_of_two_contexts_between_batches_of_each() -> None:
    """Footnote 11 of the study: the mix is cheaper than both alone only where arithmetic hides reads."""
    setup = Setup.of("paper/llama_3_70b", "paper/h100", weights="int8", assumptions="paper")
    space = Space(grid="paper", pipeline=False)
    short, long, mixed = (
        decode_frontier(setup, Traffic(**lengths), space)
        for lengths in ({"context": 0}, {"context": 1e5}, {"contexts": [(0, 299), (1e5, 1)]})
    )
    for speed, cheaper in ((10.0, True), (60.0, False)):
        alone, slow, together = (
            float(front.dollars[front.tokens_per_second >= speed].min()) for front in (short, long, mixed)
        )
        apart = (299 * alone + slow) / 300
        assert (together < apart) is cheaper
        # No more is hidden than the arithmetic of the short ones, or their whole cost.
        assert together > max(alone, apart - alone)


@pytest.mark.rows
def test_traffic_that_cannot_be(lengths: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Traffic.build(lengths, origin="a test")
