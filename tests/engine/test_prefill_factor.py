"""The prefill time factor: it scales the full prompt but not the saving of mixed steps."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from inference_econ.engine import Setup, group_steps, saved_seconds
from inference_econ.engine.prefill import prefill
from inference_econ.inputs import catalog
from tests.planned import plan_of


@cache
def _setup(factor: float) -> Setup:
    assumed = catalog.assumptions("deployable", changes=[f"serving.prefill_factor={factor}"])
    return Setup.of("qwen3_30b_a3b", "h100_sxm", weights="fp8", assumptions=assumed, context=1000.0)


def test_every_time_of_a_prompt_is_longer_by_the_factor() -> None:
    for tokens in (500.0, 20_000.0):
        plain, longer = (prefill(_setup(factor), plan_of(), tokens) for factor in (1.0, 1.3))
        for name in ("seconds", "busy_seconds", "full_seconds"):
            assert getattr(longer, name) == pytest.approx(1.3 * getattr(plain, name))
        assert longer.chip_share == pytest.approx(plain.chip_share)
    several = (group_steps(_setup(f), plan_of(), 500.0, 0.0, 4.0 * np.ones(1), np.ones(1)) for f in (1.0, 1.3))
    assert next(several) * 1.3 == pytest.approx(next(several))


def test_a_mixed_step_saves_as_much_as_before() -> None:
    saved = [saved_seconds(_setup(f), plan_of(batch=64.0), 500.0, 0.0, np.ones(1)) for f in (1.0, 1.3)]
    assert saved[1] == pytest.approx(saved[0])
