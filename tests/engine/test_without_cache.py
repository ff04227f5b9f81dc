"""Decode without a KV cache: every step processes all tokens of its sequences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from inference_econ.answers.explain import explain
from inference_econ.answers.layout_services import offer
from inference_econ.engine import Pins, Setup, Space, evaluate, fastest_cut
from inference_econ.engine.prefill import prefill
from inference_econ.inputs import Requests
from tests.planned import plan_of
from tests.reading import scalar

NONE = "assumptions.attention.cache=recomputed"
#: Llama 3 8B: weights of all layers and of the output embedding; 32 layers of 32 heads of 128.
LAYERS, EMBEDDING, PAIR = 32 * (4096 * 6144 + 4096**2 + 3 * 4096 * 14336), 128256 * 4096, 32 * 4.0 * 4096


def _setup(*changes: str, context: float = 2000.0, assumptions: str = "deployable") -> Setup:
    return Setup.of("llama_3_8b", "h100_sxm", assumptions=assumptions, context=context, changes=changes)


@pytest.mark.parametrize("context", [100, 1000, 10000, 100000])
@pytest.mark.parametrize("batch", [1, 8])
def test_the_closed_form(context: int, batch: int) -> None:
    """The arithmetic of a step is tokens x 2 weights plus pairs of tokens below the diagonal, and one embedding per
    sequence.
    """
    setup = _setup(NONE, "assumptions.attention.scores={}", "assumptions.chip.products={}", context=context)
    tokens = context + 1
    by_hand = batch * (tokens * 2.0 * LAYERS + 2.0 * EMBEDDING + PAIR * tokens * (tokens - 1) / 2)
    work = setup.work(plan_of(batch=batch))
    total = sum(
        scalar(np.asarray(row.repeats * (row.flop_per_token * work.tokens + row.flop_per_sequence * work.sequences)))
        for row in work.operators
    )
    assert total == pytest.approx(by_hand, rel=1e-12)
    # With a cache: one token, and its pairs.
    kept = replace(_setup(context=context), context=float(context)).work(plan_of(batch=batch))
    once = sum(scalar(np.asarray(row.repeats * row.flop_per_token * kept.tokens)) for row in kept.operators)
    assert once == pytest.approx(batch * (2.0 * LAYERS + 2.0 * EMBEDDING + PAIR * context), rel=1e-12)


def test_a_step_is_the_prefill_of_its_context() -> None:
    whole = _setup("assumptions.serving.prefill_chunk=0", "assumptions.serving.prefill_factor=1")
    for context in (500, 5000):
        step = scalar(fastest_cut(_setup(NONE, context=context), plan_of()))
        assert step == pytest.approx(scalar(prefill(whole, plan_of(), context + 1.0).seconds), rel=1e-9)


def test_what_is_in_a_prefix_cache_is_read_again() -> None:
    setup = _setup(NONE)
    assert scalar(prefill(setup, plan_of(), 500.0, 1500.0).seconds) == scalar(prefill(setup, plan_of(), 2000.0).seconds)


def test_only_one_layer_is_held() -> None:
    kept, none = (_setup(*changes).memory(plan_of(batch=8.0)) for changes in ((), (NONE,)))
    assert scalar(none.kv_bytes) == pytest.approx(scalar(kept.kv_bytes) / 32, rel=1e-12)
    assert scalar(none.weight_bytes) == scalar(kept.weight_bytes)


@pytest.mark.parametrize("model", ["llama_3_8b", "deepseek_v3", "gpt_oss_120b", "nemotron_h_56b", "deepseek_v4_flash"])
def test_no_model_is_faster_without(model: str) -> None:
    times = []
    for changes in ((), (NONE,)):
        setup = Setup.of(model, "b200", changes=changes, context=3000.0)
        costs = evaluate(setup, plan_of(8.0, batch=4.0), "1d")
        assert scalar(costs.seconds) == pytest.approx(sum(scalar(part) for part in costs.parts.values()), rel=1e-12)
        times.append(scalar(costs.seconds))
    assert times[1] > times[0]


def test_explain_says_what_a_cache_is_worth() -> None:
    step = explain(_setup(NONE), Pins(tp=1), context=4000)
    usual = explain(_setup(), Pins(tp=1), context=4000)
    assert step.beside_seconds == pytest.approx(usual.seconds, rel=1e-12)
    assert usual.beside_seconds is None
    assert step.seconds > 5.0 * usual.seconds
    reading = explain(_setup(NONE), Pins(tp=1), context=1000, prompt=3000).seconds
    assert reading == pytest.approx(explain(_setup(), Pins(tp=1), prompt=4000).seconds, rel=1e-12)


def test_services_without_a_cache() -> None:
    requests = Requests.model_validate({"isl": 1000, "osl": 50})
    kept, none = (
        offer(_setup(*changes), requests, Space(Pins(tp=1, dp=1, pp=1))).service(0) for changes in ((), (NONE,))
    )
    assert none.at(4).tpot_seconds > 5.0 * kept.at(4).tpot_seconds
    assert np.isfinite(none.most_requests_per_second)
