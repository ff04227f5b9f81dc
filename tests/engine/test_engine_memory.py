"""How engines divide memory: facts of versions in the capacity check, by hand, and logs that they must agree with."""

from __future__ import annotations

import math

import numpy as np
import pytest

from inference_econ.calibration import validation
from inference_econ.engine import Plans, Setup, memory
from inference_econ.engine.cache import held_cache
from inference_econ.errors import SpecError
from inference_econ.inputs import catalog, divided, with_engine

GIB = 2.0**30
#: Rows that are known to be further off, and why: docs/memory.md.
FURTHER = {"M0047", "M0052", "M0058", "M0062", "M0066"}


def _plan(tp: float, batch: float = 1.0) -> Plans:
    one = np.ones(1)
    return Plans(one * tp, one * batch, one, one * tp, one, whole=True)


def test_share_workspace_and_reserve_by_hand() -> None:
    # Llama 3.1 8B on one H100 under vLLM 0.11: 81,559 MiB x 0.9, less 14.96 GiB of weights, less 9.65 times the logits
    # of 1,024 slots over 128,256 words in 32 bits, less 0.65 GiB.
    setup = Setup.of("llama_3_8b", "h100_sxm", engine="vllm@0.11.0", context=1600.0)
    weights = memory.weight_bytes(setup.model, setup.precision)
    free = 81_559 * 2**20 * 0.9 - weights - 9.65 * 1024 * 128_256 * 4 - 0.65 * GIB
    arguments = (setup.model, setup.precision, _plan(1), 1600.0, setup.hardware.hbm_bytes, setup.assumptions)
    tokens = memory.cached_tokens(*arguments)
    assert tokens.item() == pytest.approx(free / (32 * 2 * 8 * 128 * 2), rel=1e-12)


def test_ranks_that_exchange_take_more() -> None:
    setup = Setup.of("llama_3_70b", "h200_sxm", engine="vllm@0.18.0")
    kept = [memory.reserved_bytes(_plan(tp), setup.assumptions.capacity).item() for tp in (1, 4)]
    assert kept == pytest.approx([0.7 * GIB, 2.6 * GIB])


def test_pages_of_a_hybrid_by_hand() -> None:
    # Qwen3.5 27B: 48 heads of 128 x 128 in 32 bits and three columns of 10,240 in 16 bits are 3.2 MB, 784 tokens of
    # 4 heads of 256, twice, in 16 bits; vLLM logs "Setting attention block size to 784 tokens" (1,568 in 8 bits).
    for kv, page in (("bf16", 784), ("fp8", 1568)):
        setup = Setup.of("qwen3_5_27b", "h200_sxm", engine="vllm@0.18.0", kv=kv)
        # We keep a fourth column of the convolution: 800 and 1,584.
        held = [_cache(setup, context) for context in (1.0, page, 1.1 * page)]
        assert held[0] == held[1] == pytest.approx(16 * page * 4 * 256 * 2 * (2 if kv == "bf16" else 1), rel=0.025)
        assert held[2] == 2.0 * held[1]


def _cache(setup: Setup, context: float) -> float:
    held = held_cache(setup.model, setup.precision, _plan(1), context, setup.assumptions)
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


def test_engines_whose_memory_nobody_looked_at_change_nothing() -> None:
    assumed, chip = catalog.assumptions("deployable"), catalog.hardware("h100_sxm")
    facts = catalog.engine("trtllm").at()
    assert with_engine(assumed, facts, chip) == assumed
    assert divided(facts, chip, step_tokens=8192, slots=1, share=0.9) == {}


def test_parts_add_up_to_the_memory() -> None:
    setup = Setup.of("qwen3_5_27b", "h200_sxm", engine="vllm@0.24.0", context=5000.0)
    held = setup.memory_of_one_accelerator(_plan(2, batch=8))
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
    points = [point for point in validation.validate("memory").points if point.id > "M0018"]
    errors = {point.id: math.exp(point.log_error) - 1.0 for point in points if point.log_error is not None}
    assert len(errors) == len(points) >= 45
    assert {name for name, error in errors.items() if abs(error) > 0.1} == FURTHER
    near = [point.subject for point in points if point.id not in FURTHER]
    assert len({(text.partition(",")[0], text.split(" x ")[1].partition(",")[0]) for text in near}) >= 20
