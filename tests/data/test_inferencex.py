"""InferenceX rows and their missing values: from the table of scripts, or absent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from data.measurements.tables import collected
from inference_econ.extras.servers import Measurement, Skipped
from inference_econ.extras.servers.measurements import engine_name
from tests.reading import has_fields, only, tables, write_csv

TABLES: dict[str, Any] = tables(Path(__file__))
#: Rows of both collections, and what the rows of other servers change.
SERVING, NIGHTLY, RUNS = (TABLES[name] for name in ("SERVING", "NIGHTLY", "RUNS"))


def _read(path: Path, *rows: dict[str, str]) -> list[Measurement | Skipped]:
    return collected(write_csv(path, rows))


def _one(tmp_path: Path, row: dict[str, str], **changes: str) -> Measurement:
    return only(Measurement, _read(tmp_path / "mine.csv", row | changes))


def _reason(tmp_path: Path, **changes: str) -> str:
    found = only(Skipped, _read(tmp_path / "mine.csv", SERVING | changes))
    return found.reason


@pytest.mark.rows
def test_facts_of_rows(tmp_path: Path, row: str, changes: dict[str, str], facts: dict[str, Any]) -> None:
    """Engine settings in scripts, layouts and checkpoints; a row without a script has none."""
    assert has_fields(_one(tmp_path, SERVING | RUNS[row] if row != "NIGHTLY" else NIGHTLY, **changes), facts)


@pytest.mark.rows
def test_remarks_of_rows(tmp_path: Path, row: str, changes: dict[str, str], remark: str) -> None:
    assert remark in _one(tmp_path, SERVING | RUNS[row], **changes).remarks


def test_a_batch_below_the_concurrency_is_that_of_one_of_several_servers(tmp_path: Path) -> None:
    run = _one(tmp_path, SERVING, silicon_concurrency="64")
    assert (run.accelerators, run.tp, run.dp, run.concurrency) == (16, 4, 1, 64.0)
    assert "64 concurrent requests are not a multiple of batch_size 24" in _reason(
        tmp_path, silicon_concurrency="64", batch_size="24"
    )


@pytest.mark.parametrize("tp", ["12", "72"])
def test_totals_of_disaggregated_runs_are_no_aggregated_servers(tmp_path: Path, tp: str) -> None:
    reason = _reason(tmp_path, system="gb200", tp_size=tp, moe_ep_size=tp)
    assert reason.startswith(f"tp {tp} of an aggregated server on gb200 is the total of a disaggregated one")
    assert _one(tmp_path, SERVING, system="gb200").accelerators == 4


# Invalid runs.


def test_a_run_that_is_slower_by_half_than_another_of_its_configuration_is_spoilt(tmp_path: Path) -> None:
    good, slow, busier, noisy = _read(
        tmp_path / "mine.csv",
        SERVING | {"id": "good"},
        SERVING | {"id": "slow", "silicon_tpot_ms": "19.9"},
        SERVING | {"id": "busier", "silicon_tpot_ms": "19.9", "silicon_concurrency": "32", "batch_size": "32"},
        SERVING | {"id": "noisy", "silicon_tpot_ms": "14.9"},
    )
    assert isinstance(slow, Measurement)
    assert slow.spoilt == "2.0 times as slow as good, a run of the same configuration"
    assert [getattr(run, "spoilt", None) for run in (good, busier, noisy)] == ["", "", ""]


def test_a_run_whose_first_tokens_come_four_times_as_late_as_in_another_is_spoilt(tmp_path: Path) -> None:
    first = float(SERVING["silicon_ttft_ms"])
    good, cold, late = _read(
        tmp_path / "mine.csv",
        SERVING | {"id": "good"},
        SERVING | {"id": "cold", "silicon_ttft_ms": f"{12.5 * first}"},
        SERVING | {"id": "late", "silicon_ttft_ms": f"{3.5 * first}"},
    )
    assert isinstance(cold, Measurement)
    assert cold.spoilt == "12.5 times as late as good, a run of the same configuration"
    assert [getattr(run, "spoilt", None) for run in (good, late)] == ["", ""]


@pytest.mark.parametrize(("engine", "tokens"), [("vllm", 1000 + 1500 + 16), ("trtllm", 2516), ("sglang", 3 * 1000)])
def test_the_collectors_own_runs_read_little_beside_decoding(tmp_path: Path, engine: str, tokens: int) -> None:
    own = {"source": "aiconfigurator silicon_sample.csv", "isl": "1000", "osl": "500", "backend": engine}
    run = _one(tmp_path, SERVING, **own)
    # SGLang starts prompts up to 2,500 tokens: three of them.
    assert (run.step_tokens, run.prefill_first, run.spread) == (tokens, False, 0.0)
    assert _one(tmp_path, SERVING, **own | {"source": "mine"}).step_tokens is None


# The collectors' own runs.


@pytest.mark.rows
def test_launch_settings_hold_from_the_version_that_they_were_made_for(
    tmp_path: Path, engine: str, version: str, model: str, tokens: float, first: bool
) -> None:
    """With prompts of 2,000 tokens, concurrency 16 and room for 1,500 more tokens, SGLang starts two prompts."""
    row = SERVING | {"backend": engine, "backend_version": version, "model_path": model, "moe_ep_size": "1"}
    run = _one(tmp_path, row, system="h200_sxm", isl="2000", osl="500", source="aiconfigurator silicon_sample.csv")
    assert (run.step_tokens, run.prefill_first, run.spread) == (tokens, first, 0.0)
    # The host of TensorRT-LLM prepared no step in advance before the rules of 1.2.
    assert run.synchronous == ((engine, version) == ("trtllm", "1.0.0"))


def test_the_number_of_a_compiler_is_no_version_of_the_engine_above_it() -> None:
    assert engine_name("TensorRT 10.2.0, CUDA 12.4") == ("trtllm", "")
    assert engine_name("TensorRT-LLM 0.9.0") == ("trtllm", "0.9.0")


# Runs that others outdo.


def test_a_sweep_most_of_whose_runs_busier_ones_outdo_is_spoilt(tmp_path: Path) -> None:
    row = SERVING | {"backend": "trtllm", "backend_version": "1.2.0", "model_path": "meta-llama/Llama-3.1-70B"}
    row |= {"source": "somebody", "moe_ep_size": "1", "system": "h200_sxm", "osl": "1000"}
    busy = {"silicon_concurrency": "64", "batch_size": "64"}
    quick = row | busy | {"id": "quick", "isl": "8000", "silicon_tpot_ms": "20"}
    slow = row | {"isl": "4000", "silicon_tpot_ms": "61"}
    sweep = [slow | {"id": f"c{c}", "silicon_concurrency": c, "batch_size": c} for c in ("16", "32", "128")]
    fine = row | {"id": "fine", "isl": "4000", "silicon_tpot_ms": "59", "backend_version": "1.1.0"}
    marked = {it.id: it.spoilt for it in _read(tmp_path / "a.csv", quick, *sweep, fine) if isinstance(it, Measurement)}
    outdone = "3.0 times as slow as quick, which has no less to do on no more accelerators"
    assert marked["c32"] == outdone
    assert marked["c128"] == "2 of 3 runs of its sweep are 3 times as slow as others"
    assert marked["quick"] == marked["fine"] == ""
