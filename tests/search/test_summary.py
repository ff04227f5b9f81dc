"""A frontier in three numbers."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from inference_econ.answers.layout_services import decode_frontier
from inference_econ.engine import Setup, Space
from inference_econ.errors import InputError
from inference_econ.formulas import pareto
from inference_econ.inputs import Traffic
from inference_econ.report.questions.frontier import FrontierPage
from inference_econ.report.speed_cost import summary_notes
from inference_econ.search import Frontier, summarise


@given(slow=st.floats(0.01, 50), top=st.floats(20, 500), exponent=st.floats(0.2, 4), reach=st.floats(0.6, 0.98))
def test_the_numbers_that_made_a_curve_are_found_again(slow: float, top: float, exponent: float, reach: float) -> None:
    speeds = np.linspace(0.05, reach, 40) * top
    summary = summarise(speeds, pareto.summarised_cost(speeds, slow, top, exponent))
    assert summary.slow_dollars == pytest.approx(slow, rel=1e-3)
    assert summary.top_tokens_per_second == pytest.approx(top, rel=1e-3)
    assert summary.exponent == pytest.approx(exponent, rel=1e-2)
    assert summary.has_top
    assert summary.largest_error < 1e-3


def test_no_other_numbers_fit_better() -> None:
    """Compare with the published code's method: all unknowns together, by L-BFGS-B."""
    rng = np.random.default_rng(0)
    speeds = np.linspace(5.0, 95.0, 60)
    dollars = pareto.summarised_cost(speeds, 0.3, 100.0, 1.2) * np.exp(0.1 * rng.standard_normal(60))

    def left(unknown: np.ndarray) -> float:
        costs = pareto.summarised_cost(speeds, np.exp(unknown[0]), 95.0 + np.exp(unknown[1]), unknown[2])
        return float(np.sum((np.log(dollars) - np.log(costs)) ** 2))

    published = minimize(left, [-1.0, 2.0, 1.0], method="L-BFGS-B")
    summary = summarise(speeds, dollars)
    assert summary.typical_error == pytest.approx(np.sqrt(published.fun / 60), rel=1e-4)
    assert summary.typical_error == pytest.approx(0.1, abs=0.03)
    assert summary.top_tokens_per_second == pytest.approx(95.0 + np.exp(published.x[1]), rel=1e-3)


def test_an_exponential_has_no_top_speed() -> None:
    speeds = np.linspace(1.0, 100.0, 30)
    summary = summarise(speeds, 0.2 * np.exp(speeds / 40.0))
    assert not summary.has_top
    assert summary.top_tokens_per_second / summary.exponent == pytest.approx(40.0, rel=0.05)
    assert summary.dollars_at(50.0) == pytest.approx(0.2 * np.exp(1.25), rel=0.02)


def test_errors_are_those_of_the_points() -> None:
    speeds, dollars = np.array([10.0, 20.0, 30.0, 40.0, 45.0]), np.array([1.0, 1.3, 1.5, 3.0, 3.5])
    summary = summarise(speeds, dollars)
    ratios = np.log(dollars / summary.dollars_at(speeds))
    assert summary.typical_error == pytest.approx(np.sqrt(np.mean(ratios**2)))
    assert summary.largest_error == pytest.approx(np.exp(np.abs(ratios).max()) - 1)
    assert (summary.slowest_tokens_per_second, summary.fastest_tokens_per_second, summary.points) == (10, 45, 5)


@pytest.mark.parametrize("speed", [-1.0, 1e6])
def test_speeds_that_no_cost_reaches(speed: float) -> None:
    summary = summarise(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 1.1, 1.5, 9.0]))
    with pytest.raises(InputError, match=r"speeds must be from 0 to below 4\.\d+ tokens/s, the top speed"):
        summary.dollars_at([1.0, speed])


@pytest.fixture(scope="module")
def front() -> Frontier:
    setup = Setup.of("llama_3_8b", "h100_sxm")
    return decode_frontier(setup, Traffic(isl=1000, osl=200), Space(max_accelerators=8))


def test_a_frontier_says_it_where_it_says_what_its_numbers_rest_on(front: Frontier) -> None:
    page, summary = FrontierPage(front), front.summary()
    (table,) = page.tables()
    (said,) = [line for line in table.why if line.startswith("At x tokens/s, this formula approximates")]
    assert f"(1 - x / {summary.top_tokens_per_second:.4g})^-{summary.exponent:#.3g}" in said
    assert f"largest {100 * summary.largest_error:.2g}%" in said
    assert json.loads(json.dumps(page.plain()))["summary"] == summary.record()
    assert front.fastest().tokens_per_second_per_user < summary.top_tokens_per_second


def test_three_points_are_their_own_summary(front: Frontier) -> None:
    few = replace(front, seconds=front.seconds[:3], dollars=front.dollars[:3])
    with pytest.raises(InputError, match=r"a frontier of 3 points is its own summary; .* needs at least 4"):
        few.summary()
    assert summary_notes(few) == ()
    assert few.summary_record() is None
