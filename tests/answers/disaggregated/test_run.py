"""Simulated runs of a load generator on a fleet of pools, against sums by hand and the steady state."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from inference_econ._types import Array
from inference_econ.answers.disaggregated import load
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.errors import InputError
from inference_econ.extras.servers.prediction.closed_loop import PooledRun, closed_loop, played
from inference_econ.inputs import Requests, catalog
from tests import asking

STEPS = 199.0


@cache
def few(*changes: str) -> Pools:
    """Return a few layouts of a small model."""
    requests = Requests.build({"isl": 2000, "osl": 200}, origin="test")
    assumed = catalog.assumptions("deployable", changes=list(changes))
    return asking.pools("llama_3_8b", "h100_sxm", requests, assumptions=assumed, max_accelerators=4)


def run(instances: tuple[int, int], concurrency: int, count: int, spread: float = 0.0, *changes: str) -> PooledRun:
    steps = STEPS * (1.0 + spread * np.random.default_rng(1).uniform(-0.5, 0.5, count))
    return played(few(*changes), (0, 0), instances, concurrency, steps)


def test_one_request_at_a_time_finds_nobody() -> None:
    found, both = run((1, 1), 1, 5), few()
    assert found.ttft == pytest.approx(float(both.first_token_seconds[0, 0]))
    assert found.tpot == pytest.approx(float(both.decode.step_seconds[0, 0]))
    # A request's overhead and the rest of its transfer occupy no instance.
    after = float(both.first_token_seconds[0, 0] - both.prefill.prefill_seconds[0])
    assert found.seconds == pytest.approx(float(np.sum(found.ttft + STEPS * found.tpot)) - 4 * after)


def test_the_first_requests_are_read_in_steps_that_are_full() -> None:
    """All requests arrive at once, and each instance processes its share in consecutive full steps (by hand)."""
    both, count = few(), 64
    most = int(both.prefill.waiting_prompts[0, -1])
    each = float(both.prefill.shared_prefill_seconds[0, -1])
    for instances in (1, 2):
        found, number = run((instances, 4), count, count), np.arange(count)
        step = 1 + number // (most * instances)
        after = float(both.first_token_seconds[0, 0] - both.prefill.prefill_seconds[0])
        assert found.ttft == pytest.approx(after + step * most * each, rel=1e-3)


def test_more_requests_than_prompts_can_be_read_wait_for_prefill_and_not_for_decode() -> None:
    """The decode speed follows the prefill throughput, regardless of the number of requests."""
    few_requests, many = run((1, 8), 600, 3000), run((1, 8), 1200, 6000)
    middle = slice(1500, 2000)
    assert np.median(many.tpot[middle]) == pytest.approx(np.median(few_requests.tpot[middle]), rel=0.02)
    rate = float(load.prefill_rates(few(), 0, 0, 1)[-1])
    assert np.median(many.ttft[middle]) - np.median(few_requests.ttft[middle]) == pytest.approx(600 / rate, rel=0.03)
    assert 6000 / many.seconds == pytest.approx(rate, rel=0.05)


def test_a_long_run_is_the_closed_loop_of_the_steady_state() -> None:
    for concurrency in (4, 32, 128):
        found = run((1, 2), concurrency, 40 * concurrency, 0.5)
        later = slice(20 * concurrency, 35 * concurrency)
        steady = closed_loop(few(), (0, 0), (1, 2), float(concurrency)).load
        assert np.mean(found.tpot[later]) == pytest.approx(steady.tpot_seconds["mean"], rel=0.05)
        request = np.mean(found.ttft[later] + STEPS * found.tpot[later])
        assert request == pytest.approx(steady.ttft_seconds["mean"] + STEPS * steady.tpot_seconds["mean"], rel=0.05)


def test_requests_wait_for_a_place_in_decode() -> None:
    """With one slot for two requests, each waits until the other has ended."""
    both = few()
    slots = int(both.decode.services.slots[0])
    found = run((8, 1), 2 * slots, 6 * slots)
    assert np.median(found.ttft[2 * slots : 4 * slots]) > 0.8 * STEPS * np.median(found.tpot)


def test_the_host_of_a_prefill_worker_hands_every_cache_over_to_another_link_domain() -> None:
    handed = "host.handover=20 ms"

    def both(*changes: str, domain: int = 1) -> Pools:
        chip = catalog.hardware("h100_sxm").replace(link_domain=domain)
        requests = Requests.build({"isl": 2000, "osl": 200}, origin="test")
        assumed = catalog.assumptions("deployable", changes=list(changes))
        return asking.pools("llama_3_8b", chip, requests, assumptions=assumed, max_accelerators=1)

    def alone(pools: Pools) -> Array:
        return played(pools, (0, 0), (1, 1), 1, np.full(3, STEPS)).ttft

    assert alone(both(handed)) - alone(both()) == pytest.approx(0.02)
    # Prompts of one step, one after the other.
    rates = [float(load.prefill_rates(both(*changes), 0, 0, 1)[-1]) for changes in ((), (handed,))]
    assert 1.0 / rates[1] - 1.0 / rates[0] == pytest.approx(0.02)
    # Inside a link domain, chips copy the cache on their own.
    assert alone(both(handed, domain=2)) == pytest.approx(alone(both(domain=2)))


def test_a_run_has_requests() -> None:
    with pytest.raises(InputError, match=r"a closed loop has at least one request, got 0"):
        run((1, 1), 0, 3)
    with pytest.raises(InputError, match="a run has requests, each with at least one decode step"):
        played(few(), (0, 0), (1, 1), 1, np.zeros(0))
