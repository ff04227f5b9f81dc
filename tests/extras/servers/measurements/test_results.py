"""Recorded results of load generators, collectors and servers: their content, and wrong files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from inference_econ.errors import InputError
from inference_econ.extras.servers import MeasuredServer, Measurement, Skipped, measurements, read_run

#: ``tests/fixtures/README.md`` names their sources.
RESULTS = Path(__file__).parents[3] / "fixtures" / "results"
HERE = MeasuredServer(hardware="h100_sxm")


def _all(name: str, server: MeasuredServer | None = None) -> list[Measurement]:
    found = measurements.read_measurements(RESULTS / name, server)
    assert all(isinstance(row, Measurement) for row in found), found
    return [row for row in found if isinstance(row, Measurement)]


def test_guidellm_has_a_run_for_each_benchmark_and_its_own_word_for_the_time_per_token() -> None:
    first, second = _all("guidellm.json", MeasuredServer(hardware="h100_sxm", model="qwen3_8b"))
    assert (first.load, first.requests_per_second, second.requests_per_second) == ("rate", 2.0, 4.0)
    assert (first.isl, first.osl, first.requests) == (71.5, 8.0, 2.0)
    # Inter-token latency: its time per output token, 2.376 ms, has the first token in it.
    assert first.tpot_seconds == pytest.approx(1.045976e-3, rel=1e-6)
    assert first.ttft_seconds == pytest.approx(11.276e-3, rel=1e-4)
    assert first.output_tokens_per_second_per_accelerator == pytest.approx(3.195, rel=1e-3)


@pytest.mark.rows
def test_loads_of_guidellm(tmp_path: Path, strategy: object, load: str, concurrency: float) -> None:
    result = json.loads((RESULTS / "guidellm.json").read_text())
    result["benchmarks"][0]["config"]["strategy"] = strategy
    (tmp_path / "mine.json").write_text(json.dumps(result))
    one = measurements.read_measurements(tmp_path / "mine.json", MeasuredServer(hardware="h100_sxm", model="qwen3_8b"))[
        0
    ]
    assert isinstance(one, Measurement)
    assert (one.load, one.concurrency) == (load, concurrency)


def test_a_stage_of_inference_perf() -> None:
    (one,) = _all("stage_3_lifecycle_metrics.json", MeasuredServer(hardware="h100_sxm", model="llama_3_8b"))
    assert (one.load, one.requests_per_second, one.requests) == ("rate", 111.92, 6715.0)
    assert one.statistic == "median"
    assert one.tpot_seconds == pytest.approx(12.6266e-3, rel=1e-5)
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
    (skipped,) = measurements.read_measurements(tmp_path / "mine.json", HERE)
    assert isinstance(skipped, Skipped)
    assert skipped.reason == "not what inference-perf writes ('int' object has no attribute 'get')"
    with pytest.raises(InputError, match=r"mine\.json: not what inference-perf writes"):
        read_run(tmp_path / "mine.json")


def test_a_report_of_llm_d_says_what_it_ran_on() -> None:
    (one,) = _all("llm_d_report.yaml")
    assert (one.model, one.hardware, one.engine) == ("qwen3_0_6b", "h100_sxm", "vllm")
    assert (one.tp, one.dp, one.pp, one.accelerators) == (8, 2, 1, 16)
    assert (one.load, one.requests_per_second, one.statistic) == ("rate", 10.0, "mean")
    assert one.output_tokens_per_second_per_accelerator == pytest.approx(2262.448 / 16)


@pytest.mark.parametrize(
    ("name", "model", "concurrency"),
    [("aiperf.json", "llama_3_70b", 64.0), ("llm_d_first_report.yaml", "gpt_oss_120b", 42.58 * 2.78)],
)
def test_runs_without_a_set_load_have_the_concurrency_that_was_measured(
    name: str, model: str, concurrency: float
) -> None:
    (one,) = _all(name, HERE)
    assert (one.model, one.load) == (model, "concurrency")
    assert one.concurrency == pytest.approx(concurrency)


def test_phases_of_aiperf_say_the_load(tmp_path: Path) -> None:
    run = json.loads((RESULTS / "aiperf.json").read_text())
    run["input_config"]["phases"][1] = {"name": "profiling", "type": "concurrency", "concurrency": 60}
    (tmp_path / "mine.json").write_text(json.dumps(run))
    (one,) = measurements.read_measurements(tmp_path / "mine.json", HERE)
    assert isinstance(one, Measurement)
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


def test_what_is_given_counts_more_than_what_a_file_says() -> None:
    (one,) = _all("agg_gptoss_fp4_vllm_tp2.json", MeasuredServer(hardware="b200", tp=4, engine="sglang"))
    assert (one.hardware, one.tp, one.engine) == ("b200", 4, "sglang")


def test_a_page_of_metrics_of_vllm_adds_up_its_engines() -> None:
    (one,) = _all("vllm.prom", MeasuredServer(hardware="h100_sxm", dp=2))
    assert (one.engine, one.model, one.statistic) == ("vllm", "qwen3_32b", "mean")
    assert (one.isl, one.osl, one.load, one.concurrency) == (2000.0, 400.0, "concurrency", 32.0)
    # Per request, if recorded, not per token.
    assert one.tpot_seconds == pytest.approx(0.019)
    assert one.ttft_seconds == pytest.approx(0.2)
    assert one.remarks == ("25 % of prompt tokens were found in the prefix cache",)


def test_a_page_of_metrics_of_sglang_with_a_queue_is_saturated() -> None:
    (one,) = _all("sglang.prom", HERE)
    assert (one.engine, one.model, one.load, one.concurrency) == ("sglang", "llama_3_8b", "saturated", 162.0)
    assert one.tpot_seconds == pytest.approx(866964.579 / 7.400757e6)
    assert one.output_tokens_per_second_per_accelerator == pytest.approx(86.508, rel=1e-4)


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
    (found,) = measurements.read_measurements(path, server)
    assert isinstance(found, Skipped)
    assert reason in found.reason
