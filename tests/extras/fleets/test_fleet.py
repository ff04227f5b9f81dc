"""A day of a fleet: the plan against all plans, the simulation against conservation laws."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.answers.deployments.recommend import most_traffic, recommend
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.fleets.capacity_blocks import CapacityBlock, best_of_chips, lots, prices_by_way
from inference_econ.extras.fleets.day import RentedFleet, autoscaler, fleet, plan, play
from inference_econ.extras.fleets.day_page import FleetPage
from inference_econ.inputs import catalog
from inference_econ.serving import Services

TARGETS = ie.Targets(0.5, 0.03)
REQUESTS = ie.Requests(isl=1000, osl=200)
CALM = catalog.elasticity().replace(interruptions_per_hour=0.0)
DAY = (10.0, 5.0, 30.0, 60.0, 40.0, 20.0)


@pytest.fixture(scope="module")
def layouts() -> Services:
    return ie.layouts(ie.Setup.of("llama_3_8b", "h100_sxm"), REQUESTS, ie.Space(ie.Pins(tp=1)))


@pytest.fixture(scope="module")
def offered(layouts: Services) -> tuple[CapacityBlock, ...]:
    return lots(best_of_chips([Candidate(layouts)], 60.0, TARGETS, play=False), TARGETS)


def test_a_replica_carries_what_other_questions_say(layouts: Services, offered: Sequence[CapacityBlock]) -> None:
    assert [lot.way for lot in offered] == ["reserved", "on_demand", "spot"]
    one = most_traffic([layouts], ie.Means(1), TARGETS)[0]
    assert offered[0].requests_per_second == pytest.approx(one.load.requests_per_second)
    four = ie.recommend([layouts], 4 * 0.999 * one.load.requests_per_second, TARGETS)[0]
    assert four.replicas == 4
    assert offered[0].in_flight(np.array([0.0, 1.0]))[1] == pytest.approx(one.load.in_flight, rel=0.01)


def test_prices_are_those_of_the_file_and_the_price_of_a_setup_is_of_its_kind() -> None:
    def kinds(price: float | str | None) -> dict[str, float]:
        setup = ie.Setup.of("llama_3_8b", "h100_sxm", price=price)
        return {way: each.dollars for way, each in prices_by_way(setup).items()}

    listed = kinds(None)
    assert listed["spot"] < listed["on_demand"]
    assert kinds(7.0)["on_demand"] == 7.0 and kinds(7.0)["spot"] == listed["spot"]
    # A cost of ownership accrues at all hours, as rent does, and is the price of no hour alone.
    hourly = ie.Setup.of("llama_3_8b", "h100_sxm", price="on_demand:neocloud").hour_price.dollars
    tco = kinds("tco:neocloud")
    assert tco["reserved"] == ie.Setup.of("llama_3_8b", "h100_sxm", price="tco:neocloud").hour_price.dollars
    assert tco["on_demand"] == hourly > 1.2 * tco["reserved"]
    # An owned chip has one price in all commands, for every hour.
    owned = ie.Setup.of("llama_3_8b", "h100_sxm", price="owned").hour_price.dollars
    assert owned == listed["owned"] == kinds("owned")["owned"] == float(ie.hour_cost("h100_sxm").parts.total)


def test_no_other_numbers_of_lots_cost_less(offered: Sequence[CapacityBlock]) -> None:
    needed, some = [20.0, 45.0, 30.0], [lot for lot in offered if lot.way != "spot"]
    found = plan(some, needed, CALM, stock={})
    reserved, hourly = some
    start = CALM.startup_seconds / 3600.0
    best = np.inf
    for always, *counts in itertools.product(range(6), repeat=4):
        serves = [(always + n) * reserved.requests_per_second >= rate for n, rate in zip(counts, needed, strict=True)]
        starts = sum(max(count - before, 0) for count, before in zip(counts, [counts[-1], *counts[:-1]], strict=True))
        if all(serves):
            dollars = 3 * always * reserved.dollars_per_hour + (sum(counts) + start * starts) * hourly.dollars_per_hour
            best = min(best, dollars)
    assert found.dollars == pytest.approx(best, rel=6e-3)
    assert found.bound <= best * (1.0 + 1e-9) and found.gap <= 6e-3


def test_stock_replicas_and_spot_are_bounds(offered: Sequence[CapacityBlock]) -> None:
    counts = plan(offered, [40.0] * 4, CALM, stock={}, min_replicas=9).counts
    assert (counts.sum(axis=0) >= 9).all()
    served = counts * np.array([[lot.requests_per_second] for lot in offered])
    assert (served[2] <= CALM.spot_share * served.sum(axis=0) + 1e-9).all()
    chip = offered[0].chip
    assert (plan(offered, [40.0] * 4, CALM, stock={chip: 6}).counts.sum(axis=0) <= 6).all()
    with pytest.raises(NothingFitsError, match=r"the stock of 2 NVIDIA H100 .* serves about .* and 90 come in"):
        plan(offered, [90.0] * 4, CALM, stock={chip: 2})
    with pytest.raises(NothingFitsError, match=r"has room for 8 replicas, fewer than --min-replicas 9"):
        plan(offered, [40.0] * 4, CALM, stock={chip: 8}, min_replicas=9)
    with pytest.raises(NothingFitsError, match=r"only spot machines are allowed, and at most 50 % .*--spot-share 1"):
        plan([lot for lot in offered if lot.way == "spot"], [40.0] * 4, CALM, stock={})


def test_the_default_slo_is_that_of_recommend(layouts: Services) -> None:
    answer, sized = fleet([layouts], [5.0, 9.0], target=0.8), recommend([layouts], 9.0, most=1, play=False)
    assert (answer.targets, answer.usual) == (sized.targets, sized.usual)
    assert answer.usual is not None
    assert "default mean TPOT" in FleetPage(answer).tables()[0].title
    without = fleet([layouts], [5.0, 9.0], ie.Targets(), target=0.8)
    assert without.usual is None and not without.targets.given


def test_a_known_day_is_played_for_what_it_was_planned_for(layouts: Services) -> None:
    answer = fleet([layouts], DAY, TARGETS, elasticity=CALM, target=0.8)
    known = answer.runs["planned"]
    assert known.dollars.sum() == pytest.approx(answer.plan.dollars)
    assert known.slo_met_share == 1.0 and answer.runs["constant"].slo_met_share == 1.0
    assert answer.plan.dollars < answer.runs["constant"].dollars.sum()
    # Starting replicas are included in addition to serving ones.
    assert all(day.most_accelerators >= day.gpu_hours.max() - 1e-9 for day in answer.runs.values())
    # Numbers agree between hours and formats.
    record = answer.record()
    assert sum(hour["planned_dollars"] for hour in record["hours"]) == pytest.approx(
        record["runs"][2]["dollars_per_day"]
    )
    assert answer.saved_by_knowing == pytest.approx(
        1 - record["runs"][2]["dollars_per_day"] / record["runs"][1]["dollars_per_day"]
    )


def _played(offered: Sequence[CapacityBlock], rate: float, target: float = 0.8, **terms: float) -> float:
    elasticity = CALM.replace(**terms)
    some = RentedFleet([lot for lot in offered if lot.way == "on_demand"], [0], {}, elasticity, 1)

    def rising(seconds: np.ndarray) -> np.ndarray:
        return rate * (1.0 + seconds / 3600.0)

    day = play(rising, 2, some, autoscaler("rate", target, some), some.wanted(rate / target), target=target)
    return day.slo_met_share


def test_late_replicas_break_promises_and_room_keeps_them(offered: Sequence[CapacityBlock]) -> None:
    assert _played(offered, 30.0, startup_seconds=30.0) == 1.0
    slow = _played(offered, 30.0, target=0.95, startup_seconds=1800.0)
    assert slow < 0.99
    assert _played(offered, 30.0, target=0.5, startup_seconds=1800.0) > slow


def test_at_a_level_load_every_policy_holds_its_target(offered: Sequence[CapacityBlock]) -> None:
    hourly = [lot for lot in offered if lot.way == "on_demand"]
    rate = 10 * 0.8 * hourly[0].requests_per_second
    some = RentedFleet(hourly, [0], {}, CALM, 1)
    for policy in ("in_flight", "rate", "utilization"):
        day = play(
            lambda seconds: np.full(seconds.size, rate), 2, some, autoscaler(policy, 0.8, some), [10], target=0.8
        )
        assert day.serving == pytest.approx(np.full((1, 2), 10.0)), policy
        assert day.gpu_hours == pytest.approx(np.full(2, 10.0))


def test_spot_machines_that_are_taken_away_are_paid_while_others_start(offered: Sequence[CapacityBlock]) -> None:
    spot = [replace(lot) for lot in offered if lot.way == "spot"]
    risky = CALM.replace(interruptions_per_hour=1.0, spot_share=1.0)
    some = RentedFleet(spot, [0], {}, risky, 1)
    day = play(lambda seconds: np.full(seconds.size, 100.0), 48, some, lambda _: [20], [20])
    assert day.gpu_hours.sum() == pytest.approx(20 * 48)
    up = 1.0 / (1.0 + risky.startup_seconds / 3600.0)
    assert day.serving.mean() == pytest.approx(20 * up, rel=0.01)


@pytest.mark.rows
def test_what_cannot_be_is_refused(layouts: Services, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fleet([layouts], **{"rates": DAY, "targets": TARGETS, **options})


def test_pools_that_would_be_cheaper_are_said_with_their_numbers() -> None:
    """Both instance counts equal those of recommendations for the hours; without pools there is no note."""
    setup, targets = ie.Setup.of("qwen3_32b", "h200_sxm", engine="vllm"), ie.Targets(0.5, 0.03)
    offers = ie.candidates(setup, ie.Requests(isl=2000, osl=500), ie.Space(max_accelerators=4))
    day, together = (10.0, 50.0), [offer for offer in offers if offer.pools is None]
    # The most of an hour is where it meets the other one.
    asked = {"elasticity": CALM, "target": 0.8, "ways": ("on_demand",)}
    answer = fleet(offers, day, targets, **asked)  # type: ignore[arg-type]
    (said,) = answer.left_out
    small, large = (ie.recommend(offers, rate, targets, most=1)[0] for rate in (30.0, 50.0))
    assert small.fleet is not None and large.fleet is not None
    few, many = small.fleet, large.fleet
    assert (few.prefill, few.decode) == (many.prefill, many.decode)
    assert f"{few.prefill_instances} to {many.prefill_instances} prefill and " in said
    assert f"and {few.decode_instances} to {many.decode_instances} decode instances" in said
    hours = few.dollars_per_hour + many.dollars_per_hour
    start = CALM.startup_seconds / 3600.0 * (many.dollars_per_hour - few.dollars_per_hour)
    assert f"would cost ${hours + start:,.2f}" in said and f"instead of ${answer.plan.dollars:,.2f}" in said
    assert fleet(together, day, targets, elasticity=CALM, target=0.8).left_out == ()
