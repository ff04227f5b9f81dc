"""validate: errors, coverage and reasons in every format, user files, and clear messages about unusable ones."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from data.measurements.__main__ import TABLES
from inference_econ.extras.servers import Servers, validation
from inference_econ.extras.servers.validation import servers
from inference_econ.extras.servers.validation.servers import File
from inference_econ.inputs import catalog
from tests.commands import Command
from tests.shipped import shipped_servers

RESULT = (
    '{"median_tpot_ms": 9.0, "median_ttft_ms": 60.0, "completed": 100, "total_input_tokens": 100000, '
    '"total_output_tokens": 20000, "max_concurrency": 8, "request_rate": "inf", "model_id": "meta-llama/Llama-3.1-8B"}'
)


def _first_rows(path: Path, rows: int, dataset: str) -> Path:
    lines = TABLES[dataset].read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[: rows + 1]), encoding="utf-8")
    return path


@pytest.mark.long
def test_all_sets_by_default(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = shipped_servers()

    def predict_files(files: tuple[File, ...], assumptions: str | None, *, levels: bool) -> Servers:
        """Return the rows that a second prediction would use."""
        assert (files, assumptions, levels) == (shipped.files, None, True)
        return shipped

    monkeypatch.setattr(servers, "predict_files", predict_files)
    (rows,) = json.loads(command("validate", "--format", "json").out)
    assert list(rows["datasets"]) == list(validation.SERVERS)
    assert (rows["coverage"]["read"], len(rows["rows"])) == (5644, 5644)
    assert rows["errors"]["tpot"]["predicted"] > 1200


def _mine(path: Path, dataset: str, rows: int) -> str:
    return str(_first_rows(path, rows, dataset))


def test_a_table_of_inferencex_lacks_facts_on_the_run(command: Command, tmp_path: Path) -> None:
    mine = _first_rows(tmp_path / "mine.csv", 1, "serving_points")
    assert "1 of 1 rows lack facts on the run: requests, spread, step_tokens" in command("validate", mine).said
    header = catalog.server_files()["rocm_points"].read_text(encoding="utf-8").partition("\n")[0]
    cells = {
        "id": "a", "engine": "llama_cpp", "model": "llama_3_8b", "hardware": "m4_max", "tp": "1", "weights": "q4_k_m",
        "isl": "100", "osl": "100", "load": "concurrency", "concurrency": "1", "requests": "9", "tpot_seconds": "0.01",
    }  # fmt: skip
    row = ",".join(cells.get(name, "") for name in header.split(","))
    mine.write_text(f"{header}\n{row}\n", encoding="utf-8")
    said = command("validate", mine).said
    assert "with q4_k_m weights, tp1 on m4_max" in said
    assert "lack facts" not in said


def test_a_line_for_every_row_and_the_tables_beside_it(command: Command, tmp_path: Path) -> None:
    mine = _mine(tmp_path / "points.csv", "throughput_points", 60)
    outcome = command("validate", mine, "-o", "predictions.csv")
    assert outcome.err.strip() == "wrote predictions.csv"
    assert "request latency" in outcome.out
    with (tmp_path / "points.csv").open(encoding="utf-8", newline="") as stream:
        given = [row["id"] for row in csv.DictReader(stream)]
    with Path("predictions.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["id"] for row in rows] == given
    assert {(row["hardware"], row["assumptions"]) for row in rows if row["model"]} == {
        ("mi300x", "profiles/vllm_cdna3")
    }
    assert all(row["reason"] for row in rows if row["skipped"] == "true")
    assert all(float(row["predicted_value"]) > 0 for row in rows if row["skipped"] == "false")
    quiet = command("validate", mine, "-o", "again.csv", "--quiet")
    assert (quiet.out, quiet.err) == ("", "")
    assert Path("again.csv").read_text(encoding="utf-8") == Path("predictions.csv").read_text(encoding="utf-8")


def test_results_of_a_load_generator(command: Command, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(RESULT, encoding="utf-8")
    arguments = ["validate", "result.json", "--hardware", "H100", "--weights", "fp8", "--engine", "vllm"]
    (record,) = json.loads(command(*arguments, "--format", "json").out)
    (row,) = record["rows"]
    assert row["measured_tpot_ms"] == pytest.approx(9.0)
    assert row["predicted_tpot_ms"] == pytest.approx(9.0, rel=0.5)
    assert row["predicted_ttft_ms"] > 0
    table = command(*arguments).out
    assert table.count("TPOT [ms]") == 1
    assert "Prediction errors: TPOT " in table
    assert "Predicted as llama_3_8b with fp8 weights, tp1 on h100_sxm, served by vllm" in table
    published = command(*(word for word in arguments if word not in ("--weights", "fp8"))).out
    assert "with bf16 weights, as published," in " ".join(published.split())


def test_the_picture(command: Command, tmp_path: Path) -> None:
    _mine(tmp_path / "runs.csv", "inferencemax_aggregated", 6)
    assert command("validate", "runs.csv", "--by", "engine", "--plot", "a.svg").err.strip() == "wrote a.svg"
    content = Path("a.svg").read_text(encoding="utf-8")
    assert content.startswith("<?xml")
    for word in ("TTFT under load", "measured [s]", "predicted [tokens/s]", "sglang"):
        assert word in content


@pytest.mark.rows
def test_bad_input_is_refused(refused: Command, tmp_path: Path, arguments: Sequence[str], message: str) -> None:
    (tmp_path / "empty.csv").write_text("", encoding="utf-8")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00op")
    (tmp_path / "result.json").write_text(RESULT, encoding="utf-8")
    (tmp_path / "empty.json").write_text("", encoding="utf-8")
    before = sorted(tmp_path.iterdir())
    outcome = refused("validate", *arguments)
    assert message in outcome.err
    assert sorted(tmp_path.iterdir()) == before
