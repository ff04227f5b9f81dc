"""Numbers of plans that cannot run, by reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inference_econ.engine import Setup, whole_grid
from inference_econ.search import why_nothing_fits


@pytest.mark.parametrize(("engine", "started"), [("any", 0), (None, 3)])
def test_reasons_count_plans_whose_degrees_divide_the_stage(engine: str | None, started: int) -> None:
    """Count the layouts of three batches by hand.

    32 heads split over 1 and 2 chips, 14336 = 2^11 x 7 does not split 3 ways. Layouts are tp1 on one chip, tp1dp2 and
    tp2 on two, and only tp1dp3 on three. An attention-DP group may have one more sequence. Engines start tp1dp2 as two
    replicas.
    """
    setup = Setup.of("llama_3_8b", "h100_sxm")
    small = replace(setup, hardware=setup.hardware.model_copy(update={"hbm_bytes": 2e9}))
    small = replace(small, engines=() if engine == "any" else small.engines)
    text = why_nothing_fits(small, whole_grid(1.0, pipeline=False, largest=3, largest_batch=3))
    assert "12 plans considered" in text
    assert "heads, layers, experts or widths do not divide: 3" in text
    assert ("no serving engine can start it: 3" in text) == bool(started)


def test_a_demand_is_a_reason() -> None:
    setup = replace(Setup.of("llama_3_8b", "h100_sxm"), engines=())
    text = why_nothing_fits(setup, whole_grid(1.0, pipeline=False, largest=1, largest_batch=2), 5.0)
    assert "more than 5 tokens/s are produced: 2" in text
    assert text.endswith("Every deployment that fits in memory produces more than is asked for")
