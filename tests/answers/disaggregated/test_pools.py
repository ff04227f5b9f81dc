"""Disaggregated serving against aggregated serving, brute force, and queues with a known solution."""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from inference_econ._types import Array
from inference_econ.answers.deployments.serving_frontier import service_frontier
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.disaggregated import load, size_pools
from inference_econ.answers.disaggregated.load import DisaggregationTerms, PrefillPools
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.simplest import SIMPLER
from inference_econ.answers.slo import FILLED, Targets
from inference_econ.engine import Speculation, rounds
from inference_econ.errors import InputError
from inference_econ.extras.servers.prediction.closed_loop import closed_loop
from inference_econ.inputs import HardwareSpec, ProposerName, Requests, catalog
from inference_econ.serving import Gamma, LengthSample, new_tokens
from inference_econ.serving.simulation import simulator
from tests import asking
from tests.reading import present


def pools(*subject: Any, **asked: Any) -> Pools:
    return asking.pools(*subject, **{"assumptions": "deployable", **asked})


@cache
def few(isl: float | str = 2000, osl: float = 200, **options: Any) -> Pools:
    """Return a few layouts of a small model."""
    return pools("llama_3_8b", "h100_sxm", Requests(isl, osl), max_accelerators=4, **options)


def chip(**changes: object) -> HardwareSpec:
    return catalog.hardware("h100_sxm", changes=[f"{name}={value}" for name, value in changes.items()])


def free(model: str, requests: Requests, largest: float) -> Pools:
    """Return pools whose communication, KV-cache transfer included, takes no time."""
    assumed = catalog.assumptions("deployable", changes=["network.collectives=free", "per_family={}"])
    return pools(model, "h100_sxm", requests, assumptions=assumed, max_accelerators=largest)


def factors(both: Pools) -> Array:
    """Return the cost of aggregated instances over that of pools, at the speeds of the pools' frontier [1]."""
    front = asking.apart_frontier(both)
    together = service_frontier([Candidate(both.decode.services)], ends=False)
    speeds = front.tokens_per_second[front.tokens_per_second <= together.tokens_per_second[-1]]
    return together.dollars_at(speeds) / front.dollars_at(speeds)


# Frontiers; the groups of pools on them are in test_steady.


def test_with_free_transfer_disaggregated_serving_of_a_large_model_is_cheaper() -> None:
    both = free("deepseek_v3", Requests(4000, 1000), 32)
    assert factors(both).max() > 1.3
    assert np.all(both.transfer.seconds == 0.0)


def test_a_slower_network_is_never_better() -> None:
    chips = [chip(nic_bytes_per_second_one_way=rate, link_domain=1) for rate in ("100 GB/s", "10 GB/s", "1 GB/s")]
    asked = {"max_accelerators": 2, "engine": "any"}
    found = [asking.apart_frontier(pools("llama_3_8b", one, Requests(4000, 100), **asked)) for one in chips]
    speeds = found[-1].tokens_per_second
    costs = [front.dollars_at(speeds) for front in found]
    # The numbers of instances of a group are integers, and the smallest group may be 5% away from the best.
    assert np.all(costs[0] <= costs[1] * 1.05)
    assert np.all(costs[1] <= costs[2] * 1.05)
    assert costs[2][-1] > 1.5 * costs[0][-1]


def test_the_way_of_a_cache() -> None:
    both = few(4000, 100)
    moved = both.transfer
    one = int(np.flatnonzero(both.prefill.accelerators == 1)[0]), int(np.flatnonzero(both.decode.accelerators == 1)[0])
    # 32 layers, 8 KV heads of 128, keys and values in 16 bits.
    assert both.bytes_per_prompt == 4000 * 32 * 2 * 8 * 128 * 2
    assert moved.fast[one]
    share = both.decode.setup.assumptions.network.link_efficiency
    assert moved.seconds[one] == pytest.approx(both.bytes_per_prompt / (450e9 * share))
    assert moved.exposed_seconds[one] == pytest.approx(moved.seconds[one] / 32)
    whole = few(4000, 100, layer_by_layer=False).transfer
    assert np.all(whole.exposed_seconds == whole.seconds)
    assert np.all(whole.exposed_seconds >= moved.exposed_seconds)
    far = pools("llama_3_8b", "h100_sxm", Requests(4000, 100), decode_on="h200_sxm", max_accelerators=1)
    assert not far.transfer.fast.any()
    assert far.transfer.seconds[0, 0] == pytest.approx(both.bytes_per_prompt / (50e9 * share))


def test_the_slower_side_decides() -> None:
    both = pools("llama_3_8b", "a100_sxm_80", Requests(1000, 100), decode_on="h100_sxm", max_accelerators=4)
    share = both.decode.setup.assumptions.network.link_efficiency
    widest = int(np.argmax(both.prefill.cache_chips)), int(np.argmin(both.decode.cache_chips))
    senders, receivers = both.prefill.cache_chips[widest[0]], both.decode.cache_chips[widest[1]]
    slower = min(senders * 25e9, receivers * 50e9) * share
    assert both.transfer.seconds[widest] == pytest.approx(both.bytes_per_prompt / slower)


def test_deepseeks_own_fleet() -> None:
    """The predicted cost of DeepSeek's own fleet is within 30% of the published one.

    Source: DeepSeek's report of 2025-03-01 (open-infra-index, day 6), rows D0466, P0024 and P0054 of the measurements.
    One day had 608 G input tokens (342 G of them cached) and 168 G output tokens. They cost 87,072 USD at 2 USD per
    H800-hour, at 20 to 22 tokens/s per user and a mean context of 4,989 tokens. The fleet was not always full, and it
    used speculative decoding.

    For aggregated serving, InferenceMAX measured 237 output tokens/s per H200 at 30 tokens/s per user with prompts of
    1,024 tokens. With 8,192 tokens it measured 143 at 19 (inferencemax_aggregated.csv). At 2 USD these are 2.3 and 3.9
    USD per million, on 8 accelerators: at least 4.5 times the fleet's 0.52. Our layouts may use 160 accelerators, whose
    attention-DP groups delay prefill until each has a prompt. Published pairs on equal hardware differ by 1.3 to 4
    (pool_pairs.csv).
    """
    osl = 4989 / (608 / 168 + 0.5)
    both = pools(
        "deepseek_v3", "h800_sxm", Requests(608 / 168 * osl, osl, cached=342 / 168 * osl),
        price=2.0, pipeline=False, max_accelerators=160,
    )  # fmt: skip
    apart = float(asking.apart_frontier(both).dollars_at(21.0))
    together = float(service_frontier([Candidate(both.decode.services)], ends=False).dollars_at(21.0))
    assert apart == pytest.approx(87_072 / 168_000, rel=0.3)
    assert 1.1 < together / apart < 4.5


def test_layouts_some_of_whose_groups_would_idle_are_left_out() -> None:
    both = pools("llama_3_70b", "h100_sxm", Requests(120_000, 500), max_accelerators=8, engine="any")
    pool = both.decode
    groups = pool.accelerators / pool.services.plans.attention_ranks
    assert np.all(pool.services.slots >= groups)
    assert pool.batch.shape[0] == len(pool.services) == pool.prefill_seconds.size
    # Four groups of one chip have room for two prompts only.
    alike = {"max_accelerators": 8, "assumptions": "deployable", "engine": "any"}
    every = asking.offer("llama_3_70b", "h100_sxm", Requests(120_000, 500), **alike)
    assert len(pool.services) < len(every)
    assert len(asking.apart_frontier(both))


# Whole fleets.


@pytest.mark.rows
def test_the_smallest_fleet_is_the_cheapest_of_all(rate: float, promises: list[Any]) -> None:
    targets = Targets(*promises)
    both = pools("llama_3_8b", "h100_sxm", Requests(2000, 200), max_accelerators=2)
    found = present(size_pools.smallest(both, rate, DisaggregationTerms(targets)))
    assert targets.first_violated(found.load) is None
    assert found.prefill_utilization <= FILLED
    price = both.decode.setup.dollars_per_accelerator_hour
    most = round(found.dollars_per_hour / price)
    # No fleet with fewer chips meets the SLOs.
    for reader, decoder in itertools.product(range(len(both.prefill.services)), range(len(both.decode.services))):
        sizes = int(both.prefill.accelerators[reader]), int(both.decode.accelerators[decoder])
        for count in range(1, (most - 1) // sizes[0] + 1):
            groups = (most - 1 - count * sizes[0]) // sizes[1]
            if groups >= 1:
                other = load.pools_under_load(both, (reader, decoder), (count, groups), rate)
                assert targets.first_violated(other.load) is not None or other.prefill_utilization > FILLED


def test_more_instances_are_never_slower() -> None:
    both, before = few(), math.inf
    for count in range(3, 9):
        found = load.pools_under_load(both, (0, 0), (count, 3), 40.0)
        assert found.load.ttft_seconds["p99"] <= before
        before = found.load.ttft_seconds["p99"]
    fixed = float(both.prefill.prefill_seconds[0] + both.transfer.exposed_seconds[0, 0])
    assert before == pytest.approx(fixed, rel=0.05)


def test_too_much_is_said_to_be_too_much() -> None:
    both = few()
    found = load.pools_under_load(both, (0, 0), (1, 1), 1000.0)
    assert found.load.saturated
    assert math.isinf(found.load.ttft_seconds["p50"])
    busiest = max(found.prefill_utilization, found.decode_utilization)
    assert found.load.completed_per_second == pytest.approx(1000.0 / busiest)


def in_line(count: int, rate: float, seconds: Array) -> Array:
    """Simulate the waits of prompts with random arrivals and several servers that process one prompt each [s]."""
    free_at, waits = [0.0] * count, []
    for arrival, work in zip(
        np.cumsum(np.random.default_rng(7).exponential(1 / rate, seconds.size)), seconds, strict=True
    ):
        start = max(heapq.heappop(free_at), arrival)
        heapq.heappush(free_at, start + work)
        waits.append(start - arrival)
    return np.array(waits)


def test_prompts_wait_as_in_a_queue_with_several_servers() -> None:
    """Waits of equal prompts with Poisson arrivals in one queue agree with a simulation of M/D/c within 15%."""
    # No two prompts of 2000 tokens fit a step.
    narrow = catalog.assumptions("deployable", changes=["serving.prefill_chunk=2048"])
    both, count = pools("llama_3_8b", "h100_sxm", Requests(2000, 200), assumptions=narrow, max_accelerators=1), 3
    seconds = float(both.prefill.prefill_seconds[0])
    rate = 0.85 * count / seconds
    waits = in_line(count, rate, np.full(400_000, seconds))
    found = load.prefill_queue(both, 0, 0, count, rate, 1.0)
    assert float(found.wait_seconds) == pytest.approx(float(waits.mean()), rel=0.15)
    assert float(found.offered) == pytest.approx(0.85)


def test_prompts_that_wait_are_read_together() -> None:
    """Four prompts of 2000 tokens fit a step of 8192. Each takes less than alone, but all wait for the last."""
    both = few()
    rates, pool = load.prefill_states(both, 0, 0, 2).rates, both.prefill
    alone, shared = float(pool.prefill_seconds[0]), float(pool.prefill_busy_seconds[0])
    assert rates.size == 8
    assert rates[:2] == pytest.approx([1.0 / alone, 2.0 / alone])
    assert np.all(np.diff(rates) >= 0.0)
    assert rates[-1] == pytest.approx(2.0 / shared)
    assert shared < 0.99 * alone
    calm, busy = (load.pools_under_load(both, (0, 0), (2, 8), share * rates[-1]) for share in (0.01, 0.9))
    queue = load.prefill_queue(both, 0, 0, 2, 0.9 * float(rates[-1]), 1.0)
    assert float(queue.service_seconds) > 1.5 * alone
    grown = float(queue.service_seconds + queue.wait_seconds) - alone
    assert busy.load.ttft_seconds["mean"] == pytest.approx(calm.load.ttft_seconds["mean"] + grown, rel=0.02)


@pytest.mark.parametrize("count", [16_384, 16_385, 100_000])
def test_an_instance_has_the_same_capacity_among_very_many(count: int) -> None:
    """A state of the queue is then for several prompts, so that steps may still be full."""
    alone, many = (load.prefill_states(few(), 0, 0, instances) for instances in (1, count))
    assert many.rates[-1] == pytest.approx(count * alone.rates[-1])
    assert many.prompts[-1] >= 4 * count
    assert many.prompts.size <= 2**16
    queue = load.prefill_queue(few(), 0, 0, count, rate := 0.8 * float(many.rates[-1]), 1.0)
    assert float(queue.offered) == pytest.approx(0.8)
    assert float(queue.in_flight) == pytest.approx(rate * float(queue.service_seconds))
    few_instances = load.prefill_queue(few(), 0, 0, 1000, 800.0 * float(alone.rates[-1]), 1.0)
    assert float(queue.service_seconds) == pytest.approx(float(few_instances.service_seconds), rel=2e-3)


def test_no_decode_instance_completes_more_than_its_bound() -> None:
    """A TPOT SLO may be met at a batch between two of the calculated states."""
    both = few()
    decode = load.decoder(both, 0, 0.0)
    for tpot, rate in zip(decode.tpot_seconds[:200], decode.requests_per_second[:200], strict=True):
        _, working = size_pools.per_request(both, Targets(tpot_seconds=float(tpot) * (1.0 + 1e-9), percentile="mean"))
        assert working[:, 0].max() <= (1.0 + 1e-6) / rate


# Closed loops.


def test_one_request_at_a_time_finds_nobody() -> None:
    both = few()
    found = closed_loop(both, (0, 0), (1, 1), 1.0).load
    fixed = float(both.first_token_seconds[0, 0])
    assert found.ttft_seconds["mean"] == pytest.approx(fixed)
    assert found.tpot_seconds["mean"] == pytest.approx(float(both.decode.step_seconds[0, 0]))
    cycle = fixed + both.requests.decode_steps * found.tpot_seconds["mean"]
    assert found.completed_per_second == pytest.approx(1.0 / cycle)


def test_a_closed_loop_is_the_stream_in_which_a_request_finds_the_others() -> None:
    both, steps, before = few(), few().requests.decode_steps, 0.0
    for concurrency in (2.0, 8.0, 64.0, 200.0):
        found = closed_loop(both, (0, 0), (1, 2), concurrency).load
        rate, ttft, tpot = found.requests_per_second, found.ttft_seconds["mean"], found.tpot_seconds["mean"]
        assert rate * (ttft + steps * tpot) == pytest.approx(concurrency - 1.0, rel=1e-9)
        stream = load.pools_under_load(both, (0, 0), (1, 2), rate).load
        assert (stream.ttft_seconds, stream.tpot_seconds) == (found.ttft_seconds, found.tpot_seconds)
        assert before < found.completed_per_second <= load.prefill_states(both, 0, 0, 1).rates[-1] * (1.0 + 1e-12)
        before = found.completed_per_second


def test_more_requests_than_a_pool_completes_wait_for_it() -> None:
    both = few()
    found = [closed_loop(both, (0, 0), (1, 8), concurrency).load for concurrency in (1000.0, 2000.0)]
    most = float(load.prefill_states(both, 0, 0, 1).rates[-1])
    assert [one.completed_per_second for one in found] == pytest.approx([most, most], rel=2e-3)
    waits = found[1].ttft_seconds["mean"] - found[0].ttft_seconds["mean"]
    assert waits == pytest.approx(1000.0 / most, rel=0.02)


def test_a_place_is_waited_for_as_often_and_as_long_as_its_queue_says() -> None:
    decoding = load.decoder(few(), 0, 0.0).load(0.98 * float(load.decoder(few(), 0, 0.0).requests_per_second[-1]))
    assert 0.05 < decoding.waiting < 1.0
    waits = load.second_waits(decoding, LengthSample(few().requests, 4_000))
    assert np.mean(waits > 0.0) == pytest.approx(decoding.waiting, abs=1e-3)
    assert waits.mean() == pytest.approx(decoding.ttft_seconds["mean"], rel=0.01)
    for share in ("p90", "p99"):
        assert np.quantile(waits, float(share[1:]) / 100.0) == pytest.approx(decoding.ttft_seconds[share], rel=0.02)
    calm = load.decoder(few(), 0, 0.0).load(0.01)
    assert not load.second_waits(replace(calm, waiting=0.0), LengthSample(few().requests, 10)).any()


@pytest.mark.parametrize(("count", "busy", "within"), [(12, 0.8, 0.04), (2, 0.5, 0.07), (2, 0.8, 0.15)])
def test_a_long_prompt_takes_its_own_time_in_a_prefill_instance(count: int, busy: float, within: float) -> None:
    """Compare with a simulated M/G/c queue: Poisson arrivals, one queue, and work that follows each prompt's length."""
    # No two prompts of 2000 tokens fit a step.
    narrow = catalog.assumptions("deployable", changes=["serving.prefill_chunk=2048"])
    both = pools("llama_3_8b", "h100_sxm", Requests("lognormal:2000:1", 200), assumptions=narrow, max_accelerators=1)
    rate = busy * float(load.prefill_states(both, 0, 0, count).rates[-1])
    requests = 100_000
    prompts = new_tokens(both.requests, np.random.default_rng(8).uniform(size=requests))
    beyond = both.prefill.services.states.prompts.take(0).beyond_mean(prompts, np.zeros(requests))
    work = float(both.prefill.prefill_seconds[0]) + beyond
    inside = work + in_line(count, rate, work)
    found = load.pools_under_load(both, (0, 0), (count, 1000), rate).load.ttft_seconds
    around = float(both.first_token_seconds[0, 0] - both.prefill.prefill_seconds[0])
    for share in ("p50", "p90", "p99"):
        simulated = around + float(np.quantile(inside, float(share[1:]) / 100.0))
        assert found[share] == pytest.approx(simulated, rel=within)
    # A pool is no faster than its own instances alone.
    assert found["p90"] > around + float(np.quantile(work, 0.9))


@pytest.mark.parametrize(("variation", "within"), [(0.5, 0.1), (1.0, 0.25), (2.0, 0.55)])
def test_a_long_prompt_makes_those_wait_that_share_its_steps(variation: float, within: float) -> None:
    """Prompts that share steps in order of arrival wait longer than prompts that take turns, as in the simulator."""
    both = pools("llama_3_8b", "h100_sxm", Requests(f"lognormal:2000:{variation:g}", 200), max_accelerators=1)
    reader, rates = both.prefill.services.service(0), load.prefill_states(both, 0, 0, 1).rates
    rate, count = 0.6 * float(rates[-1]), 20_000
    assert rates.size > 1
    stream = simulator.stream_of(reader.requests, rate, Gamma(1.0), count)
    stream = replace(stream, osl=np.ones(count, dtype=np.int64))
    played = simulator.play(reader, simulator.server(reader, stream.isl), stream).ttft
    queue = load.prefill_queue(both, 0, 0, 1, rate, 1.0)
    said = load.until_read(both, (0, 0), 1, queue, LengthSample(both.requests, 4_000))
    assert said.mean() == pytest.approx(float(np.mean(played)), rel=within)
    assert np.quantile(said, 0.9) == pytest.approx(float(np.quantile(played, 0.9)), rel=within)


def test_crowds_meet_one_line_and_are_shared_by_those_that_decode() -> None:
    both, rate = few(), 0.8 * float(load.prefill_states(few(), 0, 0, 4).rates[-1])
    calm, bursty = (load.pools_under_load(both, (0, 0), (4, 9), rate, arrival_scv=scv).load for scv in (1.0, 10.0))
    line = load.prefill_queue(both, 0, 0, 4, rate, 10.0)
    decoding = load.decoder(both, 0, float(both.transfer.receiving_seconds[0, 0])).load(rate / 9, 1.0 + 9.0 / 9)
    assert dict(bursty.tpot_seconds) == dict(decoding.tpot_seconds)
    assert bursty.ttft_seconds["p90"] > 2.0 * calm.ttft_seconds["p90"]
    waits = float(line.wait_seconds) + decoding.ttft_seconds["mean"]
    assert bursty.ttft_seconds["mean"] == pytest.approx(float(load.seconds_without_waits(both, (0, 0), line)) + waits)
    # A load generator sends all of it.
    assert bursty.arrivals.scv == pytest.approx(10.0)


def test_the_line_of_a_search_has_the_times_of_its_fleets() -> None:
    both, count = few("lognormal:2000:1"), 4
    terms = DisaggregationTerms(Targets(ttft_seconds=10.0, percentile="p90"))
    rates, seconds = PrefillPools(both, terms).line(0, bool(both.transfer.fast[0, 0]), count)
    exposed = float(both.transfer.exposed_seconds[0, 0])
    for place in (3, 11, 23):
        found = load.pools_under_load(both, (0, 0), (count, 1000), float(rates[place])).load.ttft_seconds["p90"]
        assert seconds[place] + exposed == pytest.approx(found, rel=0.02)


# Notes.


def test_aggregated_serving_may_win() -> None:
    slow = pools(
        "llama_3_8b", chip(nic_bytes_per_second_one_way="5 GB/s", link_domain=1), Requests(8000, 50),
        max_accelerators=1,
    )  # fmt: skip
    assert np.all(factors(slow) < 1.0 + SIMPLER)


NO_NETWORK = catalog.hardware("l40s").model_copy(update={"nic_bytes_per_second_one_way": None})


def test_pools_that_no_link_joins_are_refused() -> None:
    with pytest.raises(InputError, match="no link joins the pools: NVIDIA L40S 48GB lists no network"):
        asking.apart_frontier(pools("llama_3_8b", NO_NETWORK, Requests(1000, 100), price=1, max_accelerators=2))


def test_in_a_mesh_a_cache_takes_the_links_between_the_chips_of_both_pools() -> None:
    changes = [[f"assumptions.network.mesh_links={links}"] for links in ("per_peer", "pooled")]
    asked = ("llama_3_8b", "mi300x", Requests(4000, 100))
    both, free_of_it = (pools(*asked, max_accelerators=4, changes=change) for change in changes)
    wired, pooled = both.transfer, free_of_it.transfer
    senders, receivers = both.prefill.cache_chips[:, None], both.decode.cache_chips[None, :]
    # Each chip of the larger side has one link of 64 GB/s to the chip with its part: 1 to 1 takes 1, 2 to 4 takes 4.
    links = np.broadcast_to(np.maximum(senders, receivers), wired.seconds.shape)
    assert wired.fast.all()
    assert wired.seconds == pytest.approx(both.bytes_per_prompt / (links * 64e9))
    assert np.all(wired.seconds >= pooled.seconds)


# Speculation methods.


@cache
def proposing(proposer: ProposerName, draft: str | None = None) -> Pools:
    """Return the same few layouts, with speculative decoding in decode pools."""
    model = None if draft is None else catalog.model(draft)
    return pools(
        "llama_3_8b", "h100_sxm", Requests(2000, 200), max_accelerators=4,
        speculation=Speculation.of(proposer, 0.8, 3, model=model),
    )  # fmt: skip


def test_decode_pools_run_the_rounds_of_a_service_that_speculates() -> None:
    plain, both = few(), proposing("ngram")
    service = both.decode.services
    series = rounds(service.setup, service.plans.column(service.states.batch), Speculation.of("ngram", 0.8, 3))
    best = series.best()
    assert both.decode.services.states.decode_seconds == pytest.approx(best.seconds)
    # A round gives 1 + 0.8 + 0.64 + 0.512 tokens and barely takes longer alone.
    assert plain.decode.step_seconds[:, 0] / both.decode.step_seconds[:, 0] == pytest.approx(2.952, rel=0.05)
    # N-grams prefill no prompts, use no memory and move no data.
    assert both.prefill.prefill_busy_seconds == pytest.approx(plain.prefill.prefill_busy_seconds)
    assert both.bytes_per_prompt == plain.bytes_per_prompt
    assert both.decode.services.slots == pytest.approx(plain.decode.services.slots)


def test_heads_and_draft_models_read_prompts_and_their_cache_moves() -> None:
    plain, head, draft = few(), proposing("eagle"), proposing("draft", "llama_3_2_3b")
    # One layer more than 32; and 28 layers of 8 heads of 128.
    assert head.bytes_per_prompt == pytest.approx(plain.bytes_per_prompt * 33 / 32)
    assert draft.bytes_per_prompt - plain.bytes_per_prompt == 2000 * 28 * 2 * 8 * 128 * 2
    reading = plain.prefill.prefill_busy_seconds
    assert np.all(head.prefill.prefill_busy_seconds > reading)
    assert np.all(draft.prefill.prefill_busy_seconds > head.prefill.prefill_busy_seconds)
    assert np.all(draft.decode.services.slots < head.decode.services.slots)
