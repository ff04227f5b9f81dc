"""Results of load generators: their content, and additions of the user."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inference_econ.errors import InputError
from inference_econ.extras.servers import MeasuredServer, Measurement, Skipped, measurements
from tests.reading import tables

HERE = MeasuredServer(hardware="8x H100-80GB SXM", tp=4, dp=2)

#: Keys of ``vllm bench serve --save-result``, and of SGLang's bench_serving but for ``max_concurrency: null``.
BENCH: dict[str, Any] = tables(Path(__file__))["BENCH"]


def _metric(unit: str, **values: float) -> dict[str, Any]:
    return {"unit": unit, **values}


#: An object of unit and statistics for each metric, as AIPerf documents its profile_export_aiperf.json.
AIPERF: dict[str, Any] = {
    "time_to_first_token": _metric("ms", avg=60.0, p50=50.0, p99=90.0),
    "inter_token_latency": _metric("ms", avg=9.0, p50=8.0),
    "request_latency": _metric("ms", avg=1200.0, p50=1100.0),
    "output_token_throughput": _metric("tokens/sec", avg=256.0),
    "input_sequence_length": _metric("tokens", avg=1024.0),
    "output_sequence_length": _metric("tokens", avg=128.0),
    "request_count": _metric("requests", avg=100.0),
    "input_config": {
        "endpoint": {"model_names": ["Qwen/Qwen3-8B"], "streaming": True},
        "loadgen": {"concurrency": 16, "request_rate": None},
    },
}


def _one(path: Path, run: object, deployment: MeasuredServer = HERE) -> Measurement:
    path.write_text(json.dumps(run), encoding="utf-8")
    (found,) = measurements.read_measurements(path, deployment)
    assert isinstance(found, Measurement), found
    return found


def test_a_result_of_vllm(tmp_path: Path) -> None:
    one = _one(tmp_path / "mine.json", BENCH)
    assert (one.engine, one.model, one.hardware, one.weights) == ("vllm", "llama_3_8b", "h100_sxm", None)
    assert (one.accelerators, one.tp, one.dp, one.pp, one.ep) == (8, 4, 2, 1, None)
    assert (one.isl, one.osl, one.load, one.concurrency) == (1024.0, 128.0, "concurrency", 16.0)
    assert (one.statistic, one.ttft_seconds, one.tpot_seconds, one.request_seconds) == ("median", 0.05, 0.008, 1.1)
    assert one.output_tokens_per_second_per_accelerator == 32.0
    assert one.total_tokens_per_second_per_accelerator == 288.0
    assert (one.id, one.dataset, one.speculation) == ("run 1", "mine", "unrecorded")


def test_a_result_of_aiperf(tmp_path: Path) -> None:
    one = _one(tmp_path / "mine.json", AIPERF)
    assert (one.model, one.isl, one.osl) == ("qwen3_8b", 1024.0, 128.0)
    assert (one.load, one.concurrency, one.statistic) == ("concurrency", 16.0, "median")
    assert (one.ttft_seconds, one.tpot_seconds, one.request_seconds) == (0.05, 0.008, 1.1)
    assert one.output_tokens_per_second_per_accelerator == 32.0


def test_a_result_of_genai_perf_keeps_its_settings_deeper(tmp_path: Path) -> None:
    settings = {"model_names": ["Qwen/Qwen3-8B"], "perf_analyzer": {"stimulus": {"request_rate": 4.0}}}
    one = _one(tmp_path / "mine.json", {**AIPERF, "input_config": settings})
    assert (one.load, one.requests_per_second, one.concurrency) == ("rate", 4.0, None)


def test_what_the_user_says_counts(tmp_path: Path) -> None:
    said = MeasuredServer(
        hardware="b200", model="DeepSeek-R1", tp=8, ep=8, weights="fp4", kv="fp8", engine="SGLang 0.5.9"
    )
    one = _one(tmp_path / "mine.json", BENCH, said)
    assert (one.model, one.weights, one.kv, one.ep) == ("deepseek_v3_nvfp4", None, "fp8", 8)
    assert (one.engine, one.engine_version) == ("sglang", "0.5.9")


def test_a_checkpoint_is_named_after_its_format(tmp_path: Path) -> None:
    named = {**BENCH, "model_id": "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic"}
    path = tmp_path / "mine.json"
    assert _one(path, named).weights == "fp8"
    assert _one(path, BENCH, replace(HERE, model="RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic")).weights == "fp8"
    assert _one(path, named, replace(HERE, weights="int8")).weights == "int8"
    path.write_text(json.dumps({**BENCH, "model_id": "mine/Llama-3.1-8B-GGUF"}), encoding="utf-8")
    reason = "the number format of the weights of 'mine/Llama-3.1-8B-GGUF' is not known; give the nearest one"
    assert measurements.read_measurements(path, HERE) == [Skipped("run 1", "mine", reason)]


@pytest.mark.rows
def test_loads(
    tmp_path: Path, changes: dict[str, Any], load: str, concurrency: float | None, rate: float | None
) -> None:
    one = _one(tmp_path / "mine.json", {**BENCH, **changes})
    assert (one.load, one.concurrency, one.requests_per_second) == (load, concurrency, rate)


def test_means_for_want_of_medians_and_accepted_drafts(tmp_path: Path) -> None:
    run = {**BENCH, "median_tpot_ms": None, "accept_length": 2.4}
    one = _one(tmp_path / "mine.json", run)
    assert (one.statistic, one.speculation, one.tokens_per_round) == ("mean", "2.4 tokens accepted", 2.4)
    assert one.tpot_seconds == pytest.approx(0.009, rel=1e-12)


def test_several_runs(tmp_path: Path) -> None:
    wrong = {**BENCH, "median_ttft_ms": -5.0}
    (tmp_path / "mine.jsonl").write_text(f"{json.dumps(BENCH)}\n{json.dumps(wrong)}\n", encoding="utf-8")
    first, second = measurements.read_measurements(tmp_path / "mine.jsonl", HERE)
    assert isinstance(first, Measurement)
    assert second == Skipped("run 2", "mine", "median_ttft_ms must be positive and finite, got -5")
    (tmp_path / "mine.json").write_text(json.dumps([BENCH, BENCH]), encoding="utf-8")
    assert len(measurements.read_measurements(tmp_path / "mine.json", HERE)) == 2


@pytest.mark.rows
def test_runs_that_cannot_be_used_say_why(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    (tmp_path / "mine.json").write_text(json.dumps({**BENCH, **changes}), encoding="utf-8")
    assert measurements.read_measurements(tmp_path / "mine.json", HERE) == [Skipped("run 1", "mine", reason)]


def test_an_unknown_unit(tmp_path: Path) -> None:
    run = {**AIPERF, "time_to_first_token": _metric("fortnights", p50=1.0)}
    (tmp_path / "mine.json").write_text(json.dumps(run), encoding="utf-8")
    (found,) = measurements.read_measurements(tmp_path / "mine.json", HERE)
    assert found == Skipped("run 1", "mine", "unit 'fortnights' of time_to_first_token is not convertible")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "mine.json: not JSON, nor one JSON object a line"),
        (f'{{"a": {"9" * 5000}}}', "nor one JSON object a line: Exceeds the limit .4300 digits."),
        ("[]", "mine.json: a JSON object, or a list of them, is needed"),
        ("3", "mine.json: a JSON object, or a list of them, is needed"),
        ('{"a": 1}', "mine.json: no result of a known load generator; known by their keys: vllm bench serve"),
    ],
)
def test_files_of_no_kind(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        measurements.read_measurements(tmp_path / "mine.json", HERE)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing.json: cannot be read: No such file"):
        measurements.read_measurements(tmp_path / "missing.json", HERE)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(InputError, match=r"bytes.json: not a text file in UTF-8"):
        measurements.read_measurements(tmp_path / "bytes.json", HERE)


@pytest.mark.rows
def test_deployments_that_cannot_be(tmp_path: Path, deployment: dict[str, Any] | None, message: str) -> None:
    (tmp_path / "mine.json").write_text(json.dumps(BENCH), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        measurements.read_measurements(tmp_path / "mine.json", MeasuredServer(**deployment) if deployment else None)
