"""Readers of published tables: layouts, metrics and units, loads, and a reason for every invalid row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from data.measurements.published import KINDS
from inference_econ.extras.servers.measurements import Measurement, RecordedPool, Skipped
from inference_econ.extras.servers.measurements._tables import rows as rows_of
from inference_econ.extras.servers.measurements._tables import suspect_speculation
from tests.reading import has_fields, only, tables, write_csv

TABLES: dict[str, dict[str, str]] = tables(Path(__file__))
POINT, SERVED, SHORT, NIGHTLY = (TABLES[name] for name in ("POINT", "SERVED", "SHORT", "NIGHTLY"))


def _read(tmp_path: Path, *rows: dict[str, str]) -> list[Measurement | Skipped]:
    return rows_of(write_csv(tmp_path / "mine.csv", rows), KINDS)[1]


def _point(tmp_path: Path, **changes: str) -> Measurement:
    return only(Measurement, _read(tmp_path, POINT | changes))


def _served(tmp_path: Path, **changes: str) -> Measurement:
    return only(Measurement, _read(tmp_path, SERVED | changes))


def test_the_batch_of_one_decode_worker_says_how_many_there_are(tmp_path: Path) -> None:
    row = TABLES["DISAGGREGATED"]
    assert _served(tmp_path, **row).decode == RecordedPool(workers=None, tp=1, dp=8, pp=1, ep=8)
    one = _served(tmp_path, **row, decode_batch_size="32.0")
    assert one.decode == RecordedPool(workers=3, tp=1, dp=8, pp=1, ep=8)
    assert (one.prefill, one.accelerators) == (RecordedPool(workers=None, tp=8, dp=1, pp=1, ep=None), None)
    assert one.remarks == ("decode_num_workers 3 is inferred from the batch of one",)


def test_degrees_of_nightly_pools_that_a_script_sets(tmp_path: Path) -> None:
    """With attention-DP every accelerator of a worker is a group; rates are of all accelerators together."""
    one = only(Measurement, _read(tmp_path, NIGHTLY))
    assert one.prefill == RecordedPool(workers=1, tp=1, dp=4, pp=1, ep=4)
    assert one.decode == RecordedPool(workers=2, tp=8, dp=1, pp=1, ep=8)
    assert (one.accelerators, one.concurrency, one.ttft_seconds, one.speculation) == (20, 64.0, 0.5, "none")
    assert one.output_tokens_per_second_per_accelerator == one.input_tokens_per_second_per_accelerator == 100.0
    odd = only(Skipped, _read(tmp_path, NIGHTLY | {"num_decode_gpu": "15"}))
    assert odd.reason == "num_decode_gpu 15 are no multiple of 2 workers"


def test_a_busier_server_that_is_faster_is_suspected(tmp_path: Path) -> None:
    times = (("4", "10"), ("4", "9.5"), ("8", "8"), ("2", "8"))
    rows = [SHORT | {"silicon_concurrency": users, "silicon_tpot_ms": time} for users, time in times]
    plain, noise, fast, other = suspect_speculation(_read(tmp_path, *rows))
    assert [getattr(one, "speculation", "") for one in (plain, noise, other)] == ["unrecorded"] * 3
    assert isinstance(fast, Measurement)
    assert fast.speculation == "suspected"
    assert fast.remarks == ("1.2 times as fast as a run of the same description that was no busier",)


@pytest.mark.rows
def test_layouts_of_whole_servers(tmp_path: Path, changes: dict[str, str], layout: list[int]) -> None:
    one = _served(tmp_path, **changes)
    assert (one.accelerators, one.tp, one.dp, one.ep) == tuple(layout)
    assert one.concurrency == 64.0


def test_concurrency_for_want_of_a_column(tmp_path: Path) -> None:
    changes = {"silicon_concurrency": "", "batch_size": "4", "tp_size": "1", "attention_dp_size": "8"}
    assert _served(tmp_path, **changes, moe_tp_size="1", moe_ep_size="8").concurrency == 32.0


@pytest.mark.rows
def test_fields_of_points(tmp_path: Path, cells: dict[str, str], fields: dict[str, Any]) -> None:
    assert has_fields(_point(tmp_path, **cells), fields)


def test_a_checkpoint_of_its_own(tmp_path: Path) -> None:
    one = _served(tmp_path, precision="fp4")
    assert (one.model, one.weights) == ("deepseek_v3_nvfp4", None)


@pytest.mark.rows
def test_rows_that_cannot_be_used_say_why(tmp_path: Path, changes: dict[str, str], reason: str) -> None:
    assert _read(tmp_path, POINT | changes) == [Skipped("p", "mine", reason)]


@pytest.mark.rows
def test_servers_that_cannot_be_used_say_why(tmp_path: Path, changes: dict[str, str], reason: str) -> None:
    row = SHORT | {"silicon_tpot_ms": "9", "silicon_concurrency": "1", "batch_size": "1"} | changes
    (found,) = _read(tmp_path, row)
    assert found == Skipped("row 1", "mine", reason)


def test_compiled_engines(tmp_path: Path) -> None:
    assert _point(tmp_path, engine="TensorRT-LLM v0.9.0").compiled
    assert not _point(tmp_path, engine="TensorRT-LLM 1.0").compiled
