"""Capacity margins above the load, and loads that users state."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import pytest

import inference_econ as ie
from inference_econ.answers.deployments.deployment import Deployment, Margin
from inference_econ.answers.deployments.recommend import Users, recommend, recommend_for_users
from tests import small
from tests.reading import present

RATE = 60.0
pytestmark = pytest.mark.usefixtures("short_runs")


@cache
def best(margin: Margin, rate: float = RATE) -> Deployment:
    return recommend(small.market("aggregated"), rate, small.TARGETS, most=1, margin=margin)[0]


def test_no_margin_changes_nothing() -> None:
    assert best(Margin()).replicas == recommend(small.market("aggregated"), RATE, small.TARGETS, most=1)[0].replicas


def test_spare_replicas_share_the_load_and_cost_what_the_others_do() -> None:
    plain, spare = best(Margin()), best(Margin(spare=2))
    assert spare.replicas == plain.replicas + 2
    assert spare.requests_per_second == pytest.approx(plain.requests_per_second)
    assert spare.dollars_per_hour / plain.dollars_per_hour == pytest.approx(spare.replicas / plain.replicas)
    assert spare.load.utilization < plain.load.utilization


def test_headroom_is_the_deployment_of_the_larger_load_under_the_stated_one() -> None:
    with_room, larger = best(Margin(headroom=0.5)), best(Margin(), 1.5 * RATE)
    assert (with_room.replicas, with_room.layout()) == (larger.replicas, larger.layout())
    assert with_room.requests_per_second == pytest.approx(RATE)


@pytest.mark.parametrize("most", [0.3, 0.7])
def test_no_replica_is_fuller_than_the_limit_and_one_less_would_be(most: float) -> None:
    found = best(Margin(utilization=most))
    capacity = found.service.most_requests_per_second
    assert RATE / found.replicas <= most * capacity
    assert RATE / (found.replicas - 1) > most * capacity


def test_disaggregated_groups_have_a_margin_too() -> None:
    offers = small.market("disaggregated")
    plain = recommend(offers, RATE, small.TARGETS, most=1)[0].fleet
    spare = recommend(offers, RATE, small.TARGETS, most=1, margin=Margin(spare=1))[0].fleet
    assert plain is not None and spare is not None
    assert spare.prefill_instances >= plain.prefill_instances + 1
    assert spare.decode_instances >= 2
    assert max(spare.prefill_utilization, spare.decode_utilization) < 1.0


@pytest.mark.parametrize("users", [Users(100.0), Users(500.0, 20.0)])
def test_users_are_those_of_little_s_law(users: Users) -> None:
    found = recommend_for_users(small.market("aggregated"), users, small.TARGETS)[0]
    cycle = found.load.e2e_seconds["mean"] + users.think_seconds
    assert found.requests_per_second * cycle == pytest.approx(users.number, rel=0.02)


def test_what_is_recommended_for_users_is_what_is_recommended_for_their_rate() -> None:
    found = recommend_for_users(small.market("aggregated"), Users(100.0), small.TARGETS)
    again = recommend(small.market("aggregated"), found[0].requests_per_second, small.TARGETS)
    assert [(each.accelerators, each.layout()) for each in found] == [
        (each.accelerators, each.layout()) for each in again
    ]


def test_at_half_the_utilization_tokens_cost_twice_as_much() -> None:
    full, half = (ie.price(small.market("aggregated"), utilization=share) for share in (0.8, 0.4))
    assert half.accelerators == full.accelerators
    ratio = half.dollars_per_million_tokens / full.dollars_per_million_tokens
    assert ratio == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"headroom": -0.1}, "headroom is from 0 to 1000 %, got -10"),
        ({"utilization": 0.0}, "utilization is above 0 and at most 100 %, got 0"),
        ({"spare": -1}, "spare replicas are 0 or more, got -1"),
    ],
)
def test_margins_that_cannot_be(values: dict[str, float], said: str) -> None:
    with pytest.raises(ie.InputError, match=said):
        Margin(**values)  # type: ignore[arg-type]


def test_users_that_cannot_be() -> None:
    with pytest.raises(ie.InputError, match="users are a positive number, got 0"):
        Users(0.0)
    with pytest.raises(ie.InputError, match="think_time is 0 s or more, got -1 s"):
        Users(1.0, -1.0)
    assert Users(10.0).requests_per_second(2.0) == 5.0
    assert math.isclose(Users(10.0, 3.0).requests_per_second(2.0), 2.0)


def test_the_price_of_output_tokens_covers_what_input_tokens_do_not() -> None:
    sheet = ie.price(small.market("aggregated"), 5.0)
    assert sheet.break_even_output_price is None
    priced = replace(sheet, input_price=0.02)
    price = present(priced.break_even_output_price)
    revenue = priced.revenue_per_hour({"input": 0.02, "cached_input": 0.02, "output": price})
    assert revenue == pytest.approx(priced.dollars_per_hour)
