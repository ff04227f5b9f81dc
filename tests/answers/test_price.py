"""Prices by kind of token: they add up to the bill, are linear in it, and include idle time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_econ.answers.price import KINDS, busy_seconds, price, sheet
from inference_econ.answers.slo import FILLED, Targets
from inference_econ.errors import InputError
from inference_econ.extras.fleets.hour_cost import hour_cost
from inference_econ.formulas.money import Power, accelerator_hour_cost
from inference_econ.inputs import catalog
from inference_econ.serving import Service
from tests.offered import offer_of, service_of

SERVICES = {
    "plain": lambda: service_of(),
    "cached": lambda: service_of(isl="3000", cached=2000.0),
    "long": lambda: service_of(isl="20000", osl="10"),
    "experts": lambda: service_of("qwen3_30b_a3b", pins=(("tp", 2), ("dp", 2), ("pp", 1), ("ep", 4))),
}
names = st.sampled_from(tuple(SERVICES))


def at_price(service: Service, dollars: float) -> Service:
    """Return the same service at another chip price."""
    return replace(service, setup=replace(service.setup, price=dollars))


@settings(max_examples=30, deadline=None)
@given(names, st.floats(0.001, 1.5), st.floats(0.01, 50.0), st.integers(1, 7), st.sampled_from((0.0, 1.0, 4.0)))
def test_costs_add_up_to_the_bill(name: str, share: float, dollars: float, replicas: int, scv: float) -> None:
    service = SERVICES[name]()
    rate = replicas * share * service.most_requests_per_second
    found = sheet(at_price(service, dollars), rate, replicas=replicas, arrival_scv=scv)
    assert found.dollars_per_hour == pytest.approx(replicas * service.accelerators * dollars, rel=1e-12)
    parts = {kind: found.average[kind] * found.tokens_per_hour[kind] / 1e6 for kind in KINDS}
    assert sum(parts.values()) == pytest.approx(found.dollars_per_hour, rel=1e-9)
    assert all(part >= 0.0 for part in parts.values())
    tokens = sum(found.tokens_per_hour.values())
    assert found.dollars_per_million_tokens == pytest.approx(1e6 * found.dollars_per_hour / tokens, rel=1e-12)
    assert found.accelerators == replicas * service.accelerators
    # Priced at its costs, the fleet earns its costs.
    assert found.revenue_per_hour(found.average) == pytest.approx(found.dollars_per_hour, rel=1e-9)
    # The served rate is at most the arrival rate and the capacity.
    hourly = min(rate, replicas * service.most_requests_per_second) * 3600.0
    requests = service.requests
    counts = {"input": requests.new_tokens, "cached_input": requests.cached, "output": requests.osl.mean}
    assert found.tokens_per_hour == pytest.approx({kind: hourly * count for kind, count in counts.items()})


@settings(max_examples=15, deadline=None)
@given(names, st.floats(0.05, 0.9), st.floats(1.1, 10.0))
def test_prices_are_linear_in_the_price_of_a_chip_and_of_idle_time(name: str, share: float, factor: float) -> None:
    service = SERVICES[name]()
    rate = share * service.most_requests_per_second
    one, dearer, wider = (
        sheet(service, rate),
        sheet(at_price(service, 2.0 * factor), rate),
        sheet(service, 3.0 * rate, replicas=3),
    )
    for kind in KINDS:
        assert dearer.average[kind] == pytest.approx(factor * one.average[kind], rel=1e-9)
        assert dearer.marginal[kind] == pytest.approx(factor * one.marginal[kind], rel=1e-9)
        # Three instances under three times the traffic are three of the same.
        assert wider.average[kind] == pytest.approx(one.average[kind], rel=1e-9)


@pytest.mark.parametrize("name", SERVICES)
def test_an_emptier_fleet_is_dearer_and_a_full_one_costs_the_margin(name: str) -> None:
    service = SERVICES[name]()
    most = service.most_requests_per_second
    costs = [sheet(service, share * most).dollars_per_million_tokens for share in (0.1, 0.5, 0.9, 1.0, 3.0)]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == pytest.approx(costs[-2])
    full = sheet(service, most)
    for kind in KINDS:
        assert full.average[kind] == pytest.approx(full.marginal[kind], rel=1e-6)


def test_cached_tokens_are_cheaper_than_new_ones_and_dearer_than_none() -> None:
    found = sheet(SERVICES["cached"](), 5.0)
    assert 0.0 < found.average["cached_input"] < 0.2 * found.average["input"]
    assert sheet(SERVICES["plain"](), 5.0).average["cached_input"] == 0.0
    # The machine needs more time for a million output tokens than for a million prompt tokens.
    assert found.average["output"] > found.average["input"]


@settings(max_examples=15, deadline=None)
@given(names, st.floats(1.0, 300.0))
def test_the_time_of_a_request_is_that_between_completions(name: str, in_flight: float) -> None:
    service = SERVICES[name]()
    fresh, cached, output = busy_seconds(service, in_flight)
    assert fresh + cached + output == pytest.approx(1.0 / float(service.at(in_flight).requests_per_second), rel=1e-9)
    state = service.at(in_flight)
    assert fresh + cached == pytest.approx(float(state.prefill_share / state.requests_per_second), rel=1e-6)
    # Together with decode and other prompts, a prompt takes less time than alone.
    assert fresh + cached <= service.prefill_busy_seconds


# From an offer


def test_without_a_rate_an_instance_is_filled_to_four_fifths() -> None:
    offer = offer_of(most=4)
    found = price(offer, replicas=1, targets=Targets())
    assert found.load.utilization == pytest.approx(FILLED, rel=0.01)
    twice = price(offer, replicas=2, targets=Targets())
    assert twice.load.utilization == pytest.approx(found.load.utilization, rel=0.01)


def test_given_instances_may_be_saturated() -> None:
    offer = offer_of(most=2)
    found = price(offer, 1e4, replicas=1)
    assert found.load.saturated
    assert sum(found.tokens_per_hour.values()) < 1e4 * 1200 * 3600


@pytest.mark.parametrize("replicas", [0, -1, 1.5])
def test_impossible_numbers_of_instances(replicas: int) -> None:
    with pytest.raises(InputError, match=rf"replicas must be an integer >= 1, got {replicas:g}"):
        price(offer_of(most=2), 1.0, replicas=replicas)


# Owned chips


def test_the_parts_are_those_of_the_formula_with_the_watts_of_the_file() -> None:
    chip = catalog.hardware("h100_sxm")
    terms = catalog.ownership().replace(utilisation=0.5, cost_of_capital=0.0)
    cost = hour_cost("h100_sxm", 30e3, terms=terms)
    assert (cost.hardware, cost.board_watts, cost.purchase_dollars) == (chip, 700.0, 30e3)
    assert cost.parts == accelerator_hour_cost(
        30e3, 5, utilisation=0.5, power=Power(700, 300, 1.2, 0.08), yearly_operations=0.05
    )
    # 30,000 dollars over half of the hours of five years.
    assert float(cost.parts.depreciation) == pytest.approx(30e3 / (5 * 8760 * 0.5))


def test_given_watts_replace_those_of_the_file() -> None:
    assert hour_cost("h100_sxm", 30e3, board_watts=350).board_watts == 350.0


def test_somebody_must_say_what_a_chip_draws() -> None:
    chip = catalog.hardware("h100_sxm", changes=["watts=null"])
    with pytest.raises(InputError, match="NVIDIA H100 SXM5 80GB lists no watts; give --board-watts"):
        hour_cost(chip, 30e3)
    with pytest.raises(InputError, match="lifetime_years must be > 0, got 0"):
        catalog.ownership().replace(lifetime_years=0.0)
