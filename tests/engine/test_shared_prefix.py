"""A prefix common to all sequences: stored once, read once or per sequence, and rejected inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_econ.answers.explain import explain
from inference_econ.answers.layout_services import offer
from inference_econ.answers.load import load
from inference_econ.answers.price import price
from inference_econ.engine import Pins, Setup, Space, evaluate, fastest_cut
from inference_econ.errors import InputError, SpecError
from inference_econ.inputs import Requests
from tests.asking import pools_of
from tests.planned import plan_of, row_of
from tests.reading import present, scalar

#: Llama 3 8B: 32 layers, keys and values of 8 heads of 128 in two bytes, per token [B].
TOKEN = 32 * 2 * 8 * 128 * 2.0


def _setup(reads: str, shared: float, context: float = 4096.0) -> Setup:
    changes = [f"assumptions.attention.shared_prefix={reads}", "assumptions.attention.scores={}"]
    setup = Setup.of("llama_3_8b", "h100_sxm", assumptions="deployable", context=context, changes=changes)
    return replace(setup, shared_prefix=shared)


# tp, dp, batch, shared tokens, and the cache by hand [tokens]
HELD = [
    (1, 1, 32, 0, 32 * 4096),
    (1, 1, 32, 3072, 32 * 1024 + 3072),
    (1, 2, 32, 3072, 32 * 1024 + 2 * 3072),  # each attention-DP group stores its copy
    (16, 1, 32, 3072, 2 * (32 * 1024 + 3072)),  # 8 KV heads on 16 chips: everything twice
    (1, 1, 32, 3080, 32 * (4096 - 3072) + 3072),  # whole blocks of 16 can be shared: 192 of them
    (1, 1, 32, 9999, 32 * 0 + 4096),
]


@pytest.mark.parametrize(("tp", "dp", "batch", "shared", "tokens"), HELD)
def test_what_is_held(tp: float, dp: float, batch: float, shared: float, tokens: float) -> None:
    needed = _setup("per_sequence", shared).memory(plan_of(tp, dp, batch=batch))
    assert scalar(needed.kv_bytes) == pytest.approx(tokens * TOKEN, rel=1e-12)
    held = _setup("per_sequence", shared).memory_of_one_accelerator(plan_of(tp, dp, batch=batch))
    assert held["kv_cache"] + held["shared_prefix"] == pytest.approx(tokens * TOKEN / (tp * dp), rel=1e-12)


# reads, dp, tokens that each chip reads in a step of 32 sequences of 4,096 tokens, 3,072 of them shared
READ = [
    ("per_sequence", 1, 32 * 4096),
    ("once", 1, 32 * 1024 + 3072),
    ("per_sequence", 2, 16 * 4096),
    ("once", 2, 16 * 1024 + 3072),
]


@pytest.mark.parametrize(("reads", "dp", "tokens"), READ)
def test_what_is_read(reads: str, dp: float, tokens: float) -> None:
    setup = _setup(reads, 3072.0)
    plan = plan_of(1, dp, batch=32)
    busy = evaluate(setup, plan, "1d").busy["kv_cache"]
    row = row_of(setup, plan, "attention")
    assert scalar(busy) == pytest.approx(tokens * TOKEN / setup.rates.kv_bytes_per_second(row), rel=1e-12)


@settings(deadline=None)
@given(batch=st.integers(1, 64), shared=st.integers(0, 5000), verified=st.integers(1, 4))
def test_sharing_takes_no_more_room_and_no_more_time(batch: int, shared: int, verified: int) -> None:
    plan = replace(plan_of(2, 1, batch=batch), new_tokens=verified)
    each, once = _setup("per_sequence", shared), _setup("once", shared)
    apart = _setup("once", 0)
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
