"""The simplest deployment first, against every pair of points."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.answers.deployments.serving_options import Candidate, market
from inference_econ.answers.simplest import SIMPLER, complexity, frontier_points, simplest
from inference_econ.engine import Plans
from inference_econ.inputs import catalog
from tests import small


def test_a_point_of_the_frontier_is_beaten_by_nothing_simpler_within_ten_percent() -> None:
    rng = np.random.default_rng(51)
    seconds, costs, levels = rng.uniform(1.0, 3.0, 300), rng.uniform(1.0, 3.0, 300), rng.choice([0, 2, 4], 300)
    kept = frontier_points(seconds, costs, levels)
    for one, other in itertools.product(kept.tolist(), range(300)):
        if levels[other] < levels[one] and seconds[other] <= seconds[one]:
            dropped = any(
                levels[third] < levels[other]
                and seconds[third] <= 1.02 * seconds[other]
                and costs[third] <= (1.0 + SIMPLER) * costs[other]
                for third in range(300)
            )
            assert dropped or costs[other] > (1.0 + SIMPLER) * costs[one]
    assert (np.diff(seconds[kept]) > 0.0).all()
    assert (np.diff(costs[kept]) < 0.0).all()


def test_points_of_the_same_speed_are_one_point() -> None:
    """If two speeds differ only in the fifth digit, the cheaper point remains."""
    kept = frontier_points(np.array([1.0, 1.0001, 2.0]), np.array([3.0, 2.9, 1.0]), np.zeros(3, dtype=np.intp))
    assert kept.tolist() == [1, 2]


def test_the_answer_is_the_cheapest_of_the_simplest_near_the_cheapest() -> None:
    assert simplest([1.0, 1.05, 1.09, 1.5], [4, 2, 2, 0]) == 1
    assert simplest([1.0, 1.2], [4, 0]) == 0


@pytest.mark.rows
def test_what_makes_a_deployment_complex(name: str, chips: float, pp: float, disaggregated: bool, level: int) -> None:
    plans = Plans.of(np.array([chips]), np.array([8.0]), np.array([pp]))
    assert complexity(catalog.hardware(name), plans, disaggregated=disaggregated).tolist() == [level]


@cache
def _candidates() -> tuple[Candidate, ...]:
    setup = ie.Setup.of("qwen3_32b", "h100_sxm", weights="fp8", engine="vllm")
    return market(setup, ie.Requests(isl=2000, osl=500), ie.Space(max_accelerators=4), speculation=None)


def test_recommended_deployments_are_worth_their_complexity_and_one_is_plain() -> None:
    found = ie.recommend(_candidates(), 20.0, ie.Targets(1.0, 0.03))
    for one, other in itertools.permutations(found, 2):
        if other.complexity < one.complexity:
            assert one.dollars_per_hour * (1.0 + SIMPLER) < other.dollars_per_hour + 1e-9
    assert any(choice.is_plain for choice in found)
    most = ie.most_traffic(_candidates(), ie.Means(8), ie.Targets(1.0, 0.03))
    assert any(choice.is_plain for choice in most)


def test_a_disaggregated_point_shows_what_aggregated_ones_cost() -> None:
    lengths, space = ie.Traffic(isl=4000, osl=200), ie.Space(max_accelerators=2, any_group=True)
    front = ie.frontier(small.setup(), lengths, space)
    shown = [point for point in front.points() if "prefill" in point.layout]
    assert shown
    alone = ie.frontier(small.setup(), lengths, space, arrangement="aggregated")
    for point in shown:
        beside = point.aggregated_dollars_per_million_output_tokens
        cost = alone.at_speed(point.tokens_per_second_per_user)
        assert (beside is None) == (cost is None)
        if beside is not None and cost is not None:
            assert beside <= cost.dollars * (1.0 + 1e-9)
            assert point.dollars_per_million_output_tokens * (1.0 + SIMPLER) < beside * 1.02
