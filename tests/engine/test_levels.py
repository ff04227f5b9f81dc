"""Corrections from measured servers: they scale the step times of similar setups and no others."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from inference_econ.engine import Instances, Plans, Setup, bounds, evaluate, interval, saved_seconds, step_seconds
from inference_econ.engine.prefill import prefill
from inference_econ.inputs import LEVELS_FORM, MeasuredLevels, catalog, constants_of
from inference_econ.report.notes import newer_release
from tests.reading import present

PROFILE = "profiles/vllm_hopper"
SPREADS = {"subject": 0.1, "version": 0.1, "way": 0.1, "deployment": 0.1, "row": 0.1}
ERRORS = {"rows": 40, "quantiles": [-0.08, -0.06, -0.03, 0.0, 0.03, 0.06, 0.08]}


def level(decode: float, prefill: float = 0.0, **more: Any) -> dict[str, Any]:
    """Return an entry of a corrections file."""
    return {"rows": 5, "decode": decode, "prefill": prefill, **more}


def levels(**changes: Any) -> MeasuredLevels:
    """Return corrections of Llama 3.1 70B on H200: version 0.12 in two layouts, and with speculation."""
    deployments = [level(0.3, 0.5, layout="tp4", weights="fp8"), level(-0.2, layout="tp8", weights="fp8")]
    ways = [level(0.1, 0.2, deployments=deployments), level(0.4, speculates=True)]
    versions = [level(0.05, 0.1, version="0.12.0", ways=ways)]
    data = {
        "form": LEVELS_FORM,
        "profile": PROFILE,
        "constants": constants_of(PROFILE),
        "engine": "vllm",
        "date": "2026-11-01",
        "rows": 15,
        "spreads": {"tpot": SPREADS, "ttft": SPREADS},
        "errors": {"load": {"tpot": ERRORS}},
        "subjects": [level(0.02, 0.03, model="llama_3_70b", hardware="h200_sxm", versions=versions)],
        **changes,
    }
    return MeasuredLevels.build(data, origin="levels")


def setup(version: str = "0.12.0", model: str = "llama_3_70b", chip: str = "h200_sxm", **changes: Any) -> Setup:
    """Return a setup under the profile with these corrections."""
    assumed = catalog.as_fitted(PROFILE).model_copy(update={"levels": levels(**changes)})
    return Setup.of(model, chip, weights="fp8", assumptions=assumed, context=1000.0).with_corrections("vllm", version)


def plans(*ranks: float) -> Plans:
    """Return plans with the given tensor-parallel degrees and 16 sequences."""
    tp = np.array(ranks)
    return Plans(tp, np.full(tp.shape, 16.0), np.ones(tp.shape), tp, np.ones(tp.shape), whole=True)


def test_steps_take_the_level_of_their_layout() -> None:
    """A measured layout has its own correction, and another layout that of its kind."""
    measured, some = setup(), plans(2, 4, 8)
    ratio = step_seconds(measured, some)[0] / step_seconds(measured.unmeasured, some)[0]
    assert ratio == pytest.approx(np.exp([0.1, 0.3, -0.2]))


@pytest.mark.parametrize(("version", "log"), [("0.12.0", 0.1), ("0.24.0", 0.02)])
def test_another_version_takes_that_of_the_model_on_the_chip(version: str, log: float) -> None:
    """An unmeasured version has only the corrections of wider groups."""
    measured = setup(version)
    assert measured.measured_factor(plans(2), prefill=False) == pytest.approx(math.exp(log))


SHARED = [
    {"rows": 9, "decode": 0.1, "prefill": 0.2, "since": "0.18.0"},
    {"rows": 9, "decode": 0.05, "prefill": 0.0, "since": "0.24.0"},
    {"rows": 9, "decode": 1.0, "speculates": True},
]


@pytest.mark.rows
def test_corrections_of_releases_are_added(model: str, version: str, logs: tuple[float, float]) -> None:
    """Add corrections of all releases up to that of the setup, without those of speculation."""
    measured = setup(version, model, shared=SHARED)
    factors = [measured.measured_factor(plans(2), prefill=prefill) for prefill in (False, True)]
    assert factors == [pytest.approx(math.exp(log)) for log in logs]


def test_releases_after_the_newest_measured_one_widen_the_interval() -> None:
    """Each newer release adds an independent error; the rendered result states it."""
    spreads = {name: {**SPREADS, "release": 0.1} for name in ("tpot", "ttft")}
    file: dict[str, Any] = {"newest": "0.24.0", "spreads": spreads, "errors": {"version": {"tpot": ERRORS}}}
    cases = {version: setup(version, **file) for version in ("0.24.0", "0.28.0", "0.33.0")}
    widths, notes = [], []
    for it in cases.values():
        instances = Instances(it, layouts=["tp4"])
        known = present(interval(1.0, it.assumptions, subjects=[instances.subject]))
        widths.append(math.log(known.high / known.low) / 2)
        notes.append(newer_release(instances))
    beside = 0.1 * NormalDist().inv_cdf(0.9)
    assert widths[0] == pytest.approx(0.06)
    assert widths[1:] == pytest.approx([math.hypot(0.06, beside), math.hypot(0.06, beside * math.sqrt(2))])
    text = "vllm was measured only up to version 0.24.0"
    assert notes == [[], [text], [text]]


@pytest.mark.parametrize("version", ["0.5.5", "0.5.8.post1", "0.5.9"])
def test_a_measured_version_in_the_query_has_its_own_corrections(version: str) -> None:
    """The catalog has no facts of 0.5.8.post1. Its facts are those of 0.5.5; its corrections are its own."""
    found = Setup.of("deepseek_v3", "b200", engine=f"sglang@{version}").levels
    assert found is not None
    assert found.version == version


@pytest.mark.parametrize(("model", "chip"), [("llama_3_8b", "h200_sxm"), ("llama_3_70b", "h100_sxm")])
def test_far_from_measurements_nothing_changes(model: str, chip: str) -> None:
    """Another model or chip has no correction and has the interval of the profile."""
    far = setup(model=model, chip=chip)
    assert far.levels is None
    assert step_seconds(far, plans(4))[0] == pytest.approx(step_seconds(far.unmeasured, plans(4))[0])
    assert Instances(far, layouts=["tp4"]).subject.unseen is (None if far.levels is None else "subject")


def test_speculating_servers_have_a_level_of_their_own() -> None:
    """Each speculation method has its own correction."""
    speculating = setup().for_role(speculates=True)
    assert speculating.measured_factor(plans(4), prefill=False) == pytest.approx(math.exp(0.4))
    assert setup().for_role(apart=True).measured_factor(plans(4), prefill=False) == pytest.approx(math.exp(0.05))


PROPOSALS = ({"rows": 7, "decode": 0.25, "speculates": True},)


def shared(model: str, weights: str | None = None) -> Setup:
    """Return a model on H200 with a correction for speculation."""
    assumed = catalog.as_fitted(PROFILE).model_copy(update={"levels": levels(shared=PROPOSALS)})
    return Setup.of(model, "h200_sxm", weights=weights, assumptions=assumed, context=1000.0).with_corrections(
        "vllm", "0.12.0"
    )


def test_what_all_models_have_counts_for_those_that_were_not_measured() -> None:
    """The correction for speculation applies to decode steps; intervals stay those of the profile."""
    dense = shared("llama_3_8b", "fp8")
    assert dense.measured_factor(plans(1), prefill=False) == 1.0
    assert dense.for_role(speculates=True).measured_factor(plans(1), prefill=False) == pytest.approx(math.exp(0.25))
    assert dense.for_role(speculates=True).measured_factor(plans(1), prefill=True) == 1.0
    assert Instances(dense, layouts=["tp1"]).subject.unseen == "subject"
    assert not Instances(dense, layouts=["tp1"]).subject.corrected


def test_what_all_models_have_counts_beside_what_was_measured() -> None:
    """Corrections of a model on a chip exclude the shared correction, which is added."""
    speculating = shared("llama_3_70b", "fp8").for_role(speculates=True)
    assert speculating.measured_factor(plans(4), prefill=False) == pytest.approx(math.exp(0.4 + 0.25))
    nearest = present(present(speculating.levels).level("tp4"))
    assert nearest.decode == pytest.approx(0.65)


def test_parts_of_a_step_add_up_with_the_level() -> None:
    """The displayed correction is the remainder of the step."""
    measured, some = setup(), plans(4)
    costs, bare = evaluate(measured, some, "1d"), evaluate(measured.unmeasured, some, "1d")
    assert sum(costs.parts.values()) == pytest.approx(costs.seconds)
    assert costs.seconds == pytest.approx(step_seconds(measured, some)[0])
    assert costs.parts["measured"] == pytest.approx((math.exp(0.3) - 1.0) * bare.seconds)
    assert "measured" not in bare.parts


def test_prompts_take_the_level_of_prompts() -> None:
    """The correction of prefill applies once, for any steps that process the prompt."""
    measured, some = setup(), plans(4)
    own, bare = (prefill(each, some, 20_000.0) for each in (measured, measured.unmeasured))
    assert own.seconds == pytest.approx(math.exp(0.5) * bare.seconds)
    assert own.chip_share == pytest.approx(bare.chip_share)


def test_steps_that_share_weights_save_no_more_than_they_take() -> None:
    """The saving of a mixed step is scaled by the smaller of both corrections."""
    measured, some = setup(), plans(4)
    saved, bare = (saved_seconds(each, some, 2000.0, 0.0, np.ones(1)) for each in (measured, measured.unmeasured))
    assert saved == pytest.approx(math.exp(0.3) * bare)


def test_what_a_setup_becomes_keeps_its_level() -> None:
    """A what-if of a chip has the same kernels."""
    measured = setup()
    faster = replace(measured, hardware=measured.hardware.replace(hbm_bytes_per_second=1e13))
    assert faster.measured_factor(plans(4), prefill=False) == pytest.approx(math.exp(0.3))


def test_intervals_near_measurements_are_those_of_levels() -> None:
    """A measured deployment has the remaining errors of its other loads; another layout has those of the profile."""
    near, far = (Instances(setup(), isl=2000.0, osl=1000.0, layouts=[layout]) for layout in ("tp4", "tp2"))
    assert near.subject.unseen == "load"
    assert far.subject.unseen == "deployment"
    likely = present(bounds.around(near, "tpot"))
    assert likely == pytest.approx((math.exp(-0.06), math.exp(0.06)))
    wide = present(interval(1.0, setup().assumptions, "tpot"))
    assert wide.high / wide.low > likely.high / likely.low
