"""A measured service held against services."""

from __future__ import annotations

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.answers.assess_service import SteadyService, useful_seconds
from tests import asking

REQUESTS = ie.Requests.build({"isl": 1000, "osl": 200}, origin="here")
SUBJECT = ("llama_3_8b", "h100_sxm")


def assess(batch: float, speed: float, requests: ie.Requests | ie.Traffic = REQUESTS) -> ie.Assessment:
    setup, seen = ie.Setup.of(*SUBJECT), ie.Observation(speed, 1, batch=batch)
    return ie.assess(setup, requests, seen, ie.Pins(tp=1, dp=1, pp=1))


def test_the_prediction_is_the_steady_state_of_the_same_layout_and_load() -> None:
    found = assess(32, 50.0)
    service = asking.offer(*SUBJECT, REQUESTS, pins=ie.Pins(tp=1, dp=1, pp=1)).service(0)
    state, point = service.at(32), found.predicted
    assert isinstance(point, SteadyService)
    assert (point.tpot_seconds, point.ttft_seconds) == pytest.approx(
        (float(state.tpot_seconds), float(state.ttft_seconds))
    )
    assert point.requests_per_second == pytest.approx(float(state.requests_per_second))
    # In flight from its arrival to its last token, by the measured time per token.
    assert found.measured.throughput == pytest.approx(200 * 32 / (float(state.ttft_seconds) + 199 / 50.0))


def test_what_is_measured_as_predicted_lies_nowhere_ahead() -> None:
    for batch in (1.0, 7.3, 33.0, 150.0):
        speed = float(
            asking.offer(*SUBJECT, REQUESTS, pins=ie.Pins(tp=1, dp=1, pp=1)).service(0).at(batch).tokens_per_second
        )
        found = assess(batch, speed)
        assert found.expected == "as expected"
        assert found.unexplained_seconds == pytest.approx(0, abs=1e-9)
        for gap in (found.anywhere, found.same_size, found.ideal):
            assert gap.verdict != "ahead"
        assert found.ideal.on_it_seconds <= found.same_size.on_it_seconds * (1 + 1e-9)


def test_lengths_in_a_traffic_ask_for_services_and_a_context_for_steps() -> None:
    services = assess(32, 50.0, ie.Traffic(isl=1000, osl=200))
    assert services.requests == REQUESTS
    assert services.anywhere.cost_factor == assess(32, 50.0).anywhere.cost_factor
    steps = assess(32, 50.0, ie.Traffic(context=1100))
    assert steps.requests is None
    assert steps.predicted is not None and services.predicted is not None
    assert steps.predicted.tokens_per_second_per_user > services.predicted.tokens_per_second_per_user


def test_useful_arithmetic_is_that_of_prompt_and_answer() -> None:
    setup = ie.Setup.of(*SUBJECT)
    both = useful_seconds(setup, REQUESTS)
    # Two flop for each of 7.5e9 parameters without the input embedding, and those of attention, on 989.4 TFLOP/s.
    assert both == pytest.approx(2 * 7.5e9 * 1199 / 989.4e12, rel=0.06)
    cached = useful_seconds(setup, REQUESTS.replace(cached=500))
    assert cached == pytest.approx(both - 2 * 7.0e9 * 500 / 989.4e12, rel=0.03)


def test_states_of_each_layout_at_one_load_are_those_of_each_alone() -> None:
    layouts = asking.offer(*SUBJECT, REQUESTS, max_accelerators=4)
    states = layouts.states.of_each_at(20.0)
    alone = [float(layouts.service(index).at(20.0).tpot_seconds) for index in range(len(layouts))]
    assert states.tpot_seconds.shape == (len(layouts), 1)
    assert np.ravel(states.tpot_seconds).tolist() == pytest.approx(alone)
