"""SLOs: percentiles, probabilities and capacity margins."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inference_econ as ie
from inference_econ.answers.deployments.deployment import Deployment, Margin
from inference_econ.answers.deployments.recommend import (
    Users,
    most_traffic,
    natural_rate,
    recommend,
    recommend_for_users,
)
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.disaggregated import size_pools
from inference_econ.answers.disaggregated import size_pools as budget
from inference_econ.answers.disaggregated.load import DisaggregationTerms
from inference_econ.answers.load import sweep
from inference_econ.answers.resource_limit import Means
from inference_econ.answers.slo import Targets, chances, check_mean, margins, promised_rates
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import Requests
from inference_econ.report.headings import targets_label
from inference_econ.serving import Services, loaded
from tests import asking, small
from tests.offered import offer_of, service_of
from tests.reading import present

# SLOs, each with its own percentile.

MIXED = Targets(0.3, 0.03, e2e_seconds=9.0, percentile="p90", ttft_percentile="p95", tpot_percentile="mean")
names = st.sampled_from(("mean", "p5", "p50", "p75", "p90", "p95", "p99.9"))


def test_each_promise_is_held_against_its_own_percentile() -> None:
    load = loaded(service_of(), 25.0)
    ttft, tpot = load.ttft_seconds["p95"], load.tpot_seconds["mean"]
    assert (MIXED.statistic("ttft", load), MIXED.statistic("tpot", load)) == (ttft, tpot)
    assert MIXED.statistic("e2e", load) == load.e2e_seconds["p90"]

    def broken(ttft_limit: float, tpot_limit: float) -> str | None:
        return Targets(ttft_limit, tpot_limit, ttft_percentile="p95", tpot_percentile="mean").first_violated(load)

    assert broken(1.001 * ttft, 1.001 * tpot) is None
    assert broken(0.999 * ttft, 1.001 * tpot) == "ttft"
    assert broken(1.001 * ttft, 0.999 * tpot) == "tpot"
    # The 99th percentile of either would break both.
    assert Targets(1.001 * ttft, 1.001 * tpot, "p99").first_violated(load) == "ttft"


def test_one_percentile_for_all_is_a_shorthand() -> None:
    short = Targets(0.3, 0.03, "P95")
    long = Targets(0.3, 0.03, ttft_percentile="p95", tpot_percentile="p95.0")
    assert (short.percentile, short.common, long.common) == ("p95", "p95", "p95")
    assert short.text == long.text == "TTFT 300 ms, TPOT 30 ms (p95)"
    assert targets_label(short) == targets_label(long) == "p95 TTFT <= 300 ms, TPOT <= 30 ms"
    assert (MIXED.common, Targets().common, Targets(percentile="mean").common) == (None, "p90", "mean")


def test_promises_of_several_percentiles_are_named_with_them() -> None:
    assert MIXED.text == "p95 TTFT 300 ms, mean TPOT 30 ms, p90 E2E 9000 ms"
    assert targets_label(MIXED) == "p95 TTFT <= 300 ms, mean TPOT <= 30 ms, p90 E2E <= 9000 ms"
    sure = Targets(0.3, 0.03, ttft_percentile="p95", confidence=0.8)
    assert sure.text == "p95 TTFT 300 ms, p90 TPOT 30 ms (with 80 %)"
    assert Targets(0.3, confidence=0.8).text == "TTFT 300 ms (p90, with 80 %)"
    record = MIXED.record()
    assert [record[f"{name}_percentile"] for name in ("ttft", "tpot", "e2e")] == ["p95", "mean", "p90"]


def test_probabilities_are_those_of_what_is_promised() -> None:
    service = service_of(preset="profiles/hopper")
    load = loaded(service, 20.0)
    slack = 1.05
    tight = Targets(slack * load.ttft_seconds["p95"], slack * load.tpot_seconds["mean"], ttft_percentile="p95",
                    tpot_percentile="mean")  # fmt: skip
    other = Targets(slack * load.ttft_seconds["p50"], slack * load.tpot_seconds["p99"], ttft_percentile="p50",
                    tpot_percentile="p99")  # fmt: skip
    assert chances(service, load, tight)[:2] == pytest.approx(chances(service, load, other)[:2])


@settings(max_examples=12, deadline=None)
@given(names, names, st.floats(1.05, 3.0), st.floats(1.05, 3.0))
def test_what_is_recommended_keeps_each_promise(ttft: str, tpot: str, wait: float, slower: float) -> None:
    layouts = offer_of(most=2)
    idle = loaded(layouts.service(0), 1e-3)
    targets = Targets(
        wait * idle.ttft_seconds[ttft], slower * idle.tpot_seconds[tpot], ttft_percentile=ttft, tpot_percentile=tpot
    )
    try:
        best = recommend([layouts], 20.0, targets, most=1, play=False)[0]
    except NothingFitsError:
        return
    assert best.load.ttft_seconds[ttft] <= targets.ttft_seconds
    assert best.load.tpot_seconds[tpot] <= targets.tpot_seconds
    assert best.service.requests == layouts.requests


@settings(max_examples=12, deadline=None)
@given(names, names, st.floats(1.0, 4.0))
def test_the_rate_of_two_promises_is_the_less_of_both(ttft: str, tpot: str, factor: float) -> None:
    layouts = offer_of(most=2)
    idle = loaded(layouts.service(0), 1e-3)
    wait, slow = factor * idle.ttft_seconds["mean"], factor * idle.tpot_seconds["mean"]
    both = Targets(wait, slow, ttft_percentile=ttft, tpot_percentile=tpot)
    each = Targets(wait, math.inf, ttft), Targets(math.inf, slow, tpot)
    first, second = (promised_rates(layouts, targets) for targets in each)
    assert promised_rates(layouts, both).tolist() == pytest.approx(
        [min(pair) for pair in zip(first, second, strict=True)]
    )


def test_frontiers_promise_means() -> None:
    means = Targets(0.3, 0.03, ttft_percentile="mean", tpot_percentile="mean")
    assert check_mean(means) is means
    message = r"a frontier has no queues, so SLOs apply to means \(got p95\); write mean:TIME"
    with pytest.raises(InputError, match=message):
        check_mean(Targets(0.3, 0.03, "mean", ttft_percentile="p95"))


# Plans that meet SLOs with a probability, and the statements about plans without a margin.

PROFILE = "profiles/hopper"
FREE = Targets(0.2, 0.02)
SURE = replace(FREE, confidence=0.8)


@cache
def offer() -> Services:
    return offer_of(most=4, preset=PROFILE)


def test_a_plan_keeps_each_promise_with_its_confidence() -> None:
    free, sure = (recommend([offer()], 200.0, targets) for targets in (FREE, SURE))
    assert sure[0].dollars_per_hour > free[0].dollars_per_hour
    for choice in sure:
        assert all(chance is None or chance >= 0.8 - 1e-9 for chance in chances(choice.service, choice.load, SURE))
        if choice.replicas > 1 and choice.binding != "capacity":
            assert SURE.predicted(choice.service).first_violated(choice.load) is None
    least = [min(chance or 1.0 for chance in chances(plan[0].service, plan[0].load, FREE)) for plan in (free, sure)]
    assert least[0] < least[1]


def test_more_confidence_never_costs_less() -> None:
    bills = [recommend([offer()], 200.0, replace(FREE, confidence=level), most=1)[0].dollars_per_hour
             for level in (None, 0.51, 0.7, 0.8, 0.9)]  # fmt: skip
    assert bills == sorted(bills)


def test_what_is_taken_off_promises_is_the_margin_of_the_layout() -> None:
    by = margins(offer(), 0.8, SURE.given)
    assert all((each >= 1.0).all() and each.shape == (len(offer()),) for each in by)
    for index in (0, len(offer()) - 1):
        predicted = SURE.predicted(offer().service(index))
        assert predicted.ttft_seconds == pytest.approx(FREE.ttft_seconds / by.ttft[index])
        assert predicted.tpot_seconds == pytest.approx(FREE.tpot_seconds / by.tpot[index])
        assert predicted.fullest == pytest.approx(FREE.fullest / by.throughput[index])
        assert predicted.confidence is None
    assert FREE.predicted(offer().service(0)) is FREE
    assert (promised_rates(offer(), SURE) <= promised_rates(offer(), FREE)).all()
    assert natural_rate([Candidate(offer())], SURE) < natural_rate([Candidate(offer())], FREE)


def test_what_is_not_promised_has_no_margin() -> None:
    by = margins(offer(), 0.8, Targets(tpot_seconds=0.02).given)
    np.testing.assert_array_equal(by.ttft, 1.0)
    service = service_of(preset=PROFILE)
    (point,) = sweep(service, [1.0], targets=Targets(tpot_seconds=0.02))
    assert point.chances.ttft is None
    assert point.chances.tpot is not None


def test_chips_carry_less_where_promises_must_be_sure() -> None:
    free, sure = (most_traffic([offer()], Means(4), targets)[0] for targets in (FREE, SURE))
    assert sure.load.requests_per_second * sure.replicas < free.load.requests_per_second * free.replicas
    assert all(chance is None or chance >= 0.8 - 1e-6 for chance in chances(sure.service, sure.load, SURE))


def test_fewer_requests_are_kept_surely() -> None:
    service, rates = service_of(preset=PROFILE), [5.0, 10.0, 15.0, 20.0]
    free, sure = (sweep(service, rates, targets=targets) for targets in (FREE, SURE))
    kept = [[point.kept or 0.0 for point in points] for points in (free, sure)]
    assert all(less <= more for more, less in zip(*kept, strict=True))
    assert kept[0] != kept[1]
    likely = [point.chances.tpot or 0.0 for point in free]
    assert likely == sorted(likely, reverse=True)


def test_two_pools_keep_promises_with_their_confidence() -> None:
    requests = Requests(2000, 300)
    pools = asking.pools("llama_3_8b", "h100_sxm", requests, assumptions=PROFILE, price=2.0, max_accelerators=2)
    free, sure = DisaggregationTerms(FREE), DisaggregationTerms(SURE)
    fleet, cheaper = (present(size_pools.smallest(pools, 30.0, terms)) for terms in (sure, free))
    assert fleet.dollars_per_hour >= cheaper.dollars_per_hour
    assert all(chance is None or chance >= 0.8 - 1e-9 for chance in fleet.chances(SURE))
    more, less = (present(budget.largest(pools, Means(8), terms)) for terms in (free, sure))
    assert less.load.requests_per_second < more.load.requests_per_second
    with pytest.raises(NothingFitsError, match=r"no pair of layouts keeps TTFT 25 ms \(p90, with 80 %\)"):
        size_pools.smallest(pools, 30.0, DisaggregationTerms(Targets(0.025, confidence=0.8)))


def test_assumptions_that_were_fitted_to_nothing_promise_nothing() -> None:
    unfitted = offer_of(most=2)
    choice = recommend([unfitted], 5.0, FREE, most=1)[0]
    assert chances(choice.service, choice.load, FREE) == (None, None, None, None)
    said = "deployable has no prediction errors on NVIDIA H100 SXM5 80GB, because it was not fitted to .* TTFTs"
    with pytest.raises(InputError, match=said):
        recommend([unfitted], 5.0, SURE)
    with pytest.raises(
        InputError, match=r"not fitted to measurements of TPOTs\. Leave --confidence out, use a fitted profile"
    ):
        promised_rates(unfitted, Targets(tpot_seconds=0.02, confidence=0.8))


@pytest.mark.rows
def test_impossible_confidence(targets: tuple[float, float, str, float], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Targets(*targets)


# Capacity margins above the load, and loads that users state.

RATE = 60.0


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


@pytest.mark.parametrize("margin", [Margin(), Margin(spare=3), Margin(headroom=1.0), Margin(utilization=0.5)])
@pytest.mark.parametrize("users", [Users(100.0), Users(500.0, 20.0)])
def test_users_are_those_of_little_s_law(users: Users, margin: Margin) -> None:
    for found in recommend_for_users(small.market("aggregated"), users, small.TARGETS, margin=margin):
        cycle = found.load.e2e_seconds["mean"] + users.think_seconds
        assert found.requests_per_second * cycle == pytest.approx(users.number, rel=0.03)


def test_headroom_for_users_is_for_more_users() -> None:
    some, twice = Users(100.0), Users(200.0)
    peak = recommend_for_users(small.market("aggregated"), some, small.TARGETS, margin=Margin(headroom=1.0))[0]
    assert peak.replicas == recommend_for_users(small.market("aggregated"), twice, small.TARGETS)[0].replicas


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


@pytest.mark.rows
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
