"""Prices by kind of token, and one deployment at given concurrencies."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inference_econ as ie
from inference_econ.answers.deployments.default_slo import usual_speed
from inference_econ.answers.deployments.serving_options import Candidate, market
from inference_econ.answers.load import estimate, estimate_rate
from inference_econ.answers.price import KINDS, busy_seconds, price, sheet
from inference_econ.answers.slo import FILLED, Targets
from inference_econ.engine import Pins, Space
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.fleets.hour_cost import hour_cost
from inference_econ.formulas.money import Power, accelerator_hour_cost
from inference_econ.inputs import Requests, catalog
from inference_econ.report.questions.price import PricePage, break_even
from inference_econ.serving import Service
from tests.offered import offer_of, service_of
from tests.reading import present

# Prices by kind of token: they add up to the bill, are linear in it, and include idle time.

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


def test_tokens_are_priced_at_that_speed_unless_something_else_is_promised() -> None:
    layouts = offer_of(most=4)
    usual, slow, own = (price(layouts, 5.0, targets=targets) for targets in (None, Targets(), Targets(0.5)))
    assert present(usual.tokens_per_second_per_user) >= 150.354
    assert usual.usual == usual_speed(layouts.setup.model)
    assert usual.dollars_per_hour >= slow.dollars_per_hour
    assert (slow.usual, own.usual) == (None, None)
    assert (slow.targets, own.targets) == (Targets(), Targets(0.5))
    record = PricePage(usual).plain()
    assert record["usual_speed"] == {
        "tokens_per_second": 150.354,
        "source": usual.usual.source if usual.usual else "",
        "offered": True,
    }
    assert PricePage(slow).plain()["usual_speed"] is None


@pytest.mark.parametrize("targets", [Targets(), Targets(tpot_seconds=0.05, percentile="mean"), None])
def test_the_default_rate_is_four_fifths_of_an_instance_of_the_layout_that_is_chosen(targets: Targets | None) -> None:
    """The default rate is 0.8 of the largest rate at which the layout's steady states meet the SLO (by hand)."""
    layouts = offer_of(most=4)
    sheet = price(layouts, targets=targets)
    carried = sheet.load.requests_per_second / FILLED
    state = sheet.service.at(sheet.service.slots)
    if sheet.targets.given:
        batches = [1.0 + share * (sheet.service.slots - 1.0) for share in (step / 2000.0 for step in range(2001))]
        kept = [batch for batch in batches if sheet.service.at(batch).tpot_seconds <= sheet.targets.tpot_seconds]
        state = sheet.service.at(max(kept))
    assert carried == pytest.approx(float(state.requests_per_second), rel=0.01)
    assert sheet.replicas == 1


def test_whether_a_fleet_that_earns_its_bill_is_still_as_fast() -> None:
    layouts = offer_of(most=4)
    sheet = price(layouts, targets=Targets(tpot_seconds=0.012, percentile="mean"))
    charged = {kind: 0.8 * cost for kind, cost in sheet.average.items()}
    assert re.search(r"breaks even at [\d.]+ requests/s, where it violates the TPOT SLO\.$", break_even(sheet, charged))
    paid = {kind: 1.1 * cost for kind, cost in sheet.average.items()}
    assert re.search(r"breaks even at [\d.]+ requests/s\.$", break_even(sheet, paid))


# One deployment at given concurrencies.


@pytest.fixture(scope="module")
def candidates() -> tuple[Candidate, ...]:
    setup = ie.Setup.of("llama_3_8b", "h100_sxm", engine="vllm")
    return market(setup, Requests(1000, 200), arrangement="aggregated", speculation=None)


def test_concurrent_requests_follow_from_rate_and_latency(candidates: tuple[Candidate, ...]) -> None:
    """Little's law: the concurrency equals the rate times the latency of a request."""
    rows = estimate(candidates, [1, 16, 200]).records()
    assert [row["concurrency"] for row in rows] == [1, 16, 200]
    for row in rows:
        assert row["requests_per_second"] * row["e2e_seconds"] == pytest.approx(row["concurrency"], rel=0.02)
        assert row["tpot_seconds_low"] < row["tpot_seconds"] < row["tpot_seconds_high"]


def test_estimates_are_states_of_the_frontier(candidates: tuple[Candidate, ...]) -> None:
    """For one layout, both commands have equal times at equal concurrency."""
    found = estimate(candidates, [32])
    (candidate,) = candidates
    row = candidate.plans.accelerators.tolist().index(found.service.accelerators)
    state = candidate.services.service(row).at(32)
    assert found.records()[0]["tpot_seconds"] == pytest.approx(float(state.tpot_seconds), rel=0.01)
    assert found.records()[0]["ttft_seconds"] == pytest.approx(float(state.ttft_seconds), rel=0.01)


def test_replicas_share_the_requests(candidates: tuple[Candidate, ...]) -> None:
    one, two = estimate(candidates, [8]).records()[0], estimate(candidates, [16], replicas=2).records()[0]
    assert two["tpot_seconds"] == pytest.approx(one["tpot_seconds"])
    assert two["requests_per_second"] == pytest.approx(2 * one["requests_per_second"])
    assert two["dollars_per_million_output_tokens"] == pytest.approx(one["dollars_per_million_output_tokens"])


def test_an_estimate_and_a_load_bill_the_same_machines() -> None:
    """A machine of eight GPUs is rented for one instance, and eight instances fill it."""
    setup = ie.Setup.of("gpt_oss_120b", "mi355x", engine="vllm")
    offers = market(setup, Requests(1000, 1000), Space(Pins(tp=1)), arrangement="aggregated", speculation=None)
    for replicas, machines in ((1, 1), (3, 1), (8, 1), (9, 2)):
        found = estimate(offers, [64 * replicas], replicas=replicas)
        (row,) = found.records()
        bill = sheet(found.service, row["requests_per_second"], replicas=replicas)
        assert bill.dollars_per_hour == pytest.approx(8 * machines * setup.dollars_per_accelerator_hour)
        assert row["dollars_per_million_output_tokens"] == pytest.approx(bill.dollars_per_million_output_tokens)
        assert row["dollars_per_million_tokens"] == pytest.approx(bill.dollars_per_million_tokens)


def test_cost_intervals_of_an_estimate_follow_from_its_throughput(candidates: tuple[Candidate, ...]) -> None:
    """The interval of a concurrency is independent of the other concurrencies."""
    alone, beside = estimate(candidates, [32]).records()[0], estimate(candidates, [1, 32, 400]).records()[1]
    for name in ("dollars_per_million_output_tokens", "dollars_per_million_tokens"):
        for end, other in (("low", "high"), ("high", "low")):
            throughput = alone[f"tokens_per_second_per_accelerator_{other}"]
            expected = alone[name] * alone["tokens_per_second_per_accelerator"] / throughput
            assert alone[f"{name}_{end}"] == pytest.approx(expected)
            assert beside[f"{name}_{end}"] == pytest.approx(expected)


def test_the_most_requests_that_run_are_rounded_down() -> None:
    """98.8 requests run on average in 100 slots, so the message does not name 99."""
    setup = ie.Setup.of("gpt-oss-120b", "h100_sxm", engine="vllm")
    one = market(setup, Requests(2000, 500), Space(Pins(tp=1, dp=1)), arrangement="aggregated")
    with pytest.raises(NothingFitsError, match=r"most 98 on average, because .* 100 slots empty; give --replicas 2"):
        estimate(one, [99])
    assert estimate(one, [98]).records()[0]["concurrency"] == 98


def test_more_requests_than_fit_are_refused_with_the_replicas_that_hold_them(candidates: tuple[Candidate, ...]) -> None:
    with pytest.raises(NothingFitsError, match=r"give --replicas (\d+)") as error:
        estimate(candidates, [10**6])
    replicas = int(str(error.value).split("--replicas ")[1].split()[0])
    assert estimate(candidates, [10**6], replicas=replicas).records()[0]["concurrency"] == 10**6
    with pytest.raises(InputError, match="at least 1, got 0"):
        estimate(candidates, [0])
    with pytest.raises(InputError, match="at least 1, got 0"):
        estimate(candidates, replicas=0)
    with pytest.raises(InputError, match="leaves some of 2 replicas without a request"):
        estimate(candidates, [1], replicas=2)
    with pytest.raises(InputError, match="an estimate is of aggregated layouts"):
        estimate([candidate for candidate in market(candidates[0].setup, Requests(1000, 200)) if candidate.pools])


def test_a_rate_takes_the_fewest_gpus_of_what_is_recommended(candidates: tuple[Candidate, ...]) -> None:
    targets = ie.Targets(ttft_seconds=1.0, tpot_seconds=0.03)
    curve = estimate_rate(candidates, 10.0, targets)
    best = min(choice.accelerators for choice in ie.recommend(candidates, 10.0, targets, most=50).choices)
    (point,) = curve.points
    assert point.sheet.replicas * point.sheet.service.accelerators == best
