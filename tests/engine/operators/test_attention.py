"""Attention: formats of projections, chunks, selected blocks, and the curves of kernels."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_econ.engine import Plans, Setup, memory
from inference_econ.engine.memory import held_cache
from inference_econ.engine.operator_costs import OperatorCosts, operator_costs
from inference_econ.engine.prefill import prefill
from inference_econ.errors import InputError, SpecError
from inference_econ.inputs import Precision, Requests, Traffic, catalog
from inference_econ.inputs.layers import GroupedQueryAttention
from inference_econ.records.texts import formats_label
from tests.planned import plan_of, row_of
from tests.reading import present

# Output projections of attention in a separate number format, as in NVIDIA's DeepSeek-V3.1.

#: 61 layers, 128 heads of 128, hidden size 7168.
OUTPUT = 61 * 128 * 128 * 7168
NVFP4 = 0.5 + 1 / 16


def test_by_default_all_of_attention_has_one_format() -> None:
    plain = Precision.of(catalog.model("deepseek_v3"))
    assert plain.attention_output == plain.attention == "fp8_block"
    mixed = Precision.of(catalog.model("deepseek_v3_nvfp4"))
    assert (mixed.attention, mixed.attention_output) == ("bf16", "nvfp4")
    assert formats_label(mixed) == "weights nvfp4, attention bf16, embeddings bf16"
    given = Precision.of(catalog.model("deepseek_v3_nvfp4"), "fp8")
    assert given.attention_output == "fp8"


def test_a_format_that_differs_from_both_is_told() -> None:
    precision = Precision("fp8", "bf16", "fp8", "fp8", "fp8", "bf16", "bf16", "nvfp4")
    assert formats_label(precision) == "weights fp8, attention bf16, attention output nvfp4"
    assert precision.of_weights == ("fp8", "bf16", "nvfp4")


def test_memory_and_traffic_of_output_projections() -> None:
    mixed = catalog.model("deepseek_v3_nvfp4")
    wide = mixed.model_copy(update={"attention_output_weights": None})
    stored = [memory.weight_bytes(model, Precision.of(model)) for model in (wide, mixed)]
    assert stored[0] - stored[1] == pytest.approx(OUTPUT * (2.0 - NVFP4), rel=1e-12)
    plans = plan_of(8, batch=64)
    for model, width, unit in ((wide, 2.0, "bf16"), (mixed, NVFP4, "fp4")):
        setup = Setup(model, catalog.hardware("b200"), Precision.of(model), 0.0, catalog.assumptions("deployable"))
        rows = [row for row in setup.work(plans).operators if row.name == "attention output"]
        assert sum(row.repeats * float(np.ravel(row.weight_bytes)[0]) for row in rows) == pytest.approx(
            OUTPUT * width / 8
        )
        assert {setup.rates.unit(row.dtype) for row in rows} == {unit}


# Chunked attention, as in Llama 4: three of four layers of Scout, in chunks of 8,192 tokens.

CHUNK = 8192
#: 8 KV heads of 128, keys and values in 2 bytes: 36 layers of chunks, and 12 that see everything.
CHUNKED, WHOLE = 36 * 2 * 8 * 128 * 2, 12 * 2 * 8 * 128 * 2
ROW = f"attention (chunks of {CHUNK})"


def _chunked(context: float, spread: float = 0.0, *changes: str) -> Setup:
    model = catalog.model("llama_4_scout")
    assumptions = catalog.assumptions("deployable", changes=changes)
    return Setup(model, catalog.hardware("h200_sxm"), Precision.of(model), context, assumptions, spread=spread)


def _read(setup: Setup, plan: Plans, name: str) -> float:
    rows = [row for row in setup.work(plan).operators if row.name == name]
    return sum(float(np.ravel(row.kv_bytes_per_sequence * row.repeats)[0]) for row in rows)


@pytest.mark.rows
def test_what_a_decode_step_reads(context: float, spread: float, tokens: float) -> None:
    setup = _chunked(context, spread)
    assert _read(setup, plan_of(whole=False), ROW) == pytest.approx(CHUNKED * tokens)
    assert _read(setup, plan_of(whole=False), "attention") == pytest.approx(WHOLE * context)


def test_the_middle_of_a_chunk_reads_six_tenths_at_7000_tokens() -> None:
    middle = _chunked(7000.0, 0.0, "attention.chunk_position=middle")
    share = _read(middle, plan_of(whole=False), "attention (last 4096)") / _read(
        _chunked(7000.0), plan_of(whole=False), ROW
    )
    assert share == pytest.approx(4096 / 7000) == pytest.approx(0.585, abs=1e-3)


@settings(max_examples=50, deadline=None)
# Valid contexts: zero, or from 1e-15 on.
@given(st.just(0.0) | st.floats(1e-15, 5e4), st.floats(0, 2e4), st.integers(1, 8))
def test_no_step_sees_more_than_a_chunk_or_than_there_is(context: float, spread: float, new_tokens: int) -> None:
    setup, plan = _chunked(context, spread), plan_of(whole=False, new_tokens=new_tokens)
    inside = _read(setup, plan, ROW) / CHUNKED
    assert -1e-6 <= inside <= min(CHUNK, context + (new_tokens - 1) / 2) * (1 + 1e-9) + 1e-6


def _flop(setup: Setup, plan: Plans) -> float:
    rows = [row for row in setup.work(plan).operators if row.name == ROW]
    return sum(float(np.ravel(row.flop_per_token * row.repeats * plan.new_tokens)[0]) for row in rows)


def test_a_prompt_is_the_sum_over_its_steps() -> None:
    """Compare 20,000 tokens in steps of 5,000, one by one, with the middle step that represents all."""
    steps = [_chunked(start) for start in (0.0, 5000.0, 10_000.0, 15_000.0)]
    halfway, plan = _chunked(7500.0, 15_000.0), plan_of(whole=False, new_tokens=5000.0, prefill=True)
    assert 4 * _flop(halfway, plan) == pytest.approx(sum(_flop(step, plan) for step in steps), rel=1e-12)
    assert 4 * _read(halfway, plan, ROW) == pytest.approx(sum(_read(step, plan, ROW) for step in steps), rel=1e-12)
    # Cached tokens of the same chunk at the start of a step: 0, 5000, 1808 and 6808; and 5,000 that are written.
    assert [_read(step, plan, ROW) / CHUNKED for step in steps] == [5000.0, 10_000.0, 6808.0, 11_808.0]


def test_reading_a_prompt_does_not_depend_on_the_spread_of_answers() -> None:
    setup, plan = _chunked(7000.0), plan_of(whole=False)
    times = [prefill(replace(setup, spread=spread), plan, 20_000.0).seconds for spread in (0.0, 2000.0)]
    assert times[0] == times[1]


@pytest.mark.parametrize("spread", [-1.0, float("nan"), 1e13])
def test_a_spread_is_a_number_of_tokens(spread: float) -> None:
    message = f"the spread must be a number of tokens from 0 to 1e+12, got {spread:g}"
    with pytest.raises(InputError, match=re.escape(message)):
        _chunked(1000.0, spread)


def test_contexts_are_spread_over_answers() -> None:
    assert (Traffic(isl=7000, osl=2000).spread, Traffic(context=8000).spread) == (2000.0, 0.0)
    requests = Requests.model_validate({"isl": 7000, "osl": 2000})
    assert (requests.mean_context, requests.spread) == (8000.0, 2000.0)


# Attention to blocks of tokens that an indexer selects per KV head, as in MiniMax-M3.

#: 64 query heads, 4 KV heads of 128, 4 index heads of 128, 16 blocks of 128 tokens.
SPARSE = GroupedQueryAttention(
    kind="grouped_query", query_heads=64, kv_heads=4, head_dim=128, index_heads=4, index_head_dim=128, index_top_k=2048
)


def _picking(context: float) -> Setup:
    model = catalog.model("llama_3_8b")
    blocks = [block.model_copy(update={"attention": SPARSE}) for block in model.blocks]
    model = model.model_copy(update={"blocks": blocks})
    assumptions = catalog.assumptions("deployable")
    return Setup(model, catalog.hardware("h200_sxm"), Precision.of(model), context, assumptions)


@pytest.mark.parametrize(("context", "attended"), [(1000.0, 1000.0), (2048.0, 2048.0), (100_000.0, 2048.0)])
def test_a_step_scans_all_index_keys_and_reads_what_is_picked(context: float, attended: float) -> None:
    rows = {row.name: row for row in _picking(context).work(plan_of(whole=False)).operators}
    scan, scores = rows["index scan"], rows["attention"]
    assert scan.kv_bytes_per_sequence == pytest.approx(128 * 2 * context)
    assert scan.flop_per_token == pytest.approx(2 * 4 * 128 * context)
    assert scores.kv_bytes_per_sequence == pytest.approx(2 * 4 * 128 * 2 * attended)
    assert scores.flop_per_token == pytest.approx(4 * 64 * 128 * attended)
    projected = (64 + 2 * 4 + 4 + 1) * 128 * 4096
    assert rows["qkv"].flop_per_token == pytest.approx(2 * projected)


def test_index_keys_are_cached_in_the_format_of_keys_and_values() -> None:
    """The format is independent of that of DeepSeek's indexer keys, which have 8 bits and a scale."""
    setup = _picking(10_000.0)
    assert setup.assumptions.attention.index_keys == "eight_bit"
    held = held_cache(setup.model, setup.precision, plan_of(whole=False), 16_000.0, setup.assumptions)
    assert held["kv_cache"] == pytest.approx(32 * (2 * 4 * 128 + 128) * 2 * 16_000, rel=1e-3)


@pytest.mark.rows
def test_parts_that_do_not_fit(change: dict[str, int | None], problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        GroupedQueryAttention(**{**SPARSE.model_dump(), **change})


# Attention curves: a decode step and a prompt by hand, and chips without a curve.

_CURVE = (
    "{decode: {math_efficiency: 0.5, hbm_efficiency: 0.8, overlap: 0.75, extra_tokens: 100}, "
    "prompts: {math_efficiency: 0.6, extra_tokens: 400, extra_elements: 32}}"
)


def _setup(model: str, chip: str, *changes: str, context: float = 0.0, kv: str | None = None) -> Setup:
    return Setup.of(model, chip, kv=kv, assumptions="deployable", context=context, changes=changes)


def _attention(setup: Setup, plan: Plans, name: str = "attention") -> OperatorCosts:
    return next(row for row in operator_costs(setup, plan, "1d") if row.name == name)


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


@pytest.mark.parametrize(
    ("ranks", "prompts", "nanoseconds"),
    [(8, 1, 46.4), (4, 1, 78.2), (8, 2, 29.3)],
    ids=["8 heads", "16 heads", "2 prompts"],
)
def test_prompts_pass_a_recurrent_layer_as_slowly_as_measured(ranks: int, prompts: int, nanoseconds: float) -> None:
    """Time per token of Gated DeltaNet in SGLang 0.5.14 on H200 (``gdn_perf`` of aiconfigurator-core 0.12.0)."""
    setup = Setup.of("qwen3_5_397b_a17b", "h200_sxm", assumptions="profiles/sglang_hopper")
    row = _attention(setup, plan_of(ranks, batch=prompts, new_tokens=2048, prefill=True), "recurrent state")
    assert row.compute_seconds / (45 * prompts * 2048) == pytest.approx(nanoseconds * 1e-9, rel=0.3)


def test_recurrent_layers_take_longer_with_a_kernel() -> None:
    """The arithmetic of one head takes as long as that of ``extra_heads`` more, and tokens of a prompt are serial."""
    change = "assumptions.attention.scores={recurrent: {math_efficiency: 0.02, extra_heads: 24}}"
    setup = _setup("qwen3_5_397b_a17b", "h200_sxm", change)
    row = _attention(setup, plan_of(8, batch=2, new_tokens=1000, prefill=True), "recurrent state")
    # 64 heads of 128 x 128 elements over 8 ranks; 6 operations per element; 8 heads of 2 prompts side by side.
    flop = 45 * 2000 * 6 * 8 * 128 * 128.0
    assert row.compute_seconds == pytest.approx(flop / (0.02 * 989.5e12) * (1 + 24 / 16), rel=1e-3)
    assert row_of(setup, plan_of(8, batch=2), "recurrent state").rates is None


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


def test_every_rank_stores_the_index_keys_by_hand() -> None:
    """The four KV heads of MiniMax-M3 are split over ranks, or copied; the one index key of a token is not split."""
    setup = Setup.of("minimax_m3", "h200_sxm", context=16_000.0)
    for tp, heads in ((1, 4), (4, 1), (8, 1)):
        plan = plan_of(tp)
        (held,) = np.ravel(held_cache(setup.model, setup.precision, plan, 16_000.0, setup.assumptions)["kv_cache"])
        of_rank = 60 * 2 * heads * 128 * 2 + 57 * 128 * 2
        assert held == pytest.approx(tp * of_rank * 16_000)
