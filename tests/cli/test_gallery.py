"""The command that makes the tables and figures of the published study."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from inference_econ.report import gallery
from tests.cli.conftest import Command


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restrict the study to what takes no time."""
    monkeypatch.setattr(gallery, "scenario_names", lambda: ["paper/table_1", "paper/figure_2"])


@pytest.mark.usefixtures("few")
def test_reproduce_fills_a_folder_and_reports_cell_by_cell(command: Command, tmp_path: Path) -> None:
    outcome = command("reproduce", "--folder", "out")
    assert outcome.code == 0
    assert "Reproduction of Erdil (2025), Tables 1-6" in outcome.out
    assert "10 of 10 printed cells match." in outcome.out
    assert "4 files written in" in outcome.out
    made = {path.name for path in (tmp_path / "out").iterdir()}
    assert made == {"table_1.csv", "figure_2.svg", "figure_2.png", "figure_2.csv"}


@pytest.mark.long
@pytest.mark.usefixtures("few")
def test_reproduce_in_other_formats(command: Command, tmp_path: Path) -> None:
    record = json.loads(command("reproduce", "--format", "json").out)
    assert (tmp_path / "figures" / "table_1.csv").is_file()
    assert record.keys() == {"cells", "seconds"}
    assert record["cells"][0] == {
        "item": "table_1",
        "row": "Llama 3 8B",
        "column": "Tokens per second",
        "printed": "966",
        "ours": pytest.approx(965.97, abs=0.005),
        "match": True,
        "note": "",
    }
    assert record["seconds"] > 0
    rows = list(csv.DictReader(io.StringIO(command("reproduce", "--format", "csv").out)))
    assert [row["match"] for row in rows] == ["yes"] * 10
    assert command("reproduce", "--format", "markdown", "-o", "r.md", "--quiet").err == ""
    assert (tmp_path / "r.md").read_text(encoding="utf-8").startswith("| item | row | column | printed |")
