"""Sensitivities: elasticities against analytical limits, and steps against the selected layouts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier
from inference_econ.inputs import Settings
from inference_econ.studies.layout_curves import LayoutCurves
from inference_econ.studies.settings import frontier_of, number, with_numbers
from inference_econ.studies.what_if import Effect, WhatIf, slope, what_if
from inference_econ.studies.what_if_inputs import chosen, inputs_of, ratios
from tests.reading import present

#: One chip without overheads, whose steps only read memory: short prompts, long outputs, a small batch.
BOUND: dict[str, Any] = {
    "assumptions": "ideal",
    "engine": "any",
    "isl": 1,
    "osl": 2000,
    "tp": 1,
    "changes": ("assumptions.capacity.usable_memory=1",),
}


#: One recipe: aggregated instances under the profile of the chip.
TOGETHER: dict[str, Any] = {"assumptions": "profiles/hopper", "arrangement": "aggregated"}


def _front(settings: Settings) -> ServiceFrontier:
    front = frontier_of(settings)
    assert isinstance(front, ServiceFrontier)
    return front


def _effects(answer: WhatIf) -> dict[str, Effect]:
    return {effect.input.key: effect for effect in answer.effects}


def test_memory_bound_decode_is_in_proportion_to_bandwidth_and_price() -> None:
    speed = 0.99 * float(_front(Settings(model="llama_3_8b", hardware="h100_sxm", **BOUND)).tokens_per_second[-1])
    inputs = ["hbm_bandwidth", "price", "peak_bf16", "layers"]
    effects = _effects(what_if("llama_3_8b", "h100_sxm", inputs=inputs, speeds=speed, span=(0.9, 1.1), **BOUND))
    # The time per token is the bytes of weights and cache over the bandwidth: exactly -1 for the selected deployment.
    assert effects["hbm_bandwidth"].held_speed == pytest.approx(1.0, abs=1e-3)
    assert effects["hbm_bandwidth"].held_cost == pytest.approx(-1.0, abs=1e-3)
    assert effects["price"].cost() == pytest.approx(1.0, abs=1e-9)
    assert effects["price"].held_speed == pytest.approx(0.0, abs=1e-9)
    assert effects["peak_bf16"].held_cost == pytest.approx(0.0, abs=1e-3)
    # The layers are all reads except the output embedding.
    model = ie.model("llama_3_8b")
    share = 1.0 - model.embedding_parameters / 2 / (model.total_parameters - model.embedding_parameters / 2)
    assert effects["layers"].held_cost == pytest.approx(share, abs=0.01)


def test_arithmetic_bound_decode_is_in_proportion_to_the_peak() -> None:
    settings = {**BOUND, "tp": 8, "changes": (*BOUND["changes"], "hardware.hbm_bytes_per_second=3000 TB/s")}
    effects = _effects(what_if("llama_3_8b", "h100_sxm", inputs=["peak_bf16", "hbm_bandwidth"], **settings))
    assert effects["peak_bf16"].held_cost == pytest.approx(-1.0, abs=0.01)
    assert effects["hbm_bandwidth"].held_cost == pytest.approx(0.0, abs=0.01)


def test_a_single_difference_is_a_step_where_the_slope_over_a_range_is_none() -> None:
    settings = Settings(model="llama_3_70b", hardware="h100_sxm", weights="fp8", **TOGETHER)
    effect = what_if("llama_3_70b", "h100_sxm", weights="fp8", speeds=30, inputs=["hbm_bandwidth"], **TOGETHER).effects[
        0
    ]
    ratio = 1.0 / 3.35 * 3.34
    costs = []
    for value in (3.25e12, 3.35e12):
        front = _front(with_numbers(settings, {"hardware.hbm_bytes_per_second": value}))
        costs.append(float(front.dollars[np.flatnonzero(front.tokens_per_second >= 30)[0]]))
    # Points of the frontier alone would jump by the distance of two of them.
    jump = math.log(costs[1] / costs[0]) / math.log(3.35 / 3.25)
    assert abs(jump - effect.cost()) > 0.1
    assert -1.0 < effect.cost() < -0.5 > effect.cost_of_layout()
    (step,) = effect.steps
    assert (step.kind, step.layout and step.layout["tp"], step.before and step.before["tp"]) == ("layout", 2.0, 4.0)
    assert step.low / step.high > 1 / 1.011
    assert step.low <= ratio * 3.35e12 <= step.high * 1.005
    for value, chips in ((step.low, 4.0), (step.high, 2.0)):
        front = _front(with_numbers(settings, {"hardware.hbm_bytes_per_second": value}))
        layout = present(LayoutCurves(front).cheapest(30.0).layout)
        assert layout[0] == chips


def test_memory_stops_mattering_where_it_is_enough() -> None:
    settings: dict[str, Any] = {"weights": "fp8", "inputs": ["hbm_size"], "span": (0.5, 2.0), **TOGETHER}
    effect = what_if("llama_3_70b", "h100_sxm", speeds=15, **settings).effects[0]
    layout, flat = effect.steps
    assert (layout.kind, layout.before and layout.before["tp"], layout.layout and layout.layout["tp"]) == (
        "layout", 4.0, 2.0,
    )  # fmt: skip
    assert flat.kind == "flat_from"
    assert layout.high < flat.low < flat.high < 1.011 * flat.low
    # Just below it, the cost is half a percent above that of any larger memory, which is reported as equal.
    asked = Settings(model="llama_3_70b", hardware="h100_sxm", weights="fp8", **TOGETHER)
    below, above = (
        LayoutCurves(_front(with_numbers(asked, {"hardware.hbm_bytes": size}))).cheapest(15).dollars
        for size in (0.97 * flat.low, 1.03 * flat.high)
    )
    assert below / above > 1.005
    assert above == pytest.approx(effect.best[0][-1].dollars, rel=0.005)


def test_curves_pass_through_the_frontier() -> None:
    front = _front(Settings(model="llama_3_70b", hardware="h100_sxm", weights="fp8", **TOGETHER))
    curves = LayoutCurves(front)
    for point in front.points()[::7]:
        speed, dollars = point.tokens_per_second_per_user, point.dollars_per_million_output_tokens
        pp, tp, ep = (float(point.layout[name]) for name in ("pp", "tp", "ep"))
        layout = (point.accelerators, pp, tp, ep)
        best = curves.cheapest(speed, layout)
        assert best.dollars == pytest.approx(dollars, rel=1e-9)
        assert best.concurrency == pytest.approx(point.concurrency, rel=1e-6)
        assert curves.held(layout, point.concurrency).ttft_seconds == pytest.approx(point.ttft_seconds, rel=1e-9)
        # Between its batches another layout may be cheaper, by less than neighbouring batches differ.
        assert 0.9 * dollars < curves.cheapest(speed).dollars <= dollars * (1.0 + 1e-9)
        assert speed * (1.0 - 1e-9) <= curves.fastest(dollars) < 1.1 * speed
    assert math.isnan(curves.cheapest(1e6).dollars)
    assert math.isnan(curves.fastest(1e-6))


def test_costs_between_batches_are_those_of_the_batches_between() -> None:
    """Compare interpolation with a frontier whose batches lie elsewhere: within 0.5%."""
    settings = Settings(model="llama_3_70b", hardware="h100_sxm", weights="fp8", tp=8, **TOGETHER)
    curves = LayoutCurves(_front(settings))
    for speed in (30.0, 55.0, 88.0, 110.0):
        other = LayoutCurves(_front(settings.replace(slots=150))).cheapest(speed)
        assert curves.cheapest(speed).dollars == pytest.approx(other.dollars, rel=0.005)


def test_along_the_frontier_a_speed_has_elasticities_of_its_own() -> None:
    answer = what_if("llama_3_8b", "h100_sxm", inputs=["launch", "price"], speeds=[50, 150], max_instance_gpus=4)
    effects = _effects(answer)
    assert effects["launch"].cost(1) > effects["launch"].cost(0) > 0.0
    assert [effects["price"].cost(index) for index in (0, 1)] == pytest.approx([1.0, 1.0], abs=1e-9)


def test_promises_leave_out_what_breaks_them() -> None:
    settings: dict[str, Any] = {"max_instance_gpus": 2, "inputs": ["isl"], "ttft": 0.08, "speeds": 60}
    # Another disaggregated group would be the cheapest for longer prompts.
    settings["arrangement"] = "aggregated"
    answer = what_if("llama_3_8b", "h100_sxm", **settings)
    effect = answer.effects[0]
    # Longer prompts take more time, which leaves less slack in the SLO.
    assert isinstance(answer.front, ServiceFrontier)
    assert answer.rooms(effect)["ttft"] < -0.1
    free = what_if("llama_3_8b", "h100_sxm", **{**settings, "ttft": None})
    assert answer.best[0].dollars >= free.best[0].dollars


def test_everything_usual_can_be_varied() -> None:
    settings = Settings(model="deepseek_v3", hardware="h200_sxm", mtp=True, acceptance=0.8, cached=500)
    inputs = {each.key: each for each in inputs_of(settings)}
    assert {
        "hbm_bandwidth", "hbm_size", "peak_fp8", "peak_bf16", "link_bandwidth", "nic", "link_latency", "launch",
        "host_step", "price", "isl", "osl", "cached", "acceptance", "layers", "query_heads", "experts",
        "active_experts",
    } == inputs.keys()  # fmt: skip
    for each in inputs.values():
        changed = each.scaled(settings, 0.5)
        for name, value in each.numbers.items():
            wanted = round(0.5 * value) if each.whole else 0.5 * value
            assert number(changed, name) == pytest.approx(wanted, rel=1e-9), name


def test_inputs_are_varied_from_a_fifth_less_to_a_quarter_more_or_as_told() -> None:
    asked: dict[str, Any] = {"inputs": ["price"], "max_instance_gpus": 1, "speeds": 60}
    usual, wide = (
        what_if("llama_3_8b", "h100_sxm", **asked),
        what_if("llama_3_8b", "h100_sxm", span=(0.5, 4.0), **asked),
    )
    for answer, tried in ((usual, (0.8, 0.8**0.5, 1.0, 1.25**0.5, 1.25)), (wide, (0.5, 0.5**0.5, 1.0, 2.0, 4.0))):
        (effect,) = answer.effects
        assert effect.ratios == pytest.approx(tried)
        assert answer.record()["range"] == [tried[0], tried[-1]]
        # The cost at each end, of the same deployment: in proportion to the price.
        costs = [best.dollars for best in effect.best[0]]
        assert costs == pytest.approx([ratio * answer.best[0].dollars for ratio in tried])


def test_counts_take_the_values_that_split() -> None:
    answer = what_if("deepseek_v3", "h200_sxm", inputs=["price"], instance_gpus=8, speeds=20)
    setup = answer.front.setup
    settings = Settings(model="deepseek_v3", hardware="h200_sxm")
    values = {
        each.key: [each.value * ratio for ratio in ratios(each, setup, 0.8, 1.25)]
        for each in chosen(settings, ["query_heads", "experts", "active_experts", "layers"])
    }
    assert values == {
        "query_heads": [104.0, 112.0, 128.0, 144.0, 160.0],
        "experts": [208.0, 232.0, 256.0, 288.0, 320.0],
        "active_experts": [6.0, 7.0, 8.0, 9.0, 10.0],
        "layers": [49.0, 55.0, 61.0, 68.0, 76.0],
    }


def test_heads_of_keys_have_the_next_values_that_split() -> None:
    settings = Settings(model="llama_3_70b", hardware="h100_sxm")
    (heads,) = chosen(settings, ["kv_heads"])
    front = _front(settings)
    assert [8 * ratio for ratio in ratios(heads, front.setup, 0.8, 1.25)] == [4.0, 8.0, 16.0]


def test_slopes_leave_out_what_is_not_known() -> None:
    assert slope([0.5, 1.0, 2.0], [math.nan, 3.0, 12.0]) == pytest.approx(2.0)
    assert math.isnan(slope([0.5, 1.0], [math.nan, 1.0]))


@pytest.mark.rows
def test_what_cannot_be_asked(settings: dict[str, Any], message: str) -> None:
    asked = {"model": "llama_3_8b", "hardware": "h100_sxm", **settings}
    with pytest.raises(ie.InputError, match=message):
        what_if(asked.pop("model"), asked.pop("hardware"), **asked)


def test_the_concurrency_of_a_group_is_that_of_the_frontier() -> None:
    """The two decode instances of the group have one concurrency in both commands."""
    point = _front(Settings(model="llama_3_70b", hardware="h100_sxm", weights="fp8")).preferred()
    answer = what_if("llama_3_70b", "h100_sxm", inputs=["price"], weights="fp8")
    assert answer.layout["decode_instances"] == 2
    assert answer.concurrency == pytest.approx([point.concurrency], rel=1e-3)


def test_decode_steps_alone_are_varied_in_whole_instances() -> None:
    settings: dict[str, Any] = {"decode_only": True, "context": 1000, "speeds": 40, "weights": "fp8"}
    inputs = ["price", "hbm_bandwidth", "context", "layers"]
    answer = what_if("llama_3_70b", "h100_sxm", inputs=inputs, **settings)
    effects = _effects(answer)
    assert effects["price"].cost() == pytest.approx(1.0, abs=1e-9)
    assert effects["hbm_bandwidth"].cost() < -0.5 < 0.0 < effects["context"].cost() < effects["layers"].cost()
    # The least cost of a speed is that of the frontier, except for interpolation between two batches.
    asked = Settings(model="llama_3_70b", hardware="h100_sxm", weights="fp8", decode_only=True, context=1000)
    front = frontier_of(asked)
    cheapest = front.cheapest(40.0)
    assert answer.best[0].dollars == pytest.approx(cheapest.dollars_per_million_output_tokens, rel=0.05)
    assert answer.accelerators == cheapest.accelerators == answer.layout["tp"]
    # A hard limit: with too little memory for the weights on the selected instance, the result has another size.
    (memory,) = what_if("llama_3_70b", "h100_sxm", inputs=["hbm_size"], span=(0.1, 1.5), **settings).effects
    assert any(step.kind == "layout" for step in memory.steps)


def test_the_model_of_the_study_is_varied_on_its_grid() -> None:
    settings: dict[str, Any] = {"grid": "paper", "context": 0, "weights": "int8", "pipeline": False, "speeds": 60}
    inputs = ["price", "hbm_bandwidth"]
    answer = what_if("paper/llama_3_70b", "paper/h100", inputs=inputs, max_instance_gpus=16, **settings)
    effects = _effects(answer)
    assert effects["price"].cost() == pytest.approx(1.0, abs=1e-9)
    assert -1.5 < effects["hbm_bandwidth"].cost() < -0.5
    assert effects["hbm_bandwidth"].held_speed > 0.3
    # Sizes are real-valued, so no input value switches between layouts.
    assert not any(effect.steps for effect in effects.values())
    assert "context" not in {each.key for each in inputs_of(Settings(model="llama_3_8b", hardware="h100_sxm"))}


def test_too_many_values_are_refused_first() -> None:
    with ie.allow(seconds=1), pytest.raises(ie.TooMuchError, match=r"\d+ values of inputs with \d+ layouts each"):
        what_if("llama_3_8b", "h100_sxm", max_instance_gpus=2)
