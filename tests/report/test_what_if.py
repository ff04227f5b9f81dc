"""Sensitivities of results, as tables, data and tornado charts."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

import inference_econ as ie
from inference_econ.report.charts import tornado_chart
from inference_econ.report.charts.lines import ticks
from inference_econ.report.charts.plot import Tornado, TornadoBar
from inference_econ.report.questions.what_if import WhatIfPage, effects_table, steps_table, tornados
from inference_econ.studies.what_if import KindChange
from tests import charted


@pytest.fixture(scope="module")
def answer() -> ie.WhatIf:
    return ie.what_if(
        "llama_3_70b", "h100_sxm", weights="fp8", speeds=30, inputs=["nic", "hbm_bandwidth", "price", "kv_heads"],
        engine="sglang", arrangement="aggregated",
    )  # fmt: skip


def test_costs_that_are_flat_at_both_ends_are_said_once(answer: ie.WhatIf) -> None:
    """Llama 70B with a larger memory: the cost falls from 82.6 to 91.1 GB, where the labels "less" and "more"
    contradicted.
    """
    low, high = (
        KindChange("flat_to", 82.59e9, 83.41e9, None, None),
        KindChange("flat_from", 90.15e9, 91.06e9, None, None),
    )
    (effect,) = (effect for effect in answer.effects if effect.input.key == "nic")
    memory = replace(effect, input=replace(effect.input, unit="B"))

    def said(*steps: KindChange) -> list[tuple[str, ...]]:
        return [row[1:] for row in steps_table(replace(answer, effects=(replace(memory, steps=steps),))).rows]

    assert said(high, low) == [("82.59 GB to 91.06 GB", "only values in this range change the cost")]
    assert said(low) == [("82.59 GB", "lower values do not change the cost")]
    assert said(high) == [("91.06 GB", "higher values do not change the cost")]


def test_of_pools_the_chips_of_both_are_said() -> None:
    pools: dict[str, Any] = {"arrangement": "disaggregated", "engine": "vllm", "max_instance_gpus": 4}
    answer = ie.what_if("qwen3_32b", "h100_sxm", inputs=["price"], isl=8000, osl=200, speeds=40, **pools)
    readers, decoders = (float(answer.layout[f"{name}_instances"]) for name in ("prefill", "decode"))
    reading = {"tp1": 1, "tp2": 2, "tp4": 4}[str(answer.layout["prefill"])]
    chips = readers * reading + decoders * float(answer.layout["tp"])
    assert answer.accelerators == chips
    assert f" {chips:g} GPUs, {readers:g}P{decoders:g}D " in effects_table(answer).notes[0]


def test_ends_at_which_nothing_answers_are_named(answer: ie.WhatIf) -> None:
    """For the fastest deployment at the cheapest layout's cost, no deployment costs as little at a higher price."""
    cheapest = replace(
        answer, effects=tuple(replace(effect, fastest=(*effect.fastest[:-1], math.nan)) for effect in answer.effects)
    )
    names = [{bar.name for bar in tornado.bars} for tornado in tornados(cheapest)]
    assert "price" in names[0] and "price (none at $4.988/h)" in names[1]
    said = "None: no deployment is as fast (left chart) or as cheap (right chart)."
    drawn = (str(WhatIfPage(study).charts()["tornado"].to_dict()) for study in (answer, cheapest))
    assert [said in chart for chart in drawn] == [False, True]


def test_an_end_without_an_answer_has_no_bar() -> None:
    bars = [TornadoBar("launch time", "5 us", "more", math.nan), TornadoBar("launch time", "3 us", "less", 0.7)]
    spec = charted.sound(tornado_chart([Tornado("Cost", "change", ("less", "more"), bars)], "What?"))
    drawn, middle = charted.views(spec)
    assert [row["value"] for row in charted.rows_of(spec, drawn)] == ["3 us"]
    assert [row["factor"] for row in charted.rows_of(spec, middle)] == [1.0]


def test_ticks_are_round_and_apart() -> None:
    assert ticks(0.98, 1.02) == [1.0]
    wide = ticks(0.05, 20.0)
    assert wide[0] >= 0.05
    assert wide[-1] <= 20.0
    assert all(right / left > 1.6 for left, right in pairwise(wide))
    assert 1.0 in wide
