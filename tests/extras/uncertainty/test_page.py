"""Studies of uncertainty as tables, data and charts."""

from __future__ import annotations

from typing import Any

import pytest

from inference_econ.answers.slo import chance_below
from inference_econ.extras.uncertainty.answer import Uncertainty
from inference_econ.extras.uncertainty.page import UncertaintyPage, explained, findings
from tests.extras.uncertainty.studies import TWO, answered, factor


@pytest.fixture(scope="module")
def two() -> Uncertainty:
    own = [{**each, "inputs": {"price": factor(s)}} for each, s in zip(TWO, (0.3, 0.05), strict=True)]
    return answered({"profile": "held_out"}, own, speed=80, samples=512)


@pytest.fixture(scope="module")
def single() -> Uncertainty:
    return answered({"price": factor(0.2), "profile": "held_out"}, speed=80, samples=512)


@pytest.mark.parametrize("other", [{"hardware": "h200_sxm", "price": 3.5}, {"model": "qwen2_5_7b"}])
def test_profiles_of_their_own_say_what_compare_does(other: dict[str, Any]) -> None:
    """Two chips, and two models on one chip, share no errors: samples that draw them separately match the formula."""
    own = {"inputs": {"profile": "held_out"}}
    study = answered(
        {}, [{"label": "H100", **own}, {"label": "other", "settings": other, **own}], speed=80, samples=512
    )
    costs = [cost for one in study.series if (cost := one.present.at_speed(80)) is not None]  # type: ignore[union-attr]
    assert study.chance(0, study.at).value == pytest.approx(chance_below(*costs), abs=0.1)


def test_inputs_that_are_close_to_nothing_are_not_called_the_first() -> None:
    shared = answered({"price": factor(0.2)}, TWO, speed=100, samples=256)
    assert findings(shared)[1] == "Knowing a single input exactly would not change the choice."
    few = [{**each, "inputs": {"profile": factor(0.1)}} for each in TWO]
    assert any(
        "too few to rank the inputs" in findings(answered({}, few, speed=100, samples=16, seed=seed))[1]
        for seed in range(5)
    )


def test_speeds_that_are_not_always_reached_have_no_shares_and_say_which_have(two: Uncertainty) -> None:
    fast = answered({"profile": "held_out"}, TWO, speed=float(two.fastest.max()) * 0.85, samples=64)
    _, inputs = UncertaintyPage(fast).tables()
    assert "alone" not in inputs.columns
    assert f"All samples reach {fast.all_reach:.4g} tokens/s; use speed: " in inputs.notes[0]
    assert explained(fast) is None
    assert fast.knowledge[0].dollars is None
    record: Any = UncertaintyPage(fast).plain()
    assert record["all_known"]["saved_dollars_per_million_output_tokens"] is None
