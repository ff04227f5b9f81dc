"""Chunked attention, as in Llama 4: three of four layers of Scout, in chunks of 8,192 tokens."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_econ.engine import Plans, Setup
from inference_econ.engine.prefill import prefill
from inference_econ.errors import InputError
from inference_econ.inputs import Precision, Requests, Traffic, catalog
from tests.planned import plan_of

CHUNK = 8192
#: 8 KV heads of 128, keys and values in 2 bytes: 36 layers of chunks, and 12 that see everything.
CHUNKED, WHOLE = 36 * 2 * 8 * 128 * 2, 12 * 2 * 8 * 128 * 2
ROW = f"attention (chunks of {CHUNK})"


def _setup(context: float, spread: float = 0.0, *changes: str) -> Setup:
    model = catalog.model("llama_4_scout")
    assumptions = catalog.assumptions("deployable", changes=changes)
    return Setup(model, catalog.hardware("h200_sxm"), Precision.of(model), context, assumptions, spread=spread)


def _read(setup: Setup, plan: Plans, name: str) -> float:
    rows = [row for row in setup.work(plan).operators if row.name == name]
    return sum(float(np.ravel(row.kv_bytes_per_sequence * row.repeats)[0]) for row in rows)


@pytest.mark.rows
def test_what_a_decode_step_reads(context: float, spread: float, tokens: float) -> None:
    setup = _setup(context, spread)
    assert _read(setup, plan_of(whole=False), ROW) == pytest.approx(CHUNKED * tokens)
    assert _read(setup, plan_of(whole=False), "attention") == pytest.approx(WHOLE * context)


def test_the_middle_of_a_chunk_reads_six_tenths_at_7000_tokens() -> None:
    middle = _read(
        _setup(7000.0, 0.0, "attention.chunk_position=middle"), plan_of(whole=False), "attention (last 4096)"
    )
    assert (
        middle / _read(_setup(7000.0), plan_of(whole=False), ROW)
        == pytest.approx(4096 / 7000)
        == pytest.approx(0.585, abs=1e-3)
    )


@settings(max_examples=50, deadline=None)
# Valid contexts: zero, or from 1e-15 on.
@given(st.just(0.0) | st.floats(1e-15, 5e4), st.floats(0, 2e4), st.integers(1, 8))
def test_no_step_sees_more_than_a_chunk_or_than_there_is(context: float, spread: float, new_tokens: int) -> None:
    setup, plan = _setup(context, spread), plan_of(whole=False, new_tokens=new_tokens)
    inside = _read(setup, plan, ROW) / CHUNKED
    assert -1e-6 <= inside <= min(CHUNK, context + (new_tokens - 1) / 2) * (1 + 1e-9) + 1e-6


def _flop(setup: Setup, plan: Plans) -> float:
    rows = [row for row in setup.work(plan).operators if row.name == ROW]
    return sum(float(np.ravel(row.flop_per_token * row.repeats * plan.new_tokens)[0]) for row in rows)


def test_a_prompt_is_the_sum_over_its_steps() -> None:
    """Compare 20,000 tokens in steps of 5,000, one by one, with the middle step that represents all."""
    steps = [_setup(start) for start in (0.0, 5000.0, 10_000.0, 15_000.0)]
    halfway, plan = _setup(7500.0, 15_000.0), plan_of(whole=False, new_tokens=5000.0, prefill=True)
    assert 4 * _flop(halfway, plan) == pytest.approx(sum(_flop(step, plan) for step in steps), rel=1e-12)
    assert 4 * _read(halfway, plan, ROW) == pytest.approx(sum(_read(step, plan, ROW) for step in steps), rel=1e-12)
    # Cached tokens of the same chunk at the start of a step: 0, 5000, 1808 and 6808; and 5,000 that are written.
    assert [_read(step, plan, ROW) / CHUNKED for step in steps] == [5000.0, 10_000.0, 6808.0, 11_808.0]


def test_reading_a_prompt_does_not_depend_on_the_spread_of_answers() -> None:
    setup, plan = _setup(7000.0), plan_of(whole=False)
    times = [prefill(replace(setup, spread=spread), plan, 20_000.0).seconds for spread in (0.0, 2000.0)]
    assert times[0] == times[1]


@pytest.mark.parametrize("spread", [-1.0, float("nan"), 1e13])
def test_a_spread_is_a_number_of_tokens(spread: float) -> None:
    message = f"the spread must be a number of tokens from 0 to 1e+12, got {spread:g}"
    with pytest.raises(InputError, match=re.escape(message)):
        _setup(1000.0, spread)


def test_contexts_are_spread_over_answers() -> None:
    assert (Traffic(isl=7000, osl=2000).spread, Traffic(context=8000).spread) == (2000.0, 0.0)
    requests = Requests.model_validate({"isl": 7000, "osl": 2000})
    assert (requests.mean_context, requests.spread) == (8000.0, 2000.0)
