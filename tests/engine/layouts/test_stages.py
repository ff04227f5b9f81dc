"""Pipelines with unequal stages: by hand, as invariants, and rejected inputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_econ.answers.explain import explain
from inference_econ.answers.layout_services import offer
from inference_econ.engine import Pins, Setup, Space, evaluate, fastest_cut, memory
from inference_econ.engine.layouts.plans import depths, fullest_over_mean
from inference_econ.engine.prefill import prefill
from inference_econ.errors import InputError
from inference_econ.inputs import Requests, catalog
from inference_econ.report.questions.explain import ExplanationPage
from tests.asking import pinned
from tests.planned import plan_of
from tests.reading import scalar, tables

DEPLOYABLE = catalog.assumptions("deployable")
LAYOUT = DEPLOYABLE.layout


# layers, stages, layers of the fullest stage by vLLM's rule (floor, then one more for some of them)
PARTITIONS: list[list[int]] = tables(Path(__file__))["PARTITIONS"]


@pytest.mark.parametrize(("layers", "stages", "fullest"), PARTITIONS)
def test_the_fullest_stage_sets_the_pace(layers: int, stages: int, fullest: int) -> None:
    pace = fullest_over_mean(layers, plan_of(8, pp=stages, batch=stages), LAYOUT)
    assert scalar(np.asarray(pace)) == pytest.approx(fullest * stages / layers, rel=1e-15)


def test_what_is_offered() -> None:
    # Powers of two up to 16 in addition to divisors: 36 layers in 16 stages of at most 3 are no faster than in 12.
    assert depths(61, LAYOUT) == [1, 2, 4, 8, 16]
    assert depths(126, LAYOUT) == [1, 2, 3, 4, 6, 7, 8, 9, 14, 16]
    assert depths(36, LAYOUT) == [1, 2, 3, 4, 6, 8, 9, 12]
    assert depths(61, catalog.assumptions("paper").layout) == [1, 61]


def test_a_step_of_61_layers_in_4_stages() -> None:
    # Rows of layers take 64 / 61 of their time without waiting stages; the output embedding does not.
    setup = Setup.of("deepseek_v3", "h200_sxm", assumptions="deployable", context=2000)
    even = replace(setup, assumptions=DEPLOYABLE.changed({"layout.pipeline_stages": "even"}))
    plan = replace(plan_of(8, pp=4, batch=256), ep=np.full(1, 8.0))
    rows = list(zip(setup.work(plan).operators, even.work(plan).operators, strict=True))
    apart = {"output embedding", "pipeline hand-off", "sampling"}
    for uneven, usual in rows:
        more = 1.0 if usual.name in apart else 64 / 61
        assert scalar(np.asarray(uneven.repeats / usual.repeats)) == pytest.approx(more, rel=1e-12), usual.name
    # 3 dense layers and 58 MoE layers with two more kernels: 61 x 14 and so on, all of them 64 / 61 times.
    launches = [scalar(evaluate(asked, plan, "1d").parts["launches"]) for asked in (setup, even)]
    per_step = 2 * 4e-6 + (launches[1] - 2 * 4e-6) * 64 / 61
    assert launches[0] == pytest.approx(per_step, rel=1e-12)


def test_the_fullest_stage_says_what_fits() -> None:
    # 126 layers in 4 stages: the fullest has 32, which sets the time of all. Embeddings are separate: 2 x 128,256 x
    # 16,384 in 16 bits.
    setup = Setup.of("llama_3_405b", "h100_sxm", weights="fp8", assumptions="deployable", context=2000)
    embeddings = 2 * 128_256 * 16_384 * 2.0
    layers = memory.weight_bytes(setup.model, setup.precision) - embeddings
    needed = setup.memory(plan_of(8, pp=4, batch=64))
    assert scalar(needed.weight_bytes) == pytest.approx(embeddings + layers * 128 / 126, rel=1e-12)
    # 2,000 tokens are 125 blocks of 16; keys and values of 8 heads of 128 in two bytes.
    cache = 64 * 128 * 2000 * 2 * 8 * 128 * 2.0
    assert scalar(needed.kv_bytes) == pytest.approx(cache, rel=1e-12)


def test_a_prompt_passes_free_stages_at_their_own_pace() -> None:
    # A single chunk loses no time, but the instance has the pace of the fullest stage.
    setup = Setup.of("llama_3_405b", "h100_sxm", weights="fp8", assumptions="deployable")
    even = replace(setup, assumptions=DEPLOYABLE.changed({"layout.pipeline_stages": "even"}))
    plan = plan_of(8, pp=4, batch=4)
    reading, usual = prefill(setup, plan, 4096.0), prefill(even, plan, 4096.0)
    assert scalar(reading.seconds) == pytest.approx(scalar(usual.seconds), rel=1e-12)
    lost = scalar(reading.busy_seconds) / scalar(usual.busy_seconds)
    assert 1.0 < lost < 128 / 126 * (1 + 1e-12)
    # Three chunks: the first passes freely, two follow at the pace of the fullest stage.
    reading, usual = prefill(setup, plan, 3 * 8192.0), prefill(even, plan, 3 * 8192.0)
    pace = scalar(reading.busy_seconds) / 3 * 4
    assert scalar(reading.seconds) == pytest.approx(scalar(usual.seconds) / 1.5 + pace * 2 / 4, rel=1e-9)


@settings(deadline=None)
@given(stages=st.integers(1, 61), batch=st.integers(1, 8))
def test_no_uneven_pipeline_is_quicker_than_an_even_one(stages: int, batch: int) -> None:
    setup = Setup.of("deepseek_v3", "h200_sxm", assumptions="deployable", context=1000)
    even = replace(setup, assumptions=DEPLOYABLE.changed({"layout.pipeline_stages": "even"}))
    plan = plan_of(8, pp=stages, batch=batch * stages)
    paced, usual = scalar(fastest_cut(setup, plan)), scalar(fastest_cut(even, plan))
    assert usual * (1 - 1e-12) <= paced <= usual * (1 + stages / 61)
    assert (paced == usual) == (61 % stages == 0)
    assert scalar(setup.memory(plan).weight_bytes) >= scalar(even.memory(plan).weight_bytes)


def test_uneven_stages_are_explained() -> None:
    step = explain(Setup.of("deepseek_v3", "h200_sxm"), Pins(tp=8, pp=4, batch=256))
    notes = " ".join(ExplanationPage(step).tables()[0].every_note)
    assert "The largest of 4 pipeline stages has 16 of 61 layers. It limits speed and memory" in notes
    assert step.layout["pp"] == 4 and step.operators[0].repeats == pytest.approx(3 * 64 / 61)
    even = Setup.of("deepseek_v3", "h200_sxm", changes=["assumptions.layout.pipeline_stages=even"])
    with pytest.raises(InputError, match="61 layers do not split into the pipeline's stages"):
        explain(even, Pins(tp=8, pp=4, batch=4))


def test_uneven_stages_are_offered() -> None:
    setup = Setup.of("llama_3_405b", "h100_sxm", weights="fp8")
    requests = Requests.model_validate({"isl": 1000, "osl": 200})
    services = offer(setup, requests, Space(pinned(tp=8, accelerators=32)))
    assert 4.0 in services.plans.pp
