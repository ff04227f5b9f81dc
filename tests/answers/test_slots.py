"""Instances with a limit on concurrent requests."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.answers.layout_services import with_slots
from inference_econ.engine import Pins, Setup, Space
from inference_econ.errors import InputError
from inference_econ.inputs import Requests
from inference_econ.serving import Services, loaded
from inference_econ.serving.simulation import simulator

ONE = Space(Pins(tp=1, dp=1, pp=1))


@cache
def offered(*changes: str) -> Services:
    requests = Requests.build({"isl": 2000, "osl": 200}, origin="test")
    return ie.layouts(Setup.of("llama_3_8b", "h100_sxm", changes=changes), requests, ONE)


def test_the_full_instance_has_as_many_requests_as_slots() -> None:
    for limit in (1, 5, 64):
        limited = with_slots(offered(), limit)
        assert limited.slots.tolist() == [limit]
        assert limited.states.concurrency[0, -1] == pytest.approx(limit, rel=0.01)
        assert (np.diff(limited.states.concurrency[0]) >= 0.0).all()


def test_below_the_limit_nothing_changes() -> None:
    free, limited = offered().service(0), with_slots(offered(), 64).service(0)
    for flight in (1.0, 7.5, 60.0):
        assert limited.at(flight).tpot_seconds == pytest.approx(free.at(flight).tpot_seconds, rel=1e-3)
        assert limited.at(flight).ttft_seconds == pytest.approx(free.at(flight).ttft_seconds, rel=2e-2)


def test_where_memory_holds_fewer_it_decides() -> None:
    free = offered()
    assert with_slots(free, 8_000).slots.tolist() == free.slots.tolist()


def test_a_queue_forms_as_the_simulation_has_it() -> None:
    service = with_slots(offered(), 16).service(0)
    rate = 0.8 * service.most_requests_per_second
    load, seen = loaded(service, rate), simulator.rehearse(service, rate, count=8_000, seed=1).summary()
    assert load.waiting > 0.1
    assert load.waiting > 100 * loaded(offered().service(0), rate).waiting
    assert load.ttft_seconds["mean"] == pytest.approx(seen["ttft"]["mean"].value, rel=0.2)
    assert load.tpot_seconds["mean"] == pytest.approx(seen["tpot"]["mean"].value, rel=0.03)


def test_a_smaller_budget_of_tokens_spreads_prompts_over_more_steps() -> None:
    usual, small = offered(), offered("assumptions.serving.prefill_chunk=256")
    assert small.service(0).prompt.chunks == 8
    assert small.service(0).prefill_seconds > usual.service(0).prefill_seconds


def test_what_cannot_be() -> None:
    with pytest.raises(InputError, match="slots must be an integer >= 1, got 0"):
        with_slots(offered(), 0)
    with pytest.raises(InputError, match=r"at most 64 tokens \(--token-budget\) cannot work on 65 requests"):
        with_slots(offered("assumptions.serving.prefill_chunk=64"), 65)
    # Prompts cannot start faster than steps process them, so the concurrency is lower.
    assert with_slots(offered("assumptions.serving.prefill_chunk=64"), 64).slots.tolist() == [7]
