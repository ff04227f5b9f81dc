"""Attention-DP groups: joint steps, copied weights, and steps with both decode and prefill."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_econ.engine import Plans, Setup, fastest_cut, mixed_step_seconds, saved_seconds, unhindered
from inference_econ.engine.prefill import prefill
from tests.asking import setup as asking_setup

GROUPED = (("deepseek_v3", 1, 8, 8), ("qwen3_30b_a3b", 2, 4, 8), ("llama_3_8b", 2, 2, 1))


def _setup(model: str, context: float = 2000.0, *changes: str, hardware: str = "h200_sxm") -> Setup:
    return Setup.of(
        model, hardware, assumptions="deployable", context=context, changes=[f"assumptions.{one}" for one in changes]
    )


def _plans(tp: int, dp: int, ep: int, batch: object, pp: int = 1) -> Plans:
    sequences = np.atleast_1d(np.asarray(batch, dtype=float))
    one = np.ones_like(sequences)
    return Plans(one * tp * dp * pp, sequences, one * pp, one * tp, one * ep, whole=True)


@pytest.mark.parametrize(("model", "tp", "dp", "ep"), GROUPED)
def test_a_prompt_alone_and_one_for_each_group(model: str, tp: int, dp: int, ep: int) -> None:
    """The times are A + M / R and A + M, with a group's own work A and shared work M of R groups."""
    asked, plan = _setup(model, 0.0), _plans(tp, dp, ep, 1.0)
    read = prefill(asked, plan, 2000.0)
    alone, full = float(read.seconds[0]), float(read.full_seconds[0]) * dp
    assert float(read.busy_seconds[0]) == alone
    assert full / dp < alone < full
    # Steps in between: k prompts for the fullest group, n in all.
    shared = (full - alone) / (dp - 1.0) * dp
    own = full - shared
    for prompts in range(2, dp):
        reading = replace(plan, batch=np.full(1, float(prompts)), new_tokens=2000.0, prefill=True)
        step = float(fastest_cut(asked, reading)[0])
        assert step == pytest.approx(own + shared * prompts / dp, rel=0.05)


def test_a_step_of_one_sequence_by_hand() -> None:
    """Llama 3.1 8B on two groups of one chip: a group reads its full cache, and feed-forward is split over both.

    The cache of one sequence at 2,000 tokens has 32 layers x 2 x 8 heads x 128 x 2 B x 2,000 = 262.1 MB. One chip reads
    it at 4.8 TB/s x 0.75 (75% of the bandwidth) in 0.0728 ms, with or without a sequence in the other group.
    """
    asked = _setup("llama_3_8b", 2000.0, "chip.hbm_efficiency=0.75")
    work = [asked.work(_plans(1, 2, 1, batch)) for batch in (1.0, 2.0, 3.0)]
    rows = [next(row for row in one.operators if row.name == "attention") for one in work]
    moved = [
        float((row.kv_bytes_per_sequence * one.sequences_of(row) * 32)[0]) for row, one in zip(rows, work, strict=True)
    ]
    assert moved == pytest.approx([262_144_000.0, 262_144_000.0, 524_288_000.0])
    feed = [next(row for row in one.operators if row.name == "ff in") for one in work]
    tokens = [float(one.tokens_of(row)[0]) for row, one in zip(feed, work, strict=True)]
    assert tokens == [1.0, 2.0, 3.0]


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(GROUPED), st.integers(1, 300), st.sampled_from((1, 2)))
def test_a_step_waits_for_the_fullest_group(layout: tuple[str, int, int, int], batch: int, depth: int) -> None:
    model, tp, dp, ep = layout
    asked = _setup(model)
    even = -(-batch // dp) * dp
    if model == "deepseek_v3":
        depth = 1  # 61 layers
    batches = np.array([batch, batch + 1.0, even]) * depth
    step, larger, full = fastest_cut(asked, _plans(tp, dp, ep, batches, depth))
    assert step <= larger * (1.0 + 1e-9)
    assert step <= full * (1.0 + 1e-9)
    # If the groups divide the batch, they are even.
    plain = replace(_plans(tp, dp, ep, batches[2:], depth), fullest=1.0)
    assert fastest_cut(asked, plain)[0] == full
    needed = [float(asked.memory(_plans(tp, dp, ep, one, depth)).kv_bytes[0]) for one in (batches[0], batches[2])]
    assert needed[0] <= needed[1]


def test_what_groups_hold_copies_of() -> None:
    """DeepSeek-V3 in eight groups of one chip, bytes of a chip that were an eighth before.

    | | whole | over eight |
    |---|---|---|
    | embeddings, 2 x 129,280 x 7,168 x 2 B | 3.707 GB | 0.463 GB |
    | 3 dense layers, 3 x 3 x 7,168 x 18,432 x 1.00024 B | 1.189 GB | 0.149 GB |
    | 58 routers, 256 x 7,168 x 1.00024 B | 0.106 GB | 0.013 GB |
    """
    held, cut = (
        _setup("deepseek_v3", 2000.0, f"layout.group_copies={how}").memory_of_one_accelerator(_plans(1, 8, 8, 8.0))
        for how in ("held", "none")
    )
    embeddings, dense, routers = 2 * 129280 * 7168 * 2, 9 * 7168 * 18432 * 1.00024, 58 * 256 * 7168 * 1.00024
    added = sum(held[name] - cut[name] for name in ("embeddings", "feed_forward"))
    assert added == pytest.approx(7 / 8 * (embeddings + dense + routers), rel=2e-3)
    assert added == pytest.approx(4.37e9, rel=1e-2)
    # Each group reads them completely: the output embedding alone is 1.85 GB of every step.
    rows = _setup("deepseek_v3").work(_plans(1, 8, 8, 8.0)).operators
    (head,) = [row for row in rows if row.name == "output embedding"]
    assert float(np.max(head.weight_bytes)) == 129280 * 7168 * 2
    # Dense models have no copies.
    dense_model = [
        _setup("llama_3_8b", 2000.0, f"layout.group_copies={how}").memory(_plans(1, 2, 1, 8.0))
        for how in ("held", "none")
    ]
    assert dense_model[0].weight_bytes == dense_model[1].weight_bytes


def test_a_mixed_step_reads_weights_once() -> None:
    """Llama 3.1 8B on an H100: one sequence and one prompt of 200 tokens, both limited by the same weights.

    Both steps read 7.5 billion weights of 2 B and launch 302 kernels in graphs. Two steps do so twice, and one mixed
    step once. Compared with the decode step it adds activations of 200 tokens and their attention.
    """
    asked = unhindered(_setup("llama_3_8b", hardware="h100_sxm"))
    plan, one = _plans(1, 1, 1, [1.0, 64.0, 256.0]), np.ones(3)
    decode, both = fastest_cut(asked, plan), mixed_step_seconds(asked, plan, 200.0, 0.0, one)
    saved = saved_seconds(asked, plan, 200.0, 0.0, one)
    alone = decode + fastest_cut(replace(asked, context=0.0), replace(plan, batch=one, new_tokens=200.0, prefill=True))
    np.testing.assert_allclose(both, alone - saved, rtol=1e-9)
    weights = 2.0 * 7_504_658_432 / asked.rates.weight_bytes_per_second("bf16")
    assert saved[0] == pytest.approx(weights + 302 * 4e-6, rel=0.05)
    assert (both > decode).all()
    # Full steps save no arithmetic. They save launches, and decode reads weights that a long prompt reads anyway, as
    # far as these times are not hidden.
    many = saved_seconds(asked, _plans(1, 1, 1, 256.0), 8000.0, 0.0, np.ones(1))
    assert 0.0 < many[0] - 302 * 4e-6 < 0.5 * weights


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(GROUPED), st.integers(1, 500), st.integers(1, 8000), st.integers(0, 8000))
def test_a_mixed_step_is_longer_than_either_and_shorter_than_both(
    layout: tuple[str, int, int, int], batch: int, tokens: int, cached: int
) -> None:
    model, tp, dp, ep = layout
    asked, plan, one = unhindered(_setup(model)), _plans(tp, dp, ep, float(batch)), np.ones(1)
    decode, saved = fastest_cut(asked, plan), saved_seconds(asked, plan, float(tokens), float(cached), one)
    alone = fastest_cut(
        replace(asked, context=float(cached)), replace(plan, batch=one, new_tokens=float(tokens), prefill=True)
    )
    assert 0.0 <= saved[0] <= min(decode[0], alone[0])


def test_a_suffix_after_a_cached_prompt_by_hand() -> None:
    """A suffix of 200 tokens after 9,800: Llama 3.1 8B in 16 bits on an H100 under the fitted profile.

    Matrices: 7.5 G x 2 FLOP x 200 = 3.0 TFLOP at 83% of 989 TFLOP/s. The read of 15.0 GB at 89% of 3.35 TB/s takes
    longer, 5.0 ms, and hides 86% of the arithmetic, which adds 0.5 ms.

    Attention: 4 x 32 x 128 x 9,900 x 200 x 32 = 1.04 TFLOP at 41% of 989 TFLOP/s, 2.6 ms. Together they take less than
    10 ms.

    The host launches three attention kernels and a graph per layer, and one more graph: 129 x 82.5 us = 10.6 ms.
    Prompts take 1.20 times the time of their operators: 12.8 ms. All 386 kernels of vLLM would take 38.3 ms; engines
    capture steps of up to 512 tokens.
    """
    asked = asking_setup("llama_3_8b", "h100_sxm", 0.0, assumptions="profiles/hopper")
    asked = replace(asked, assumptions=asked.assumptions.changed({"host.launch": 82.5e-6}))
    host, factor = asked.assumptions.host, asked.assumptions.serving.prefill_factor
    read = prefill(asked, _plans(1, 1, 1, 1.0), 200.0, 9800.0)
    assert float(read.seconds[0]) == pytest.approx(129 * host.launch * factor, rel=0.02)
    eager = replace(asked, assumptions=asked.assumptions.changed({"host.captured_tokens": 0.0}))
    launched = prefill(eager, _plans(1, 1, 1, 1.0), 200.0, 9800.0)
    assert float(launched.seconds[0]) == pytest.approx(386 * host.launch * factor, rel=0.02)
    # Longer steps are launched kernel by kernel under both.
    long = [float(prefill(one, _plans(1, 1, 1, 1.0), 600.0, 9800.0).seconds[0]) for one in (asked, eager)]
    assert long[0] == long[1]
