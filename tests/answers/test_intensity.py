"""The batch at which a step changes from memory-bound to compute-bound, against formulas and the rows of 'explain'."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from inference_econ.answers.explain import Axis, Intensity, IntensitySweep, explain, intensity
from inference_econ.engine import Pins, Setup
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas.roofline import critical_batch
from inference_econ.report.questions.explain import IntensityPage
from tests.reading import present

LLAMA = Setup.of("llama_3_70b", "h100_sxm", assumptions="ideal")


@pytest.fixture(scope="module")
def dense() -> Intensity:
    return intensity(LLAMA, Pins(tp=8))


def _of(answer: Intensity, name: str) -> IntensitySweep:
    (sweep,) = (sweep for sweep in answer.operators if sweep.name == name)
    return sweep


def test_the_closed_form_is_that_of_the_formula(dense: Intensity) -> None:
    ours = critical_batch(2.0, LLAMA.hardware.hbm_bytes_per_second, LLAMA.peaks["bf16"])
    assert ours == pytest.approx(295.3, abs=0.1)
    weights = ("qkv", "attention output", "ff in", "ff out", "output embedding")
    assert [_of(dense, name).closed_form for name in weights] == pytest.approx([ours] * 5, rel=1e-9)
    assert _of(dense, "attention").closed_form is None


@pytest.mark.parametrize(("name", "inner", "columns"), [("ff out", 14336, 4096), ("attention output", 4096, 4096)])
def test_a_product_turns_where_its_weights_and_activations_take_as_long_as_its_arithmetic(
    name: str, inner: int, columns: int
) -> None:
    """On one chip, 2 b k n / C = (p k n + a b (k + n)) / B: a second calculation without the engine."""
    setup = Setup.of("llama_3_8b", "h100_sxm", assumptions="ideal")
    byte_rate, peak = setup.hardware.hbm_bytes_per_second, setup.peaks["bf16"]
    per_token = 2.0 * inner * columns / peak - 2.0 * (inner + columns) / byte_rate
    by_hand = math.ceil(2.0 * inner * columns / byte_rate / per_token)
    assert _of(intensity(setup, Pins()), name).turns_at == by_hand
    assert 300 < by_hand < 400


@pytest.mark.parametrize("name", ["qkv", "ff in", "ff out"])
def test_one_less_is_bound_by_memory(dense: Intensity, name: str) -> None:
    turn = present(_of(dense, name).turns_at)
    for batch, bound in ((turn - 1, "memory"), (turn, "compute")):
        rows = {row.name: row for row in explain(LLAMA, Pins(tp=8, batch=batch)).operators}
        assert rows[name].bound == bound


def test_attention_never_does_arithmetic_enough(dense: Intensity) -> None:
    """The intensity is 2 g / p: eight query heads per 16-bit KV head."""
    attention = _of(dense, "attention")
    assert attention.flop_per_byte == pytest.approx(np.full(dense.values.size, 8.0), rel=1e-9)
    assert (attention.turns_at, attention.bound) == (None, "memory")
    assert (dense.step.turns_at, dense.step.bound) == (None, "memory")


def test_the_layout_decides_the_intensity_of_latent_attention() -> None:
    """The intensity is 2 h (2 r + q) over 2 (r + q) bytes for the heads of a GPU. The note states both ends for every
    layout.
    """
    setup, whole = Setup.of("deepseek_v3", "h200_sxm"), 128 * (2 * 512 + 64) / (512 + 64)
    for pins, heads in ((Pins(tp=8), 8), (Pins(dp=8), 1)):
        answer = intensity(setup, pins, over="context")
        assert _of(answer, "attention").flop_per_byte[-1] == pytest.approx(whole / heads, rel=1e-3)
        assert IntensityPage(answer).tables()[0].notes[1] == (
            "Latent attention has 30.2 FLOP/B with tp8, which splits the heads, and 242 FLOP/B with dp8."
        )


def test_short_contexts_let_the_step_turn() -> None:
    answer = intensity(LLAMA, Pins(tp=8), context=100)
    assert answer.step.bound == "compute"
    turn = int(present(answer.step.turns_at))
    assert answer.values[0] < turn < answer.values[-1]

    def computes(batch: int) -> bool:
        rows = explain(LLAMA, Pins(tp=8, batch=batch), context=100).operators
        return sum(row.compute_seconds for row in rows) >= sum(row.memory_seconds for row in rows)

    assert [computes(turn - 1), computes(turn)] == [False, True]


def test_experts_need_the_batch_times_experts_over_active_ones() -> None:
    answer = intensity(Setup.of("mixtral_8x7b", "h100_sxm", assumptions="ideal"), Pins(tp=2))
    assert answer.sparsity == 4.0
    dense_form, expert_form = (present(_of(answer, name).closed_form) for name in ("qkv", "experts in"))
    assert expert_form / dense_form == pytest.approx(4.0, rel=1e-3)
    turns = [_of(answer, name).turns_at for name in ("qkv", "experts in")]
    assert turns[0] is not None and turns[1] is not None
    assert 3.5 < turns[1] / turns[0] < 4.5


def test_copies_of_weights_count_for_their_group() -> None:
    setup = Setup.of("deepseek_v3", "h200_sxm", assumptions="ideal")
    forms = [_of(intensity(setup, pins), "latent down").closed_form for pins in (Pins(tp=8), Pins(dp=8))]
    assert forms[0] == pytest.approx(206.1, abs=0.1)
    assert forms[1] == pytest.approx(8 * 206.1, rel=1e-3)


def test_memory_has_room_for_so_many_and_not_for_one_more(dense: Intensity) -> None:
    assert dense.room is not None
    explain(LLAMA, Pins(tp=8, batch=dense.room))
    with pytest.raises(NothingFitsError):
        explain(LLAMA, Pins(tp=8, batch=dense.room + 1))


@pytest.mark.parametrize("over", ["context", "prompt"])
def test_a_value_is_the_step_that_explain_takes_apart(over: Axis) -> None:
    answer = intensity(LLAMA, Pins(tp=8, batch=4), over=over, most=4096)
    asked = {"context": {"context": 512.0}, "prompt": {"prompt": 512.0}}[over]
    rows = explain(LLAMA, Pins(tp=8, batch=4), **asked).operators  # type: ignore[arg-type]
    there = answer.values.tolist().index(512.0)
    for sweep in answer.operators:
        assert sweep.flop[there] == pytest.approx(sum(row.flop for row in rows if row.name == sweep.name), rel=1e-9)
    assert answer.step.moved_bytes[there] == pytest.approx(sum(row.moved_bytes for row in rows), rel=1e-9)


def test_a_long_context_turns_a_step_back_to_memory() -> None:
    """Caches offset the gain of a large batch: at 512 sequences only short contexts are compute-bound."""
    answer = intensity(LLAMA, Pins(tp=8, batch=512), over="context", most=8192)
    assert (answer.step.bound, answer.room is not None) == ("memory", True)
    assert answer.step.turns_at is not None
    (table,) = IntensityPage(answer).tables()
    *_, step = table.rows
    assert step[-2:] == (f"from {answer.step.turns_at:,.0f}", f"to {answer.step.turns_at - 1:,.0f}")


def test_values_end_at_the_largest_that_is_asked_for() -> None:
    answer = intensity(LLAMA, Pins(tp=8), most=1000)
    assert answer.values.tolist() == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000]
    assert intensity(LLAMA, Pins(tp=8), most=2).values.tolist() == [1, 2]


@pytest.mark.rows
def test_questions_that_cannot_be_asked(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        intensity(LLAMA, **({"pins": Pins(tp=8)} | asked))
