"""Margins for SLOs at a confidence, and the probability that the SLOs are met."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inference_econ as ie
from inference_econ.engine import Subject, chance, margin
from inference_econ.errors import InputError
from inference_econ.inputs import LEVELS, Assumptions, ErrorSpread, Quantity, catalog
from tests.reading import present

#: Quantiles of ln(measured / predicted); half of the measurements are below the prediction.
QUANTILES = (-0.4, -0.3, -0.1, 0.0, 0.1, 0.2, 0.5)


def fitted(quantiles: tuple[float, ...] = QUANTILES) -> Assumptions:
    hopper = catalog.assumptions("profiles/hopper")
    spread = ErrorSpread(rows=10, quantiles=quantiles)
    errors = {"model": {"tpot": spread, "throughput": spread}}
    return hopper.model_copy(update={"calibration": present(hopper.calibration).model_copy(update={"errors": errors})})


def test_a_margin_is_the_quantile_on_the_side_that_breaks_the_promise() -> None:
    known = fitted()
    assert margin(known, "tpot", 0.75) == pytest.approx(math.exp(0.1))
    assert margin(known, "tpot", 0.9) == pytest.approx(math.exp(0.2))
    # Half of the way between two levels, half of the way between their logarithms.
    assert margin(known, "tpot", 0.825) == pytest.approx(math.exp(0.15))
    # Lower rates miss an SLO.
    assert margin(known, "throughput", 0.9) == pytest.approx(math.exp(0.3))
    assert margin(known, "ttft", 0.8) is None


def test_predictions_that_are_too_large_are_no_reason_to_promise_more() -> None:
    known = fitted(tuple(value - 1.0 for value in QUANTILES))
    assert margin(known, "tpot", 0.8) == 1.0
    assert chance(known, "tpot", 1.0) == 0.95


@given(st.floats(0.501, 0.9), st.sampled_from(("tpot", "throughput")))
def test_a_promise_with_its_margin_holds_with_its_confidence(confidence: float, quantity: Quantity) -> None:
    needed = present(margin(fitted(), quantity, confidence))
    assert needed >= 1.0
    assert chance(fitted(), quantity, needed) == pytest.approx(confidence)


@given(st.floats(0.0, 10.0), st.floats(1.0, 10.0))
def test_more_slack_is_never_less_probable(slack: float, factor: float) -> None:
    low, high = (present(chance(fitted(), "tpot", value)) for value in (slack, slack * factor))
    assert LEVELS[0] <= low <= high <= LEVELS[-1]


def test_beyond_what_is_known_probabilities_end() -> None:
    known = fitted()
    assert [chance(known, "tpot", slack) for slack in (0.0, 1e-9, 1.0, 1e9, math.inf)] == [0.05, 0.05, 0.5, 0.95, 0.95]
    assert chance(known, "ttft", 1.0) is None
    assert chance(catalog.assumptions("deployable"), "tpot", 1.0) is None


@pytest.mark.parametrize(("confidence", "said"), [(0.5, "50 %"), (0.95, "95 %"), (80.0, "8000 %"), (math.nan, "nan %")])
def test_probabilities_that_nobody_can_plan_with(confidence: float, said: str) -> None:
    expected = (
        f"confidence: must be above 50 % and at most 90 %, got {said}: errors of predictions are known up to their"
    )
    with pytest.raises(InputError, match=f"{expected} 95 % quantile"):
        margin(fitted(), "tpot", confidence)


def test_the_errors_are_those_that_the_question_is_unlike_in() -> None:
    hopper, model, chip = ie.assumptions("profiles/hopper"), ie.model("llama_3_70b"), ie.hardware("h100_sxm")
    asked = Subject(model, chip, accelerators=4.0)
    measured, unmeasured = (
        present(margin(hopper, "ttft", 0.9, [asked, asked._replace(layout=layout)])) for layout in ("tp4", "tp4pp7")
    )
    assert 1.0 < measured <= unmeasured
    spread = present(hopper.calibration).errors["layout"]["ttft"].quantiles
    assert unmeasured >= math.exp(np.interp(0.9, LEVELS, spread)) * (1.0 - 1e-9)
