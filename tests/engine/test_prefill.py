"""Prefill steps against first principles: arithmetic, cache traffic, memory, launches, shared steps."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import inference_econ as ie
from inference_econ.engine import (
    Plans,
    Setup,
    evaluate,
    fastest_cut,
    prompts_of_a_step,
    shared_steps,
    step_seconds,
)
from inference_econ.engine import prefill as reading
from inference_econ.inputs import Precision, catalog
from tests import asking
from tests.planned import plan_of, row_of, setup_of
from tests.reading import scalar

few = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@cache
def _question(
    model: str, context: float = 0.0, preset: str = "deployable", changes: tuple[str, ...] = (), chip: str = "h100_sxm"
) -> Setup:
    return setup_of(model, chip, context, *changes, preset=preset)


def _plan(
    new_tokens: float = 1, *, prefill: bool = True, batch: float = 1, tp: float = 1, dp: float = 1, ep: float = 1
) -> Plans:
    return plan_of(tp, dp, ep=ep, batch=batch, new_tokens=new_tokens, prefill=prefill)


def _flop(setup: Setup, plans: Plans) -> float:
    """Return the arithmetic of all chips of a plan without pipeline [FLOP]."""
    work = setup.work(plans)
    tokens, sequences = scalar(work.tokens), scalar(work.sequences)
    return scalar(plans.accelerators) * math.fsum(
        scalar(row.repeats) * (scalar(row.flop_per_token) * tokens + scalar(row.flop_per_sequence) * sequences)
        for row in work.operators
    )


def _causal(tokens: int) -> float:
    """Return the pairs of a new token and an earlier one."""
    return tokens * (tokens - 1) / 2


@pytest.mark.parametrize("tokens", [1, 7, 4096])
@pytest.mark.parametrize("tp", [1, 4])
def test_a_dense_prompt_costs_two_flop_per_weight_and_token_and_causal_attention(tokens: int, tp: int) -> None:
    # Llama 3 8B: 32 layers of 32 heads of 128, 8 KV heads, 3 x 4096 x 14336.
    hidden, layers, heads, width = 4096, 32, 32, 128
    attention = hidden * (heads + 2 * 8) * width + heads * width * hidden
    matrices = layers * (attention + 3 * hidden * 14336)
    logits = 128_256 * hidden  # of the last token only
    expected = 2 * matrices * tokens + 2 * logits + layers * 4 * heads * width * _causal(tokens)
    assert _flop(_question("llama_3_8b"), _plan(tokens, tp=tp)) == pytest.approx(expected, rel=1e-12)
    # A common form with n^2 / 2 is equal up to 1 / n of the attention.
    half = layers * 4 * heads * width * tokens**2 / 2
    assert expected - 2 * matrices * tokens - 2 * logits == pytest.approx(half, rel=1 / tokens)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_prompt_of_a_mixture_of_experts_goes_through_active_experts(batch: int) -> None:
    # Qwen3-30B-A3B: 48 layers, 32 heads of 128, 4 KV heads, hidden 2048, 8 of 128 experts of 3 x 2048 x 768.
    tokens, hidden = 2000, 2048
    layer = hidden * (32 + 2 * 4) * 128 + 32 * 128 * hidden + 8 * 3 * hidden * 768 + hidden * 128
    causal = 48 * 4 * 32 * 128 * _causal(tokens)
    expected = batch * (2 * 48 * layer * tokens + 2 * 151_936 * hidden + causal)
    assert _flop(_question("qwen3_30b_a3b"), _plan(tokens, batch=batch)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("cached", [0, 500])
def test_latent_attention_decompresses_what_is_cached_once_per_prompt(cached: int) -> None:
    # DeepSeek-V2: 60 layers, 128 heads of 128 + 64 and 128, ranks 512 and 1536; 6 experts of 1536, 2 shared.
    tokens, hidden, heads = 300, 5120, 128
    down, up = hidden * (512 + 64 + 1536), 1536 * heads * 192 + 512 * heads * 256
    attention = down + up + heads * 128 * hidden
    matrices = 60 * attention + 3 * hidden * 12288 + 59 * (8 * 3 * hidden * 1536 + hidden * 160)
    attended = _causal(tokens) + tokens * cached
    scores = 60 * 2 * heads * (128 + 64 + 128) * attended
    decompressed = 60 * 2 * 512 * heads * (128 + 128) * cached
    expected = 2 * matrices * tokens + 2 * 102_400 * hidden + scores + decompressed
    # Whatever decode does.
    for variant in ("absorbed", "decompressed_per_step"):
        setup = _question("deepseek_v2", cached, changes=(f"attention.latent={variant}",))
        assert _flop(setup, _plan(tokens)) == pytest.approx(expected, rel=1e-12)


@few
@given(
    model=st.sampled_from(["llama_3_8b", "gpt_oss_20b", "gemma_3_12b", "qwen3_30b_a3b"]),
    preset=st.sampled_from(["paper", "deployable"]),
    cached=st.integers(0, 3000),
    first=st.integers(1, 3000),
    second=st.integers(1, 3000),
)
def test_chunks_of_a_prompt_cost_the_arithmetic_of_the_whole(
    model: str, preset: str, cached: int, first: int, second: int
) -> None:
    whole = _flop(_question(model, cached, preset), _plan(first + second))
    chunks = _flop(_question(model, cached, preset), _plan(first))
    chunks += _flop(_question(model, cached + first, preset), _plan(second))
    logits = scalar(row_of(_question(model, 0.0, preset), _plan(1), "output embedding").flop_per_sequence)
    assert chunks - logits == pytest.approx(whole, rel=1e-12)


def test_windows_bound_what_a_prompt_attends_to_and_what_is_read_of_the_cache() -> None:
    # GPT-OSS 20B: 12 layers see the last 128 tokens, 64 heads of 64, 8 KV heads.
    cached, tokens = 100, 500
    setup, plan = _question("gpt_oss_20b", cached), _plan(tokens)
    row = row_of(setup, plan, "attention (last 128)")
    seen = sum(min(cached + before, 128) for before in range(tokens))
    assert scalar(row.flop_per_token) * tokens == pytest.approx(4 * 64 * 64 * seen, rel=1e-12)
    # Reads: cached tokens, or the last 128 of them; writes: the prompt. Keys and values of 8 heads, 2 bytes.
    assert scalar(row.kv_bytes_per_sequence) == 2 * 8 * 64 * 2 * (cached + tokens)
    later = row_of(_question("gpt_oss_20b", 10_000), plan, "attention (last 128)")
    assert scalar(later.kv_bytes_per_sequence) == 2 * 8 * 64 * 2 * (128 + tokens)


@pytest.mark.parametrize("cached", [0, 1000])
def test_a_prompt_reads_the_weights_once_and_writes_its_cache_once(cached: int) -> None:
    tokens, batch = 2000, 3
    setup, plan = _question("llama_3_8b", cached), _plan(tokens, batch=batch)
    weights = math.fsum(scalar(row.repeats * row.weight_bytes) for row in setup.work(plan).operators)
    model = setup.model
    parts = model.parameter_parts()
    read = parts["attention"] + parts["feed_forward"] + model.vocab_size * model.hidden_size
    assert weights == pytest.approx(2 * read, rel=1e-12)
    row = row_of(setup, plan, "attention")
    assert scalar(row.repeats * row.kv_bytes_per_sequence) == pytest.approx(
        2 * model.kv_elements_per_token * (cached + tokens), rel=1e-12
    )


def test_only_the_last_token_of_each_prompt_is_sampled() -> None:
    setup = _question("llama_3_8b")
    for plan in (_plan(500, batch=3), _plan(1, batch=3, prefill=False)):
        row = row_of(setup, plan, "sampling")
        moved = scalar(row.activation_bytes_per_token) * scalar(setup.work(plan).tokens)
        # Written once and read twice, in 4 bytes.
        assert moved == pytest.approx(3 * 3 * 128_256 * 4, rel=1e-12)


def test_what_is_read_stays_in_memory() -> None:
    read = _question("llama_3_8b", 100).memory(_plan(2000, batch=4)).of_one_plan()
    held = _question("llama_3_8b", 2100).memory(_plan(1, batch=4, prefill=False)).of_one_plan()
    assert read == held
    with pytest.raises(ie.NothingFitsError, match="weights and KV cache exceed the memory"):
        asking.explain("llama_3_8b", "h100_sxm", tp=1, prompt=1_000_000, context=0)


def test_the_host_launches_prefill_kernel_by_kernel_and_decode_as_a_graph() -> None:
    setup = _question("llama_3_8b", changes=("host.graph_launch=1 us", "host.launch=100 us", "host.captured_tokens=0"))
    # 32 layers: two norms, QKV, three kernels of attention, its output, both sides, the activation; then two.
    kernels = 32 * (2 + 1 + 3 + 1 + 1 + 1 + 1) + 2
    for prefill in (True, False):
        launches = evaluate(setup, _plan(1, prefill=prefill), "1d").parts["launches"]
        assert scalar(launches) == pytest.approx(kernels * 1e-6, rel=1e-12)
    # The host runs ahead of the chip, unless the prompt is short.
    short, long, step = (evaluate(setup, plan, "1d") for plan in (_plan(10), _plan(8000), _plan(10, prefill=False)))
    assert scalar(short.seconds) == pytest.approx(kernels * 100e-6, rel=1e-12)
    assert scalar(long.seconds) > kernels * 100e-6
    assert scalar(short.parts["host"]) > scalar(long.parts["host"]) == scalar(step.parts["host"]) == 0.0


@pytest.mark.parametrize("model", ["llama_3_8b", "gpt_oss_20b", "qwen3_30b_a3b"])
def test_a_prompt_of_one_token_is_a_decode_step_that_also_writes(model: str) -> None:
    # Kernels of prompts and of decode steps have separate curves.
    setup = _question(model, 1000.0, changes=("host.cuda_graphs=false", "attention.scores={}"))
    one, step = _plan(1), _plan(1, prefill=False)
    assert _flop(setup, one) == pytest.approx(_flop(setup, step), rel=1e-12)
    prompt, decode = (scalar(step_seconds(setup, plan)[0]) for plan in (one, step))
    assert decode <= prompt <= 1.01 * decode


@pytest.mark.parametrize(("model", "tp", "least"), [("llama_3_8b", 1, 0.6), ("llama_3_70b", 8, 0.3)])
def test_long_prompts_keep_the_chips_busy(model: str, tp: int, least: float) -> None:
    explained = asking.explain(model, "h100_sxm", tp=tp, prompt=8192, context=0)
    assert explained.limited_by == "compute"
    setup = explained.setup
    assert least < explained.mfu <= setup.rates.flops_per_second("bf16") / setup.peaks["bf16"]
    assert explained.tokens_per_second == pytest.approx(8192 / explained.seconds)


@few
@given(
    model=st.sampled_from(["llama_3_8b", "deepseek_v3", "gpt_oss_20b"]),
    preset=st.sampled_from(["paper", "deployable"]),
    tokens=st.integers(1, 4000),
    more=st.integers(0, 4000),
    batch=st.integers(1, 16),
)
def test_longer_prompts_and_more_of_them_are_never_quicker(
    model: str, preset: str, tokens: int, more: int, batch: int
) -> None:
    setup = _question(model, 0.0, preset)
    lengths = ((tokens, 1), (tokens + more, 1), (tokens + more, batch))
    steps = [_plan(length, batch=prompts, tp=2.0, dp=4.0, ep=8.0) for length, prompts in lengths]
    short, long, several = (scalar(step_seconds(setup, step)[-1]) for step in steps)
    assert short <= long * (1 + 1e-12)
    assert long <= several * (1 + 1e-12)


# Prompts that share steps.

_SHORT = 512.0


def _sharing(chunk: int = 8192) -> Setup:
    spec, chip = catalog.model("qwen3_30b_a3b"), catalog.hardware("h100_sxm")
    assumed = catalog.assumptions("deployable", changes=[f"serving.prefill_chunk={chunk}"])
    return Setup(spec, chip, Precision.of(spec, "fp8", None, None), 0.0, assumed)


def test_prompts_that_share_a_step_take_less_than_one_after_the_other() -> None:
    share = shared_steps(_sharing(), _plan(), _SHORT, 0.0, [1.0, 2.0, 4.0, 16.0])
    assert share[0] == 1.0
    assert np.all(np.diff(share) < 0)


def test_their_step_is_that_of_so_many_sequences() -> None:
    share = shared_steps(_sharing(), _plan(), _SHORT, 0.0, [4.0])
    one = _plan(_SHORT)
    step, four = fastest_cut(_sharing(), one), replace(one, batch=np.full(1, 4.0))
    assert step == pytest.approx(reading.prefill(_sharing(), _plan(), _SHORT).seconds)
    assert share == pytest.approx(fastest_cut(_sharing(), four) / (4.0 * step))


def test_a_step_holds_no_more_tokens_than_the_assumptions_say() -> None:
    # 8192 tokens are 16 prompts of 512: more of them wait for the next step.
    assert prompts_of_a_step(_sharing(), _SHORT) == 16.0
    full, more = shared_steps(_sharing(), _plan(), _SHORT, 0.0, [16.0, 64.0])
    assert more == full
    assert shared_steps(_sharing(chunk=512), _plan(), _SHORT, 0.0, [64.0]) == 1.0
    assert prompts_of_a_step(_sharing(chunk=512), 2000.0) == 1.0
    # Without a limit all fit one step.
    assert shared_steps(_sharing(chunk=0), _plan(), _SHORT, 0.0, [64.0]) < more


def test_groups_take_equal_parts_of_the_prompts() -> None:
    # Two groups of two chips: two prompts are one for each.
    share = shared_steps(_sharing(), _plan(tp=2.0, dp=2.0, ep=4.0), _SHORT, 0.0, [1.0, 2.0, 4.0, 32.0])
    assert share[0] == 1.0
    # The second prompt runs in parallel: a group waits for half of the time of each.
    assert 0.5 < share[1] < 0.8
    assert np.all(np.diff(share) < 0)
