"""Frontiers against every pair of their grid, and their summary in three numbers."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from inference_econ.answers.layout_services import decode_frontier
from inference_econ.engine import InstanceGrid, Setup, Space, memory, paper_grid, whole_grid
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import pareto
from inference_econ.inputs import Traffic
from inference_econ.report.questions.frontier import FrontierPage
from inference_econ.report.speed_cost import summary_notes
from inference_econ.search import Frontier, Sampling, compute, summarise
from tests.planned import setup_of

# Frontiers against every pair of their grid, one by one.


PRICE = 2.1


def _question(model: str, weights: str | None = None, context: float = 0.0) -> Setup:
    return setup_of(model, "paper/h100", context, preset="paper", weights=weights)


def _grid(setup: Setup, *, whole: bool, pipeline: bool) -> InstanceGrid:
    smallest = memory.weight_bytes(setup.model, setup.precision) / setup.hardware.hbm_bytes
    if whole:
        return whole_grid(smallest, pipeline=pipeline, largest=32, largest_batch=512)
    return paper_grid(smallest, 4.0, pipeline=pipeline, points=41)


@pytest.mark.parametrize("factor", [0.5, 10.0])
def test_dollars_are_linear_in_the_price_and_nothing_else_changes(factor: float) -> None:
    setup = _question("paper/llama_3_70b", "int8")
    grid = _grid(setup, whole=False, pipeline=False)
    one, other = compute(replace(setup, price=PRICE), grid), compute(replace(setup, price=factor * PRICE), grid)
    assert other.dollars == pytest.approx(factor * one.dollars, rel=1e-12)
    assert other.seconds.tolist() == one.seconds.tolist()


def test_sampling_keeps_a_part_of_the_exact_frontier() -> None:
    setup = _question("paper/llama_3_70b", "int8")
    grid = _grid(setup, whole=False, pipeline=False)
    exact = compute(replace(setup, price=PRICE), grid)
    few = compute(replace(setup, price=PRICE), grid, sampling=Sampling(points=20, decades=1.0))
    assert 1 < len(few) <= 20 < len(exact)
    assert set(few.seconds) <= set(exact.seconds)
    assert few.seconds[-1] == exact.seconds[-1]
    assert (few.seconds <= 10 * few.seconds[-1]).all()


def test_points_describe_their_plan() -> None:
    setup = _question("paper/llama_3_70b", "int8")
    front = compute(replace(setup, price=PRICE), _grid(setup, whole=False, pipeline=True))
    points = front.points()
    assert len(points) == len(front)
    for index, point in enumerate(points):
        assert point.tokens_per_second_per_user == pytest.approx(1 / front.seconds[index], rel=1e-12)
        assert sum(point.parts.values()) == pytest.approx(front.seconds[index], rel=1e-9)
        assert point.limited_by == max(point.parts, key=point.parts.__getitem__)
        # Never above the assumed shares of the peaks.
        assert 0 < point.mfu <= 0.7
        assert 0 < point.bandwidth_utilization <= 0.75 * (1 + 1e-12)
        stage, pp, tp = (float(point.layout[name]) for name in ("stage", "pp", "tp"))
        assert stage * pp == pytest.approx(point.accelerators, rel=1e-12)
        assert tp <= stage * (1 + 1e-12)
    assert front.fastest() == points[-1]
    assert front.cheapest() == points[0]


def test_cheapest_at_a_speed() -> None:
    setup = _question("paper/llama_3_70b", "int8")
    front = compute(replace(setup, price=PRICE), _grid(setup, whole=True, pipeline=False))
    speed = float(np.median(front.tokens_per_second))
    point = front.cheapest(tokens_per_second=speed)
    assert point.tokens_per_second_per_user >= speed
    assert point.dollars_per_million_output_tokens == front.dollars[front.tokens_per_second >= speed].min()
    fastest = f"{front.tokens_per_second[-1]:.7g}"
    with pytest.raises(InputError, match=f"no deployment reaches 1e\\+06 tokens/s per user; the fastest has {fastest}"):
        front.cheapest(tokens_per_second=1e6)
    # The printed maximum is accepted.
    assert front.cheapest(tokens_per_second=float(fastest)) == front.fastest()


def test_the_frame_has_a_row_per_point() -> None:
    setup = _question("paper/llama_3_70b", "int8")
    front = compute(replace(setup, price=PRICE), _grid(setup, whole=True, pipeline=False))
    frame = front.to_frame()
    assert len(frame) == len(front)
    assert frame["tokens_per_second_per_user"].to_numpy() == pytest.approx(front.tokens_per_second, rel=1e-12)
    assert {"accelerators", "batch", "tp", "pp", "mfu", "limited_by", "weights_seconds"} <= set(frame.columns)


def test_utilisation_is_useful_arithmetic_over_the_theoretical_peak() -> None:
    # As in the study: [2 P_act + k_att l] b / (N C latency), at the rate of the weights.
    setup = _question("paper/llama_3_70b", "int8", context=1000.0)
    front = compute(replace(setup, price=PRICE), _grid(setup, whole=False, pipeline=False))
    flop = 2 * setup.model.active_parameters + 4 * 128 * 64 * 80 * 1000
    expected = flop * front.batch / (front.accelerators * 2e15 * front.seconds)
    assert front.mfu == pytest.approx(expected, rel=1e-12)


def test_nothing_fits_says_why_and_how_many_would_do() -> None:
    setup = _question("paper/llama_3_405b", context=1000.0)
    grid = whole_grid(1.0, pipeline=False, largest=4, largest_batch=8)
    with pytest.raises(NothingFitsError) as found:
        compute(replace(setup, price=PRICE), grid)
    message = str(found.value)
    assert message.startswith("nothing fits: ")
    for text in (
        r"on H100 \(constants of the study\), \d+ plans considered",
        r"weights exceed the memory: \d+",
        r"Weights need 820\.2 GB, a sequence of 1000 tokens 1\.03 GB, an accelerator has 80\.0 GB for them: "
        r"at least 11 accelerators are needed",
    ):
        assert re.search(text, message), message
    assert "inf" not in message


def test_an_impossible_demand_is_a_reason_of_its_own() -> None:
    setup = _question("paper/llama_3_8b")
    grid = whole_grid(1.0, pipeline=False, largest=2, largest_batch=8)
    with pytest.raises(NothingFitsError, match=r"more than 0\.01 tokens/s are produced: \d+"):
        compute(replace(setup, price=PRICE), grid, max_tokens_per_second=0.01)


def test_a_cap_on_the_instance_holds_even_if_nothing_fits_below_it() -> None:
    grid = whole_grid(100.0, pipeline=False, largest=8, largest_batch=8)
    assert (grid.accelerators <= 8).all()
    with pytest.raises(NothingFitsError, match="nothing fits"):
        compute(replace(_question("paper/gpt_4"), price=PRICE), grid)


@pytest.mark.parametrize("pipeline", [False, True])
def test_an_empty_grid_is_said_to_be_empty(pipeline: bool) -> None:
    setup = _question("paper/llama_3_70b")
    for whole in (False, True):
        grid = replace(_grid(setup, whole=whole, pipeline=pipeline), accelerators=np.empty(0))
        with pytest.raises(NothingFitsError, match="0 plans considered; the grid is empty"):
            compute(replace(setup, price=PRICE), grid)


def test_progress_reaches_the_end() -> None:
    setup = _question("paper/llama_3_8b")
    told: list[float] = []
    grid = _grid(setup, whole=True, pipeline=False)
    compute(replace(setup, price=PRICE), grid, progress=lambda share, _: told.append(share))
    assert told == sorted(told)
    assert told
    assert told[-1] == 1.0


def test_grids() -> None:
    grid = paper_grid(0.88, 28.0, pipeline=True)
    assert (grid.accelerators.size, grid.batch.size) == (400, 400)
    assert grid.accelerators[[0, -1]] == pytest.approx([0.88, 2**18], rel=1e-12)
    assert grid.batch[[0, -1]] == pytest.approx([1.0, 28 * 2**18], rel=1e-12)
    assert np.diff(np.log(grid.batch)) == pytest.approx(np.log(grid.batch[-1]) / 399, rel=1e-9)
    capped = paper_grid(0.88, 1.0, pipeline=True, largest=100.0)
    assert capped.accelerators.max() <= 100 < capped.accelerators.max() * 2**0.1
    whole = whole_grid(2.3, pipeline=False, largest=16)
    assert whole.batch[[0, -1]].tolist() == [1, 65536]
    assert replace(whole, batch=whole.batch[:3]).pairs()[1].shape == (1, 3)


# A frontier in three numbers.


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
