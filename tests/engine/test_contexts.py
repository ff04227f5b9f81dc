"""Contexts of a step: different lengths, common prefixes, and ranks that share a cache."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_econ.answers.explain import explain
from inference_econ.answers.layout_services import decode_frontier, offer
from inference_econ.answers.load import load
from inference_econ.answers.price import price
from inference_econ.engine import Pins, Plans, Setup, Space, evaluate, fastest_cut, mean_context
from inference_econ.engine.operator_costs import operator_costs
from inference_econ.engine.operators.work import Contexts, fullest_tokens
from inference_econ.errors import InputError, SpecError
from inference_econ.inputs import Requests, Traffic
from tests.asking import pools_of
from tests.planned import plan_of, row_of
from tests.reading import present, scalar

# Steps with contexts of different lengths: sums by hand, windows, and groups that wait.

#: Llama 3 8B: keys and values of a token in 32 layers [B].
TOKEN = 32 * 2 * 8 * 128 * 2.0
MIX: Contexts = ((500.0, 16), (32000.0, 2))


def _mixed(model: str, contexts: Contexts, *changes: str) -> Setup:
    setup = Setup.of(model, "h100_sxm", assumptions="deployable", changes=("assumptions.attention.scores={}", *changes))
    return replace(setup, context=mean_context(contexts), contexts=contexts)


def _read(setup: Setup, plan: Plans, name: str = "attention") -> float:
    """Return the cache that one chip reads for one occurrence of a row [B]."""
    work = setup.work(plan)
    row = next(row for row in work.operators if row.name == name)
    return scalar(np.asarray(row.kv_bytes_per_sequence * work.sequences_of(row) * row.repeats))


def test_reads_and_room_by_hand() -> None:
    setup = _mixed("llama_3_8b", MIX)
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
    mixed = _mixed("llama_3_8b", contexts)
    mean = replace(mixed, contexts=())
    assert scalar(evaluate(mixed, plan, "1d").seconds) == pytest.approx(
        scalar(evaluate(mean, plan, "1d").seconds), rel=1e-9
    )


def test_windows_end_long_contexts_only() -> None:
    """With 16 sequences of 100 tokens and 2 of 20,000, a window has 16 x 100 + 2 x 128; the mean gives 128 each."""
    contexts: Contexts = ((100.0, 16), (20000.0, 2))
    setup = _mixed("gpt_oss_120b", contexts)
    token, name = 18 * 2 * 8 * 64 * 2.0, "attention (last 128)"
    assert _read(setup, plan_of(batch=18.0), name) == pytest.approx((16 * 100 + 2 * 128) * token, rel=1e-12)
    assert _read(replace(setup, contexts=()), plan_of(batch=18.0), name) == pytest.approx(18 * 128 * token, rel=1e-12)


def test_a_group_with_a_long_sequence_is_waited_for() -> None:
    """With four groups and two long sequences, one group has a sequence of 32,000 tokens and none of 500; another has 9
    short ones.
    """
    contexts: Contexts = ((500.0, 18), (32000.0, 2))
    assert fullest_tokens(contexts, 4) == pytest.approx(32000 / 5 / 3650, rel=1e-12)
    setup = _mixed("llama_3_8b", contexts)
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
    setup = replace(_mixed("llama_3_8b", MIX, "assumptions.attention.shared_prefix=once"), shared_prefix=400.0)
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


# A prefix common to all sequences: stored once, read once or per sequence, and rejected inputs.

#: Llama 3 8B: 32 layers, keys and values of 8 heads of 128 in two bytes, per token [B].


def _sharing(reads: str, shared: float, context: float = 4096.0) -> Setup:
    changes = [f"assumptions.attention.shared_prefix={reads}", "assumptions.attention.scores={}"]
    setup = Setup.of("llama_3_8b", "h100_sxm", assumptions="deployable", context=context, changes=changes)
    return replace(setup, shared_prefix=shared)


# tp, dp, batch, shared tokens, and the cache by hand [tokens]
STORED = [
    (1, 1, 32, 0, 32 * 4096),
    (1, 1, 32, 3072, 32 * 1024 + 3072),
    (1, 2, 32, 3072, 32 * 1024 + 2 * 3072),  # each attention-DP group stores its copy
    (16, 1, 32, 3072, 2 * (32 * 1024 + 3072)),  # 8 KV heads on 16 chips: everything twice
    (1, 1, 32, 3080, 32 * (4096 - 3072) + 3072),  # whole blocks of 16 can be shared: 192 of them
    (1, 1, 32, 9999, 32 * 0 + 4096),
]


@pytest.mark.parametrize(("tp", "dp", "batch", "shared", "tokens"), STORED)
def test_what_is_held(tp: float, dp: float, batch: float, shared: float, tokens: float) -> None:
    needed = _sharing("per_sequence", shared).memory(plan_of(tp, dp, batch=batch))
    assert scalar(needed.kv_bytes) == pytest.approx(tokens * TOKEN, rel=1e-12)
    held = _sharing("per_sequence", shared).memory_of_one_accelerator(plan_of(tp, dp, batch=batch))
    assert held["kv_cache"] + held["shared_prefix"] == pytest.approx(tokens * TOKEN / (tp * dp), rel=1e-12)


# reads, dp, tokens that each chip reads in a step of 32 sequences of 4,096 tokens, 3,072 of them shared
ONCE = [
    ("per_sequence", 1, 32 * 4096),
    ("once", 1, 32 * 1024 + 3072),
    ("per_sequence", 2, 16 * 4096),
    ("once", 2, 16 * 1024 + 3072),
]


@pytest.mark.parametrize(("reads", "dp", "tokens"), ONCE)
def test_what_is_read(reads: str, dp: float, tokens: float) -> None:
    setup = _sharing(reads, 3072.0)
    plan = plan_of(1, dp, batch=32)
    busy = evaluate(setup, plan, "1d").busy["kv_cache"]
    row = row_of(setup, plan, "attention")
    assert scalar(busy) == pytest.approx(tokens * TOKEN / setup.rates.kv_bytes_per_second(row), rel=1e-12)


@settings(deadline=None)
@given(batch=st.integers(1, 64), shared=st.integers(0, 5000), verified=st.integers(1, 4))
def test_sharing_takes_no_more_room_and_no_more_time(batch: int, shared: int, verified: int) -> None:
    plan = replace(plan_of(2, 1, batch=batch), new_tokens=verified)
    each, once = _sharing("per_sequence", shared), _sharing("once", shared)
    apart = _sharing("once", 0)
    assert scalar(once.memory(plan).kv_bytes) <= scalar(apart.memory(plan).kv_bytes)
    assert scalar(fastest_cut(once, plan)) <= scalar(fastest_cut(each, plan)) * (1 + 1e-12)
    assert scalar(fastest_cut(each, plan)) == scalar(fastest_cut(apart, plan))
    if batch == 1:
        assert scalar(fastest_cut(once, plan)) == pytest.approx(scalar(fastest_cut(apart, plan)), rel=1e-12)


def test_windows_read_their_own_tokens() -> None:
    # Every second layer of gpt-oss has a window of 128 tokens; only the others share their reads.
    setup = Setup.of("gpt_oss_120b", "h100_sxm", context=4096, changes=["assumptions.attention.shared_prefix=once"])
    rows = replace(setup, shared_prefix=2048.0).work(plan_of(1, 1, batch=8)).operators
    shared = {row.name: scalar(np.asarray(row.shared_kv_bytes)) > 0 for row in rows if row.kind == "scores"}
    assert shared == {"attention (last 128)": False, "attention": True}


def test_more_requests_fit_with_a_shared_prefix() -> None:
    setup = Setup.of("llama_3_70b", "h100_sxm", weights="fp8", kv="bf16")
    space, lengths = Space(Pins(tp=8, dp=1, pp=1)), {"isl": 4000, "osl": 300, "cached": 3000}
    apart, shared = (
        offer(setup, Requests.model_validate({**lengths, "shared_prefix": tokens}), space).service(0)
        for tokens in (0, 3000)
    )
    # 4,150 tokens are 260 blocks of 16; without 187 whole blocks of 3,000 tokens 1,158 are left, 73 blocks.
    room = apart.slots * 260
    assert shared.slots == pytest.approx((room - 187) / 73, rel=0.01)
    assert shared.prefill_seconds == apart.prefill_seconds


REQUESTS = {"isl": 9000, "osl": 200, "shared_prefix": 8000}


def _asked(reads: str, shared: float) -> tuple[Setup, Requests]:
    setup = Setup.of("llama_3_8b", "h100_sxm", changes=[f"assumptions.attention.shared_prefix={reads}"])
    return setup, Requests.model_validate({**REQUESTS, "shared_prefix": shared, "cached": 8000})


def test_every_path_reads_it_once() -> None:
    """Frontiers, loads, prices and simulations use the same services."""
    space = Space(Pins(tp=1, dp=1, pp=1))
    once, each, apart = (
        offer(*_asked(*words), space).service(0)
        for words in (("once", 8000), ("per_sequence", 8000), ("per_sequence", 0))
    )
    assert each.slots > 3 * apart.slots
    assert once.slots == each.slots
    assert each.at(32).tpot_seconds == pytest.approx(apart.at(32).tpot_seconds, rel=1e-3)
    assert once.at(32).tpot_seconds < 0.8 * each.at(32).tpot_seconds
    medians = []
    for reads in ("once", "per_sequence"):
        trace = present(load(offer(*_asked(reads, 8000), space), [8.0], simulate=True).points[0].simulated)
        medians.append(trace.summary()["tpot"]["p50"].value)
    assert medians[0] < 0.95 * medians[1]
    dollars = [price(offer(*_asked(reads, 8000), space), 8.0).dollars_per_hour for reads in ("once", "per_sequence")]
    assert dollars[0] <= dollars[1]


def test_decode_instances_receive_only_what_they_do_not_hold() -> None:
    space = Space(Pins(tp=1, dp=1, pp=1))
    whole, own = (pools_of(*_asked("once", shared), space).bytes_per_prompt for shared in (0, 8000))
    # 9,000 tokens are 563 blocks of 16; 8,000 of them 500 blocks.
    assert whole == pytest.approx(563 * 16 * TOKEN, rel=1e-12)
    assert own == pytest.approx(63 * 16 * TOKEN, rel=1e-12)


def test_a_shared_prefix_is_found_in_the_cache() -> None:
    assert Requests.model_validate({"isl": 2000, "osl": 10, "shared_prefix": 1500}).cached == 1500
    assert Requests.model_validate({"isl": 2000, "osl": 10, "shared_prefix": 1500, "cached": 1800}).new_tokens == 200
    assert Requests.model_validate({"isl": 2000, "osl": 10, "shared_prefix": 0, "cached": 5}).cached == 5


@pytest.mark.rows
def test_what_cannot_be_shared(lengths: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Requests.build({**lengths, "osl": 100}, origin="test")


def test_a_step_shares_no_more_than_its_context() -> None:
    setup = Setup.of("llama_3_8b", "h100_sxm")
    assert explain(setup, Pins(batch=8), context=4000, shared_prefix=4000).held["shared_prefix"] > 0
    with pytest.raises(InputError, match=r"a part of the context, from 0 to 2250 tokens, got 2251"):
        explain(setup, Pins(), shared_prefix=2251)


# Decode context parallelism: memory, reads and communication of ranks by hand, and rejected inputs.

_LL = "{LL: {base: 7 us, per_rank: 1 us, per_domain_doubling: 5 us, bandwidth_factor: 0.5}}"
#: Changes that make presets simple enough for hand calculations.
PLAIN = (
    f"assumptions.network.collectives={{kind: nccl_tree, version: '1', protocols: {_LL}}}",
    "assumptions.network.collective_overhead=0 us",
    "assumptions.host.graph_launch=0 us",
    "assumptions.attention.scores={}",
)


def _on_ranks(model: str, context: float = 16_000.0) -> Setup:
    return Setup.of(model, "h200_sxm", assumptions="deployable", context=context, changes=PLAIN)


def _ranks(tp: float, dcp: float, batch: float = 64, dp: float = 1) -> Plans:
    return plan_of(tp, dp, ep=tp * dp, batch=batch, dcp=dcp)


# model, KV heads, elements per token and layer, tp, dcp, copies of the cache in a group
HELD = [
    ("deepseek_v3", 61 * 576, 8, 1, 8),
    ("deepseek_v3", 61 * 576, 8, 2, 4),
    ("deepseek_v3", 61 * 576, 8, 8, 1),
    ("qwen3_235b_a22b", 94 * 2 * 4 * 128, 8, 1, 2),
    ("qwen3_235b_a22b", 94 * 2 * 4 * 128, 8, 2, 1),
]


@pytest.mark.parametrize(("model", "elements", "tp", "dcp", "copies"), HELD)
def test_ranks_share_what_they_would_copy(model: str, elements: float, tp: float, dcp: float, copies: float) -> None:
    setup, plan = _on_ranks(model), _ranks(tp, dcp)
    cache = 64 * 16_000 * elements * 2.0 * copies
    assert scalar(setup.memory(plan).kv_bytes) == pytest.approx(cache, rel=1e-12)
    read = evaluate(setup, plan, "1d").busy["kv_cache"] * setup.rates.kv_bytes_per_second(
        row_of(setup, plan, "attention")
    )
    assert scalar(read) == pytest.approx(cache / tp, rel=1e-12)


# model, dp, bytes of each exchange of one rank and token of its group
EXCHANGED = [
    # 128 heads on 8 ranks, all of them gathered: queries of 512 + 64; 8 x 128 logarithms; latents of 512.
    ("deepseek_v3", 1, (128 * 576 * 2, 8 * 128 * 4, 128 * 512 * 2)),
    ("deepseek_v3", 2, (128 * 576 * 2, 8 * 128 * 4, 128 * 512 * 2)),
]


@pytest.mark.parametrize(("model", "dp", "sent"), EXCHANGED)
def test_an_exchange_by_hand(model: str, dp: int, sent: tuple[float, ...]) -> None:
    # Each rank sends 7 of 8 parts over its link of 450 GB/s, half of which LL reaches: 7 us, and 1 us for each other.
    setup, plan = _on_ranks(model), _ranks(8, 8, 64, dp)
    tokens = 64 / dp
    each = sum(7e-6 + 7 * 1e-6 + tokens * size * 7 / 8 / 450e9 / 0.5 for size in sent)
    rows = [row for row in operator_costs(setup, plan, "1d") if row.name == "context exchange"]
    assert sum(row.network_seconds for row in rows) == pytest.approx(61 * each, rel=1e-9)


def test_two_ranks_of_eight() -> None:
    # Qwen3: 64 query heads of 128 on 8 ranks; two of them have 16 heads, 8 KB and so on.
    setup, plan = _on_ranks("qwen3_235b_a22b"), _ranks(8, 2)
    sizes = [
        scalar(np.asarray(each.bytes_per_token)) for each in row_of(setup, plan, "context exchange").collectives["1d"]
    ]
    assert sizes == [16 * 128 * 2, 2 * 16 * 4, 16 * 128 * 2]


def test_prefill_gathers_what_was_cached() -> None:
    setup, plan = _on_ranks("deepseek_v3"), replace(_ranks(8, 8, 1), new_tokens=1000.0, prefill=True)
    (gathered,) = row_of(setup, plan, "context exchange").collectives["1d"]
    assert scalar(np.asarray(gathered.bytes_per_token)) * 1000 == pytest.approx(16_000 * 576 * 2, rel=1e-12)
    alone = replace(setup, context=0.0).work(plan).operators
    assert "context exchange" not in {row.name for row in alone}


@settings(deadline=None)
@given(tp=st.sampled_from([2, 4, 8, 16]), share=st.integers(0, 4), context=st.integers(1, 100_000))
def test_the_cache_is_never_held_less_than_once(tp: int, share: int, context: int) -> None:
    dcp = min(2**share, tp)
    setup = _on_ranks("deepseek_v3", context)
    whole = scalar(setup.memory(_ranks(1, 1)).kv_bytes)
    held = scalar(setup.memory(_ranks(tp, dcp)).kv_bytes)
    assert held == pytest.approx(whole * tp / dcp, rel=1e-12) and held >= whole * (1 - 1e-12)


def test_it_is_pinned() -> None:
    step = explain(_on_ranks("deepseek_v3"), Pins(tp=8, dcp=8, batch=64), context=16_000)
    assert step.layout["dcp"] == 8 and "context exchange" in {row.name for row in step.operators}
    setup, requests = Setup.of("deepseek_v3", "h200_sxm"), Requests.model_validate({"isl": 30_000, "osl": 2000})
    pinned = Pins(tp=8, dp=1, pp=1, ep=8)
    alone, shared = (
        offer(setup, requests, Space(replace(pinned, dcp=degree))).service(0).slots for degree in (None, 8)
    )
    assert shared == pytest.approx(8 * alone, rel=0.2)
    front = decode_frontier(setup, Traffic(context=16_000), Space(replace(pinned, dcp=4)))
    assert front.fastest().layout["dcp"] == 4


@pytest.mark.rows
def test_degrees_that_ranks_cannot_share(model: str, tp: int, dcp: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        explain(Setup.of(model, "h200_sxm"), Pins(tp=tp, dcp=dcp))


def test_degrees_that_contradict_each_other() -> None:
    with pytest.raises(InputError, match=r"dcp=3 contradicts tp=8: .*; nearest: 2 or 4"):
        Pins(tp=8, dcp=3).check_whole()
    with pytest.raises(InputError, match=r"2 ranks that share the tokens of a sequence need a tp .*, 16 at least"):
        decode_frontier(Setup.of("llama_3_70b", "h200_sxm"), Traffic(context=1000), Space(Pins(dcp=2, accelerators=8)))
