"""Fits: recovered constants, little influence of outliers, stated unidentifiable constants, and errors of left-out
rows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inference_econ.engine import Subject, interval, outside, unlike_reasons
from inference_econ.engine.uncertainty import unlike
from inference_econ.errors import InputError
from inference_econ.extras import servers
from inference_econ.extras.servers import CONSTANTS, Fit, Measurement, Provenance, accuracy, conditions, profile
from inference_econ.extras.servers.fit import TARGETS, Fold, all_folds, cross_validated, fit, own_errors, with_constants
from inference_econ.extras.servers.measurements import Days, RecordedPool
from inference_econ.extras.servers.prediction.predict import predict
from inference_econ.inputs import Assumptions, Unlike, catalog, yaml_text
from inference_econ.inputs.presets.assumptions import field_names
from tests.measured import measurement
from tests.reading import present

#: No kernel curve exists for products with these weights or attention with this cache, so shares of the chip's peaks
#: apply.
ROW = measurement(
    source="", engine_version="", hardware="h100_sxm", dp=1, pp=1, ep=1, weights="int8", kv="int8", osl=200.0,
    concurrency=32.0,
)  # fmt: skip
MINE = Provenance("Mine", extends="deployable", data="my rows", reference="user", date="2026-01-01")
POOL = RecordedPool(workers=4, tp=8, dp=1, pp=1, ep=None)
NAMES = ("chip.math_efficiency", "chip.hbm_efficiency", "host.graph_launch")
TRUTH = (0.55, 0.82, 6e-6)


@cache
def _base() -> Assumptions:
    return catalog.assumptions("deployable")


def _measured(rows: list[Measurement], assumptions: Assumptions) -> list[Measurement]:
    """Return the rows with predictions under given assumptions."""
    return [
        replace(one.measurement, ttft_seconds=one.ttft_seconds, tpot_seconds=one.tpot_seconds)
        for one in predict(rows, lambda _: assumptions)
    ]


@cache
def _rows() -> tuple[Measurement, ...]:
    asked = [
        replace(ROW, id=f"{model} {tp} {count}", model=model, tp=tp, accelerators=tp, concurrency=float(count))
        for model, tp in (("llama_3_70b", 8), ("llama_3_70b", 4), ("llama_3_8b", 1))
        for count in (1, 4, 16, 64)
    ]
    return tuple(_measured(asked, with_constants(_base(), NAMES, TRUTH)))


@cache
def _found() -> Fit:
    return fit(_rows(), NAMES, _base(), targets=("tpot", "ttft"), prior=math.inf)


@cache
def _folds() -> dict[Unlike, list[Fold]]:
    return all_folds(_found())


def _saved(tmp_path: Path, data: dict[str, Any]) -> Assumptions:
    """Write and read a profile."""
    path = tmp_path / "mine.yaml"
    path.write_text(yaml_text(data), encoding="utf-8")
    return catalog.assumptions(str(path))


def test_constants_come_back() -> None:
    found = _found()
    assert found.values == pytest.approx(TRUTH, rel=0.01)
    assert found.unknown == ("", "", "")
    assert found.median_error("tpot") < 0.002
    assert np.all(found.log_errors < 0.4)
    assert found.assumptions.chip.hbm_efficiency == pytest.approx(0.82, rel=0.01)
    assert found.errors.shape == (12, 2)
    assert found.jacobian.shape == (12, 2, 3)


def test_rows_that_are_far_off_pull_hardly_at_all() -> None:
    rows = [replace(row, tpot_seconds=3.0 * (row.tpot_seconds or 0.0)) if index % 6 == 0 else row
            for index, row in enumerate(_rows())]  # fmt: skip
    found = fit(rows, NAMES, _base(), targets=("tpot", "ttft"), prior=math.inf)
    assert found.values == pytest.approx(TRUTH, rel=0.1)


def test_what_the_rows_do_not_see_stays_where_it_was_and_is_named() -> None:
    base = with_constants(_base(), ("experts.hbm_efficiency",), (0.6,))
    found = fit(_rows(), ("chip.hbm_efficiency", "experts.hbm_efficiency"), base)
    assert found.values[1] == pytest.approx(0.6, rel=1e-3)
    assert found.unknown[1] == "the measurements hardly determine it, so it stays near the base"
    alone = fit(_rows(), ("chip.hbm_efficiency", "experts.hbm_efficiency"), base, prior=math.inf)
    assert alone.unknown[1] == "the measurements do not depend on it"


def test_a_constant_at_its_bound_is_named() -> None:
    slow = [replace(row, tpot_seconds=(row.tpot_seconds or 0.0) / 3.0) for row in _rows()]
    found = fit(slow, ("chip.hbm_efficiency",), _base(), prior=math.inf)
    assert found.unknown == ("at its bound",)
    assert found.values[0] == pytest.approx(CONSTANTS["chip.hbm_efficiency"].high, rel=0.02)


def test_less_freedom_stays_nearer_to_the_base() -> None:
    near, far = (fit(_rows(), ("chip.hbm_efficiency",), _base(), prior=prior).values[0] for prior in (0.05, 10.0))
    assert abs(near - _base().chip.hbm_efficiency) < abs(far - _base().chip.hbm_efficiency)


def test_progress_is_told() -> None:
    shares: list[float] = []
    fit(_rows(), ("chip.hbm_efficiency",), _base(), progress=lambda share, _: shares.append(share))
    assert shares == sorted(shares)
    assert 0.0 < shares[0] <= shares[-1] < 1.0


@pytest.mark.rows
def test_bad_questions(names: list[str] | None, targets: list[str], prior: float, said: str) -> None:
    """The row without names fits all constants."""
    names = list(CONSTANTS) if names is None else names
    with pytest.raises(InputError) as error:
        fit(_rows(), tuple(names), _base(), targets=tuple(targets), prior=prior)
    assert said.format(len(CONSTANTS)) in str(error.value)


def test_rows_that_cannot_be_predicted_are_left_out() -> None:
    broken = replace(ROW, tp=7, accelerators=7, tpot_seconds=0.02)
    assert len(fit([*_rows(), broken], ("chip.hbm_efficiency",), _base()).rows) == 12
    with pytest.raises(InputError, match="got 0 of 1; fit fewer constants or give more rows"):
        fit([broken], ("chip.hbm_efficiency",), _base())


def test_rows_left_out_are_predicted_by_the_others() -> None:
    folds = cross_validated(_found(), "model")
    assert [fold.left_out for fold in folds] == ["llama_3_70b", "llama_3_8b"]
    assert [len(fold.rows) for fold in folds] == [8, 4]
    for fold in folds:
        assert fold.values == pytest.approx(TRUTH, rel=0.05)
        assert np.all(np.abs(fold.errors) < 0.05)
    assert cross_validated(_found(), "hardware") == []
    each = _folds()
    assert {by: len(found) for by, found in each.items()} == {
        "traffic": 0, "version": 0, "layout": 3, "subject": 2, "model": 2, "hardware": 0, "engine": 0
    }  # fmt: skip
    shares: list[float] = []
    all_folds(_found(), progress=lambda share, _: shares.append(share))
    assert shares == sorted(shares)
    assert shares[-1] < 1.0
    # A deployment under one version is a run: the larger model has two layouts.
    assert [[run.size for run in group] for group in servers.held_out(each, "model", 0)] == [[4, 4], [4]]
    assert [[run.size for run in group] for group in servers.held_out(each, "layout", 1)] == [[4], [4], [4]]


def test_intervals_of_four_fifths_hold_about_as_many_rows_left_out() -> None:
    # Each model and layout has an offset, and each row another one.
    chance = np.random.default_rng(3)
    names = ("llama_3_70b", "llama_3_8b", "qwen3_8b", "qwen3_32b", "mistral_7b", "llama_2_7b")
    rows = [
        replace(ROW, id=f"{name} {count}", model=name, tp=4, accelerators=4, weights=None, concurrency=float(count))
        for name in names for count in range(1, 61, 2)
    ]  # fmt: skip
    off = {name: chance.normal(0.0, 0.05) for name in names}
    rows = [
        replace(row, tpot_seconds=(row.tpot_seconds or 0.0) * math.exp(off[row.model] + chance.normal(0.0, 0.1)))
        for row in _measured(rows, _base())
    ]
    found = fit(rows, ("chip.hbm_efficiency", "host.graph_launch"), _base())
    groups = servers.held_out(all_folds(found), "model", 0)
    assert len(groups) == 6
    assert 0.7 <= servers.coverage(groups) <= 0.9
    assert math.isnan(servers.coverage(groups[:1]))


def test_errors_where_nothing_could_be_left_out_are_widened_by_those_of_the_constants() -> None:
    found = _found()
    ((wide,),) = own_errors(found, 0)
    assert np.all(np.abs(wide) >= np.abs(found.errors[:, 0]))


def test_rows_that_were_fitted_are_known(tmp_path: Path) -> None:
    path, found = tmp_path / "mine.yaml", _found()
    mine = _saved(tmp_path, profile(found, _folds(), MINE))
    behind = present(accuracy.calibration_behind(mine))
    assert behind == mine.calibration
    assert all(accuracy.was_fitted(row, behind) for row in found.rows)
    # Another load or file of a deployment is no other deployment; another layout or length is.
    row = _rows()[0]
    for same in (replace(row, concurrency=77.0), replace(row, dataset="yours", id="b"), replace(row, isl=1000)):
        assert accuracy.was_fitted(same, behind), same
    for other in (replace(row, tp=2), replace(row, isl=5e2), replace(row, engine="sglang"), replace(row, decode=POOL)):
        assert accuracy.was_fitted(other, behind) is False
    assert accuracy.was_fitted(_rows()[0], accuracy.calibration_behind(_base())) is False
    assert accuracy.was_fitted(_rows()[0], behind.model_copy(update={"deployments": ""})) is None
    # A new name changes no constant, so the errors of the fit remain.
    (tmp_path / "next.yaml").write_text(f"extends: {path}\nname: Next\n", encoding="utf-8")
    named = catalog.assumptions(str(tmp_path / "next.yaml"))
    assert named.calibration == behind
    assert interval(0.01, named) == interval(0.01, mine)
    # A change of a fit has no errors, but includes the fitted rows.
    (tmp_path / "changed.yaml").write_text(
        f"extends: {path}\nname: Changed\nhost: {{graph_launch: 3 us}}\n"
        "sources: {host.graph_launch: {ref: user, where: a test, kind: what_if}}\n",
        encoding="utf-8",
    )
    for later in (
        catalog.assumptions(str(tmp_path / "changed.yaml")),
        catalog.assumptions(str(path), changes=["host.graph_launch=3 us"]),
        catalog.assumptions(str(tmp_path / "next.yaml"), changes=["host.graph_launch=3 us"]),
    ):
        assert later.calibration is None
        assert accuracy.calibration_behind(later) == behind
        assert interval(0.01, later) is None


def test_a_fit_that_begins_with_another_has_seen_its_rows_too(tmp_path: Path) -> None:
    path, found = tmp_path / "mine.yaml", _found()
    known = present(_saved(tmp_path, profile(found, _folds(), MINE)).calibration)
    for changes in ((), ("host.graph_launch=3 us",)):
        base = catalog.assumptions(str(path), changes=changes)
        again = fit([replace(row, isl=999.0) for row in _rows()], ("chip.hbm_efficiency",), base)
        fitted_again = profile(again, {}, MINE)["calibration"]
        keys = {accuracy.deployment_key(row) for row in (*found.rows, *again.rows)}
        assert keys == set(fitted_again["deployments"].split())
        # One group has little weight against the base.
        mine = fitted_again["errors"]["model"]["tpot"]["quantiles"]
        before = known.errors["model"]["tpot"].quantiles
        assert mine[-1] - mine[0] >= before[-1] - before[0]
        assert mine[-1] >= before[-1]


@pytest.mark.rows
def test_intervals_of_the_base_are_told_with_its_rows(
    tmp_path: Path, groups: int | None, quantiles: list[float], said: dict[str, int]
) -> None:
    data = profile(_found(), {}, MINE)
    data["calibration"]["errors"]["model"] = {"tpot": {
        "rows": 345, **({} if groups is None else {"groups": groups}), "quantiles": quantiles
    }}  # fmt: skip
    base = _saved(tmp_path, data)
    # Every other step was measured a tenth longer than it is predicted.
    rows = [
        replace(row, tpot_seconds=None if row.tpot_seconds is None else row.tpot_seconds * (1.0 + 0.1 * (index % 2)))
        for index, row in enumerate(_rows()[:8])
    ]
    again = fit(rows, ("chip.hbm_efficiency",), base)
    spread = profile(again, {}, MINE)["calibration"]["errors"]["model"]["tpot"]
    assert {key: spread[key] for key in ("rows", "own", "groups") if key in spread} == said


def test_thinning_keeps_whole_deployments() -> None:
    few = servers.thinned(_rows(), 2)
    assert len(few) == 8
    assert {(row.model, row.tp) for row in few} == {("llama_3_70b", 8), ("llama_3_8b", 1)}
    assert servers.thinned(_rows(), 3) == list(_rows())


def test_rows_are_chosen_by_what_they_are() -> None:
    rows = list(_rows())
    odd = [
        replace(ROW, id="fast", speculation="MTP", tpot_seconds=0.001),
        replace(ROW, id="poor", quality="C", tpot_seconds=0.002),
        replace(ROW, id="other", engine="sglang", tpot_seconds=0.003),
    ]
    kept, reasons = servers.chosen(
        [*rows, *odd, rows[0], servers.Skipped("x", "mine", "broken")], conditions("engine=vllm")
    )
    assert kept == rows
    assert reasons == {
        "not understood": 1,
        "repeats another row": 1,
        "speculative decoding": 1,
        "of poor quality": 1,
        "not asked for": 1,
    }
    assert [row.id for row in servers.chosen(odd, conditions("quality=c"))[0]] == ["poor"]
    assert servers.chosen(rows, (), [conditions("model=llama_3_70b,tp!=8")])[0] == [row for row in rows if row.tp != 4]


@pytest.mark.rows
def test_conditions_that_are_none(text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        conditions(text)
    assert said in str(error.value)


def test_a_profile_is_a_preset(tmp_path: Path) -> None:
    found = _found()
    provenance = replace(MINE, changes=("experts.spread=random", "chip.math_efficiency=0.5"))
    read = _saved(tmp_path, profile(found, _folds(), provenance))
    assert read.name == "Mine"
    assert read.experts.spread == "random"
    assert read.chip.math_efficiency == pytest.approx(0.55, rel=0.01)
    assert read.host.graph_launch == pytest.approx(6e-6, rel=0.01)
    # The base has another value for this family, which would hide the fitted one.
    chip = catalog.hardware("h200_sxm")
    assert _base().for_chip(chip).chip.math_efficiency == 0.7
    assert read.for_chip(chip).chip.math_efficiency == read.chip.math_efficiency
    assert read.sources["host.graph_launch"].kind == "derived"
    assert "12 rows of my rows" in read.sources["calibration"].where
    assert read.calibration is not None
    assert read.calibration.measured is None
    dated = [
        replace(row, days=Days(date(2025, 12, 1 + index), date(2026, 1, 1 + index)))
        for index, row in enumerate(found.rows)
    ]
    again = profile(replace(found, rows=(*dated[:2], *found.rows[2:])), _folds(), provenance)
    assert again["calibration"]["measured"] == {"since": "2025-12-01", "until": "2026-01-02"}
    assert read.calibration.models == ("llama_3_70b", "llama_3_8b")
    assert read.calibration.parameters.high == pytest.approx(7.06e10, rel=1e-3)
    assert (read.calibration.accelerators.low, read.calibration.accelerators.high) == (1, 8)
    # All rows are of one version of one engine on one chip.
    assert set(read.calibration.errors) == {"traffic", "layout", "subject", "model"}
    assert all(set(errors) == {"tpot", "ttft"} for errors in read.calibration.errors.values())
    assert read.calibration.subjects == (
        "vllm / NVIDIA H100 SXM5 80GB / Llama 3.1 70B",
        "vllm / NVIDIA H100 SXM5 80GB / Llama 3.1 8B",
    )
    assert set(read.calibration.subjects) == {one.name for one in read.calibration.left_out if one.by == "subject"}
    assert [(one.by, one.name, one.rows) for one in read.calibration.left_out][:2] == [
        ("model", "llama_3_70b", 8),
        ("model", "llama_3_8b", 4),
    ]
    assert read.calibration.errors["model"]["tpot"].groups == 2
    assert read.calibration.errors["layout"]["tpot"].groups == 3
    assert read.calibration.undetermined == ()


def test_intervals_come_from_the_errors_of_rows_left_out(tmp_path: Path) -> None:
    data = profile(_found(), {}, MINE)
    narrow = [-0.2, -0.1, -0.05, 0.0, 0.05, 0.1, 0.2]
    wide = {
        kind: {"tpot": {"rows": 9, "quantiles": [factor * error for error in narrow]}}
        for kind, factor in (("traffic", 1), ("version", 2), ("layout", 3), ("subject", 4), ("model", 5), ("engine", 6))
    }
    data["calibration"] |= {"errors": wide, "versions": ["vllm 0.9.1"]}
    mine = _saved(tmp_path, data)
    # Without a subject, the interval is the widest.
    widest = present(interval(0.01, mine, level=0.8))
    assert (widest.low, widest.high) == pytest.approx((0.01 * math.exp(-0.6), 0.01 * math.exp(0.6)))
    wider = present(interval(0.01, mine, level=0.9))
    assert wider.high > widest.high
    assert interval(0.01, mine, "throughput") is None
    for change, kinds, factor in (
        ({}, {"traffic"}, 1),
        ({"engine_version": "0.10.0"}, {"traffic", "version"}, 2),
        ({"engine_version": ""}, {"traffic", "version"}, 2),
        ({"tp": 2, "accelerators": 2}, {"traffic", "layout"}, 3),
        ({"model": "qwen3_8b"}, {"traffic", "model"}, 5),
        ({"engine": "sglang"}, {"traffic", "version", "subject", "engine"}, 6),
        ({"engine": ""}, {"traffic", "version", "subject", "engine"}, 6),
        # Without the chip no errors are known, so the known ones apply.
        ({"hardware": "h100_nvl"}, {"traffic", "hardware"}, 1),
    ):
        subject = accuracy.measured_subject(replace(_rows()[0], **{"engine_version": "0.9.1"} | change))
        assert unlike(subject, mine) == kinds, change
        likely = present(interval(1.0, mine, subjects=[subject]))
        assert math.log(likely.high) == pytest.approx(0.1 * factor), change
    # With several subjects, the one with the widest interval decides.
    several = [accuracy.measured_subject(replace(_rows()[0], model=model)) for model in ("qwen3_8b", "llama_3_8b")]
    assert interval(0.01, mine, subjects=several) == interval(0.01, mine, subjects=several[:1])
    assert interval(0.01, _base()) is None
    with pytest.raises(InputError, match=r"level: must be from 0 to 0\.9, got 0\.95"):
        interval(0.01, mine, level=0.95)


def test_questions_outside_of_what_was_measured(tmp_path: Path) -> None:
    mine = _saved(tmp_path, profile(_found(), {}, MINE))
    assert outside(accuracy.measured_subject(_rows()[0]), mine) == []
    other = replace(ROW, hardware="b200", model="deepseek_v3", isl=1e5)
    assert outside(accuracy.measured_subject(other), _base()) == []
    far = replace(ROW, hardware="b200", model="deepseek_v3", weights=None, engine="sglang", isl=1e5, osl=2e3,
                  concurrency=4096.0)  # fmt: skip
    assert outside(accuracy.measured_subject(far), mine) == [
        "the profile was fitted on h100, not on blackwell GPUs",
        "sglang was not measured, only vllm",
        "the profile was fitted with int8, not with fp8_block weights",
        "the model has 671 billion parameters (measured: 8.03 to 70.55)",
        "ISL is 100,000 (measured: 1000)",
        "OSL is 2000 (measured: 200)",
        "the load is 512 concurrent requests per GPU (measured: 0.125 to 64)",
    ]
    asked = Subject(catalog.model("llama_3_70b"), catalog.hardware("h100_sxm"), "int8", accelerators=16)
    assert outside(asked, mine) == ["an instance has 16 GPUs (measured: 1 to 8)"]
    assert [one.kind for one in unlike_reasons(asked, mine)] == ["GPUs outside the measured range"]
    # For two pools, the larger worker decides, as in the fit; each of them has its requests.
    pools = replace(_rows()[0], tp=None, prefill=POOL, decode=POOL, accelerators=64, concurrency=64.0)
    assert outside(accuracy.measured_subject(pools), mine) == []
    assert accuracy.instance_chips(pools) == 8.0
    assert accuracy.instance_chips(replace(pools, prefill=None, decode=None)) is None
    assert accuracy.requests_per_accelerator(pools) == 1.0
    assert accuracy.requests_per_accelerator(replace(pools, load="rate")) is None


def test_chips_and_models_that_are_changed_were_not_measured(tmp_path: Path) -> None:
    mine = _saved(tmp_path, profile(_found(), {}, MINE))
    model, chip = catalog.model("llama_3_70b"), catalog.hardware("h100_sxm")
    assert unlike(Subject(model, chip, "int8"), mine) == {"traffic", "version"}
    fast = catalog.hardware("h100_sxm", changes=["hbm_bytes_per_second=30 TB/s"])
    assert outside(Subject(model, fast, "int8"), mine) == ["the hardware has changed values (hbm_bytes_per_second)"]
    assert "hardware" in unlike(Subject(model, fast, "int8"), mine)
    other = catalog.model("llama_3_70b", changes=["vocab_size=1000"])
    assert outside(Subject(other, chip, "int8"), mine) == ["the model has changed values (vocab_size)"]
    # No time depends on power.
    assert outside(Subject(model, catalog.hardware("h100_sxm", changes=["watts=1 kW"]), "int8"), mine) == []


def test_every_constant_is_a_field_with_a_place_inside_its_bounds() -> None:
    for name, one in CONSTANTS.items():
        assert name in field_names()
        assert one.low < one.start < one.high
    assert set(TARGETS) == {"tpot", "ttft", "request", "throughput"}
