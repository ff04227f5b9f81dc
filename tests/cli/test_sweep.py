"""Sweeps as commands: a folder, what it says, questions in SQL, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from inference_econ.inputs import spec_text
from tests.cli.conftest import Command, record
from tests.sweeps import study


@pytest.fixture
def swept(command: Command, tmp_path: Path) -> Command:
    """Runs commands where the small sweep has been answered into the folder ``out``."""
    (tmp_path / "study.yaml").write_text(spec_text(study()))
    answered = command("sweep", "study.yaml", "-o", "out", "--jobs", "1", "--quiet")
    assert (answered.code, answered.err) == (0, "")
    return command


def test_forms_of_a_query(swept: Command) -> None:
    sql = (
        "SELECT hardware, count(*) AS points, min(dollars_per_million_output_tokens) AS dollars, NULL AS nothing "
        "FROM points GROUP BY ALL ORDER BY dollars"
    )
    rows = record(swept, "query", sql, "out")["rows"]
    assert [row["hardware"] for row in rows] == ["h100_sxm", "l4"]
    assert record(swept, "query", "DESCRIBE points", "out")["rows"][0]["column_name"] == "combination"
    assert [*rows[0]] == ["hardware", "points", "dollars", "nothing"] and rows[0]["nothing"] is None
    table = swept("query", sql, "out").out.splitlines()
    assert table[0].split() == ["hardware", "points", "dollars", "nothing"]
    assert table[2].split() == ["h100_sxm", str(rows[0]["points"]), f"{rows[0]['dollars']:.4g}", "-"]
    assert swept("query", sql, "out", "--csv").out.splitlines()[1] == ",".join(
        ["h100_sxm", str(rows[0]["points"]), str(rows[0]["dollars"]), ""]
    )
    assert "| h100_sxm |" in swept("query", sql, "out", "--format", "markdown").out
    written = swept("query", "SELECT * FROM points", "out", "-o", "points.csv")
    assert written.code == 0 and len(Path("points.csv").read_text().splitlines()) > 100


def test_other_kinds_of_values(swept: Command) -> None:
    sql = (
        "SELECT [1, 2] AS listed, {a: 1.5} AS packed, DATE '2026-01-02' AS day, 1.25::DECIMAL(4,2) AS decimal, "
        "true AS yes, NULL::TIMESTAMP AS never, 'nan'::DOUBLE AS missing"
    )
    (row,) = record(swept, "query", sql, "out")["rows"]
    assert row == {
        "listed": [1, 2], "packed": {"a": 1.5}, "day": "2026-01-02 00:00:00", "decimal": 1.25, "yes": True,
        "never": None, "missing": None,
    }  # fmt: skip


def test_a_query_of_a_part_says_so(swept: Command) -> None:
    Path("out/part-00002.parquet").unlink()
    outcome = swept("query", "SELECT count(*) AS n FROM combinations", "out")
    assert outcome.err == "out: 1 of 12 combinations have not been asked yet\n"
    assert outcome.out.split()[-1] == "11"


@pytest.mark.rows
def test_what_cannot_be_asked_is_refused(swept: Command, arguments: list[str], message: str) -> None:
    outcome = swept(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert "Traceback" not in outcome.err
    assert not Path("new").exists()


def test_run_and_figure_answer_small_sweeps_too(swept: Command) -> None:
    answered = record(swept, "run", "study.yaml")
    assert answered["combinations"] == 12
    assert answered["cheapest"] == record(swept, "sweep", "study.yaml", "-o", "out", "--quiet")["cheapest"]
    assert swept("figure", "study.yaml", "-o", "figure.svg").code == 0
    assert "llama_3_70b" in Path("figure.svg").read_text()


def test_a_folder_can_be_reported(swept: Command) -> None:
    assert swept("report", "out", "-o", "report.html", "--quiet").code == 0
    text = Path("report.html").read_text()
    assert "<h1>Which hardware serves each model the cheapest at which speed, traffic chat?</h1>" in text
    assert "12 combinations: 6 frontiers with " in text
    refused = swept("report", ".", "-o", "other.html", "--quiet")
    assert (refused.code, refused.err[:30]) == (2, "Error: .: no folder of a sweep")


@pytest.mark.parametrize("package", ["pyarrow", "duckdb"])
def test_a_package_that_is_missing_is_named_with_what_installs_it(
    refused: Command, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("study.yaml").write_text(spec_text(study()))
    monkeypatch.setitem(sys.modules, package, None)
    message = f"{package} is not installed, which this command needs: pip install 'inference-econ[studies]'"
    assert message in refused("sweep", "study.yaml", "-o", "out", "--jobs", "1").err
    assert not Path("out").exists()
