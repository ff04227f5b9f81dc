"""The frontier of services: nothing beats its points, and what each metric means."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_econ.answers.serving_frontier import METRICS, ServiceFrontier, service_frontier
from inference_econ.errors import InputError
from inference_econ.report import caveats
from inference_econ.report.page import csv_text
from inference_econ.report.serving_frontier import (
    service_frontier_charts,
    service_frontier_frame,
    service_frontier_record,
    service_frontier_table,
)
from inference_econ.serving import Services
from inference_econ.serving.steady import steady
from tests import asking
from tests.offered import offer_of

OFFERS = {
    "dense": lambda: offer_of(most=8),
    "experts": lambda: offer_of("qwen3_30b_a3b", isl="4000", osl="500", most=4),
    "cached": lambda: offer_of(isl="4000", cached=3000.0, most=4),
    "prefill first": lambda: offer_of(changes=("serving.prefill_chunk=0",), most=4),
}
names = st.sampled_from(tuple(OFFERS))


def front_of(name: str = "dense") -> ServiceFrontier:
    return service_frontier(OFFERS[name]())


def without_watts(found: Services) -> Services:
    hardware = found.setup.hardware.model_copy(update={"watts": None})
    return replace(found, setup=replace(found.setup, hardware=hardware))


@settings(max_examples=100, deadline=None)
@given(names, st.data())
def test_no_state_of_any_layout_beats_a_point(name: str, data: st.DataObject) -> None:
    front = front_of(name)
    states = front.deployments.states
    row = data.draw(st.integers(0, len(front.deployments) - 1))
    column = data.draw(st.integers(0, states.tpot_seconds.shape[1] - 1))
    speed = 1.0 / states.tpot_seconds[row, column]
    each = states.requests_per_second[row, column] / front.deployments.plans.accelerators[row]
    output = each * front.deployments.requests.osl.mean
    beaten = (front.tokens_per_second_per_user >= speed * (1 - 1e-12)) & (
        front.tokens_per_second_per_accelerator >= output * (1 - 1e-12)
    )
    assert beaten.any()


@pytest.mark.parametrize("name", OFFERS)
def test_points_are_ordered_and_none_beats_another(name: str) -> None:
    front = front_of(name)
    assert len(front) > 20
    assert (np.diff(front.tokens_per_second_per_user) > 0).all()
    assert (np.diff(front.dollars_per_million_tokens) > 0).all()
    assert (np.diff(front.tokens_per_second_per_accelerator) < 0).all()
    megawatt = front.tokens_per_second_per_megawatt
    assert megawatt is not None
    assert (np.diff(megawatt) < 0).all()


@pytest.mark.parametrize("name", OFFERS)
def test_a_point_is_the_steady_state_of_its_layout(name: str) -> None:
    front = front_of(name)
    found = front.deployments
    for index in (0, len(front) // 2, len(front) - 1):
        again = steady(found.setup, front.plan(index), found.requests)
        assert front.tpot_seconds[index] == pytest.approx(float(again.tpot_seconds[0]))
        assert front.ttft_seconds[index] == pytest.approx(float(again.ttft_seconds[0]))
        assert front.requests_per_second[index] == pytest.approx(float(again.requests_per_second[0]))
        assert front.concurrency[index] == pytest.approx(float(again.concurrency[0]))


def test_metrics_by_hand() -> None:
    """2 dollars an hour, 700 W, 1000 and 200 tokens."""
    front = front_of()
    chips, rate = front.plans.accelerators, front.requests_per_second
    np.testing.assert_allclose(front.tokens_per_second_per_user, 1.0 / front.tpot_seconds)
    np.testing.assert_allclose(front.tokens_per_second_per_accelerator, 200.0 * rate / chips)
    np.testing.assert_allclose(front.dollars_per_million_output_tokens, 1e6 * 2.0 * chips / 3600.0 / (200.0 * rate))
    np.testing.assert_allclose(front.dollars_per_million_tokens, 1e6 * 2.0 * chips / 3600.0 / (1200.0 * rate))
    np.testing.assert_allclose(front.metric("power"), 200.0 * rate / chips / 700.0 * 1e6)
    np.testing.assert_array_equal(front.metric("cost"), front.dollars_per_million_tokens)
    np.testing.assert_array_equal(front.metric("throughput"), front.tokens_per_second_per_accelerator)


def test_interference_of_prefill_is_in_the_speed() -> None:
    """Longer prompts slow users down at the same cost per token, though a step is nearly as long."""
    short, long = (offer_of(isl=isl, osl="500", most=2) for isl in ("100", "4000"))
    fronts = [service_frontier(offer) for offer in (short, long)]
    at_cost = [
        float(np.interp(1.0, front.dollars_per_million_output_tokens, front.tokens_per_second_per_user))
        for front in fronts
    ]
    assert at_cost[1] < 0.85 * at_cost[0]


def test_a_cheaper_chip_moves_costs_only() -> None:
    offer = OFFERS["dense"]()
    half = service_frontier(replace(offer, setup=replace(offer.setup, price=1.0)))
    front = service_frontier(offer)
    np.testing.assert_array_equal(half.tokens_per_second_per_user, front.tokens_per_second_per_user)
    np.testing.assert_allclose(2.0 * half.dollars_per_million_tokens, front.dollars_per_million_tokens)


def test_power_needs_watts() -> None:
    front = service_frontier(without_watts(OFFERS["dense"]()))
    assert front.tokens_per_second_per_megawatt is None
    with pytest.raises(InputError, match=r"lists no watts; give them, for example --set hardware\.watts='700 W'"):
        front.metric("power")
    record = service_frontier_record(front)
    assert all(point["tokens_per_second_per_megawatt"] is None for point in record["points"])  # type: ignore[attr-defined]


def test_bad_input() -> None:
    with pytest.raises(InputError, match="y: got 'carbon'; allowed: cost, throughput, power"):
        front_of().metric("carbon")  # type: ignore[arg-type]
    one = asking.offer("llama_3_8b", "h100_sxm", OFFERS["dense"]().requests.replace(osl="1"), price=2.0)
    with pytest.raises(InputError, match="osl must be more than 1 token for a speed, got 1"):
        service_frontier(one)


# Shown


@pytest.mark.parametrize("y", METRICS)
def test_the_table_has_evenly_spaced_points(y: str) -> None:
    front = front_of()
    table = service_frontier_table(front, y)  # type: ignore[arg-type]
    heads = {"cost": "$/M tokens", "throughput": "tok/s per GPU", "power": "tok/s per MW"}
    assert table.columns[:3] == ("tokens/s per user", heads[y], "$/M output")
    assert 10 <= len(table.rows) <= 14
    speeds = [float(row[0]) for row in table.rows]
    assert speeds == sorted(speeds)
    assert speeds[0] == pytest.approx(front.tokens_per_second_per_user[0], abs=0.06)
    assert table.title.startswith("Llama 3.1 8B on NVIDIA H100 SXM5 80GB: 1000 input tokens, 200 output tokens")
    assert f"of {len(front)} points" in table.notes[0]


def test_records_and_rows_hold_every_metric() -> None:
    front = front_of("cached")
    points = service_frontier_record(front)["points"]
    assert isinstance(points, list)
    assert len(points) == len(front)
    names = {
        *("tokens_per_second_per_user", "ttft_seconds", "tpot_seconds", "dollars_per_million_tokens"),
        *("dollars_per_million_output_tokens", "tokens_per_second_per_accelerator", "tokens_per_second_per_megawatt"),
        *("requests_per_second", "accelerators", "concurrency", "batch", "layout"),
        *("e2e_seconds", "e2e_seconds_per_output_token"),
    }
    names |= {f"{name}_{end}" for name in names & set(caveats.FULL) for end in ("low", "high")}
    assert all(set(point) == names for point in points)
    rows = list(csv.DictReader(io.StringIO(csv_text(service_frontier_frame(front)))))
    assert len(rows) == len(front)
    assert set(rows[0]) == names | {"engine"}
    assert {point["layout"]["engine"] for point in points} == {row["engine"] for row in rows}
    assert float(rows[3]["tpot_seconds"]) == pytest.approx(points[3]["tpot_seconds"])
    assert rows[0]["layout"].startswith(("tp", "dp", "pp"))


def test_charts_show_the_metric_and_the_first_token() -> None:
    front = front_of()
    metric, waits = service_frontier_charts(front, "power")
    assert metric.y_label.startswith("thousand output tokens/s per megawatt")
    np.testing.assert_allclose(np.array(metric.lines[0].y) * 1e3, front.metric("power"))
    np.testing.assert_allclose(waits.lines[0].y, 1e3 * front.ttft_seconds)
    assert service_frontier_charts(front, "cost")[0].logarithmic == "y"
