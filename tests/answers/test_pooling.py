"""Pools of two kinds of chips: engine and cache of both, costs by hand, and their competitors."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.answers.deployments.serving_frontier import service_frontier
from inference_econ.answers.deployments.serving_options import Arrangement, Candidate
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import Requests
from tests.reading import present

REQUESTS = Requests(2000, 300)
SPACE = ie.Space(max_accelerators=2)


def setup(chip: str, price: float) -> ie.Setup:
    return ie.Setup.of("llama_3_8b", chip, price=price)


@cache
def mixed(arrangement: Arrangement = "disaggregated") -> tuple[Candidate, ...]:
    """Return candidates with prefill on H100s at 2 dollars and decode on H200s at 5 dollars."""
    pooling = ie.Pooling(setup("h200_sxm", 5.0))
    return ie.candidates(setup("h100_sxm", 2.0), REQUESTS, SPACE, arrangement=arrangement, pooling=pooling)


def test_both_pools_have_one_engine_and_one_cache() -> None:
    for candidate in mixed():
        reading, writing = candidate.setups
        assert (reading.hardware.name[:11], writing.hardware.name[:11]) == ("NVIDIA H100", "NVIDIA H200")
        assert reading.engines == writing.engines
        assert reading.precision.kv == writing.precision.kv
        assert candidate.setup is writing


def test_each_pool_costs_its_own_price() -> None:
    front = service_frontier(mixed())
    for point, dollars in zip(front.points(), front.dollars, strict=True):
        decoding = float(point.layout["decode_instances"]) * float(point.layout["tp"])
        prefill = point.accelerators - decoding
        assert prefill >= float(point.layout["prefill_instances"])
        tokens_per_hour = 3600.0 * point.requests_per_second * REQUESTS.osl.mean
        assert dollars == pytest.approx(1e6 * (2.0 * prefill + 5.0 * decoding) / tokens_per_hour)
        assert str(point.layout["prefill_hardware"]).startswith("NVIDIA H100")
    assert [made.hardware.name[:11] for made in front.setups[:2]] == ["NVIDIA H100", "NVIDIA H200"]


def test_watts_are_those_of_both_chips() -> None:
    front = service_frontier(mixed())
    per_megawatt = present(front.tokens_per_second_per_megawatt)
    # H100 and H200 draw equal power, so a megawatt has the same number of chips at every ratio.
    per_chip = per_megawatt / front.tokens_per_second_per_accelerator
    assert per_chip == pytest.approx(np.full(len(front), per_chip[0]), rel=0.01)


def test_a_recommendation_has_them_beside_instances_that_do_both() -> None:
    found = ie.recommend(mixed("both"), 40.0, ie.Targets(0.2, 0.02), most=20)
    pooled = [choice for choice in found if choice.fleet is not None]
    assert 0 < len(pooled) < len(found)
    entry = next(entry for entry in found.records() if entry["serving"] == "disaggregated")
    chips = entry["prefill_instances"] * entry["prefill_accelerators_per_instance"]
    assert entry["dollars_per_hour"] == pytest.approx(2.0 * chips + 5.0 * (entry["accelerators"] - chips))
    assert (entry["prefill_hardware"][:11], entry["hardware"][:11]) == ("NVIDIA H100", "NVIDIA H200")


def test_a_frontier_is_of_one_pair_of_chips() -> None:
    with pytest.raises(InputError, match="a frontier is for one kind of GPU, or for prefill and decode pools"):
        service_frontier(mixed("both"))


def test_what_is_asked_of_pools_is_refused_where_there_are_none() -> None:
    with pytest.raises(NothingFitsError, match="a chain of 8 within 2 GPUs"):
        ie.candidates(setup("h100_sxm", 2.0), REQUESTS, SPACE, pooling=ie.Pooling(chains=(8,)))


def test_a_cache_that_is_sent_whole_arrives_later() -> None:
    for kept, layers in ((True, 32), (False, 1)):
        pooling = ie.Pooling(layer_by_layer=kept)
        first = ie.candidates(setup("h100_sxm", 2.0), REQUESTS, SPACE, arrangement="disaggregated", pooling=pooling)[0]
        moved = present(first.pools).pools.transfer
        assert moved.exposed_seconds.min() == pytest.approx(moved.seconds.min() / layers)
