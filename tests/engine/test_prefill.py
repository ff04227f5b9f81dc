"""Prompts that are read together."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from inference_econ.engine.layouts.plans import Plans
from inference_econ.engine.prefill import fastest_cut, prefill, prompts_of_a_step, shared_steps
from inference_econ.engine.setup import Setup
from inference_econ.inputs import catalog
from inference_econ.inputs.precision import Precision

TOKENS = 512.0


@cache
def setup(chunk: int = 8192, model: str = "qwen3_30b_a3b") -> Setup:
    spec, chip = catalog.model(model), catalog.hardware("h100_sxm")
    assumed = catalog.assumptions("deployable", changes=[f"serving.prefill_chunk={chunk}"])
    return Setup.of(spec, chip, Precision.of(spec, "fp8", None, None), 0.0, assumed)


def plans(accelerators: float = 1.0, ranks: float = 1.0) -> Plans:
    one = np.ones(1)
    return Plans(accelerators * one, one, one, ranks * one, accelerators * one, whole=True)


def test_prompts_that_share_a_step_take_less_than_one_after_the_other() -> None:
    share = shared_steps(setup(), plans(), TOKENS, 0.0, [1.0, 2.0, 4.0, 16.0])
    assert share[0] == 1.0
    assert np.all(np.diff(share) < 0)


def test_their_step_is_that_of_so_many_sequences() -> None:
    share = shared_steps(setup(), plans(), TOKENS, 0.0, [4.0])
    one = replace(plans(), new_tokens=TOKENS, prefill=True)
    step, four = fastest_cut(setup(), one), replace(one, batch=np.full(1, 4.0))
    assert step == pytest.approx(prefill(setup(), plans(), TOKENS).seconds)
    assert share == pytest.approx(fastest_cut(setup(), four) / (4.0 * step))


def test_a_step_holds_no_more_tokens_than_the_assumptions_say() -> None:
    # 8192 tokens are 16 prompts of 512: more of them wait for the next step.
    assert prompts_of_a_step(setup(), TOKENS) == 16.0
    full, more = shared_steps(setup(), plans(), TOKENS, 0.0, [16.0, 64.0])
    assert more == full
    assert shared_steps(setup(chunk=512), plans(), TOKENS, 0.0, [64.0]) == 1.0
    assert prompts_of_a_step(setup(chunk=512), 2000.0) == 1.0
    # Where decoding pauses, they are read one after the other.
    assert shared_steps(setup(chunk=0), plans(), TOKENS, 0.0, [64.0]) == 1.0


def test_groups_take_equal_parts_of_the_prompts() -> None:
    # Two groups of two chips: two prompts are one for each.
    share = shared_steps(setup(), plans(4.0, 2.0), TOKENS, 0.0, [1.0, 2.0, 4.0, 32.0])
    assert share[0] == share[1] == 1.0
    assert np.all(np.diff(share[1:]) < 0)
