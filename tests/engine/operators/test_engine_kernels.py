"""Kernel launches of a decode step: counts per layer by hand, and norms over ranks."""

from __future__ import annotations

import pytest

from inference_econ.engine import Plans, Setup, evaluate
from inference_econ.engine.operators.table import Operator
from inference_econ.errors import InputError, UnknownNameError
from tests.planned import plan_of
from tests.reading import scalar

#: Rows that a step has once.
_ONCE = ("output embedding", "sampling", "pipeline hand-off")


def _plans(tp: float) -> Plans:
    return plan_of(tp, batch=4)


def _setup(model: str, chip: str, engine: str | None, weights: str | None = None, kv: str | None = None) -> Setup:
    changes = [] if engine is None else [f"assumptions.host.engine={engine}"]
    return Setup.of(model, chip, weights=weights, kv=kv, assumptions="deployable", changes=changes, context=1000.0)


def _per_layer(setup: Setup, tp: float) -> float:
    """Return the kernels of all layers over the number of layers [1]."""
    work = setup.work(_plans(tp))
    rows = [row for row in work.operators if row.name not in _ONCE]
    return sum(scalar(row.repeats * setup.rates.kernels(row, work)) for row in rows) / setup.model.layers


@pytest.mark.rows
def test_llama_70b_in_8_bits_on_h200_by_hand(engine: str | None, tp: int, kernels: list[int]) -> None:
    assert _per_layer(_setup("llama_3_70b", "h200_sxm", engine, "fp8"), tp) == sum(kernels)


@pytest.mark.rows
def test_gpt_oss_with_experts_in_4_bits_by_hand(engine: str, chip: str, kernels: list[int]) -> None:
    assert _per_layer(_setup("gpt_oss_120b", chip, engine), 4) == sum(kernels)


def test_latent_attention_of_sglang_by_hand() -> None:
    """DeepSeek V3 in blocks of 128 on H200, tensor-parallel over 8, SGLang 0.5.9: norms are in the all-reduces.

    Attention in all 61 layers has 13 kernels: down 2 (quantize, product), q_a norm, q_b 2, two absorbed products (5 in
    all), rotation, cache write, attention, sum (4), output 2. Each of the three dense layers has in 2, activation 1,
    out 2. The others have 11: router, top-k, five to the activation, three to the sum, and one that adds the shared
    expert.
    """
    setup = _setup("deepseek_v3", "h200_sxm", "sglang 0.5.9")
    assert 61 * _per_layer(setup, 8) == pytest.approx(61 * 13 + 3 * 5 + 58 * 11)


def test_gated_delta_nets_of_sglang_by_hand() -> None:
    """Qwen3.5 397B in blocks of 128 on H200, tensor-parallel over 8, SGLang 0.5.9: 45 recurrent layers of 60.

    Recurrent layers have 13 kernels: norms 2, four projections of which two are quantized first and the output (8),
    convolution, recurrence, gated norm (3). Attention layers have 10: no norms outside the all-reduces, qkv 2, norms of
    heads 1, rotation, cache write, attention, sum 4, gate 1, output 2. Each has 11 more: router, top-k, eight of
    experts, the shared sum.
    """
    setup = _setup("qwen3_5_397b_a17b", "h200_sxm", "sglang 0.5.9", "fp8_block")
    assert 60 * _per_layer(setup, 8) == pytest.approx(45 * 13 + 15 * 10 + 60 * 11)


@pytest.mark.parametrize(("engine", "kernels"), [("vllm 0.15.0", 5.0), ("sglang 0.5.9", 2.0), (None, 0.0)])
def test_norms_over_ranks_are_an_all_reduce(engine: str | None, kernels: float) -> None:
    setup = _setup("minimax_m2_5", "h200_sxm", engine)
    row = _row(setup, 4.0, "norms over ranks")
    assert scalar(setup.rates.kernels(row, setup.work(_plans(4.0)))) == kernels
    (sums,) = row.collectives["1d"]
    # Two sums of squares of 32 bits per token, added up over four ranks.
    assert (sums.kind, scalar(sums.ranks), scalar(sums.bytes_per_token)) == ("all_reduce", 4.0, 8.0)
    one, four = (scalar(evaluate(setup, _plans(tp), "1d").parts["all_reduce_latency"]) for tp in (1.0, 4.0))
    assert one == 0.0 < four


def test_norms_of_heads_are_not() -> None:
    row = _row(_setup("qwen3_235b_a22b", "h200_sxm", None), 4.0, "query and key norms")
    assert not row.collectives


def test_a_step_takes_the_time_of_the_kernels() -> None:
    """Eleven kernels of 80 layers instead of 14, four microseconds each, save 0.96 ms."""
    usual, fewer = (
        scalar(evaluate(_setup("llama_3_70b", "h200_sxm", engine, "fp8"), _plans(8), "1d").parts["launches"])
        for engine in (None, "vllm 0.18.0")
    )
    assert usual - fewer == pytest.approx(3 * 80 * 4e-6)


def test_what_nobody_counted_is_as_the_operator_table_says() -> None:
    old, none = (_per_layer(_setup("llama_3_70b", "h200_sxm", engine, "fp8"), 8) for engine in ("sglang 0.5.3", None))
    assert old == none


@pytest.mark.parametrize(
    ("engine", "error", "message"),
    [
        ("vlm", UnknownNameError, "vlm.*vllm"),
        ("vllm new", InputError, "'new' is not a version"),
        ("vllm 0.5.0", InputError, "nothing is known of versions before 0.10.0"),
    ],
)
def test_engines_that_are_not_known(engine: str, error: type[InputError], message: str) -> None:
    with pytest.raises(error, match=message):
        _per_layer(_setup("llama_3_8b", "h200_sxm", engine), 1)


def _row(setup: Setup, tp: float, name: str) -> Operator:
    (row,) = (row for row in setup.work(_plans(tp)).operators if row.name == name)
    return row
