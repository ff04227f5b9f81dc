"""The cost benchmark: its file, outliers, exclusions, and failure if a result is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.validation import ruler
from benchmarks.validation.costs import Combination, CostPoint, Curves, cost_score
from data.levels.judged import deployment_of
from inference_econ.answers.deployments.serving_options import Arrangement
from inference_econ.errors import InputError
from inference_econ.inputs import catalog
from tests import offered
from tests.measured import small_server
from tests.reading import present

ASKED = Combination("llama_3_8b", "h100_sxm", "fp8", 1000.0, 101.0)
SERVER = small_server()
GROUPS = {
    ASKED: [
        replace(SERVER, id=f"{speed}", concurrency=400.0 / speed, tpot_seconds=1.0 / speed) for speed in (200, 100, 50)
    ]
}


def _point(ratio: float | None, **changes: Any) -> CostPoint:
    point = CostPoint(
        id="x", series="aggregated", subject="", assumptions="", unit="", measured=1.0, predicted=ratio,
        combination="a model on a chip", engine="vllm", chips="hopper", tokens_per_second=50.0, fastest=False,
    )  # fmt: skip
    return replace(point, **changes)


@pytest.fixture(autouse=True)
def corrections(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Remove all measured corrections."""
    known: dict[str, Any] = {deployment_of(SERVER): None}
    monkeypatch.setattr(ruler, "_without", lambda: known)
    return known


def _market(fastest: float) -> Any:
    """Return candidates of one layout, with a bill of 1 dollar at any speed up to the fastest."""

    def market(asked: Combination, assumptions: str | None, arrangement: Arrangement) -> Sequence[Curves]:
        flights = np.array([[8.0, 1.0]])
        services = offered.curves_of(asked, assumptions, arrangement)[0].services.take(np.array([0]))
        return [Curves(services, np.array([[1.0, fastest]]), np.ones((1, 2)), np.ones((1, 2)), flights)]

    return market


def test_a_score_has_the_tail_and_the_width_of_intervals() -> None:
    points = [_point(ratio, low=0.5, high=0.5 * width) for ratio, width in ((1.0, 2.0), (2.0, 4.0), (4.0, 8.0))]
    score = cost_score([*points, _point(None, low=0.5), _point(None, out_of_reach=True)])
    assert score.p90 == pytest.approx(np.quantile(np.log([1.0, 2.0, 4.0]), 0.9))
    assert score.width == 4.0
    assert score.out_of_reach == 0.25


def test_a_recorded_row_is_read_as_it_was() -> None:
    rows = [ruler.Row(_point(2.0, low=1.5, inside=False)), ruler.Row(_point(None, id="y", out_of_reach=True), "spoilt")]
    text = ruler.written(rows)
    assert text.splitlines()[0] == ",".join(ruler.COLUMNS)
    assert list(ruler.read(text).values()) == rows


def test_an_answer_that_is_gone_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page = tmp_path / "ruler.csv", tmp_path / "costs.md"
    assert ruler.run(GROUPS, _market(250.0), record=True, path=path, page=page) == 0
    assert len(ruler.read(path.read_text())) == 3
    capsys.readouterr()
    assert ruler.run(GROUPS, _market(150.0), path=path, page=page) == 1
    assert capsys.readouterr().err == "validate costs: 1 rows had an answer and have none: mine/200\n"
    assert "## As recorded" in page.read_text()


def test_a_run_that_is_faster_than_an_emptier_one_is_an_outlier() -> None:
    slow = replace(SERVER, id="slow", concurrency=4.0, tpot_seconds=0.02)
    busy = replace(SERVER, concurrency=16.0)
    assert "faster than slow" in ruler.outlier(busy, [slow, busy])
    assert not ruler.outlier(replace(busy, concurrency=15.0), [slow])
    assert not ruler.outlier(replace(busy, engine_version="0.13"), [slow])
    assert "512" in ruler.outlier(replace(SERVER, model="gpt_oss_120b", concurrency=512.0), [])


def test_corrections_are_read_without_a_deployment(corrections: dict[str, Any]) -> None:
    levels = present(catalog.assumptions("profiles/vllm_hopper").levels)
    subject = levels.subjects[0]
    row = replace(SERVER, model=subject.model, hardware=subject.hardware)
    missing = r"a: no corrections without its deployment; run 'sh run.sh refit levels'"
    with pytest.raises(InputError, match=missing), ruler.left_out(row):
        pass
    kept = {**subject.model_dump(mode="json", exclude_defaults=True), "decode": 0.5}
    corrections[deployment_of(row)] = {"subjects": [kept]}
    with ruler.left_out(row):
        inside = present(catalog.assumptions("profiles/vllm_hopper").levels)
        assert inside.subjects[-1].decode == 0.5
        assert len(inside.subjects) == len(levels.subjects)
    assert catalog.assumptions("profiles/vllm_hopper").levels == levels
