"""The largest load of given chips or a budget, as the inverse of a recommendation."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import cache

import pytest

from inference_econ.answers.deployments.power import fleet_power
from inference_econ.answers.deployments.recommend import MostTraffic, most_traffic, recommend
from inference_econ.answers.deployments.serving_options import market
from inference_econ.answers.disaggregated import size_pools as budget
from inference_econ.answers.disaggregated.load import DisaggregationTerms
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.layout_services import offer
from inference_econ.answers.resource_limit import Means
from inference_econ.answers.slo import FULLEST, Targets
from inference_econ.engine import Rent, Setup, Space
from inference_econ.errors import InputError, NothingFitsError, TooLittleError
from inference_econ.inputs import Requests
from inference_econ.serving import Services, loaded
from tests.asking import pools_of
from tests.reading import present

PROMISED = Targets(0.5, 0.02)


REQUESTS = Requests(2000, 200)


@cache
def _setup(rent: Rent) -> Setup:
    return replace(Setup.of("llama_3_8b", "h100_sxm"), rent=rent)


@cache
def small(rent: Rent = "gpu") -> Services:
    return offer(_setup(rent), REQUESTS, Space(max_accelerators=4))


@cache
def two(rent: Rent = "gpu") -> Pools:
    return pools_of(_setup(rent), REQUESTS, Space(max_accelerators=2))


@cache
def carried(means: Means) -> MostTraffic:
    """Return the largest load that the given chips or budget serve on small instances."""
    return most_traffic([small()], means, PROMISED)


@pytest.mark.parametrize("chips", [1, 5, 8])
def test_it_is_the_inverse_of_a_recommendation(chips: int) -> None:
    offers = [small()]
    best = most_traffic(offers, Means(chips), PROMISED)[0]
    rate = best.replicas * best.load.requests_per_second
    assert recommend(offers, rate * 0.999, PROMISED)[0].rented <= chips
    assert recommend(offers, rate * 1.02, PROMISED)[0].rented > chips


def test_no_layout_of_the_offer_carries_more() -> None:
    layouts = small()
    best = carried(Means(4))[0]
    more = best.replicas * best.load.requests_per_second * 1.01
    for index in range(len(layouts)):
        service = layouts.service(index)
        load = loaded(service, more / (4 // service.accelerators))
        assert load.saturated or load.utilization > 0.98 or PROMISED.first_violated(load) is not None


def test_a_budget_is_as_many_chips_as_it_pays_for() -> None:
    by_chips, by_money = (carried(means) for means in (Means(4), Means(None, 4 * 3.99 + 1.0)))
    assert [choice.load for choice in by_chips] == [choice.load for choice in by_money]
    assert all(choice.dollars_per_hour <= 4 * 3.99 + 1e-9 for choice in by_money)


def test_nodes_are_taken_whole() -> None:
    layouts = small("node")
    assert {choice.rented for choice in most_traffic([layouts], Means(20), PROMISED)} == {16}
    message = r"^7 GPUs: Llama 3\.1 8B \(bf16\) needs at least 1 .*, which are rented as 8 \(\$31\.92"
    with pytest.raises(NothingFitsError, match=message):
        most_traffic([layouts], Means(7), PROMISED)


def test_what_binds_is_what_a_little_more_would_break() -> None:
    for targets, binding in (
        (Targets(math.inf, 0.01), "tpot"),
        (Targets(0.08, math.inf), "ttft"),
        (Targets(), "capacity"),
    ):
        best = most_traffic([small()], Means(2), targets)[0]
        assert best.binding == binding
        assert targets.first_violated(best.load) is None
    # Without an SLO, the limit is the same as within SLOs that no load violates.
    assert best.load.utilization == pytest.approx(FULLEST, rel=1e-4)


def test_a_gigawatt_is_written_whole() -> None:
    assert Means(provisioned_watts=1e9).text == "a facility of 1,000,000 kW provisioned"


def test_what_cannot_be_kept_is_said_for_the_chips_there_are() -> None:
    with pytest.raises(NothingFitsError, match=r"no deployment keeps TPOT 3 ms .* on 1 accelerators"):
        most_traffic([small()], Means(1), Targets(tpot_seconds=0.003))


@pytest.mark.rows
def test_means_are_one_positive_number(means: tuple[int | None, float | None], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        Means(*means)


def test_power_is_as_many_chips_as_it_is_provisioned_for() -> None:
    """Each chip needs 1.2 x 1400 W."""
    by_chips, by_power = (carried(means) for means in (Means(4), Means(None, None, 8.3e3)))
    assert [choice.load for choice in by_power] == [choice.load for choice in by_chips]
    assert by_power.record()["means"] == {"accelerators": None, "dollars_per_hour": None, "provisioned_watts": 8.3e3}
    best = by_power.records()[0]
    assert best["board_watts"] < best["server_watts"] < best["facility_watts"] < best["provisioned_watts"] <= 8.3e3
    capped = offer(Setup.of("llama_3_8b", "h100_sxm", changes=["hardware.power_cap=400 W"]), REQUESTS, None)
    assert Means(None, None, 8.3e3).most_accelerators(capped.setup) == 6


# Two pools.


def test_a_budget_buys_the_fleet_that_its_chips_carry() -> None:
    both = two()
    terms = DisaggregationTerms(Targets(0.2, 0.02))
    by_chips, by_money = (present(budget.largest(both, means, terms)) for means in (Means(6), Means(None, 6 * 3.99)))
    assert by_chips.load == by_money.load
    assert sum(by_chips.rented) <= 6


def test_power_of_two_pools_is_that_of_the_chips_of_each() -> None:
    """An H100 takes 1.68 kW of the facility, and a B200 takes 1.2 x (1000 + 780) W."""
    both = pools_of(_setup("gpu"), REQUESTS, Space(max_accelerators=2), decode=Setup.of("llama_3_8b", "b200"))
    terms = DisaggregationTerms(Targets(0.2, 0.02))
    best = present(budget.largest(both, Means(None, None, 12e3), terms))
    prompts, answers = best.accelerators
    assert fleet_power(best)["provisioned_watts"] == pytest.approx(1680.0 * prompts + 2136.0 * answers)
    assert 1680.0 * prompts + 2136.0 * answers <= 12e3
    with pytest.raises(TooLittleError, match=r"take at least 3\.82 kW together, given: a facility of 2\.5 kW"):
        budget.largest(both, Means(None, None, 2.5e3), terms)


def test_pools_on_whole_nodes_need_whole_nodes() -> None:
    both = two("node")
    message = r"are rented as 8 accelerators together \(\$31\.92 per hour\), given: 7"
    with pytest.raises(NothingFitsError, match=message):
        budget.largest(both, Means(7), DisaggregationTerms())
    fleet = present(budget.largest(both, Means(8), DisaggregationTerms()))
    assert (sum(fleet.accelerators), fleet.rented) == (8, (8,))


def test_of_engines_that_need_different_numbers_of_chips_the_least_is_said() -> None:
    setup, requests = Setup.of("llama_3_70b", "h100_sxm"), Requests(4000, 500)
    offers = market(setup, requests, Space(max_accelerators=8), arrangement="aggregated", speculation=None)
    assert len({each.plans.accelerators.min() for each in offers}) > 1
    least = min(each.plans.accelerators.min() for each in offers)
    message = rf"^1 GPU: Llama 3\.1 70B \(bf16\) needs at least {least:g} NVIDIA [^;]*$"
    with pytest.raises(NothingFitsError, match=message):
        most_traffic(offers, Means(accelerators=1), Targets())
