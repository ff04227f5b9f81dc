"""Closed loops of pools: simulated runs, and the maximum concurrency of decode instances."""

from __future__ import annotations

import heapq
from collections import deque
from functools import cache

import numpy as np
import pytest

from inference_econ._types import Array
from inference_econ.answers.disaggregated import load, size_pools
from inference_econ.answers.disaggregated import size_pools as budget
from inference_econ.answers.disaggregated.load import DisaggregationTerms
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.resource_limit import Means
from inference_econ.answers.slo import FILLED, Targets
from inference_econ.errors import InputError
from inference_econ.extras.servers.prediction.closed_loop import PooledRun, closed_loop, played
from inference_econ.inputs import Requests, catalog
from inference_econ.report.service import slots_notes
from tests import asking
from tests.reading import present

# Simulated runs of a load generator on a fleet of pools, against sums by hand and the steady state.

STEPS = 199.0


@cache
def few(*changes: str) -> Pools:
    """Return a few layouts of a small model."""
    requests = Requests(2000, 200)
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
    rate = float(load.prefill_states(few(), 0, 0, 1).rates[-1])
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
        requests = Requests(2000, 200)
        assumed = catalog.assumptions("deployable", changes=list(changes))
        return asking.pools("llama_3_8b", chip, requests, assumptions=assumed, max_accelerators=1)

    def alone(pools: Pools) -> Array:
        return played(pools, (0, 0), (1, 1), 1, np.full(3, STEPS)).ttft

    assert alone(both(handed)) - alone(both()) == pytest.approx(0.02)
    # Prompts of one step, one after the other.
    rates = [float(load.prefill_states(both(*changes), 0, 0, 1).rates[-1]) for changes in ((), (handed,))]
    assert 1.0 / rates[1] - 1.0 / rates[0] == pytest.approx(0.02)
    # Inside a link domain, chips copy the cache on their own.
    assert alone(both(handed, domain=2)) == pytest.approx(alone(both(domain=2)))


def test_a_run_has_requests() -> None:
    with pytest.raises(InputError, match=r"a closed loop has at least one request, got 0"):
        run((1, 1), 0, 3)
    with pytest.raises(InputError, match="a run has requests, each with at least one decode step"):
        played(few(), (0, 0), (1, 1), 1, np.zeros(0))


# The maximum concurrency of decode instances for a TPOT SLO, against a simulation and all other limits.

PERCENTILES = ("mean", "p50", "p90")


@cache
def pools(memory: float = 1.0) -> Pools:
    """Return a small model on chips with a multiple of the HBM."""
    chip = catalog.hardware("l40s", changes=[f"hbm_bytes={memory * catalog.hardware('l40s').hbm_bytes}"])
    requests = Requests(1000, 300)
    return asking.pools("llama_3_8b", chip, requests, assumptions="deployable", max_accelerators=1)


@cache
def decoder(memory: float = 1.0) -> load.Decoder:
    return load.decoder(pools(memory), 0, 0.0)


def simulated(decode: load.Decoder, rate: float, count: int) -> tuple[float, float, float]:
    """Simulate Poisson arrivals and exponential outputs; return mean and p90 TPOT and the mean wait for a slot."""
    chance = np.random.default_rng(3)
    steps = chance.exponential(pools().requests.decode_steps, count)
    arrivals = np.cumsum(chance.exponential(1.0 / rate, count)).tolist()
    now = done = waited = 0.0
    decoding: list[float] = []
    waiting: deque[int] = deque()
    tokens, following = np.zeros(decode.slots), 0
    while following < count or decoding:
        tpot = float(decode.tpot_seconds[len(decoding) - 1]) if decoding else 1.0
        ends = now + (decoding[0] - done) * tpot if decoding else np.inf
        comes = arrivals[following] if following < count else np.inf
        time = min(ends, comes)
        if decoding:
            made = (time - now) / tpot
            tokens[len(decoding) - 1] += made * len(decoding)
            done += made
        now = time
        if ends <= comes:
            heapq.heappop(decoding)
        else:
            waiting.append(following)
            following += 1
        while waiting and len(decoding) < decode.slots:
            request = waiting.popleft()
            waited += now - arrivals[request]
            heapq.heappush(decoding, done + float(steps[request]))
    share = np.cumsum(tokens) / tokens.sum()
    mean = float(tokens @ decode.tpot_seconds / tokens.sum())
    return mean, float(decode.tpot_seconds[np.searchsorted(share, 0.9)]), waited / count


def test_what_is_limited_waits_as_in_a_simulation() -> None:
    limited = load.Decoder(decoder().requests_per_second, decoder().tpot_seconds, 1.0).limited(12)
    rate = 0.85 * float(limited.requests_per_second[-1])
    found, (mean, p90, wait) = limited.load(rate), simulated(limited, rate, 160_000)
    assert found.tpot_seconds["mean"] == pytest.approx(mean, rel=0.01)
    assert found.tpot_seconds["p90"] == pytest.approx(p90, rel=0.01)
    assert found.ttft_seconds["mean"] == pytest.approx(wait, rel=0.1)
    # With enough prefill instances that no prompt queues, the time to first token grows by the wait for a slot.
    line = load.prefill_queue(pools(), 0, 0, 40, rate, 1.0)
    assert float(line.wait_seconds) < 0.01 * wait
    fleet = load.together(pools(), (0, 0), (40, 1), line, limited, found)
    alone = float(pools().first_token_seconds[0, 0])
    assert fleet.load.ttft_seconds["mean"] - alone == pytest.approx(wait, rel=0.1)
    percentiles = [fleet.load.ttft_seconds[f"p{share}"] for share in range(1, 100)]
    assert np.mean(percentiles) == pytest.approx(fleet.load.ttft_seconds["mean"], rel=0.1)
    assert fleet.load.e2e_seconds["mean"] == pytest.approx(
        fleet.load.ttft_seconds["mean"] + pools().requests.decode_steps * found.tpot_seconds["mean"]
    )


def test_all_requests_of_a_closed_loop_are_in_it() -> None:
    """Little's law holds, waits for a slot included, for more requests than the only decode instance has slots."""
    slots = decoder().slots
    for concurrency in (0.5 * slots, 1.5 * slots):
        fleet = closed_loop(pools(), (0, 0), (40, 1), concurrency)
        inside = fleet.load.completed_per_second * fleet.load.e2e_seconds["mean"]
        assert inside == pytest.approx(concurrency, rel=1e-3)
    assert fleet.load.ttft_seconds["mean"] > 5.0 * float(pools().first_token_seconds[0, 0])


@pytest.mark.parametrize("percentile", PERCENTILES)
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_the_slots_are_the_most_that_keep_a_promised_tpot(percentile: str, share: float) -> None:
    full = decoder()
    rate = share * float(full.requests_per_second[-1])
    for place in (full.slots // 8, full.slots // 2, full.slots - 2):
        targets = Targets(tpot_seconds=float(full.tpot_seconds[place]), percentile=percentile)
        kept, under = full.keeping(targets, rate)
        keeping = [
            slots
            for slots in range(1, full.slots + 1)
            if targets.statistic("tpot", full.limited(slots).load(rate)) <= targets.tpot_seconds
            and rate < full.requests_per_second[slots - 1]
        ]
        if keeping:
            assert kept.slots == max(keeping)
            assert targets.first_violated(under) in (None, "capacity")
        else:
            assert targets.first_violated(under) is not None


def test_where_no_number_keeps_the_tpot_all_slots_are_taken() -> None:
    full, impossible = decoder(), Targets(tpot_seconds=0.5 * float(decoder().tpot_seconds[0]))
    kept, under = full.keeping(impossible, 0.5)
    assert kept.slots == full.slots
    assert impossible.first_violated(under) == "tpot"


@pytest.mark.parametrize("percentile", PERCENTILES)
@pytest.mark.parametrize("ttft", [2.0, float("inf")])
def test_more_memory_is_never_dearer(percentile: str, ttft: float) -> None:
    """More memory holds more requests, and running fewer of them at once costs nothing."""
    for tpot in (0.04, 0.05, 0.065):
        targets = Targets(ttft, tpot, percentile)
        for rate in (2.0, 5.0, 11.0):
            small, large = (
                present(size_pools.smallest(pools(memory), rate, DisaggregationTerms(targets))) for memory in (1.0, 3.0)
            )
            assert large.dollars_per_hour <= small.dollars_per_hour * (1.0 + 1e-9)
            assert targets.first_violated(large.load) is None
        means = Means(accelerators=6)
        less, more = (budget.largest(pools(memory), means, DisaggregationTerms(targets)) for memory in (1.0, 3.0))
        assert less is not None and more is not None
        assert more.load.requests_per_second >= less.load.requests_per_second * (1.0 - 1e-6)


def test_without_a_promised_ttft_answers_wait_little_for_a_place() -> None:
    fleet = present(size_pools.smallest(pools(3.0), 40.0, DisaggregationTerms(Targets(tpot_seconds=0.026))))
    assert fleet.slots < decoder(3.0).slots
    said = f"limits a decode instance to {fleet.slots} concurrent requests (vLLM --max-num-seqs). Its memory "
    assert f"{said}has room for {decoder(3.0).slots}" in slots_notes(fleet)[0]
    assert fleet.decode_utilization <= FILLED * (1.0 + 1e-9)
    hurried = present(size_pools.smallest(pools(3.0), 40.0, DisaggregationTerms(Targets(5.0, 0.026))))
    assert hurried.decode_utilization > FILLED
    idle = present(size_pools.smallest(pools(3.0), 1.0, DisaggregationTerms(Targets(5.0, 0.05))))
    assert not slots_notes(idle)


def test_a_run_with_fewer_slots_is_quicker_and_waits_for_a_place() -> None:
    steps = np.full(480, pools().requests.decode_steps)
    wide, narrow = (played(pools(), (0, 0), (4, 1), 48, steps, slots=slots) for slots in (None, 8))
    later = slice(96, 384)
    assert narrow.tpot[later].max() <= float(decoder().tpot_seconds[7]) * (1.0 + 1e-9)
    assert np.median(wide.tpot[later]) > np.median(narrow.tpot[later])
    # A request waits for the five rounds before it.
    answer = float(steps[0]) * float(decoder().tpot_seconds[7])
    assert np.median(narrow.ttft[later]) == pytest.approx(5.0 * answer, rel=0.2)
