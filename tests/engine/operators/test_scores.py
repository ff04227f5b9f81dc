"""Attention curves: a decode step and a prompt by hand, and chips without a curve."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inference_econ.engine import Plans, Setup
from inference_econ.engine.operator_costs import OperatorCosts, operator_costs
from inference_econ.inputs import catalog
from tests.planned import plan_of, row_of
from tests.reading import present

_CURVE = (
    "{decode: {math_efficiency: 0.5, hbm_efficiency: 0.8, overlap: 0.75, extra_tokens: 100}, "
    "prompts: {math_efficiency: 0.6, extra_tokens: 400, extra_elements: 32}}"
)


def _setup(model: str, chip: str, *changes: str, context: float = 0.0, kv: str | None = None) -> Setup:
    return Setup.of(model, chip, kv=kv, assumptions="deployable", context=context, changes=changes)


def _attention(setup: Setup, plan: Plans) -> OperatorCosts:
    return next(row for row in operator_costs(setup, plan, "1d") if row.name == "attention")


def test_a_decode_step_by_hand() -> None:
    # Llama 3 8B, 16 sequences of 2,000 tokens: 32 layers, 8 heads of 128 twice in two bytes, 32 query heads.
    setup = _setup(
        "llama_3_8b", "h100_sxm", f"assumptions.attention.scores={{grouped: {{bf16: {_CURVE}}}}}", context=2000
    )
    row = _attention(setup, plan_of(batch=16))
    moved, flop = 32 * 16 * 2000 * 2 * 8 * 128 * 2.0, 32 * 16 * 2000 * 4 * 32 * 128.0
    assert row.moved_bytes == pytest.approx(moved)
    assert row.flop == pytest.approx(flop)
    padding = 1 + 100 / 2000
    memory, compute = padding * moved / (0.8 * 3.35e12), padding * flop / (0.5 * 989.4e12)
    assert row.memory_seconds == pytest.approx(memory)
    assert row.together_seconds == pytest.approx(memory + 0.25 * compute)


def test_servers_may_reach_a_share_of_what_kernels_do() -> None:
    curve = f"assumptions.attention.scores={{grouped: {{bf16: {_CURVE}}}}}"
    alone, served = (
        _attention(_setup("llama_3_8b", "h100_sxm", curve, *more, context=2000), plan_of(batch=16))
        for more in ((), ("assumptions.attention.score_efficiency=0.8",))
    )
    assert served.memory_seconds == pytest.approx(alone.memory_seconds / 0.8)
    assert served.compute_seconds == pytest.approx(alone.compute_seconds / 0.8)
    assert served.flop == pytest.approx(alone.flop)


def test_a_prompt_by_hand() -> None:
    # 1,001 new tokens after 3,000 cached ones attend to 3,500 on average.
    setup = _setup(
        "llama_3_8b", "h100_sxm", f"assumptions.attention.scores={{grouped: {{bf16: {_CURVE}}}}}", context=3000
    )
    row = _attention(setup, plan_of(batch=1, new_tokens=1001, prefill=True))
    flop = 32 * 1001 * 3500 * 4 * 32 * 128.0
    assert row.flop == pytest.approx(flop)
    assert row.compute_seconds == pytest.approx(flop / (0.6 * 989.4e12) * (1 + 400 / 3500) * (1 + 32 / 128))


def test_latents_are_decoded_absorbed_and_prompts_decompressed() -> None:
    change = f"assumptions.attention.scores={{latent: {{bf16: {_CURVE}}}}}"
    setup = _setup("deepseek_v3", "h200_sxm", change, context=2000)
    decode, prompt = (
        row_of(setup, plan_of(batch=8), "attention"),
        row_of(setup, plan_of(batch=1, new_tokens=512, prefill=True), "attention"),
    )
    assert (present(decode.rates).math, decode.padding, decode.kv_padding) == (0.5, 1.05, 1.05)
    # Queries and keys of 192, values of 128: heads of 160 on average; 2,255.5 past tokens.
    assert (present(prompt.rates).math, prompt.kv_padding) == (0.6, 1.0)
    assert prompt.padding == pytest.approx((1 + 400 / 2255.5) * (1 + 32 / 160))


def test_prompts_that_pick_their_past_attend_to_latents() -> None:
    change = f"assumptions.attention.scores={{latent: {{bf16: {_CURVE}}}}}"
    setup = _setup("deepseek_v3_2", "h200_sxm", change, context=2000)
    prompt = row_of(setup, plan_of(batch=1, new_tokens=512, prefill=True), "attention")
    assert (present(prompt.rates).math, prompt.padding) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("model", "chip", "kv"),
    [("llama_3_8b", "a100_sxm_80", None), ("llama_3_8b", "mi300x", None), ("llama_3_8b", "tpu_v5p", None),
     ("deepseek_v3", "l40s", None), ("llama_3_8b", "h100_sxm", "int8")],
)  # fmt: skip
def test_without_a_curve_shares_count(model: str, chip: str, kv: str | None) -> None:
    setup = _setup(model, chip, "assumptions.attention.kv_hbm_efficiency=0.5", context=2000, kv=kv)
    row = row_of(setup, plan_of(batch=8), "attention")
    assert (row.rates, row.padding, row.kv_padding) == (None, 1.0, 1.0)
    assert setup.rates.kv_bytes_per_second(row) == pytest.approx(0.5 * setup.hardware.hbm_bytes_per_second)


def test_indexers_and_states_have_shares() -> None:
    rows = _setup("deepseek_v3_2", "h200_sxm", context=8000).work(plan_of(batch=8)).operators
    scores = [row.name for row in rows if row.kind == "scores" and row.rates is not None]
    assert scores == ["attention", "attention"]
    states = _setup("qwen3_next_80b_a3b", "h200_sxm", context=8000).work(plan_of(batch=8)).operators
    assert all(row.rates is None for row in states if row.name == "recurrent state")


def test_an_empty_cache_takes_nothing_beside() -> None:
    setup = _setup("llama_3_8b", "h100_sxm", context=0)
    assert row_of(setup, plan_of(batch=8), "attention").kv_padding == 1.0


@pytest.mark.parametrize("name", [name for name in catalog.part_names("scores") if name != "no"])
def test_shipped_curves_say_their_source_and_are_within_what_was_fitted(name: str) -> None:
    assumed = catalog.assumptions("deployable", changes=[f"attention.scores={name}"])
    kernels = [*assumed.attention.scores.grouped.values(), *assumed.attention.scores.latent.values()]
    assert kernels
    for kernel in kernels:
        assert 0.5 <= kernel.decode.hbm_efficiency <= 0.95
        assert kernel.decode.extra_tokens < 500
        assert kernel.prompts.extra_tokens < 2000


def test_eight_bits_halve_a_cache_and_not_the_time_on_hopper() -> None:
    def seconds(chip: str, kv: str) -> float:
        return _attention(_setup("llama_3_8b", chip, context=8000, kv=kv), plan_of(batch=64)).together_seconds

    assert 1.1 < seconds("h200_sxm", "bf16") / seconds("h200_sxm", "fp8") < 1.6
    assert 1.6 < seconds("b200", "bf16") / seconds("b200", "fp8") < 2.0


def test_ranks_that_share_the_tokens_of_a_sequence_each_pay_what_is_beside() -> None:
    setup = _setup(
        "deepseek_v3", "h200_sxm", f"assumptions.attention.scores={{latent: {{bf16: {_CURVE}}}}}", context=2000
    )
    plan = plan_of(8, ep=8, batch=8)
    shared = row_of(setup, replace(plan, dcp=8.0), "attention")
    assert shared.kv_padding == pytest.approx(1 + 100 / (2000 / 8))
