"""Pools at a constant concurrency, against every ratio tried one by one and against their closed loop."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.answers.deployments.serving_options import market
from inference_econ.answers.disaggregated.load import MOST_RATIO, SteadyPools, _instances, prefill_queue
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.simplest import SIMPLER
from inference_econ.answers.slo import FILLED
from inference_econ.extras.servers.prediction.closed_loop import closed_loop
from inference_econ.inputs import Requests
from tests.asking import pools_of
from tests.reading import present

REQUESTS = Requests(4000, 500)
#: Chips of a group at most, as published pools of one service have them [1].
LARGEST = 144
#: Chips of a machine of H100s [1].
NODE = 8


@cache
def every(most: int = 4) -> Pools:
    """Return pools of a dense model with 32 billion parameters."""
    setup = ie.Setup.of("qwen3_32b", "h100_sxm", engine="vllm")
    return pools_of(setup, REQUESTS, ie.Space(max_accelerators=most))


@cache
def steady(most: int = 4) -> SteadyPools:
    return SteadyPools(every(most))


def busy_seconds(found: Pools, reader: int, writer: int) -> float:
    """Return the time that one prompt occupies a prefill instance [s]."""
    sending = float(found.transfer.sending_seconds[reader, writer])
    return max(float(found.prefill.prefill_busy_seconds[reader]), sending)


def states(found: SteadyPools, every_nth: int = 7) -> list[tuple[int, int]]:
    """Return some states of every decode layout of the pools, by layout and batch; the full state is last."""
    layouts, batches = found.seen[0].shape
    some = itertools.product(range(layouts), [*range(0, batches, every_nth), batches - 1])
    return [state for state in some if np.isfinite(found.seen[0][state])]


def group(found: SteadyPools, row: int, column: int) -> tuple[int, int, int]:
    """Return the prefill layout of a state, and its numbers of prefill and decode instances."""
    at = np.array([row]), np.array([column])
    ((readers, decoders),) = found.instances_at(*at)
    return int(found.reading_rows(*at)[0]), readers, decoders


def decoded(found: SteadyPools, row: int, column: int) -> float:
    """Return the requests that one decode instance completes when prefill instances supply it [1/s]."""
    return float(found.seen[1][row, column]) / group(found, row, column)[2]


@pytest.mark.parametrize("most", [4, 8])
def test_instances_that_read_are_enough_and_not_full(most: int) -> None:
    found = steady(most)
    for row, column in states(found):
        reader, readers, decoders = group(found, row, column)
        each = readers / busy_seconds(every(most), reader, row)
        assert decoders * decoded(found, row, column) <= FILLED * each * (1 + 1e-6)


def fills_nodes(chips: float) -> bool:
    return chips in (1, 2, 4, 8) or chips % NODE == 0


def test_no_group_that_fills_nodes_is_noticeably_cheaper() -> None:
    """Try all numbers of prefill and decode instances of every prefill layout, and compare chips per request rate."""
    found = steady()
    sizes = every().prefill.accelerators, every().decode.accelerators
    pairs = list(itertools.product(range(1, MOST_RATIO + 1), repeat=2))
    own = every().decode
    for row, column in states(found):
        rate, writer = float(own.rates[row, column]), float(sizes[1][row])
        groups = {
            (reader, readers, decoders): (readers * float(chips) / decoders + writer) / rate
            for reader, chips in enumerate(sizes[0])
            for readers, decoders in pairs
            if fills_nodes(size := readers * float(chips) + decoders * writer)
            and size <= LARGEST
            and decoders * rate * busy_seconds(every(), reader, row) / readers <= FILLED * (1 + 1e-9)
        }
        reader, readers, decoders = group(found, row, column)
        taken = (readers * float(sizes[0][reader]) / decoders + writer) / decoded(found, row, column)
        assert taken <= min(groups.values()) * (1 + SIMPLER) * (1 + 1e-9)
        assert fills_nodes(readers * float(sizes[0][reader]) + decoders * writer)


def test_what_is_seen_is_that_of_the_group() -> None:
    """The displayed chips of both kinds and the rate of the decode instances equal sums by hand."""
    found = steady()
    tpot, rate, chips, concurrency, batch = found.seen
    own = every().decode
    for row, column in states(found):
        reader, readers, decoders = group(found, row, column)
        # A full batch, or the rate of the prefill instances.
        most = FILLED * readers / busy_seconds(every(), reader, row) / decoders
        whole = own.rates[row, column] <= most * (1 + 1e-9)
        less = np.interp(np.log(batch[row, column]), np.log(own.batch[row]), np.log(own.step_seconds[row]))
        expected = (
            float(readers * every().prefill.accelerators[reader] + decoders * every().decode.accelerators[row]),
            decoders * (float(own.rates[row, column]) if whole else most),
            decoders * float((own.batch if whole else batch)[row, column]),
            float(own.step_seconds[row, column] if whole else np.exp(less)),
        )
        seen = chips[row, column], rate[row, column], concurrency[row, column], tpot[row, column]
        np.testing.assert_allclose(seen, expected, rtol=1e-7 if whole else 1e-3)
        # Little's law gives the number of requests in decode.
        assert rate[row, column] * REQUESTS.decode_steps * tpot[row, column] == pytest.approx(
            decoders * batch[row, column]
        )


def test_groups_fill_nodes_and_are_no_larger_than_what_is_deployed_together() -> None:
    chips = steady(8).seen[2]
    assert np.nanmax(chips) <= LARGEST
    assert all(fills_nodes(size) for size in np.unique(chips[np.isfinite(chips)]))


@pytest.mark.rows
def test_the_smallest_group_of_a_ratio(wanted: list[float], reading: float, decoding: float, group: list[int]) -> None:
    ratio = wanted[0] / wanted[1]
    sizes = np.array([reading]), np.array([decoding])
    readers, decoders, fed = _instances(np.array([[ratio]]), *sizes, (NODE,), LARGEST)
    assert [int(readers.item()), int(decoders.item())] == group
    all_fed = not 16.0 < ratio < np.inf
    assert float(fed.item()) == pytest.approx(1.0 if all_fed else 16.0 / ratio, rel=0.1 if all_fed else 1e-6)


@pytest.mark.parametrize(("reading", "decoding"), [(1.0, 4.0), (1.0, 1.0), (4.0, 8.0), (8.0, 8.0), (2.0, 16.0)])
def test_no_request_costs_more_where_more_are_decoded(reading: float, decoding: float) -> None:
    """At any ratio, concurrency that fills a smaller ratio costs no less; small groups are an exception."""
    wanted = np.geomspace(0.1, 7.0, 500)
    sizes = np.array([reading]), np.array([decoding])
    readers, decoders, fed = (values[0] for values in _instances(wanted[None], *sizes, (NODE,), LARGEST))
    able = readers > 0
    costs = ((readers * reading / decoders + decoding) / (fed * wanted))[able]
    assert able.sum() > 300
    assert (costs <= np.minimum.accumulate(costs) * (1 + SIMPLER) * (1 + 1e-9)).all()


def test_faster_links_do_not_ask_for_a_dearer_group() -> None:
    """Faster links do not select a more expensive group.

    With Llama 2 7B on A100, 4P5D no longer kept up with links of twice the bandwidth, and 8P8D cost 2% more. Elsewhere
    the steps between batches are larger. When prefill of a group is full, the search selects a smaller group that costs
    up to 10% more per request.
    """
    requests = Requests(2316, 373)
    spec = ie.hardware("a100_sxm_80")
    changes = [
        f"hardware.{name}={2 * getattr(spec, name)}"
        for name in ("link_bytes_per_second_one_way", "link_bytes_per_second_both_ways")
        if getattr(spec, name)
    ]
    usual, faster = (
        ie.frontier(
            ie.Setup.of("llama_2_7b", "a100_sxm_80", engine="sglang", price=2.0, changes=changed),
            requests,
            ie.Space(max_accelerators=4, any_group=True),
            arrangement="disaggregated",
        )
        for changed in ((), changes)
    )
    for speed in usual.tokens_per_second.tolist():
        before, after = present(usual.at_speed(speed)), present(faster.at_speed(speed))
        assert after.dollars <= before.dollars * (1 + SIMPLER)
        layout = usual.cheapest(speed).layout
        if (layout["prefill_instances"], layout["decode_instances"]) == (4, 5):
            assert after.dollars <= before.dollars * (1 + 1e-9)


def test_the_first_token_waits_as_before_the_prefill_instances() -> None:
    found = steady()
    for row, column in states(found):
        reader, readers, _ = group(found, row, column)
        queue = prefill_queue(every(), reader, row, readers, float(found.seen[1][row, column]), 1.0)
        alone = float(every().prefill.prefill_seconds[reader])
        around = float(every().first_token_seconds[reader, row]) - alone
        expected = around + max(float(queue.service_seconds), alone) + float(queue.wait_seconds)
        ttft = float(found.ttft_seconds(np.array([row]), np.array([column]))[0])
        assert ttft == pytest.approx(expected)
        assert ttft > around + alone


def test_the_closed_loop_of_the_group_is_about_the_same() -> None:
    """Compare where decode instances have spare slots; without them, requests of the loop wait."""
    found, compared = steady(), 0
    for row, column in states(found, 4):
        tpot, rate, _, _, batch = (float(values[row, column]) for values in found.seen)
        if batch > 0.5 * float(every().decode.services.slots[row]):
            continue
        reader, *instances = group(found, row, column)
        ttft = float(found.ttft_seconds(np.array([row]), np.array([column]))[0])
        in_flight = rate * (ttft + REQUESTS.decode_steps * tpot)
        loop = closed_loop(every(), (reader, row), (instances[0], instances[1]), in_flight).load
        assert loop.completed_per_second == pytest.approx(rate, rel=0.05)
        assert loop.tpot_seconds["mean"] == pytest.approx(tpot, rel=0.05)
        compared += 1
    assert compared > 15


def test_prompts_that_find_nobody_are_read_in_time() -> None:
    first = every().first_token_seconds
    slowest, quickest = float(first.max()), float(first.min())
    limit = (slowest + quickest) / 2.0
    found = SteadyPools(every(), limit)
    rows, columns = np.nonzero(np.isfinite(found.seen[0]))
    assert (first[found.reading_rows(rows, columns), rows] <= limit).all()
    assert (first[steady().reading_rows(rows, columns), rows] > limit).any()
    assert np.isnan(SteadyPools(every(), quickest / 2.0).seen[0]).all()
    assert np.isnan(SteadyPools(every(), quickest / 2.0).ttft_seconds(np.array([0]), np.array([0]))).all()
    # If an SLO is infeasible, the search runs without the limit to report the shortest time.
    (unlimited,) = market(
        ie.Setup.of("qwen3_32b", "h100_sxm", engine="vllm"), REQUESTS, ie.Space(max_accelerators=4),
        arrangement="disaggregated", ttft_seconds=quickest / 2.0,
    )  # fmt: skip
    assert unlimited.pools is not None and unlimited.pools.longest_seconds == np.inf
