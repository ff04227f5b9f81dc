"""API tokens, rented and owned machines: break-even points against a sweep over request rates."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.answers.deployments.default_slo import offers_of
from inference_econ.answers.deployments.serving_options import Arrangement
from inference_econ.answers.price import price
from inference_econ.errors import InputError
from inference_econ.extras.fleets.buy import MONTH_HOURS, MONTHLY, Crossover, Purchase, buy, charged
from inference_econ.extras.fleets.buy_page import BuyPage
from inference_econ.inputs import Offer, catalog
from inference_econ.report.questions.price import PricePage
from inference_econ.serving import Services

TARGETS = ie.Targets(0.5, 0.03)
API = {"dear": {"input": 1.0, "output": 3.0}, "cheap": {"input": 0.04, "cached_input": 0.01, "output": 0.12}}


@pytest.fixture(scope="module")
def layouts() -> Services:
    return ie.layouts(ie.Setup.of("llama_3_8b", "h100_sxm"), ie.Requests(1000, 200), ie.Space(ie.Pins(tp=1)))


@pytest.fixture(scope="module")
def bought(layouts: Services) -> Purchase:
    return buy([layouts], API, TARGETS)


def test_offers_cost_what_their_tokens_do(bought: Purchase) -> None:
    assert list(bought.offers) == ["cheap", "dear"]
    assert bought.offers["dear"] == pytest.approx((1000 * 1.0 + 200 * 3.0) / 1e6)
    assert {crossover.offer for crossover in bought.crossovers} == {"cheap"}
    assert [crossover.lot.way for crossover in bought.crossovers] == ["reserved", "on_demand", "owned"]


@pytest.mark.parametrize("share", [0.2, 0.6, 0.75, 0.9, 1.3])
def test_a_walk_along_the_traffic_finds_the_same_crossovers(bought: Purchase, share: float) -> None:
    lot = bought.lots[0]
    full = lot.dollars_per_hour / 3600.0 / lot.requests_per_second
    crossover = Crossover(lot, "made up", full / share)
    rates = np.linspace(0.002, 14.0, 7000) * lot.requests_per_second
    fleet = np.array([bought.fleet_dollars_per_month(lot, rate) for rate in rates])
    cheaper = fleet <= rates * crossover.dollars_per_request * 3600.0 * MONTH_HOURS * (1.0 + 1e-9)
    step = rates[1] - rates[0]
    if share > 1.0:
        assert crossover.first is None and crossover.always is None and not cheaper.any()
        return
    assert crossover.first == pytest.approx(rates[np.argmax(cheaper)], abs=step)
    last = np.flatnonzero(~cheaper)[-1]
    assert crossover.always == pytest.approx(rates[last + 1], abs=2 * step)


def test_the_probability_at_a_rate_is_that_of_price(layouts: Services) -> None:
    targets = ie.Targets(tpot_seconds=0.012)
    priced = PricePage(price([layouts], 2.0, targets=targets)).tables()[0]
    bought = BuyPage(buy([layouts], API, targets, request_rate=2.0)).tables()[0]
    (chance,) = (note for note in priced.notes if note.startswith("P(TPOT"))
    assert chance in bought.notes


@pytest.mark.parametrize("arrangement", ["both", "aggregated", "disaggregated"])
def test_the_fleet_that_is_recommended_for_a_traffic_is_billed(arrangement: Arrangement) -> None:
    """Two commands agree on every chip, and the cheaper option at some rate starts at a lower rate."""
    rate, requests, space = 300.0, ie.Requests(1000, 200), ie.Space(max_accelerators=2, any_group=True)
    chips = {
        chip: ie.candidates(ie.Setup.of("llama_3_8b", chip, engine="vllm"), requests, space, arrangement=arrangement)
        for chip in ("h100_sxm", "l40s")
    }
    offers = [candidate for candidates in chips.values() for candidate in candidates]
    answer = buy(offers, API, TARGETS, ways=MONTHLY[:1], request_rate=rate)
    best = [ie.recommend(candidates, rate, TARGETS)[0] for candidates in chips.values()]
    bills = [record["rate_bill"] for record in answer.records()[: len(best)]]
    assert [bill["accelerators"] for bill in bills] == [choice.rented for choice in best]
    assert [bill["dollars_per_month"] for bill in bills] == pytest.approx([730 * one.dollars_per_hour for one in best])
    assert arrangement == "both" or any(choice.fleet is not None for choice in best) == (arrangement != "aggregated")
    for crossover, bill in zip(answer.crossovers, bills, strict=False):
        lot = crossover.lot
        at_cost = replace(crossover, dollars_per_request=bill["dollars_per_month"] / (rate * 3600.0 * MONTH_HOURS))
        assert at_cost.first is not None and at_cost.first <= rate * (1.0 + 1e-9)
        assert answer.fleet_dollars_per_month(lot, rate) == pytest.approx(
            bill["dollars_per_month"], rel=0.25
        )  # one of five GPUs
        if lot.pools is not None:
            # The total of pools is the sum of their parts.
            assert lot.fleet(lot.parts * lot.carried)[0] == lot.pools.rented


def test_a_dearer_offer_is_beaten_sooner_and_more_probably(bought: Purchase) -> None:
    lot = bought.lots[0]
    full = lot.dollars_per_hour / 3600.0 / lot.requests_per_second
    dear, cheap = (Crossover(lot, "", full * factor) for factor in (3.0, 0.5))
    assert dear.first is not None and cheap.first is None
    assert dear.probability == 0.95 and cheap.probability == 0.05
    assert math.isclose(dear.first, lot.requests_per_second / 3.0)


def test_the_usual_speed_is_promised_where_nobody_promises(layouts: Services) -> None:
    answer = buy([layouts], API)
    assert answer.usual is not None and answer.targets.tpot_seconds == 1.0 / answer.usual.tokens_per_second


def test_offers_are_of_the_last_day_of_each_provider_and_of_all_hours() -> None:
    offers = offers_of(catalog.model("llama_3_70b"))
    days = {name.rpartition(", ")[2] for name in charged(offers)}
    assert days == {"2026-07-01", "2026-10-10"}  # those of June 2025 are too old
    some = Offer(
        provider="a", model="llama_3_70b", model_as_written="m", date="2099-01-01", hours="off-peak",
        dollars_per_million_input_tokens=1.0, dollars_per_million_output_tokens=2.0, source="s", where="w",
    )  # fmt: skip
    later = some.replace(hours=None, dollars_per_million_output_tokens=3.0)
    assert charged([*offers, some, later]) == {"a, 2099-01-01": {"input": 1.0, "cached_input": 1.0, "output": 3.0}}


def test_what_is_no_offer_is_refused(layouts: Services) -> None:
    with pytest.raises(InputError, match=r"no offer is recorded of the model; give --api-prices"):
        buy([layouts], {}, TARGETS)
    with pytest.raises(InputError, match=r"gift charges nothing"):
        buy([layouts], {"gift": {"input": 0.0, "output": 0.0}}, TARGETS)
