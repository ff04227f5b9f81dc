"""Whose pools a question about prefill and decode apart is about: those that a recommendation has."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from inference_econ.answers.best_pools import best_pools

import inference_econ as ie
from inference_econ.answers.candidates import Candidate
from inference_econ.answers.disaggregated.fleets import smallest
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.disaggregated.terms import Terms
from inference_econ.answers.market import market
from inference_econ.answers.means import Means
from inference_econ.answers.most_traffic import most_traffic
from inference_econ.answers.promises import Targets
from inference_econ.answers.recommend import PooledChoice, recommend
from inference_econ.answers.serving_frontier import service_frontier
from inference_econ.inputs import Requests

REQUESTS, SPACE = Requests.build({"isl": 4000, "osl": 500}, origin="test"), ie.Space(max_accelerators=2)
TARGETS = Targets(1.0, 0.04)


def setup(**settings: Any) -> ie.Setup:
    return ie.Setup.of("qwen3_32b", "h100_sxm", weights="fp8", **settings)


@cache
def candidates() -> tuple[Candidate, ...]:
    return market(setup(), REQUESTS, SPACE)


def of_market(pools: Pools) -> Candidate:
    """The candidate whose layouts, engine and recipe some pools have."""
    (candidate,) = [
        candidate
        for candidate in candidates()
        if candidate.pools is not None
        and candidate.setup == pools.decode.setup
        and candidate.speculation == pools.speculation
    ]
    return candidate


def test_the_fleet_of_a_traffic_is_that_of_the_recommendation() -> None:
    terms = Terms(TARGETS)
    pools = best_pools(setup(), REQUESTS, SPACE, terms, requests_per_second=40.0)
    fleet = smallest(pools, 40.0, terms)
    first = recommend(candidates(), 40.0, TARGETS)[0]
    assert isinstance(first, PooledChoice)
    assert fleet is not None
    assert first.fleet.pools.decode.setup == pools.decode.setup
    assert fleet.dollars_per_hour == pytest.approx(first.dollars_per_hour)
    assert fleet.accelerators == first.fleet.accelerators
    assert fleet.load.requests_per_second == pytest.approx(first.load.requests_per_second)
    # No other practice has a cheaper one.
    others = [candidate.pools for candidate in candidates() if candidate.pools is not None]
    fleets = [smallest(each.pools, 40.0, terms) for each in others]
    assert fleet.dollars_per_hour == min(each.dollars_per_hour for each in fleets if each is not None)


def test_the_fleet_of_some_chips_is_that_which_carries_the_most() -> None:
    means = Means(accelerators=16)
    pools = best_pools(setup(), REQUESTS, SPACE, Terms(TARGETS), means=means)
    apart = [candidate for candidate in candidates() if candidate.pools is not None]
    first = most_traffic(apart, means, TARGETS)[0]
    assert isinstance(first, PooledChoice)
    assert first.fleet.pools.decode.setup == pools.decode.setup


def test_without_a_traffic_it_is_whose_pools_are_the_best_at_any() -> None:
    pools = best_pools(setup(), REQUESTS, SPACE)
    front = service_frontier([candidate for candidate in candidates() if candidate.pools is not None])
    assert of_market(pools) is front.candidate(front.preferred_index())


def test_an_engine_or_assumptions_that_are_given_have_their_own() -> None:
    assert best_pools(setup(engine="sglang"), REQUESTS, SPACE).decode.setup.engines[0].name == "sglang"
    own = best_pools(setup(assumptions="profiles/hopper"), REQUESTS, SPACE)
    assert own.decode.setup.assumptions.name == "profiles/hopper"
    assert own.speculation is None


def test_chips_that_decode_are_run_by_the_engine_that_reads() -> None:
    other = ie.Setup.of("qwen3_32b", "h200_sxm", weights="fp8")
    pools = best_pools(setup(), REQUESTS, SPACE, decode=other)
    assert pools.prefill.setup.engines == pools.decode.setup.engines
    assert pools.decode.setup.hardware.name == other.hardware.name
    assert pools.prefill.setup.precision.kv == pools.decode.setup.precision.kv
