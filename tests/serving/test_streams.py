"""Percentiles of request streams against simulations, and the validated range of the analytical load model."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.streams import BEGIN, DOCUMENT, END, SERVERS, SPREADS, Case, compared, length, service_of, table
from inference_econ.inputs import Length
from inference_econ.serving import Gamma, loaded, needs_simulation, simulate_where_needed
from inference_econ.serving.analytical_validity import seen
from inference_econ.serving.lengths import levels, quantiles
from inference_econ.serving.simulation import simulator
from tests.offered import service_of as offered

# Percentiles of request streams compared with the same streams simulated one by one, over part of the benchmark's

MODELS = {server[0]: server for server in SERVERS}


def _case(model: str, lengths: list[int] | tuple[int, int], spread: str, filled: float, *, waits: bool = False) -> Case:
    service = service_of(*MODELS[model], [length(mean, spread) for mean in lengths], waits=waits)
    return compared(service, spread, filled, waits=waits)


@pytest.mark.rows
def test_what_is_proven_is_what_requests_see(
    model: str, lengths: list[int], spread: str, filled: float, waits: bool
) -> None:
    case = _case(model, lengths, spread, filled, waits=waits)
    assert case.proven
    assert case.worst < 0.15
    # With short prompts, percentiles of the TTFT are multiples of steps.
    assert case.close["tpot"] and case.close["e2e"]


@pytest.mark.parametrize("spread", ["lognormal 0.8", "lognormal 1.2"])
def test_what_is_not_proven_is_near(spread: str) -> None:
    """The errors are small enough to rank deployments."""
    case = _case("llama_3_8b", (2000, 500), spread, 0.4)
    assert not case.proven
    assert case.worst < 0.3


def test_the_document_has_the_table_of_the_benchmark() -> None:
    _, _, rest = Path(DOCUMENT).read_text().partition(BEGIN)
    written = rest.partition(END)[0].strip().splitlines()
    errors, close = {"ttft": [0.0]}, dict.fromkeys(("ttft", "tpot", "e2e"), True)
    ours = list(table([Case(waits, spread, 0.1, True, errors, close) for waits in (False, True) for spread in SPREADS]))
    assert [line.split("|")[1] for line in written] == [line.split("|")[1] for line in ours]


# Lengths


@pytest.mark.parametrize("text", ["300", "uniform:200:400", "lognormal:300:0.5", "100@0.75,900@0.25"])
def test_equally_likely_lengths_have_the_mean_and_variation(text: str) -> None:
    length = Length.parse(text)
    drawn = quantiles(length, levels(20_000))
    assert (np.diff(drawn) >= 0.0).all()
    assert drawn.mean() == pytest.approx(length.mean, rel=1e-3)
    assert drawn.var() / length.mean**2 == pytest.approx(length.scv, rel=0.01, abs=1e-6)


@settings(max_examples=10, deadline=None)
@given(st.floats(0.02, 0.98), st.sampled_from(("1000", "12000")), st.sampled_from(("p90", "p99")))
def test_more_spread_of_prompts_is_never_a_shorter_tail(filled: float, mean: str, percentile: str) -> None:
    services = [offered(isl=text) for text in (mean, f"lognormal:{mean}:0.4", f"lognormal:{mean}:0.8")]
    rate = filled * min(one.most_requests_per_second for one in services)
    times = [loaded(one, rate).ttft_seconds[percentile] for one in services]
    # Percentiles come from some thousand requests.
    assert all(less <= 1.02 * more for less, more in itertools.pairwise(times))


@pytest.mark.parametrize("waits", [False, True])
def test_alone_a_percentile_is_that_of_the_prompt(waits: bool) -> None:
    """On an idle server, the latency is the time to process a prompt of that percentile, and its output."""
    changes = ("serving.prefill_chunk=0",) if waits else ()
    one = offered(isl="lognormal:4000:0.8", osl="lognormal:200:0.5", changes=changes)
    load = loaded(one, 1e-6)
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        tokens = float(quantiles(one.requests.isl, np.array([share]))[0])
        assert load.ttft_seconds[name] == pytest.approx(float(one.reading(tokens).seconds[0]), rel=0.03)
    each = float(one.states.tpot_seconds[0])
    assert load.tpot_seconds["p99"] == pytest.approx(each, rel=1e-6)
    mean = load.ttft_seconds["mean"] + one.requests.decode_steps * each
    assert load.e2e_seconds["mean"] == pytest.approx(mean, rel=0.01)


def test_request_latency_is_that_of_all_tokens() -> None:
    one = offered(isl="2000", osl="500")
    load = loaded(one, 0.5 * one.most_requests_per_second)
    for name in ("mean", "p50", "p90", "p99"):
        assert load.e2e_seconds_per_output_token[name] == pytest.approx(load.e2e_seconds[name] / 500)
        assert math.log(load.e2e_seconds[name] / (500 * load.tpot_seconds[name])) == pytest.approx(0.0, abs=0.1)


# The validated range of the analytical load model, and the use of the simulator outside it.


@pytest.mark.rows
def test_loads_outside_the_validated_range_are_simulated(isl: str, osl: str, filled: float, unproven: bool) -> None:
    service = offered(isl=isl, osl=osl)
    assert needs_simulation(service, loaded(service, filled * service.most_requests_per_second)) is unproven


def test_saturated_loads_stay_closed_forms() -> None:
    service = offered(isl="8000", osl="50")
    rate = 1.5 * service.most_requests_per_second
    assert simulate_where_needed(service)(rate) == loaded(service, rate)


def test_proven_loads_are_closed_forms() -> None:
    service = offered(isl="1000", osl="1000")
    rate = 0.5 * service.most_requests_per_second
    load = simulate_where_needed(service)(rate)
    assert load == loaded(service, rate)
    assert not load.played


def test_unproven_loads_are_what_requests_saw_and_always_the_same() -> None:
    service = offered(isl="8000", osl="50")
    rate = 0.6 * service.most_requests_per_second
    load, closed = simulate_where_needed(service)(rate), loaded(service, rate)
    assert load.played
    assert not load.saturated
    assert load == simulate_where_needed(service)(rate)
    assert (load.requests_per_second, load.completed_per_second) == (rate, rate)
    assert all(load.tpot_seconds[name] != seconds for name, seconds in closed.tpot_seconds.items())
    # Another stream of the same requests agrees, within random variation.
    again = simulator.rehearse(service, rate, count=6000, seed=3).summary()
    assert load.tpot_seconds["mean"] == pytest.approx(again["tpot"]["mean"].value, rel=0.1)
    assert load.ttft_seconds["p50"] == pytest.approx(again["ttft"]["p50"].value, rel=0.15)


def test_a_queue_that_grows_saturates_the_server() -> None:
    service = offered(isl="8000", osl="50")
    rate = 2.0 * service.most_requests_per_second
    claimed = replace(loaded(service, rate), saturated=False, completed_per_second=rate)
    load = seen(claimed, simulator.rehearse(service, rate, count=2000))
    assert load.saturated
    assert load.utilization > 1.0
    assert load.completed_per_second < rate
    assert load.ttft_seconds["p50"] == math.inf
    assert load.tpot_seconds["p50"] < math.inf


def test_a_run_in_which_nothing_was_answered_tells_nothing() -> None:
    service = offered(isl="8000", osl="50")
    rate = 0.6 * service.most_requests_per_second
    load, trace = loaded(service, rate), simulator.rehearse(service, rate, count=2000)
    assert seen(load, trace).played
    assert seen(load, replace(trace, requests_per_second=0.0)) is load


def test_loads_that_memory_may_not_hold_are_unproven() -> None:
    """17 slots, of which 10.5 are taken on average: one of a hundred moments has 18 or more."""
    pins = (("tp", 2), ("dp", 1), ("pp", 1))
    service = offered("qwen3_32b", isl="1000", osl="1000", pins=pins)
    few = replace(service, slots=17)
    load = loaded(few, 0.5 * few.most_requests_per_second)
    assert load.in_flight + 2.33 * math.sqrt(load.in_flight) < 17
    assert not needs_simulation(few, load)
    crowded = replace(load, in_flight=10.5)
    assert needs_simulation(few, crowded)
    assert not needs_simulation(few, replace(load, in_flight=9.0))


def test_groups_that_wait_for_each_other_are_unproven() -> None:
    pins = (("tp", 1), ("dp", 8), ("pp", 1), ("ep", 8))
    for held, unproven in ((0, False), (30, True)):
        changes = (f"serving.held_steps={held}",)
        service = offered("qwen3_30b_a3b", isl="1000", osl="1000", pins=pins, changes=changes)
        assert needs_simulation(service, loaded(service, 0.5 * service.most_requests_per_second)) is unproven


@pytest.mark.parametrize("isl", ["2000", "lognormal:1000:1"])
def test_percentiles_rise_with_the_load(isl: str) -> None:
    """All rates have the same random numbers, and a full memory makes nothing faster."""
    service = replace(offered(isl=isl, osl="200"), slots=48)
    load, before = simulate_where_needed(service, Gamma(4.0)), None
    for share in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
        now = load(share * service.most_requests_per_second)
        assert now.played
        if before is not None:
            for name in ("ttft_seconds", "tpot_seconds", "e2e_seconds"):
                former, latter = getattr(before, name), getattr(now, name)
                assert all(latter[key] >= 0.999 * former[key] for key in latter), (share, name)
        before = now
