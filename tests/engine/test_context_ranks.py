"""Decode context parallelism: memory, reads and communication of ranks by hand, and rejected inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_econ.answers.explain import explain
from inference_econ.answers.layout_services import decode_frontier, offer
from inference_econ.engine import Pins, Plans, Setup, Space, evaluate
from inference_econ.engine.operator_costs import operator_costs
from inference_econ.errors import InputError
from inference_econ.inputs import Requests, Traffic
from tests.planned import plan_of, row_of
from tests.reading import scalar

_LL = "{LL: {base: 7 us, per_rank: 1 us, per_domain_doubling: 5 us, bandwidth_factor: 0.5}}"
#: Changes that make presets simple enough for hand calculations.
PLAIN = (
    f"assumptions.network.collectives={{kind: nccl_tree, version: '1', protocols: {_LL}}}",
    "assumptions.network.collective_overhead=0 us",
    "assumptions.host.graph_launch=0 us",
    "assumptions.attention.scores={}",
)


def _setup(model: str, context: float = 16_000.0) -> Setup:
    return Setup.of(model, "h200_sxm", assumptions="deployable", context=context, changes=PLAIN)


def _plan(tp: float, dcp: float, batch: float = 64, dp: float = 1) -> Plans:
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
    setup, plan = _setup(model), _plan(tp, dcp)
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
    setup, plan = _setup(model), _plan(8, 8, 64, dp)
    tokens = 64 / dp
    each = sum(7e-6 + 7 * 1e-6 + tokens * size * 7 / 8 / 450e9 / 0.5 for size in sent)
    rows = [row for row in operator_costs(setup, plan, "1d") if row.name == "context exchange"]
    assert sum(row.network_seconds for row in rows) == pytest.approx(61 * each, rel=1e-9)


def test_two_ranks_of_eight() -> None:
    # Qwen3: 64 query heads of 128 on 8 ranks; two of them have 16 heads, 8 KB and so on.
    setup, plan = _setup("qwen3_235b_a22b"), _plan(8, 2)
    sizes = [
        scalar(np.asarray(each.bytes_per_token)) for each in row_of(setup, plan, "context exchange").collectives["1d"]
    ]
    assert sizes == [16 * 128 * 2, 2 * 16 * 4, 16 * 128 * 2]


def test_prefill_gathers_what_was_cached() -> None:
    setup, plan = _setup("deepseek_v3"), replace(_plan(8, 8, 1), new_tokens=1000.0, prefill=True)
    (gathered,) = row_of(setup, plan, "context exchange").collectives["1d"]
    assert scalar(np.asarray(gathered.bytes_per_token)) * 1000 == pytest.approx(16_000 * 576 * 2, rel=1e-12)
    alone = replace(setup, context=0.0).work(plan).operators
    assert "context exchange" not in {row.name for row in alone}


@settings(deadline=None)
@given(tp=st.sampled_from([2, 4, 8, 16]), share=st.integers(0, 4), context=st.integers(1, 100_000))
def test_the_cache_is_never_held_less_than_once(tp: int, share: int, context: int) -> None:
    dcp = min(2**share, tp)
    setup = _setup("deepseek_v3", context)
    whole = scalar(setup.memory(_plan(1, 1)).kv_bytes)
    held = scalar(setup.memory(_plan(tp, dcp)).kv_bytes)
    assert held == pytest.approx(whole * tp / dcp, rel=1e-12) and held >= whole * (1 - 1e-12)


def test_it_is_pinned() -> None:
    step = explain(_setup("deepseek_v3"), Pins(tp=8, dcp=8, batch=64), context=16_000)
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
def test_what_cannot_be_shared(model: str, tp: int, dcp: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        explain(Setup.of(model, "h200_sxm"), Pins(tp=tp, dcp=dcp))


def test_degrees_that_contradict_each_other() -> None:
    with pytest.raises(InputError, match=r"dcp=3 contradicts tp=8: .*; nearest: 2 or 4"):
        Pins(tp=8, dcp=3).check_whole()
    with pytest.raises(InputError, match=r"2 ranks that share the tokens of a sequence need a tp .*, 16 at least"):
        decode_frontier(Setup.of("llama_3_70b", "h200_sxm"), Traffic(context=1000), Space(Pins(dcp=2, accelerators=8)))
