"""Recorded results of load generators, collectors and servers: their content, and wrong files."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inference_econ.errors import InputError
from inference_econ.extras.servers import MeasuredServer, Measurement, Skipped, measurements, read_run
from tests.reading import has_fields, only

#: ``tests/fixtures/README.md`` names their sources.
RESULTS = Path(__file__).parents[3] / "fixtures" / "results"
HERE = MeasuredServer(hardware="h100_sxm")


def _all(name: str, server: MeasuredServer | None = None) -> list[Measurement]:
    found = measurements.read_measurements(RESULTS / name, server)
    assert all(isinstance(row, Measurement) for row in found), found
    return [row for row in found if isinstance(row, Measurement)]


@pytest.mark.rows
def test_fields_of_runs(file: str, server: dict[str, Any], place: int, digits: int, fields: dict[str, Any]) -> None:
    """The server that the user describes has priority over the file."""
    assert has_fields(_all(file, MeasuredServer(**server) if server else None)[place], fields, digits)


@pytest.mark.rows
def test_loads_of_guidellm(tmp_path: Path, strategy: object, load: str, concurrency: float) -> None:
    result = json.loads((RESULTS / "guidellm.json").read_text())
    result["benchmarks"][0]["config"]["strategy"] = strategy
    (tmp_path / "mine.json").write_text(json.dumps(result))
    one, *_ = measurements.read_measurements(tmp_path / "mine.json", replace(HERE, model="qwen3_8b"))
    assert has_fields(one, {"load": load, "concurrency": concurrency})


def test_a_stage_of_inference_perf() -> None:
    run = read_run(RESULTS / "stage_3_lifecycle_metrics.json")
    assert set(run.latencies) >= {("ttft", "p99"), ("tpot", "mean"), ("e2e", "p95")}
    assert run.in_flight == pytest.approx(111.92 * 1.69795, rel=1e-4)


def test_a_summary_of_inference_perf_has_as_many_in_flight_as_littles_law_says(tmp_path: Path) -> None:
    result = json.loads((RESULTS / "stage_3_lifecycle_metrics.json").read_text())
    del result["load_summary"]["requested_rate"]
    (tmp_path / "summary.json").write_text(json.dumps(result))
    run = read_run(tmp_path / "summary.json")
    rate = result["successes"]["throughput"]["requests_per_sec"]
    assert run.load == "concurrency"
    assert run.concurrency == pytest.approx(rate * 1.69795, rel=1e-4)


def test_parts_of_another_type_are_what_no_generator_writes(tmp_path: Path) -> None:
    """Values of another type, found by fuzzing, gave a traceback."""
    result = json.loads((RESULTS / "stage_3_lifecycle_metrics.json").read_text())
    result["load_summary"] = 3
    (tmp_path / "mine.json").write_text(json.dumps(result))
    skipped = only(Skipped, measurements.read_measurements(tmp_path / "mine.json", HERE))
    assert skipped.reason == "not what inference-perf writes ('int' object has no attribute 'get')"
    with pytest.raises(InputError, match=r"mine\.json: not what inference-perf writes"):
        read_run(tmp_path / "mine.json")


def test_phases_of_aiperf_say_the_load(tmp_path: Path) -> None:
    run = json.loads((RESULTS / "aiperf.json").read_text())
    run["input_config"]["phases"][1] = {"name": "profiling", "type": "concurrency", "concurrency": 60}
    (tmp_path / "mine.json").write_text(json.dumps(run))
    one = only(Measurement, measurements.read_measurements(tmp_path / "mine.json", HERE))
    assert one.concurrency == 60.0


def test_a_result_of_inferencex_is_the_row_of_its_nightly_run() -> None:
    (one,) = _all("agg_gptoss_fp4_vllm_tp2.json")
    row = next(
        row
        for row in measurements.shipped(["inferencemax_aggregated"])
        if isinstance(row, Measurement) and row.ttft_seconds == one.ttft_seconds
    )
    same = ("model", "hardware", "engine", "accelerators", "tp", "dp", "ep", "weights", "isl", "osl", "load", "spread")
    for name in (*same, "concurrency", "requests", "tpot_seconds", "request_seconds", "speculation"):
        assert getattr(one, name) == getattr(row, name), name
    assert one.engine_version == "0.11.2"


@pytest.mark.parametrize(("rank", "running"), [("tp_rank", 32.0), ("pp_rank", 32.0), ("dp_rank", 64.0)])
def test_only_data_parallel_ranks_of_sglang_add_up(tmp_path: Path, rank: str, running: float) -> None:
    totals = {"prompt_tokens_total": 2e6, "generation_tokens_total": 4e5}
    totals |= {"inter_token_latency_seconds_count": 399e3, "inter_token_latency_seconds_sum": 7980.0}
    totals |= {"e2e_request_latency_seconds_count": 1000.0, "e2e_request_latency_seconds_sum": 8300.0}
    lines = [f'sglang:{name}{{model_name="Qwen/Qwen3-32B"}} {value}' for name, value in totals.items()]
    gauges = {"num_running_reqs": 32, "cache_hit_rate": 0.25}
    lines += [f'sglang:{name}{{{rank}="{index}"}} {value}' for name, value in gauges.items() for index in (0, 1)]
    (tmp_path / "server.prom").write_text("\n".join(lines), encoding="utf-8")
    (one,) = measurements.read_measurements(tmp_path / "server.prom", MeasuredServer(hardware="h100_sxm", tp=2))
    assert isinstance(one, Measurement)
    assert one.concurrency == running
    assert one.remarks == ("25 % of prompt tokens were found in the prefix cache",)


@pytest.mark.rows
def test_files_of_no_form(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        measurements.read_measurements(tmp_path / name, HERE)


@pytest.mark.rows
def test_runs_that_cannot_be_used(tmp_path: Path, source: str, old: str, new: str, reason: str) -> None:
    path = tmp_path / source
    shutil.copy(RESULTS / source, path)
    path.write_text(path.read_text().replace(old, new))
    server = MeasuredServer(hardware="h100_sxm", model="qwen3_8b")
    found = only(Skipped, measurements.read_measurements(path, server))
    assert reason in found.reason
