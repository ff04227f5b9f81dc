"""A measured deployment compared with frontiers and the lower bound."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inference_econ as ie
from inference_econ.answers.assess import SteadyService, useful_seconds
from inference_econ.engine import mfu
from inference_econ.errors import InputError
from inference_econ.report.questions.assess import assessment_chart, findings, step_table
from tests import asking
from tests.reading import present

SHORT = ie.Traffic(context=500)


def assess(traffic: ie.Traffic = SHORT, **given: Any) -> ie.Assessment:
    return asking.assess(
        "llama_3_70b", "h100_sxm", traffic, **{"accelerators": 8, "assumptions": "deployable", **given}
    )


def predicted_speed(batch: float, tp: int = 8, pp: int = 1) -> float:
    found = asking.explain("llama_3_70b", "h100_sxm", batch=batch, context=500, tp=tp, pp=pp, assumptions="deployable")
    return found.tokens_per_second


def test_from_a_utilisation_the_batch_follows() -> None:
    # 15% of 8 x 989.4 TFLOP/s is 1187 TFLOP/s. A token of 70.6e9 parameters needs 2 x 69.5e9 FLOP without the input
    # embedding, and 500 tokens of context add 1.3e9: 8.46e3 tokens/s, 121 users at 70 tokens/s.
    point = assess(tokens_per_second=70, utilization=0.15).measured
    assert point.throughput == pytest.approx(0.15 * 8 * 989.4e12 / (2 * 69.5e9 + 1.3e9), rel=0.003)
    assert point.batch == pytest.approx(point.throughput / 70)
    assert point.dollars_per_million_output_tokens == pytest.approx(8 * 3.99 / 3600 / point.throughput * 1e6)


@pytest.mark.parametrize("name", ["utilization", "batch", "throughput"])
def test_any_of_the_three_gives_the_same_point(name: str) -> None:
    first = assess(tokens_per_second=40, batch=96).measured
    values: dict[str, Any] = {"utilization": first.mfu, "batch": first.batch, "throughput": first.throughput}
    again = assess(tokens_per_second=40, **{name: values[name]}).measured
    assert dataclasses.astuple(again) == pytest.approx(dataclasses.astuple(first))
    setup = asking.setup("llama_3_70b", "h100_sxm", 500, assumptions="deployable")
    assert first.mfu == pytest.approx(float(mfu(setup, 8, 96, 1 / 40)))


def test_a_point_behind_the_frontier() -> None:
    found = assess(tokens_per_second=40, batch=64)
    for gap, chips in ((found.anywhere, None), (found.same_size, 8), (found.ideal, 8)):
        assert gap.verdict == "behind"
        assert gap.faster is not None and gap.cheaper is not None
        assert gap.faster.dollars_per_million_output_tokens <= found.measured.dollars_per_million_output_tokens
        assert isinstance(gap.frontier, ie.Frontier)
        assert gap.cheaper == gap.frontier.cheapest(40)
        assert 0 < gap.on_it_seconds < found.measured.seconds
        if chips is not None:
            assert gap.faster.accelerators == gap.cheaper.accelerators == chips
    assert found.anywhere.on_it_seconds <= found.same_size.on_it_seconds
    assert found.ideal.on_it_seconds < found.same_size.on_it_seconds


def test_a_point_that_does_what_is_predicted_is_explained_and_not_ahead() -> None:
    # 97 is not on the grid of batches.
    speed = predicted_speed(97)
    found = assess(tokens_per_second=speed, batch=97, tp=8)
    assert found.unexplained_seconds == pytest.approx(0, abs=1e-12)
    assert found.same_size.verdict in ("on", "behind")
    assert found.same_size.speed_factor is not None and found.same_size.speed_factor >= 1 - 1e-9
    assert ", as predicted." in " ".join(findings(found))


def test_the_best_layout_is_taken_where_it_is_open() -> None:
    found = assess(tokens_per_second=40, batch=128)
    given = assess(tokens_per_second=40, batch=128, tp=8)
    assert given.predicted is not None
    assert given.predicted.layout["tp"] == 8
    # This is the best layout that engines can start on eight chips.
    assert found.predicted is not None
    assert found.predicted.layout == given.predicted.layout
    unlike = assess(tokens_per_second=40, batch=128, engine="any").predicted
    assert unlike is not None
    assert unlike.tokens_per_second_per_user > given.predicted.tokens_per_second_per_user
    assert given.predicted.tokens_per_second_per_user == pytest.approx(predicted_speed(128))
    piped = assess(tokens_per_second=40, batch=127, tp=4, pp=2)
    assert piped.predicted is not None
    # One of the two micro-batches has 64 sequences, and sets the pace.
    assert (piped.predicted.batch, piped.predicted.layout["pp"]) == (128, 2)
    assert piped.predicted.tokens_per_second_per_user == pytest.approx(predicted_speed(128, tp=4, pp=2))


def test_parts_add_up_to_what_was_measured() -> None:
    found = assess(tokens_per_second=40, batch=64)
    assert found.predicted is not None
    assert math.fsum(part.seconds for part in found.parts) == pytest.approx(1 / 40)
    assert found.parts[-1].name == "unexplained"
    # The picture has the point, two frontiers and the bound.
    labels = [line.label for line in assessment_chart(found).lines]
    assert labels == ["deployable, any size", "deployable, 8 GPUs", "ideal, 8 GPUs", "measured: 40 tokens/s, $3.46"]
    left = 1 / 40 - 1 / found.predicted.tokens_per_second_per_user
    assert found.unexplained_seconds == pytest.approx(left)
    # If its own batch is tried, the ideal step is the bound for the same chips and batch.
    assert math.fsum(part.ideal_seconds for part in found.parts) == pytest.approx(found.ideal.on_it_seconds)


def test_a_part_closes_at_most_its_excess_and_at_most_the_gap() -> None:
    found = assess(tokens_per_second=40, batch=64)
    gap = found.ideal
    for part in found.parts:
        share = part.closes(gap)
        assert 0 <= share <= 1
        if 0 < share < 1:
            assert share * gap.seconds == pytest.approx(part.seconds - part.ideal_seconds)
    ahead = assess(tokens_per_second=80, batch=64)
    assert ahead.anywhere.seconds < 0
    assert {part.closes(ahead.anywhere) for part in ahead.parts} == {0.0}


def test_a_batch_that_does_not_fit_is_a_finding() -> None:
    found = assess(ie.Traffic(context=8000), tokens_per_second=30, batch=512)
    short = present(found.shortage)
    assert (found.predicted, found.parts, found.unexplained_seconds) == (None, (), None)
    # 141.1 GB of weights and 512 caches of 8000 tokens of 327,680 B.
    assert short.needed_bytes == pytest.approx(141.1e9 + 512 * 8000 * 327680, rel=1e-3)
    assert short.needed_bytes > short.available_bytes
    assert short.most == int((short.available_bytes - 141.1e9) / (8000 * 327680))
    fits = assess(ie.Traffic(context=8000), tokens_per_second=30, batch=short.most)
    assert fits.shortage is None
    said = " ".join(findings(found))
    assert "At most 178 sequences fit" in said
    assert step_table(found) is None


def test_the_price_moves_costs_and_no_factor() -> None:
    cheap, dear = (assess(tokens_per_second=40, batch=64, price=price) for price in (1.0, 3.0))
    ratio = dear.measured.dollars_per_million_output_tokens / cheap.measured.dollars_per_million_output_tokens
    assert ratio == pytest.approx(3)
    for one, other in ((cheap.anywhere, dear.anywhere), (cheap.ideal, dear.ideal)):
        assert one.speed_factor == pytest.approx(other.speed_factor)
        assert one.cost_factor == pytest.approx(other.cost_factor)
        assert one.on_it_seconds == pytest.approx(other.on_it_seconds)


@settings(max_examples=15, deadline=None)
@given(st.floats(5, 300), st.floats(1, 600))
def test_speed_and_cost_agree_on_where_a_point_lies(speed: float, batch: float) -> None:
    found = asking.assess(
        "llama_3_8b", "h100_sxm", ie.Traffic(context=1000), tokens_per_second=speed, batch=batch, accelerators=2
    )
    for gap in (found.anywhere, found.same_size, found.ideal):
        inside = [factor is not None and factor >= 1 - 1e-8 for factor in (gap.speed_factor, gap.cost_factor)]
        assert inside[0] == inside[1] == (gap.seconds >= -1e-9 * found.measured.seconds)
    assert found.ideal.on_it_seconds <= found.same_size.on_it_seconds * (1 + 1e-9)
    assert found.anywhere.on_it_seconds <= found.same_size.on_it_seconds * (1 + 1e-9)


def test_more_chips_than_the_usual_grid_are_assessed_too() -> None:
    found = asking.assess(
        "deepseek_v3", "h200_sxm", ie.Traffic(context=2000), tokens_per_second=20, batch=2048, accelerators=128
    )
    assert isinstance(found.anywhere.frontier, ie.Frontier)
    assert found.anywhere.frontier.grid.accelerators[-1] == 128
    assert found.anywhere.on_it_seconds <= found.same_size.on_it_seconds
    assert found.predicted is not None and found.predicted.accelerators == 128


@pytest.mark.rows
def test_input_that_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        assess(**{"tokens_per_second": 70, **given})


@pytest.mark.parametrize("speed", [20, 40, 80])
def test_shares_of_the_gap_add_up(speed: float) -> None:
    """A server that is faster than predicted has a negative unexplained share."""
    table = present(step_table(assess(tokens_per_second=speed, batch=64)))
    *shares, whole = [int(row[-1]) for row in table.rows]
    assert whole == 100 and sum(shares) == pytest.approx(100, abs=len(shares) / 2)
    assert (shares[-1] < 0) == (speed == 80)


# Services

REQUESTS = ie.Requests(1000, 200)
SUBJECT = ("llama_3_8b", "h100_sxm")


def assess_served(batch: float, speed: float, requests: ie.Requests | ie.Traffic = REQUESTS) -> ie.Assessment:
    setup, seen = ie.Setup.of(*SUBJECT), ie.Observation(speed, 1, batch=batch)
    return ie.assess(setup, requests, seen, ie.Pins(tp=1, dp=1, pp=1))


def test_the_prediction_is_the_steady_state_of_the_same_layout_and_load() -> None:
    found = assess_served(32, 50.0)
    service = asking.offer(*SUBJECT, REQUESTS, pins=ie.Pins(tp=1, dp=1, pp=1)).service(0)
    state, point = service.at(32), found.predicted
    assert isinstance(point, SteadyService)
    assert (point.tpot_seconds, point.ttft_seconds) == pytest.approx(
        (float(state.tpot_seconds), float(state.ttft_seconds))
    )
    assert point.requests_per_second == pytest.approx(float(state.requests_per_second))
    # A request is active from its arrival to its last token, by the measured time per token.
    assert found.measured.throughput == pytest.approx(200 * 32 / (float(state.ttft_seconds) + 199 / 50.0))


def test_what_is_measured_as_predicted_lies_nowhere_ahead() -> None:
    for batch in (1.0, 7.3, 33.0, 150.0):
        state = asking.offer(*SUBJECT, REQUESTS, pins=ie.Pins(tp=1, dp=1, pp=1)).service(0).at(batch)
        found = assess_served(batch, 1.0 / float(state.tpot_seconds))
        assert found.expected == "as expected"
        assert found.unexplained_seconds == pytest.approx(0, abs=1e-9)
        for gap in (found.anywhere, found.same_size, found.ideal):
            assert gap.verdict != "ahead"
        assert found.ideal.on_it_seconds <= found.same_size.on_it_seconds * (1 + 1e-9)


def test_lengths_in_a_traffic_ask_for_services_and_a_context_for_steps() -> None:
    services = assess_served(32, 50.0, ie.Traffic(isl=1000, osl=200))
    assert services.requests == REQUESTS
    assert services.anywhere.cost_factor == assess_served(32, 50.0).anywhere.cost_factor
    steps = assess_served(32, 50.0, ie.Traffic(context=1100))
    assert steps.requests is None
    assert steps.predicted is not None and services.predicted is not None
    assert steps.predicted.tokens_per_second_per_user > services.predicted.tokens_per_second_per_user


def test_useful_arithmetic_is_that_of_prompt_and_answer() -> None:
    setup = ie.Setup.of(*SUBJECT)
    both = useful_seconds(setup, REQUESTS)
    # Two FLOP for each of 7.5e9 parameters without the input embedding, and those of attention, on 989.4 TFLOP/s.
    assert both == pytest.approx(2 * 7.5e9 * 1199 / 989.4e12, rel=0.06)
    cached = useful_seconds(setup, REQUESTS.replace(cached=500))
    assert cached == pytest.approx(both - 2 * 7.0e9 * 500 / 989.4e12, rel=0.03)


def test_states_of_each_layout_at_one_load_are_those_of_each_alone() -> None:
    layouts = asking.offer(*SUBJECT, REQUESTS, max_accelerators=4)
    states = layouts.states.of_each_at(20.0)
    alone = [float(layouts.service(index).at(20.0).tpot_seconds) for index in range(len(layouts))]
    assert states.tpot_seconds.shape == (len(layouts), 1)
    assert np.ravel(states.tpot_seconds).tolist() == pytest.approx(alone)


def test_intervals_are_those_of_estimate() -> None:
    deployment: dict[str, Any] = {"weights": "fp8", "tp": 4, "engine": "vllm", "isl": 2000, "osl": 500}
    found = ie.assess("llama_3_70b", "h100_sxm", gpus=4, batch=32, tokens_per_second=30, **deployment)
    (point,) = ie.estimate("llama_3_70b", "h100_sxm", concurrency=32, **deployment).to_dict()["points"]
    for name, seconds, likely in (
        ("tpot", found.predicted_seconds, found.likely_seconds), ("ttft", *found.predicted_ttft),
    ):  # fmt: skip
        assert seconds is not None and likely is not None
        assert likely.low / seconds == pytest.approx(point[f"{name}_seconds_low"] / point[f"{name}_seconds"])
        assert likely.high / seconds == pytest.approx(point[f"{name}_seconds_high"] / point[f"{name}_seconds"])
