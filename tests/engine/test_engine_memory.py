"""Memory in engines: facts of versions in the capacity check, by hand, and server logs that must agree."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import components
from inference_econ.engine import Setup, Speculation, memory, needed_memory
from inference_econ.engine.memory import held_cache
from inference_econ.engine.speculation import head
from inference_econ.errors import SpecError
from inference_econ.inputs import ProposerName, catalog, divided, with_engine
from tests.planned import plan_of
from tests.reading import present

GIB = 2.0**30
#: Rows that are known to be further off, and why: docs/evidence/memory.md.
FURTHER = {"M0047", "M0052", "M0058", "M0062", "M0067", "M0068"}
#: Rows that were found after the last constant was chosen.
HELD_OUT = {"M0067", "M0068", "M0069", "M0070", "M0071", "M0072"}


def test_share_workspace_and_reserve_by_hand() -> None:
    # Llama 3.1 8B on one H100 under vLLM 0.11: 81,559 MiB x 0.9, less 14.96 GiB of weights, less 9.65 times the logits
    # of 1,024 slots over 128,256 words in 32 bits, less 0.65 GiB.
    setup = Setup.of("llama_3_8b", "h100_sxm", engine="vllm@0.11.0", context=1600.0)
    weights = memory.weight_bytes(setup.model, setup.precision)
    free = 81_559 * 2**20 * 0.9 - weights - 9.65 * 1024 * 128_256 * 4 - 0.65 * GIB
    tokens = memory.cached_tokens(setup.memory(plan_of(1)), plan_of(1), 1600.0, setup.assumptions)
    assert tokens.item() == pytest.approx(free / (32 * 2 * 8 * 128 * 2), rel=1e-12)


def test_ranks_that_exchange_take_more() -> None:
    setup = Setup.of("llama_3_70b", "h200_sxm", engine="vllm@0.18.0")
    kept = [memory.reserved_bytes(plan_of(tp), setup.assumptions.capacity).item() for tp in (1, 4)]
    assert kept == pytest.approx([0.7 * GIB, 2.6 * GIB])


def test_pages_of_a_hybrid_by_hand() -> None:
    # Qwen3.5 27B has 48 heads of 128 x 128 in 32 bits and three columns of 10,240 in 16 bits: 3.2 MB. These are 784
    # tokens of 4 heads of 256, twice, in 16 bits. vLLM logs "Setting attention block size to 784 tokens" (1,568 in 8
    # bits).
    for kv, page in (("bf16", 784), ("fp8", 1568)):
        setup = Setup.of("qwen3_5_27b", "h200_sxm", engine="vllm@0.18.0", kv=kv)
        # We store a fourth column of the convolution: 800 and 1,584.
        held = [_cache(setup, context) for context in (1.0, page, 1.1 * page)]
        assert held[0] == held[1] == pytest.approx(16 * page * 4 * 256 * 2 * (2 if kv == "bf16" else 1), rel=0.025)
        assert held[2] == 2.0 * held[1]


def test_hybrids_under_sglang_have_a_pool_of_states_by_hand() -> None:
    # 0.9 / 1.9 of the cache memory holds states, five slots per request; the pool that fills first limits requests.
    setup = Setup.of("qwen3_5_27b", "b200", engine="sglang@0.5.15", context=8704.0)
    shared = replace(setup, assumptions=setup.assumptions.changed({"capacity.state_share": None}))
    alone = held_cache(shared.model, shared.precision, plan_of(1), 8704.0, shared.assumptions)
    states, keys = (np.ravel(alone[name])[0] for name in ("state", "kv_cache"))
    assert _cache(setup, 8704.0) / 0.5263 == pytest.approx(max(states / 0.4737, keys / 0.5263))
    assert states == pytest.approx(5 * 48 * (48 * 128 * 128 * 4 + 4 * 10_240 * 2), rel=0.01)


@pytest.mark.parametrize(
    ("model", "total_tokens_per_second", "tpot"),
    [("qwen3_5_35b_a3b", 38_729, 0.02247), ("qwen3_5_27b", 12_164, 0.03161)],
)
def test_slots_of_hybrids_under_sglang_as_measured(model: str, total_tokens_per_second: float, tpot: float) -> None:
    # SGLang 0.5.15 on one B200 with 4,096 requests of 8,192 and 1,024 tokens: requests in decode by Little's law.
    running = total_tokens_per_second * 1024 / 9216 * tpot
    setup = Setup.of(model, "b200", engine="sglang@0.5.15", context=8192 + 1024 / 2)
    setup = replace(setup, assumptions=setup.assumptions.changed({"capacity.usable_memory": 0.8}))
    tokens = memory.cached_tokens(setup.memory(plan_of(1)), plan_of(1), setup.context, setup.assumptions).item()
    assert 0.7 < running / (tokens / setup.context) < 1.0


def test_a_vision_tower_fills_up_what_is_published() -> None:
    # Qwen3.8 27B, of the same sizes, is 55,563,006,776 bytes on disk, of which about 150 kB are headers.
    model = catalog.model("qwen3_5_27b")
    layer = head(model).replace(vocab_size=0).total_parameters
    parameters = model.total_parameters + layer + present(model.vision).parameters
    assert 2 * parameters == pytest.approx(55_563_006_776, abs=200_000)


def test_a_vision_tower_lies_beside_the_layers() -> None:
    # 460,730,096 weights of two bytes, cut over two ranks, whatever the format of the layers; one for each group.
    told = Setup.of("qwen3_5_27b", "h200_sxm", weights="fp8", engine="vllm@0.28.0", context=5000.0)
    assert told.memory_of_one_accelerator(plan_of(2))["vision"] == pytest.approx(460_730_096.0)
    without = Setup.of("qwen3_5_27b", "h200_sxm", weights="fp8", changes=["assumptions.capacity.vision_tower=false"])
    assert without.memory_of_one_accelerator(plan_of(2))["vision"] == 0.0
    groups = plan_of(1, 4, ep=4, batch=4)
    mixture = Setup.of("qwen3_5_35b_a3b", "h200_sxm", engine="vllm@0.28.0", context=5000.0)
    assert mixture.memory_of_one_accelerator(groups)["vision"] == pytest.approx(2 * 446_571_248.0)
    assert without.memory_of_one_accelerator(plan_of(2))["embeddings"] == pytest.approx(2 * 248_320 * 5120)


def test_images_of_a_profile_run_by_hand() -> None:
    # One image of 16,384 tokens has 65,536 patches of 4 x 1,152 elements and a half of 2 x 4,304. Sampling for 256
    # slots takes less: four times 256 x 248,320 logits in 32 bits.
    setup = Setup.of("qwen3_5_27b", "rtx_5090", weights="fp8", engine="vllm@0.28.0", context=5000.0)
    held = setup.memory_of_one_accelerator(plan_of(2))["workspace"]
    assert held == 65_536 * (4 * 1152 + 4304) * 2 > 4 * 256 * 248_320 * 4
    sglang = Setup.of("qwen3_5_27b", "rtx_5090", weights="fp8", engine="sglang", context=5000.0)
    assert sglang.memory_of_one_accelerator(plan_of(2))["workspace"] == 0.0


def test_states_that_requests_hold_give_the_logged_tokens() -> None:
    # One RTX 5090, requests of 32,768 tokens: 112 pages over 21 + 3 x 2 are 135,926 tokens with an 8-bit cache. Over 42
    # + 3 x 2 they are 76,458 in 16 bits. 16 layers share a page of 3.2 MB, which we assume is 1% to 2% more.
    for kv, logged in (("fp8", 135_926), ("bf16", 76_458)):
        setup = Setup.of("qwen3_5_27b", "rtx_5090", weights="nvfp4", kv=kv, engine="vllm@0.28.0", context=32_768.0)
        needed = setup.memory(plan_of(1))
        room = replace(needed, available_bytes=needed.weight_bytes + 112 * 16 * 784 * 4096.0)
        tokens = memory.cached_tokens(room, plan_of(1), 32_768.0, setup.assumptions).item()
        assert tokens == pytest.approx(logged, rel=0.02)


def test_each_proposal_holds_a_state() -> None:
    # Two states of each of 48 layers become five: 48 heads of 128 x 128 in 32 bits, four columns of 10,240 in 16. The
    # draft layer stores 4 heads of 256, twice, for each of 5,008 tokens; n-grams have no layer.
    setup = Setup.of("qwen3_5_27b", "h200_sxm", engine="vllm@0.28.0", context=5000.0)
    plan, states = plan_of(2, batch=4), 48 * (48 * 128 * 128 * 4 + 4 * 10_240 * 2)
    plain = needed_memory(setup, plan, None).kv_bytes.item()
    proposers: tuple[tuple[ProposerName, int], ...] = (("mtp", 5008 * 4 * 256 * 2 * 2), ("ngram", 0))
    for proposer, layer in proposers:
        drafting = needed_memory(setup, plan, Speculation.of(proposer, 0.8, 3)).kv_bytes.item()
        assert drafting - plain == pytest.approx(4 * (3 * states + layer), rel=1e-9)
    # Behavior with states outside of pages is unknown.
    apart = Setup.of("qwen3_5_27b", "h200_sxm", context=5000.0)
    assert needed_memory(apart, plan, Speculation.of("ngram", 0.8, 3)).kv_bytes == apart.memory(plan).kv_bytes


def _cache(setup: Setup, context: float) -> float:
    held = held_cache(setup.model, setup.precision, plan_of(1), context, setup.assumptions)
    return float(np.ravel(held["kv_cache"])[0])


def test_shares_that_an_engine_reckons() -> None:
    # SGLang on H100 leaves 1.5 MiB for each of 8,192 tokens and 1,152 MiB.
    setup = Setup.of("llama_3_8b", "h100_sxm", engine="sglang")
    assert setup.assumptions.capacity.usable_memory == pytest.approx(1 - (1.5 * 8192 + 1152) / 81_559)
    assert setup.assumptions.capacity.workspace_tokens == 0


def test_what_is_asked_for_stays() -> None:
    changes = ["assumptions.capacity.usable_memory=0.5"]
    setup = Setup.of("llama_3_8b", "h100_sxm", engine="vllm", changes=changes)
    assert setup.assumptions.capacity.usable_memory == 0.5
    assert setup.assumptions.capacity.reserved_bytes > 0


def test_engines_whose_memory_nobody_looked_at_change_no_memory() -> None:
    assumed, chip = catalog.assumptions("deployable"), catalog.hardware("h100_sxm")
    facts = catalog.engine("trtllm").at()
    assert with_engine(assumed, facts, chip) == assumed.changed({"host.captured_tokens": None})
    assert with_engine(assumed, facts, chip, ("host.captured_tokens",)) == assumed
    assert divided(facts, chip, step_tokens=8192, slots=1, share=0.9) == {}


def test_parts_add_up_to_the_memory() -> None:
    setup = Setup.of("qwen3_5_27b", "h200_sxm", engine="vllm@0.24.0", context=5000.0)
    held = setup.memory_of_one_accelerator(plan_of(2, batch=8))
    assert sum(held.values()) == pytest.approx(setup.hardware.hbm_bytes)
    assert held["reserved"] == pytest.approx((0.7 + 1.9 + 0.6) * GIB)
    assert held["state"] > 0


@pytest.mark.parametrize("field", ["reserved_bytes", "communication_bytes", "sampled_logits", "workspace_tokens"])
def test_negative_memory_is_refused(field: str) -> None:
    with pytest.raises(SpecError, match=rf"capacity\.{field} must be >= 0, got -1"):
        catalog.assumptions("deployable", changes=[f"capacity.{field}=-1"])
    with pytest.raises(SpecError, match="hbm_bytes must be > 0"):
        catalog.hardware("h100_sxm", changes=["hbm_bytes=-80 GB"])


def test_logged_caches_within_a_tenth() -> None:
    points = [point for point in components.validate("memory").points if point.id > "M0018"]
    errors = {point.id: math.exp(point.log_error) - 1.0 for point in points if point.log_error is not None}
    assert len(errors) == len(points) >= 45
    assert {name for name, error in errors.items() if abs(error) > 0.1} == FURTHER
    assert len(HELD_OUT - FURTHER) == 4
    near = [point.subject for point in points if point.id not in FURTHER]
    assert len({(text.partition(",")[0], text.split(" x ")[1].partition(",")[0]) for text in near}) >= 20


@pytest.mark.parametrize(
    ("model", "engine", "captured"),
    [
        ("llama_3_8b", "vllm", 512.0),
        ("llama_3_8b", "sglang@0.5.10", 8192.0),
        ("deepseek_v3", "sglang@0.5.10", 2048.0),
        ("deepseek_v3", "sglang@0.5.9", 0.0),
        ("qwen3_5_397b_a17b", "sglang@0.5.10", 0.0),
        ("qwen3_5_397b_a17b", "sglang", 8192.0),
        ("llama_3_8b", "trtllm", 0.0),
    ],
)
def test_prefill_steps_are_captured_as_the_engine_does(model: str, engine: str, captured: float) -> None:
    assert Setup.of(model, "h200_sxm", engine=engine).captured_tokens == captured


def test_captured_prefill_steps_can_be_set() -> None:
    setup = Setup.of("llama_3_8b", "h200_sxm", engine="trtllm", changes=["assumptions.host.captured_tokens=256"])
    assert setup.captured_tokens == 256.0
    assert Setup.of("llama_3_8b", "h200_sxm", assumptions="deployable").captured_tokens == 512.0
