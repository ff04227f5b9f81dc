"""Frontiers against brute force, and the sampling of Erdil's (2025) published code."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.formulas.pareto import ceiling, sampled, summarised_cost, undominated

Array = npt.NDArray[np.float64]

#: A few distinct values make ties likely.
coarse = st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0, 5.0])
fine = st.floats(1e-3, 1e3)
clouds = st.one_of(st.lists(st.tuples(coarse, coarse), max_size=20), st.lists(st.tuples(fine, fine), max_size=20))


def _columns(points: list[tuple[float, float]]) -> tuple[Array, Array]:
    table = np.array(points, dtype=float).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _beaten(point: tuple[float, float], points: list[tuple[float, float]]) -> bool:
    return any(other[0] <= point[0] and other[1] <= point[1] and other != point for other in points)


@given(points=clouds)
def test_undominated_equals_brute_force(points: list[tuple[float, float]]) -> None:
    kept = undominated(*_columns(points)).tolist()
    expected = {point for point in points if not _beaten(point, points)}
    assert {points[index] for index in kept} == expected
    assert len(kept) == len(expected)  # one of equal points remains


@given(points=clouds)
def test_undominated_is_ordered_and_keeps_the_first_of_equals(points: list[tuple[float, float]]) -> None:
    kept = undominated(*_columns(points))
    seconds, dollars = (column[kept] for column in _columns(points))
    assert (np.diff(seconds) > 0).all()
    assert (np.diff(dollars) < 0).all()
    assert [points.index(points[index]) for index in kept] == kept.tolist()


def test_infinite_points_are_never_on_a_frontier_with_finite_ones() -> None:
    assert undominated([np.inf, 1.0], [np.inf, 2.0]).tolist() == [1]


@given(points=clouds, rates=st.lists(st.floats(1e-4, 1e4), min_size=1, max_size=10))
def test_ceiling_equals_brute_force(points: list[tuple[float, float]], rates: list[float]) -> None:
    seconds, dollars = _columns(points)
    kept = undominated(seconds, dollars)
    found = ceiling(seconds[kept], dollars[kept], rates)
    for rate, limit in zip(rates, found, strict=True):
        behind = [max(tau, cost / rate) for tau, cost in zip(seconds[kept], dollars[kept], strict=True)]
        # Both sides compare the same two numbers, so equality is exact.
        assert limit == min(behind, default=np.inf)


@given(points=clouds.filter(bool), size=st.integers(1, 4))
def test_ceiling_keeps_the_shape_of_the_rates(points: list[tuple[float, float]], size: int) -> None:
    seconds, dollars = _columns(points)
    kept = undominated(seconds, dollars)
    assert ceiling(seconds[kept], dollars[kept], np.ones((size, 3))).shape == (size, 3)


def test_ceiling_of_an_empty_frontier_is_infinite() -> None:
    assert ceiling([], [], [0.1, 10.0]).tolist() == [np.inf, np.inf]


@given(
    times=st.lists(fine, min_size=1, max_size=40, unique=True),
    points=st.integers(2, 60),
    decades=st.sampled_from([0.5, 1.0, 2.0, 4.0]),
)
def test_sampled_equals_a_scan_over_latency_limits(times: list[float], points: int, decades: float) -> None:
    seconds = np.sort(np.array(times))
    dollars = np.linspace(9.0, 1.0, seconds.size)  # a frontier falls
    visited: list[int] = []
    for exponent in np.linspace(0.0, decades, points):
        within = np.flatnonzero(seconds <= seconds[0] * 10.0**exponent)
        cheapest = int(within[np.argmin(dollars[within])])
        if cheapest not in visited:
            visited.append(cheapest)
    assert sampled(seconds, points, decades).tolist() == visited


def test_sampled_of_nothing_is_nothing() -> None:
    assert sampled([], 1000, 2.0).tolist() == []


def test_sampled_always_visits_the_fastest_and_stops_at_the_last_limit() -> None:
    assert sampled([1.0, 99.0, 101.0], 1000, 2.0).tolist() == [0, 1]


def test_the_summary_of_a_frontier_begins_at_its_slow_cost_and_rises_without_end() -> None:
    costs = summarised_cost(np.array([0.0, 50.0, 99.0, 100.0 * (1 - 1e-9)]), 2.0, 100.0, 1.5)
    np.testing.assert_allclose(costs, [2.0, 2.0 * 2.0**1.5, 2.0 * 1e3, 2.0 * 10**13.5], rtol=1e-6)
