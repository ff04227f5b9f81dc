"""One deployment at given concurrencies."""

from __future__ import annotations

import pytest

import inference_econ as ie
from inference_econ.answers.deployments.serving_options import Candidate, market
from inference_econ.answers.load import estimate, estimate_rate
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import Requests


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
