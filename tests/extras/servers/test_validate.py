"""validate: errors, coverage and reasons in every format, user files, and clear messages about unusable ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from data.measurements.__main__ import TABLES
from inference_econ.extras.servers import Servers, validation
from inference_econ.extras.servers.validation import servers
from inference_econ.extras.servers.validation.servers import File
from inference_econ.inputs import catalog
from tests.commands import Command, record
from tests.reading import csv_rows, tables, write_csv
from tests.shipped import shipped_servers

RESULTS = Path(__file__).parents[2] / "fixtures" / "results"
RESULT: str = tables(Path(__file__))["RESULT"]


def _first_rows(path: Path, rows: int, dataset: str) -> Path:
    lines = TABLES[dataset].read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[: rows + 1]), encoding="utf-8")
    return path


@pytest.mark.long
def test_all_sets_by_default(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = shipped_servers()

    def predicted(files: tuple[File, ...], assumptions: str | None, *, levels: bool) -> Servers:
        """Return the rows that a second prediction would use."""
        assert (files, assumptions, levels) == (shipped.files, None, True)
        return shipped

    monkeypatch.setattr(servers, "predict_files", predicted)
    (rows,) = json.loads(command("validate", "--format", "json").out)
    assert list(rows["datasets"]) == list(validation.SERVERS)
    assert rows["coverage"]["read"] == len(rows["rows"]) == shipped.coverage().read > 5000
    assert rows["errors"]["tpot"]["predicted"] > 1200


def _mine(path: Path, dataset: str, rows: int) -> str:
    return str(_first_rows(path, rows, dataset))


def test_a_table_of_inferencex_lacks_facts_on_the_run(command: Command, tmp_path: Path) -> None:
    mine = _first_rows(tmp_path / "mine.csv", 1, "serving_points")
    assert "1 of 1 rows lack facts on the run: requests, spread, step_tokens" in command("validate", mine).said
    header = catalog.server_files()["rocm_points"].read_text(encoding="utf-8").partition("\n")[0]
    write_csv(mine, [tables(Path(__file__))["CELLS"]], header.split(","))
    said = command("validate", mine).said
    assert "with q4_k_m weights, tp1 on m4_max" in said
    assert "lack facts" not in said


def test_a_line_for_every_row_and_the_tables_beside_it(command: Command, tmp_path: Path) -> None:
    mine = _mine(tmp_path / "points.csv", "throughput_points", 60)
    outcome = command("validate", mine, "-o", "predictions.csv")
    assert outcome.err.strip() == "wrote predictions.csv"
    assert "request latency" in outcome.out
    given, rows = (csv_rows(Path(name).read_text(encoding="utf-8")) for name in ("points.csv", "predictions.csv"))
    assert [row["id"] for row in rows] == [row["id"] for row in given]
    predicted = {(row["hardware"], row["assumptions"]) for row in rows if row["model"]}
    assert predicted == {("mi300x", "profiles/vllm_cdna3")}
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


def test_files_without_a_row_that_can_be_compared_are_rejected(refused: Command, tmp_path: Path) -> None:
    head = "hf_model,hardware,framework,precision,spec_decoding,isl,osl,tp,concurrency,median_ttft_s,median_tpot_s\n"
    (tmp_path / "bad.csv").write_text(head + 4 * "Qwen/Qwen3-32B,h100,vllm,fp8,none,1024,1024,3,8,0.2,0.024\n")
    said = refused("validate", "bad.csv").err
    assert (
        "no row can be compared: bad, row 1: 64 query heads do not split over the attention ranks (tp=3, dp=1" in said
    )
    assert said.endswith("; and 1 more row\n")


@pytest.mark.rows
def test_assess_predicts_a_run_as_validate_does(command: Command, file: str, subject: list[str], tp: int) -> None:
    path, (model, hardware) = str(RESULTS / file), subject
    named = ("--model", model, "--hardware", hardware, "--tp", tp)
    (row,) = json.loads(command("validate", path, *named, "--format", "json").out)[0]["rows"]
    verdict = record(command, "assess", model, hardware, "--tp", tp, "--gpus", tp, "--measured", path)["verdict"]
    for name, key in (("tpot", "seconds"), ("ttft", "ttft_seconds")):
        for end in ("", "_low", "_high"):
            assert verdict[f"predicted_{key}{end}"] == pytest.approx(row[f"predicted_{name}_ms{end}"] / 1e3)
        assert verdict[f"measured_{key}"] == pytest.approx(row[f"measured_{name}_ms"] / 1e3)
