"""Measured evidence of a deployment, and predicted times of unmeasured engines."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
import pytest

import inference_econ as ie
from data.evidence import COLUMNS, FILE, counted, usable
from inference_econ.answers.deployments.serving_options import recipes_to_try
from inference_econ.engine import Plans, Setup, evidence_of
from inference_econ.engine.evidence import PULL, Facts, bare_name, for_engine, opinions_of, runs
from inference_econ.engine.step import step_seconds
from inference_econ.errors import NothingFitsError
from tests.reading import present


@pytest.mark.long
def test_the_table_counts_the_shipped_rows() -> None:
    with FILE.open(encoding="utf-8", newline="") as stream:
        lines = [tuple(row.values()) for row in csv.DictReader(stream)]
    assert lines == [tuple(map(str, line)) for line in counted(usable())]
    assert len(lines[0]) == len(COLUMNS)


@pytest.mark.rows
def test_evidence(model: str, chip: str, engine: str, weights: str | None, apart: bool, kind: str) -> None:
    setup = Setup.of(model, chip, weights=weights, engine=engine)
    found = evidence_of(setup, disaggregated=apart, speculates=False)
    assert found.kind == kind
    assert (found.runs > 0) == (kind != "model only")


def test_near_is_all_but_one_fact() -> None:
    facts, count = next(iter(runs().by_facts.items()))
    assert count > 0
    assert facts == Facts(*facts)
    assert bare_name("Kimi K2 NVFP4", "nvfp4") == "Kimi K2"
    assert bare_name("Llama 3.1 70B", "fp8") == "Llama 3.1 70B"


def test_only_what_was_measured_answers_if_that_is_asked() -> None:
    found = ie.frontier("llama_3_70b", "h200_sxm", weights="fp8", engine="trtllm", evidence="measured")
    assert {point.evidence.kind for point in found.points()} == {"measured"}
    message = r"^no server of Llama 3\.1 8B \(bf16\) on NVIDIA L4 24GB was measured .*"
    with pytest.raises(NothingFitsError, match=message):
        ie.frontier("llama_3_8b", "l4", evidence="measured")


def test_layouts_of_disaggregated_servers_are_known_without_aggregated_ones() -> None:
    rack, machine = (runs().layouts("DeepSeek-V3", ie.hardware(chip).name) for chip in ("gb200_nvl72", "h200_sxm"))
    assert not rack.aggregated
    for prefill, layouts in ((False, rack.decode), (True, rack.prefill)):
        assert rack.of(apart=False, prefill=prefill) == rack.of(apart=True, prefill=prefill) == layouts
        assert machine.of(apart=False, prefill=prefill) == machine.aggregated


def _mean_log(setup: Setup, plans: Plans) -> float:
    return float(np.log(np.minimum.reduce(step_seconds(setup, plans))).mean())


def _run(engine: Any, setup: Setup) -> Setup:
    bare = Setup(
        setup.model, setup.hardware, setup.precision, 2000.0, opinions_of(engine, setup.hardware), engines=(engine,)
    )
    return bare.with_corrections(engine.name, engine.facts.version)


def test_an_unmeasured_engine_is_half_way_to_the_mean_of_all() -> None:
    """Qwen3 32B on H200, which was not measured: decode steps of common layouts, by hand."""
    setup = ie.Setup.of("qwen3_32b", "h200_sxm")
    sizes, batches = (axis.ravel() for axis in np.meshgrid([1.0, 2.0, 4.0, 8.0], [8.0, 64.0]))
    plans = Plans.of(sizes, batches, np.ones(sizes.size))
    own = {engine.name: _mean_log(_run(engine, setup), plans) for engine in setup.engines}
    assert len(own) == 3
    for engine in setup.engines:
        levels = present(for_engine(setup, engine).levels)
        assert levels.pull[0] == pytest.approx(PULL * (np.mean(list(own.values())) - own[engine.name]), abs=1e-9)
        assert levels.served(speculates=True).pull == (0.0, 0.0)


def test_a_measured_engine_stays_and_naming_one_changes_nothing() -> None:
    for row in recipes_to_try(ie.Setup.of("deepseek_v3", "h200_sxm"), None):
        (engine,) = row.setup.engines
        pull = (0.0, 0.0) if row.setup.levels is None else row.setup.levels.pull
        assert (pull == (0.0, 0.0)) == (engine.name != "vllm")
    open_fronts = {point.layout["engine"]: point for point in ie.frontier("qwen3_32b", "h200_sxm").points()}
    name, point = next(iter(open_fronts.items()))
    alone = ie.frontier("qwen3_32b", "h200_sxm", engine=name).points()
    same = [other for other in alone if other.layout == point.layout and other.batch == point.batch]
    assert [other.tpot_seconds for other in same] == [point.tpot_seconds]
