"""Reported memory compared with the capacity check, with hand calculations."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import components
from benchmarks.compared_point import ComparedPoint
from benchmarks.components import DATASETS
from inference_econ.engine import memory
from inference_econ.errors import InputError
from inference_econ.inputs import Precision, catalog
from tests.reading import tables, write_csv

#: MLA caches a latent of 512 and a rope key of 64 per layer, in 8 bits.
PER_TOKEN = 61 * (512 + 64)
B200 = {"model": "DeepSeek-R1", "hardware": "B200-180GB SXM", "n_gpus": "8", "parallelism": "attention DP8, EP8"}
ROW = {**B200, "weight_dtype": "nvfp4", "item": "checkpoint FP4", "value": "400", "unit": "GB"}
#: Columns that may be blank, by purpose.
NAMED = (
    *("id", *DATASETS["memory"].columns, "source_id", "notes", "memory", "proposer", "tower"),
    *("engine", "engine_version", "context", "batch"),
)


def _compare(tmp_path: Path, *rows: dict[str, str], assumptions: str = "deployable") -> list[ComparedPoint]:
    path = write_csv(tmp_path / "mine.csv", rows, NAMED)
    return list(components.validate("memory", file=path, assumptions=[assumptions]).points)


@pytest.fixture(scope="module")
def points() -> dict[str, ComparedPoint]:
    return {point.id: point for point in components.validate("memory").points}


def test_every_row_has_a_prediction(points: dict[str, ComparedPoint]) -> None:
    assert list(points) == [f"M{number:04d}" for number in range(7, 73)]
    assert all(point.predicted is not None for point in points.values())


def test_every_logged_row_says_where_its_log_can_be_read() -> None:
    text = catalog.measured_files()["memory_points"].read_text(encoding="utf-8")
    logged = [row for row in csv.DictReader(text.splitlines()) if row["engine"]]
    assert len(logged) > 40
    assert all("https://" in row["source"] for row in logged)


def test_tokens_of_a_cache_by_hand(points: dict[str, ComparedPoint]) -> None:
    assert points["M0009"].predicted == points["M0012"].predicted == PER_TOKEN == 35136
    assert points["M0007"].predicted == pytest.approx(21.22e9 / PER_TOKEN, rel=1e-12)
    assert points["M0010"].predicted == pytest.approx(23.21e9 / PER_TOKEN, rel=1e-12)
    # The memory is printed to four digits.
    for row in ("M0007", "M0010"):
        assert abs(points[row].log_error or 1.0) < 5e-4


def test_cache_of_a_request_by_hand(points: dict[str, ComparedPoint]) -> None:
    assert points["M0015"].predicted == pytest.approx(3 * 1024 * PER_TOKEN / 1e6, rel=1e-12)
    assert "215.9 with a 16-bit cache" in points["M0015"].note
    free, requests = points["M0014"].predicted, points["M0016"].predicted
    assert free is not None
    assert requests == pytest.approx(free * 1e9 / (3 * 1024 * PER_TOKEN), rel=1e-12)
    assert "453" in points["M0016"].note


def test_weights_and_what_they_leave_are_the_usable_memory(points: dict[str, ComparedPoint]) -> None:
    used, free = points["M0013"].predicted, points["M0014"].predicted
    assert used is not None and free is not None
    share = catalog.assumptions("deployable").capacity.usable_memory
    assert used + free == pytest.approx(share * catalog.hardware("b200").hbm_bytes / 1e9, rel=1e-12)
    # The document states about 80 and about 100.
    assert used == pytest.approx(80, rel=0.12)
    assert free == pytest.approx(100, rel=0.05)


def test_checkpoints_have_their_format(points: dict[str, ComparedPoint]) -> None:
    for row, name in (("M0017", "deepseek_v3_nvfp4"), ("M0018", "deepseek_v3")):
        model = catalog.model(name)
        precision = Precision.of(model)
        # Rows of a checkpoint with attention, output projections included, in 16 bits.
        precision = replace(precision, attention_output=precision.attention)
        assert points[row].predicted == pytest.approx(memory.weight_bytes(model, precision) / 1e9, rel=1e-12)
    assert "626.8 in units of 2^30" in points["M0018"].note
    assert '"about"' in points["M0018"].note


def test_what_agrees_needs_no_remark(points: dict[str, ComparedPoint]) -> None:
    for point in points.values():
        assert bool(point.note) == (abs((point.predicted or 0.0) / (point.measured or 1.0) - 1.0) > 0.02), point


def test_layouts(tmp_path: Path) -> None:
    used = {**ROW, "item": "weights + activations per GPU", "value": "80"}
    apart, bare, together = _compare(
        tmp_path, used, {**used, "parallelism": "EP"}, {**used, "parallelism": "TP8, EP8", "value": "50"}
    )
    assert apart.predicted == bare.predicted
    # Attention once over all chips instead of once on each.
    assert apart.predicted is not None and together.predicted is not None
    assert apart.predicted - together.predicted > 12


def test_a_dense_model_under_tensor_parallelism(tmp_path: Path) -> None:
    llama = {"model": "Llama-3.1-70B-Instruct", "hardware": "H100", "n_gpus": "8", "parallelism": "TP8"}
    rows = [
        {**llama, "item": "checkpoint BF16", "value": "141", "unit": "GB"},
        {**llama, "item": "KV bytes per token", "value": "320", "unit": "kB", "kv_dtype": "bf16"},
        {**llama, "item": "KV per request", "value": "640", "unit": "MB", "kv_dtype": "fp8", "context": "2048"},
    ]
    weights, token, request = _compare(tmp_path, *rows)
    assert weights.predicted == pytest.approx(2 * catalog.model("llama_3_70b").total_parameters / 1e9, rel=1e-12)
    assert token.predicted == pytest.approx(2 * 80 * 8 * 128 * 2 / 1e3, rel=1e-12)
    assert request.predicted == pytest.approx(2048 * 2 * 80 * 8 * 128 / 1e6, rel=1e-12)


@pytest.mark.rows
def test_a_row_that_cannot_be_compared(tmp_path: Path, changes: dict[str, str], reason: str) -> None:
    (point,) = _compare(tmp_path, {**ROW, **changes})
    assert (point.predicted, point.note) == (None, reason)


@pytest.mark.rows
def test_numbers_that_are_none_are_errors(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _compare(tmp_path, {**ROW, **changes})


LOGGED: dict[str, str] = tables(Path(__file__))["LOGGED"]


def test_rows_say_what_was_loaded_and_how_much_memory_there_was(tmp_path: Path) -> None:
    rows = [LOGGED, {**LOGGED, "proposer": "mtp 3"}, {**LOGGED, "tower": "no"}, {**LOGGED, "memory": "48 GiB"}]
    usual, drafting, text, larger = (point.predicted or 0.0 for point in _compare(tmp_path, *rows))
    assert drafting < usual < text < larger
    # 16.16 GiB more on two chips at a share of 0.92, in pages of 784 tokens. A page has 2 x 4 x 256 elements in 16
    # layers, and a request has six states for its 335 pages.
    page = 784 * 2 * 4 * 256 * 2 * 16
    more = 2 * (48 * 2**30 - 32_607 * 2**20) * 0.92 / page / (335 + 6) * 262_144
    assert larger - usual == pytest.approx(more, rel=0.02)


def test_a_proposer_that_is_not_understood_is_said(tmp_path: Path) -> None:
    (point,) = _compare(tmp_path, {**LOGGED, "proposer": "medusa"})
    assert point.predicted is None
    assert "the speculation method 'medusa' is not understood; write for example 'mtp 2'" in point.note
