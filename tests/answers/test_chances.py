"""Plans that meet SLOs with a probability, and the statements about plans without a margin."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from inference_econ.answers.deployments.most_traffic import most_traffic
from inference_econ.answers.deployments.recommend import natural_rate, recommend
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.disaggregated import size_pools
from inference_econ.answers.disaggregated import size_pools as budget
from inference_econ.answers.disaggregated.load import DisaggregationTerms
from inference_econ.answers.load import sweep
from inference_econ.answers.resource_limit import Means
from inference_econ.answers.slo import Targets, chances, margins, promised_rates
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import Length, Requests
from inference_econ.serving import Services
from tests import asking
from tests.offered import offer_of, service_of
from tests.reading import present

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
    requests = Requests(isl=Length.parse("2000"), osl=Length.parse("300"))
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
    said = "nobody knows how far off deployable is on NVIDIA H100 SXM5 80GB, as it was fitted to no measured TTFTs"
    with pytest.raises(InputError, match=said):
        recommend([unfitted], 5.0, SURE)
    with pytest.raises(InputError, match="fitted to no measured TPOTs; leave --confidence out, take a fitted profile"):
        promised_rates(unfitted, Targets(tpot_seconds=0.02, confidence=0.8))


@pytest.mark.rows
def test_impossible_confidence(targets: tuple[float, float, str, float], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Targets(*targets)
