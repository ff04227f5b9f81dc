"""Several frontiers in one comparison."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inference_econ as ie
from inference_econ import errors
from inference_econ.errors import NothingFitsError
from inference_econ.inputs import Settings, catalog
from inference_econ.records.plain import csv_text, json_text
from inference_econ.report.questions import compare
from inference_econ.studies.results import Curve
from inference_econ.studies.scenario import run
from tests import asking

SMALL: dict[str, Any] = {"max_instance_gpus": 2, "weights": "fp8"}


def _asked(given: dict[str, Any]) -> dict[str, Any]:
    asked = {"models": "llama_3_8b", "hardware": "h100_sxm", **SMALL, **given}
    if "series" in given:
        asked["series"] = {label: Settings(**own) for label, own in given["series"].items()}
    return asked


@pytest.mark.rows
def test_every_combination_is_a_series_labelled_by_what_differs(given: dict[str, Any], labels: list[str]) -> None:
    result = ie.compare(**_asked(given))
    assert [curve.label for curve in result.curves] == labels
    assert result.missing == {}
    assert result.scenario.ask.kind == "frontier"


def test_a_series_is_the_frontier_of_its_settings() -> None:
    common: dict[str, Any] = {"weights": "fp8", "kv": "fp8", "price": 2.5}
    steps = {"changes": ("assumptions.host.launch=0 us",), "decode_only": True, "isl": 100, "osl": 50}
    result = ie.compare("llama_3_8b", ["h100_sxm", "h200_sxm"], **{**SMALL, **common, **steps})
    assumed = ie.assumptions("profiles/hopper", changes=["host.launch=0 us"])
    for curve, chip in zip(result.curves, ("h100_sxm", "h200_sxm"), strict=True):
        lengths = ie.Traffic(isl=100, osl=50)
        alone = asking.frontier("llama_3_8b", chip, lengths, assumptions=assumed, max_accelerators=2, **common)
        assert curve.tokens_per_second.tolist() == alone.tokens_per_second.tolist()
        assert curve.dollars.tolist() == alone.dollars.tolist()


def test_further_series_take_what_is_common() -> None:
    fast_memory = Settings(changes=("hardware.hbm_bytes_per_second=6.7 TB/s",))
    series = {"fast HBM": fast_memory, "pinned": Settings(tp=2, batch=100, price=1.0)}
    result = ie.compare("llama_3_8b", "h100_sxm", series=series, decode_only=True, **SMALL)
    base, fast, pinned = result.curves
    assert base.label == "llama_3_8b on h100_sxm"
    assert fast.tokens_per_second[-1] > base.tokens_per_second[-1]
    assert set(pinned.batch) == {100.0}
    assert pinned.frontier is not None
    assert pinned.frontier.setup.precision.weights == "fp8"
    # Without a model and hardware for all, only the series that name their own.
    alone = ie.compare(series={"one": Settings(model="llama_3_8b", hardware="h100_sxm")}, **SMALL)
    assert [curve.label for curve in alone.curves] == ["one"]


def test_a_draft_model_proposes_to_every_engine() -> None:
    drafted = Settings(draft="llama_3_8b", acceptance=0.8, draft_length=3)
    series = {"plain": Settings(speculate=False), "drafted": drafted}
    result = ie.compare(series=series, model="llama_3_70b", hardware="h100_sxm", weights="fp8", tp=8)
    plain, draft = result.curves
    assert isinstance(plain.frontier, ie.ServiceFrontier) and isinstance(draft.frontier, ie.ServiceFrontier)
    assert {point.speculation for point in plain.frontier.points()} == {None}
    engines = {candidate.engine.partition(" ")[0] for candidate in draft.frontier.candidates}
    assert engines == {"sglang", "trtllm", "vllm"}
    assert all(candidate.speculation is not None for candidate in draft.frontier.candidates)
    assert draft.tokens_per_second[-1] > plain.tokens_per_second[-1]


def test_a_series_that_fits_nowhere_is_reported() -> None:
    result = ie.compare("llama_3_70b", ["l4", "h100_sxm"], price=1.0, max_instance_gpus=4)
    assert [curve.label for curve in result.curves] == ["h100_sxm"]
    assert result.missing["l4"].startswith("nothing fits: the weights of Llama 3.1 70B (bf16)")
    table = compare.comparison_table(result, [20.0, 50.0])
    assert [row[0] for row in table.rows] == ["l4", "h100_sxm"]
    assert "nothing fits" in table.rows[0]
    assert f"l4: {result.missing['l4']}" in table.every_note
    record = json.loads(json_text(result.record([20.0])))
    assert [one["label"] for one in record["series"]] == ["l4", "h100_sxm"]
    assert record["series"][0] == {"label": "l4", "points": [], "reason": result.missing["l4"]}
    rows = list(csv.DictReader(io.StringIO(csv_text(result.to_frame()))))
    assert rows[-1]["series"] == "l4"
    assert rows[-1]["reason"] == result.missing["l4"]
    assert {row["reason"] for row in rows[:-1]} == {""}
    # A scenario that is run as such stops where it did.
    with pytest.raises(NothingFitsError, match=r"nothing fits: the weights of Llama 3\.1 70B"):
        run(result.scenario)


def test_promises_of_a_comparison() -> None:
    chips = ["h100_sxm", "l4"]
    result = ie.compare("llama_3_8b", chips, price=1.0, tpot="10 ms", **SMALL)
    assert [curve.label for curve in result.curves] == ["h100_sxm"]
    assert result.missing["l4"].startswith("nothing keeps a mean TPOT of 10 ms")
    table = compare.comparison_table(result, [120.0])
    assert "; mean TPOT <= 10 ms" in table.title
    assert any(note.startswith("l4: nothing keeps a mean TPOT of 10 ms") for note in table.notes)


def test_users_files_are_labelled_by_their_name(tmp_path: Path) -> None:
    for name in ("one", "two"):
        text = (catalog.folder("hardware") / "h100_sxm.yaml").read_text(encoding="utf-8")
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    result = ie.compare("llama_3_8b", [str(tmp_path / "one.yaml"), str(tmp_path / "two.yaml")], **SMALL)
    assert [curve.label for curve in result.curves] == ["one", "two"]


@pytest.mark.rows
def test_compare_refuses(given: dict[str, Any], error: str, message: str) -> None:
    with pytest.raises(getattr(errors, error), match=message):
        ie.compare(**_asked(given))


def test_curves_are_shown_by_their_ends() -> None:
    curve = Curve("a", np.array([10.0, 20.0]), np.array([0.5, 2.0]), np.ones(2), np.ones(2))
    assert repr(curve) == "Curve('a': 2 points, 10 tokens/s at $0.5 to 20 at $2)"
    assert curve.fastest_at(1.0) is None
