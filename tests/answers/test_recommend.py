"""The cheapest deployment, against every layout and number of instances tried one by one."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inference_econ as ie
from inference_econ.answers.deployments.deployment import Deployment
from inference_econ.answers.deployments.recommend import _worthwhile, fleets, most_traffic, recommend
from inference_econ.answers.deployments.serving_frontier import service_frontier
from inference_econ.answers.deployments.serving_options import Arrangement, Candidate, market
from inference_econ.answers.price import KINDS, price
from inference_econ.answers.resource_limit import Means
from inference_econ.answers.simplest import SIMPLER
from inference_econ.answers.slo import Targets, least_chance, promised_rates
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import Requests
from inference_econ.serving import Gamma, Services, loaded, simulate_where_needed
from tests.offered import offer_of

#: Instances that are tried one by one at most.
_MOST = 60

OFFERS = {
    "dense": lambda: offer_of(most=4),
    "experts": lambda: offer_of("qwen3_30b_a3b", isl="500", osl="100", most=2),
    "long": lambda: offer_of(isl="12000", osl="100", most=2),
}
percentiles = st.sampled_from(("mean", "p10", "p50", "p75", "p90", "p95", "p99.9"))


def part_of(scv: float, replicas: int) -> Gamma:
    """Return the arrivals at one of several instances that requests are randomly assigned to."""
    return Gamma(1.0 + (scv - 1.0) / replicas)


def cheapest(found: Services, rate: float, targets: Targets, scv: float) -> float:
    """Return dollars per hour by brute force; infinite if no tried deployment meets the SLOs."""
    best = math.inf
    for index in range(len(found)):
        service = found.service(index)
        for replicas in range(1, _MOST + 1):
            dollars = replicas * service.accelerators * found.setup.dollars_per_accelerator_hour
            if dollars >= best:
                break
            if targets.first_violated(loaded(service, rate / replicas, arrivals=part_of(scv, replicas))) is None:
                best = dollars
                break
    return best


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(tuple(OFFERS)),
    st.floats(-1.0, 1.3),
    st.one_of(st.none(), st.floats(0.1, 1.5)),
    st.one_of(st.none(), st.floats(0.05, 1.0)),
    percentiles,
    st.sampled_from((0.0, 1.0, 4.0)),
)
def test_the_choice_is_the_cheapest_of_all(
    name: str, rate: float, ttft: float | None, tpot: float | None, percentile: str, scv: float
) -> None:
    found = OFFERS[name]()
    quickest, soonest = found.states.tpot_seconds.min(), found.states.ttft_seconds.min()
    targets = Targets(
        math.inf if ttft is None else float(soonest) * 10.0**ttft,
        math.inf if tpot is None else float(quickest) * 10.0**tpot,
        percentile,
    )
    requests = 10.0**rate
    expected = cheapest(found, requests, targets, scv)
    try:
        (choice,) = recommend([found], requests, targets, arrival_scv=scv, most=1, play=False)
    except NothingFitsError:
        assert math.isinf(expected)
        return
    if math.isinf(expected):
        assert choice.replicas > _MOST
        return
    # Percentiles change in steps of some percent: six instances may barely meet an SLO that eight miss.
    tighter = replace(targets, ttft_seconds=0.97 * targets.ttft_seconds, tpot_seconds=0.97 * targets.tpot_seconds)
    assert expected * (1 - 1e-9) <= choice.dollars_per_hour <= cheapest(found, requests, tighter, scv) * (1 + 1e-9)
    assert choice.fleet is None
    keeps_its_promises(choice, requests, targets, scv)


def keeps_its_promises(choice: Deployment, rate: float, targets: Targets, scv: float) -> None:
    """Return whether a choice meets the SLOs, and one instance less does not."""
    assert choice.load.requests_per_second == pytest.approx(rate / choice.replicas)
    assert targets.first_violated(choice.load) is None
    assert choice.accelerators == choice.replicas * choice.service.accelerators
    if choice.replicas == 1:
        assert choice.binding == "instance"
        return
    fewer = loaded(choice.service, rate / (choice.replicas - 1), arrivals=part_of(scv, choice.replicas - 1))
    assert targets.first_violated(fewer) == choice.binding


def test_several_choices_of_several_sizes_best_first() -> None:
    offer = OFFERS["dense"]()
    targets = Targets(ttft_seconds=1.0, tpot_seconds=0.03)
    found = recommend([offer], 20.0, targets, most=5)
    assert [choice.dollars_per_hour for choice in found] == sorted(choice.dollars_per_hour for choice in found)
    sizes = [choice.service.accelerators for choice in found]
    assert sorted(sizes) == [1, 2, 4]
    for choice in found:
        assert choice.fleet is None
        keeps_its_promises(choice, 20.0, targets, 1.0)
    assert recommend([offer], 20.0, targets, most=1)[0].dollars_per_hour == found[0].dollars_per_hour


def test_of_two_kinds_of_chips_each_is_shown() -> None:
    offers = [offer_of(most=2), offer_of(most=2, hardware="h200_sxm")]
    found = recommend(offers, 10.0, Targets(tpot_seconds=0.03), most=4)
    names = [choice.service.setup.hardware.name for choice in found]
    assert len(set(names)) == 2
    assert found[0].dollars_per_hour == min(
        recommend([offer], 10.0, Targets(tpot_seconds=0.03), most=1)[0].dollars_per_hour for offer in offers
    )
    # However few are wanted.
    assert len(recommend(offers, 10.0, Targets(tpot_seconds=0.03), most=1)) == 2


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(tuple(OFFERS)), st.floats(0.05, 1.0), percentiles)
def test_the_promised_rate_is_a_bound(name: str, tpot: float, percentile: str) -> None:
    found = OFFERS[name]()
    limit = float(found.states.tpot_seconds.min()) * 10.0**tpot
    targets = Targets(tpot_seconds=limit, percentile=percentile)
    rates = promised_rates(found, targets)
    for index in range(len(found)):
        # Attention-DP groups that start to delay prefill are faster than with fewer requests.
        rising = bool(np.all(np.diff(found.states.tpot_seconds[index]) >= 0.0))
        if rates[index] > 0.0 and rising:
            # Rates are interpolated between two steady states. Experts are processed in tiles, so step times jump. A
            # load with varying concurrency is therefore up to 2% faster than one at its mean.
            assert targets.first_violated(loaded(found.service(index), 1.03 * rates[index])) is not None


def test_what_nothing_keeps_is_answered_with_the_best() -> None:
    found = OFFERS["dense"]()
    with pytest.raises(NothingFitsError) as caught:
        recommend([found], 1.0, Targets(ttft_seconds=1e-4, tpot_seconds=2e-4, percentile="p99"))
    message = str(caught.value)
    assert message.startswith(
        "no deployment keeps TTFT 0.1 ms, TPOT 0.2 ms (p99), even with one request in flight: TTFT or TPOT alone, "
        "however long, would not. Best reachable: NVIDIA H100 SXM5 80GB: "
    )
    loads = [loaded(one, 1e-6 * one.most_requests_per_second) for one in map(found.service, range(len(found)))]
    assert f"TTFT {1e3 * min(load.ttft_seconds['p99'] for load in loads):.4g} ms on 4 accelerators" in message
    assert f"TPOT {1e3 * min(load.tpot_seconds['p99'] for load in loads):.4g} ms on 4 accelerators" in message


@pytest.mark.rows
def test_what_nothing_keeps_says_which_promise_to_relax(
    promises: dict[str, Any], relaxed: list[str], helpless: list[str]
) -> None:
    """Some deployment meets the suggested SLO, and none meets one that is a third lower."""
    offer, targets = OFFERS["dense"](), Targets(**promises)
    with pytest.raises(NothingFitsError) as caught:
        recommend([offer], 5.0, targets)
    ways = re.findall(r"(TTFT|TPOT|E2E) ([\d.]+) ms would do \(\d x NVIDIA H100", str(caught.value))
    assert [name.lower() for name, _ in ways] == relaxed
    for name, milliseconds in ways:
        seconds = float(milliseconds) / 1e3
        assert recommend([offer], 5.0, targets.relaxed(name.lower(), seconds))
        with pytest.raises(NothingFitsError):
            recommend([offer], 5.0, targets.relaxed(name.lower(), 0.67 * seconds))
    assert all(f"{name} alone, however long, would not" in str(caught.value) for name in helpless)


def test_requests_longer_than_the_context_of_the_model_are_rejected() -> None:
    limit = r"these requests have 150,200 tokens, but Llama 3\.1 8B supports 131,072\. .* model\.max_context=150200"
    with pytest.raises(InputError, match=limit):
        offer_of(isl="150000", most=4)


def test_a_promised_time_to_the_last_token_is_kept() -> None:
    offer = OFFERS["dense"]()
    free, promised = (recommend([offer], 5.0, Targets(e2e_seconds=seconds), most=1)[0] for seconds in (math.inf, 1.5))
    assert promised.load.e2e_seconds["p90"] <= 1.5 < free.load.e2e_seconds["p90"]
    assert promised.dollars_per_hour >= free.dollars_per_hour


def test_a_rate_beyond_all_fleets_is_answered_as_any_other() -> None:
    offer, targets = OFFERS["dense"](), Targets(tpot_seconds=0.02)
    usual, absurd = (recommend([offer], rate, targets, most=1)[0] for rate in (1e6, 1e11))
    assert absurd.replicas == pytest.approx(1e5 * usual.replicas, rel=1e-3)


@pytest.mark.rows
def test_impossible_promises(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Targets(*arguments)


def test_a_load_that_is_played_needs_what_it_needs() -> None:
    """The analytical model selects; outside its validated range, the simulator sets the number of instances."""
    offer, targets = offer_of(isl="8000", osl="50", pins=(("tp", 1), ("dp", 1), ("pp", 1))), Targets(tpot_seconds=0.1)
    (closed,), (played,) = (recommend([offer], 20.0, targets, most=1, play=play) for play in (False, True))
    assert not closed.load.played
    load = simulate_where_needed(played.service)
    assert played.load == load(20.0 / played.replicas)
    assert played.load.played
    assert targets.first_violated(played.load) is None
    assert played.replicas >= closed.replicas
    assert played.dollars_per_hour == pytest.approx(closed.dollars_per_hour * played.replicas / closed.replicas)
    if played.replicas > closed.replicas:
        assert targets.first_violated(load(20.0 / closed.replicas)) is not None


def test_crowds_that_many_instances_share_are_not_the_crowds_of_each() -> None:
    """The plan has at most a fifth more instances than for Poisson arrivals.

    With the full burstiness at each instance it had several times that number.
    """
    offer, targets = offer_of(isl="1000", osl="200", pins=(("tp", 1), ("dp", 1), ("pp", 1))), Targets(0.3, 0.03)
    rate = 30.0 * offer.service(0).most_requests_per_second
    (calm,), (bursty,) = (recommend([offer], rate, targets, arrival_scv=scv, most=1) for scv in (1.0, 10.0))
    assert calm.replicas > 30
    assert calm.replicas <= bursty.replicas <= 1.2 * calm.replicas
    assert bursty.load.played
    assert bursty.load.arrivals == part_of(10.0, bursty.replicas)
    assert bursty.load == simulate_where_needed(bursty.service, Gamma(10.0))(rate / bursty.replicas, bursty.replicas)
    # One instance has all of it.
    alone = offer.service(0).most_requests_per_second * 0.2
    (single,) = recommend([offer], alone, Targets(), arrival_scv=10.0, most=1)
    assert (single.replicas, single.load.arrivals) == (1, Gamma(10.0))


def test_what_is_proven_is_not_played() -> None:
    offer, targets = offer_of(isl="1000", osl="1000", most=2), Targets(tpot_seconds=0.03)
    both = [recommend([offer], 5.0, targets, play=play) for play in (False, True)]
    assert [(choice.replicas, choice.load) for choice in both[0]] == [(c.replicas, c.load) for c in both[1]]


def test_no_more_layouts_are_played_than_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates that would be simulated after the limit are not selected."""
    monkeypatch.setattr("inference_econ.answers.deployments.recommend._MOST_PLAYED", 1)
    offer = offer_of(isl="8000", osl="50", most=4)
    assert len(recommend([offer], 20.0, Targets(), play=False)) > 1
    assert len(recommend([offer], 20.0, Targets())) == 1


# All candidates


REQUESTS, SPACE = Requests(4000, 500), ie.Space(max_accelerators=2, any_group=True)


@cache
def candidates(arrangement: Arrangement = "both") -> tuple[Candidate, ...]:
    """Return the candidates of two engines, aggregated and disaggregated."""
    setup = ie.Setup.of("qwen3_32b", "h100_sxm", weights="fp8", engine=["sglang", "vllm"])
    return market(setup, REQUESTS, SPACE, arrangement=arrangement)


def test_pools_and_instances_are_ranked_by_what_they_cost() -> None:
    """The first row is within 10% of the cheapest candidate.

    Disaggregated rows are 10% cheaper than aggregated ones.
    """
    targets, rate = Targets(1.0, 0.04), 40.0
    found = recommend(candidates(), rate, targets)
    costs = [choice.dollars_per_hour for choice in found]
    assert costs == sorted(costs)
    alone = {each.label: recommend([each], rate, targets, most=1)[0] for each in candidates()}
    least = min(choice.dollars_per_hour for choice in alone.values())
    assert least <= costs[0] <= (1.0 + SIMPLER) * least
    both = min(choice.dollars_per_hour for choice in alone.values() if choice.fleet is None)
    pooled = [choice.dollars_per_hour for choice in found if choice.fleet is not None]
    assert max(pooled, default=0.0) * 1.1 <= both
    for choice in found:
        assert targets.first_violated(choice.load) is None


def test_a_plan_without_slos_costs_no_more_than_a_plan_within_slos() -> None:
    layouts = offer_of(most=1)
    rate = 0.9 * float(layouts.states.requests_per_second.max())
    free, promised = (recommend([layouts], rate, targets, play=False)[0] for targets in (Targets(), Targets(5.0, 0.5)))
    assert free.dollars_per_hour <= promised.dollars_per_hour
    assert free.replicas == 1


def test_at_equal_cost_the_likelier_comes_first() -> None:
    """Rows are ordered by probability to the nearest 10%, then measured deployments, then speed."""
    targets = Targets(1.0, 0.04)
    for rate in (2.0, 8.0, 20.0):
        for arrangement in ("aggregated", "both"):
            found = recommend(candidates(arrangement), rate, targets)
            rows = [
                (round(each.dollars_per_hour, 6), -round(least_chance(each.chances(targets)), 1), each.evidence.order)
                for each in found
            ]
            assert rows == sorted(rows)


def test_pools_are_a_row_beside_likely_instances_if_they_save_a_tenth() -> None:
    """Aggregated instances are likely to meet the SLO. Pools become a row if instances cost more than 10% more."""
    setup, requests = ie.Setup.of("qwen3_32b", "h200_sxm"), Requests(2000, 500)
    offers, targets = market(setup, requests, ie.Space(max_accelerators=2, any_group=True)), Targets(1.0, 0.024)
    both = recommend([offer for offer in offers if offer.pools is None], 6.0, targets)
    best = max(both, key=lambda choice: least_chance(choice.chances(targets)))
    assert least_chance(best.chances(targets)) > 0.5
    cheapest = min(_worthwhile(offers, 6.0, targets, [best], 1.0), key=lambda pools: pools.dollars_per_hour)
    assert cheapest.dollars_per_hour < best.dollars_per_hour / 1.1
    for dearer, shown in ((1.09, False), (1.11, True)):
        others = [replace(best, dollars_per_hour=dearer * cheapest.dollars_per_hour)]
        assert bool(_worthwhile(offers, 6.0, targets, others, 1.0)) is shown


def test_what_a_chip_does_is_the_same_whatever_else_competes() -> None:
    """Pools of an expensive chip are listed if they are cheaper than its aggregated instances, even if pools of another
    chip are cheaper.
    """
    targets, requests = Targets(tpot_seconds=0.025, tpot_percentile="mean"), Requests(2000, 500)
    setups = {chip: ie.Setup.of("llama_3_70b", chip, engine="trtllm", weights="fp8") for chip in ("b200", "h200_sxm")}
    chips = {chip: market(setup, requests) for chip, setup in setups.items()}
    alone = {chip: recommend(offers, 100.0, targets)[0] for chip, offers in chips.items()}
    together = recommend([offer for offers in chips.values() for offer in offers], 100.0, targets)
    for best in alone.values():
        alike = [choice for choice in together if choice.service.setup.hardware == best.service.setup.hardware]
        assert alike[0].dollars_per_hour == pytest.approx(best.dollars_per_hour)


def test_pools_are_below_their_limit_with_the_whole_of_their_machines() -> None:
    """Six MI300X chips are rented as eight and cost the same."""
    offers = market(
        ie.Setup.of("gpt_oss_120b", "mi300x", engine="sglang"), Requests(2000, 500), ie.Space(any_group=True),
        arrangement="disaggregated",
    )  # fmt: skip
    targets = Targets(tpot_seconds=0.02, tpot_percentile="mean")
    (best,) = fleets(offers, 30.0, targets, math.inf, 1.0)
    assert sum(best.accelerators) < sum(best.rented)
    assert not fleets(offers, 30.0, targets, best.dollars_per_hour, 1.0)


def test_pools_that_are_hardly_cheaper_are_no_choice() -> None:
    """For rare single requests one instance is enough, and pools have at least two."""
    found = recommend(candidates(), 0.05, Targets(tpot_seconds=0.05))
    assert all(choice.fleet is None for choice in found)
    assert found[0].accelerators == 1
    assert recommend(candidates("disaggregated"), 0.05, Targets(tpot_seconds=0.05))[0].accelerators == 2


@pytest.mark.rows
def test_by_rate_and_by_chips_the_answers_agree(
    arrangement: Arrangement, promises: dict[str, float], rate: float
) -> None:
    """The chips needed for a rate serve at least 90% of it, and 15% fewer chips serve at most 110%."""
    targets = Targets(**promises)  # type: ignore[arg-type]
    needed = recommend(candidates(arrangement), rate, targets)[0].accelerators
    first = most_traffic(candidates(arrangement), Means(accelerators=needed), targets)[0]
    assert first.replicas * first.load.requests_per_second >= 0.9 * rate
    fewer = math.floor(0.85 * needed)
    less = most_traffic(candidates(arrangement), Means(accelerators=fewer), targets)[0]
    assert less.replicas * less.load.requests_per_second <= 1.1 * rate


@pytest.mark.parametrize(("arrangement", "chips"), [("aggregated", 8), ("disaggregated", 16), ("disaggregated", 24)])
def test_the_rate_of_a_number_of_chips_takes_no_more_chips(arrangement: Arrangement, chips: int) -> None:
    targets = Targets(1.0, 0.04)
    most = most_traffic(candidates(arrangement), Means(accelerators=chips), targets)[0]
    assert recommend(candidates(arrangement), most.requests_per_second, targets)[0].accelerators <= chips


def test_no_fleet_is_cheaper_than_the_frontier_at_its_speed() -> None:
    """Deployments for a rate have any number of instances, and groups of a frontier fill nodes (12%)."""
    front = service_frontier(candidates())
    for index in range(0, len(front), 5):
        promised = Targets(tpot_seconds=front.tpot_seconds[index] * (1.0 + 1e-9), percentile="mean")
        fleet = recommend(candidates(), 2000.0, promised, most=1, play=False)[0]
        assert fleet.dollars_per_million_output_tokens >= 0.88 * front.dollars[index]


@pytest.mark.parametrize("rate", [0.05, 40.0, None])
def test_what_is_recommended_is_what_is_priced(rate: float | None) -> None:
    targets = Targets(1.0, 0.04)
    first, priced = recommend(candidates(), rate, targets)[0], price(candidates(), rate, targets=targets)
    assert priced.dollars_per_hour == first.dollars_per_hour
    assert priced.accelerators == first.accelerators
    assert (priced.fleet is not None) == (first.fleet is not None)
    assert priced.dollars_per_million_output_tokens == pytest.approx(first.dollars_per_million_output_tokens)
    spent = sum(priced.tokens_per_hour[kind] * priced.average[kind] / 1e6 for kind in KINDS)
    assert spent == pytest.approx(priced.dollars_per_hour)


def test_a_price_without_a_rate_is_near_the_cheapest_that_any_rate_has() -> None:
    """Without a rate, the service has few instances, which costs up to twice the cheapest price."""
    targets = Targets(2.0, 0.012)
    costs = [
        price(candidates(), rate, targets=targets).dollars_per_million_output_tokens
        for rate in (None, 5.0, 50.0, 500.0)
    ]
    assert costs[0] <= 2.0 * min(costs)


def test_where_only_pools_compete_what_they_cannot_is_said() -> None:
    pooled = candidates("disaggregated")
    soon = Targets(ttft_seconds=1e-4)
    with pytest.raises(InputError, match="the request rate must be positive, got 0"):
        recommend(pooled, 0.0, Targets())
    with pytest.raises(NothingFitsError, match=r"no pair of layouts keeps TTFT 0\.1 ms \(p90\)\. Best reachable"):
        recommend(pooled, 5.0, soon)
    with pytest.raises(NothingFitsError, match=r"take at least 2 accelerators together, given: 1 GPU"):
        most_traffic(pooled, Means(accelerators=1), Targets())
    with pytest.raises(InputError, match="replicas: 2 replicas can be set for aggregated instances only"):
        price(pooled, 5.0, targets=Targets(), replicas=2)


def test_what_neither_keeps_is_said_of_instances_that_do_both() -> None:
    message = r"^no deployment keeps TTFT 0\.1 ms \(p90\), even with one req"
    with pytest.raises(NothingFitsError, match=message) as caught:
        recommend(candidates(), 5.0, Targets(ttft_seconds=1e-4))
    # The best of all engines.
    idle = [
        loaded(one, 1e-6) for each in candidates("aggregated") for one in map(each.services.service, range(len(each)))
    ]
    soonest = 1e3 * min(load.ttft_seconds["p90"] for load in idle)
    assert str(caught.value).endswith(f"Best reachable: NVIDIA H100 SXM5 80GB: TTFT {soonest:.4g} ms on 2 accelerators")


@pytest.mark.parametrize("seconds", [8.0, 12.0, 20.0, 40.0])
def test_disaggregated_deployments_meet_an_e2e_slo(seconds: float) -> None:
    """Their E2E percentile is at most the sum of both latency percentiles, and a stricter SLO is never cheaper."""
    pooled, targets = candidates("disaggregated"), Targets(e2e_seconds=seconds)
    best = recommend(pooled, 40.0, targets)[0]
    load = best.load
    steps = REQUESTS.decode_steps
    assert load.e2e_seconds["p90"] == pytest.approx(load.ttft_seconds["p90"] + steps * load.tpot_seconds["p90"])
    assert load.e2e_seconds["p90"] <= seconds
    stricter = recommend(pooled, 40.0, Targets(e2e_seconds=0.9 * seconds))[0]
    assert stricter.dollars_per_hour >= best.dollars_per_hour
    carried = most_traffic(pooled, Means(accelerators=best.accelerators), targets)[0]
    assert carried.load.requests_per_second >= 0.85 * 40.0


def test_bounds_come_last_however_cheap_they_are() -> None:
    """Compare a TPU v7, which has no calibration data, with an H200 at twenty times its price."""
    offers = [
        candidate
        for chip, price in (("tpu_v7", 0.5), ("h200_sxm", 10.0))
        for candidate in market(ie.Setup.of("llama_3_8b", chip, price=price), REQUESTS, SPACE, arrangement="aggregated")
    ]
    by_rate = recommend(offers, 5.0, Targets(1.0, 0.04))
    by_chips = most_traffic(offers, ie.Means(4), Targets(1.0, 0.04))
    for answer in (by_rate, by_chips):
        bounds = [choice.service.setup.is_bound for choice in answer]
        assert bounds == sorted(bounds)
        assert set(bounds) == {False, True}


def test_bursty_plans_have_no_more_instances_than_the_simulation_needs() -> None:
    """The plan has the smallest number of four-chip instances that meets the SLOs in the simulation."""
    setup = ie.Setup.of("llama_3_70b", "h200_sxm", weights="fp8", kv="fp8", engine="vllm")
    layouts = ie.layouts(setup, Requests(8000, 500), ie.Space(ie.Pins(tp=4)))
    targets = Targets(2.0, 0.05)
    best = recommend([layouts], 5.0, targets, arrival_scv=10.0)[0]
    play = simulate_where_needed(best.service, Gamma(10.0))
    assert targets.first_violated(play(5.0 / best.replicas, best.replicas)) is None
    assert targets.first_violated(play(5.0 / (best.replicas - 1), best.replicas - 1)) == "ttft"
