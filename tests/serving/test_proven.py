"""The validated range of the analytical load model, and the use of the simulator outside it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from inference_econ.serving import Gamma, loaded, needs_simulation, simulate_where_needed
from inference_econ.serving.analytical_validity import seen
from inference_econ.serving.simulation import simulator
from tests.offered import service_of


def _share(isl: str, osl: str, filled: float, changes: tuple[str, ...] = ()) -> bool:
    service = service_of(isl=isl, osl=osl, changes=changes)
    return needs_simulation(service, loaded(service, filled * service.most_requests_per_second))


def test_prompts_that_take_most_of_the_time_are_unproven() -> None:
    assert not _share("1000", "1000", 0.5)
    assert _share("8000", "50", 0.8)


def test_lengths_that_vary_much_are_unproven_at_any_load() -> None:
    assert not _share("lognormal:1000:0.7", "lognormal:1000:0.7", 0.1)
    assert _share("lognormal:1000:1", "1000", 0.1)
    assert _share("1000", "lognormal:1000:1", 0.1)


def test_full_instances_are_unproven() -> None:
    assert not _share("1000", "1000", 0.8)
    assert _share("1000", "1000", 0.81)


def test_prompts_as_long_as_a_part_of_the_answer_are_unproven_at_any_load() -> None:
    assert not _share("1000", "200", 0.05)
    assert _share("16000", "100", 0.05)


def test_saturated_loads_stay_closed_forms() -> None:
    service = service_of(isl="8000", osl="50")
    rate = 1.5 * service.most_requests_per_second
    assert simulate_where_needed(service)(rate) == loaded(service, rate)


def test_proven_loads_are_closed_forms() -> None:
    service = service_of(isl="1000", osl="1000")
    rate = 0.5 * service.most_requests_per_second
    load = simulate_where_needed(service)(rate)
    assert load == loaded(service, rate)
    assert not load.played


def test_unproven_loads_are_what_requests_saw_and_always_the_same() -> None:
    service = service_of(isl="8000", osl="50")
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
    service = service_of(isl="8000", osl="50")
    rate = 2.0 * service.most_requests_per_second
    claimed = replace(loaded(service, rate), saturated=False, completed_per_second=rate)
    load = seen(claimed, simulator.rehearse(service, rate, count=2000))
    assert load.saturated
    assert load.utilization > 1.0
    assert load.completed_per_second < rate
    assert load.ttft_seconds["p50"] == math.inf
    assert load.tpot_seconds["p50"] < math.inf


def test_a_run_in_which_nothing_was_answered_tells_nothing() -> None:
    service = service_of(isl="8000", osl="50")
    rate = 0.6 * service.most_requests_per_second
    load, trace = loaded(service, rate), simulator.rehearse(service, rate, count=2000)
    assert seen(load, trace).played
    assert seen(load, replace(trace, requests_per_second=0.0)) is load


def test_loads_that_memory_may_not_hold_are_unproven() -> None:
    """17 slots, of which 10.5 are taken on average: one of a hundred moments has 18 or more."""
    pins = (("tp", 2), ("dp", 1), ("pp", 1))
    service = service_of("qwen3_32b", isl="1000", osl="1000", pins=pins)
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
        service = service_of("qwen3_30b_a3b", isl="1000", osl="1000", pins=pins, changes=changes)
        assert needs_simulation(service, loaded(service, 0.5 * service.most_requests_per_second)) is unproven


@pytest.mark.parametrize("isl", ["2000", "lognormal:1000:1"])
def test_percentiles_rise_with_the_load(isl: str) -> None:
    """All rates have the same random numbers, and a full memory makes nothing faster."""
    service = replace(service_of(isl=isl, osl="200"), slots=48)
    load, before = simulate_where_needed(service, Gamma(4.0)), None
    for share in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
        now = load(share * service.most_requests_per_second)
        assert now.played
        if before is not None:
            for name in ("ttft_seconds", "tpot_seconds", "e2e_seconds"):
                former, latter = getattr(before, name), getattr(now, name)
                assert all(latter[key] >= 0.999 * former[key] for key in latter), (share, name)
        before = now
