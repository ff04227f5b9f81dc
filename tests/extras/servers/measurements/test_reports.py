"""Results of load generators: their content, and additions of the user."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inference_econ.errors import InputError
from inference_econ.extras.servers import MeasuredServer, Measurement, Skipped, measurements
from tests.reading import has_fields, only, tables

HERE = MeasuredServer(hardware="8x H100-80GB SXM", tp=4, dp=2)

#: Keys of ``vllm bench serve --save-result``, and of SGLang's bench_serving but for ``max_concurrency: null``.
TABLES: dict[str, dict[str, Any]] = tables(Path(__file__))
BENCH = TABLES["BENCH"]


#: An object of unit and statistics for each metric, as AIPerf documents its profile_export_aiperf.json.
AIPERF = TABLES["AIPERF"]


def _one(path: Path, run: object, deployment: MeasuredServer = HERE) -> Measurement:
    path.write_text(json.dumps(run), encoding="utf-8")
    return only(Measurement, measurements.read_measurements(path, deployment))


@pytest.mark.rows
def test_fields_of_runs(
    tmp_path: Path, run: str, changes: dict[str, Any], server: dict[str, Any], fields: dict[str, Any]
) -> None:
    """The server that the user describes has priority over the file."""
    deployment = MeasuredServer(**server) if server else HERE
    assert has_fields(_one(tmp_path / "mine.json", TABLES[run] | changes, deployment), fields)


def test_a_checkpoint_is_named_after_its_format(tmp_path: Path) -> None:
    named = {**BENCH, "model_id": "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic"}
    path = tmp_path / "mine.json"
    assert _one(path, named).weights == "fp8"
    assert _one(path, BENCH, replace(HERE, model="RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic")).weights == "fp8"
    assert _one(path, named, replace(HERE, weights="int8")).weights == "int8"
    path.write_text(json.dumps({**BENCH, "model_id": "mine/Llama-3.1-8B-GGUF"}), encoding="utf-8")
    reason = "the number format of the weights of 'mine/Llama-3.1-8B-GGUF' is not known; give the nearest one"
    assert measurements.read_measurements(path, HERE) == [Skipped("run 1", "mine", reason)]


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
    run = {**AIPERF, "time_to_first_token": {"unit": "fortnights", "p50": 1.0}}
    (tmp_path / "mine.json").write_text(json.dumps(run), encoding="utf-8")
    (found,) = measurements.read_measurements(tmp_path / "mine.json", HERE)
    assert found == Skipped("run 1", "mine", "unit 'fortnights' of time_to_first_token is not convertible")


@pytest.mark.rows
def test_files_of_no_kind(tmp_path: Path, text: str, message: str) -> None:
    # N is a number of 5,000 digits.
    (tmp_path / "mine.json").write_text(text.replace("N", 5000 * "9"), encoding="utf-8")
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
