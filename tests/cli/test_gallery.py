"""The command that makes the tables and figures of the published study."""

from __future__ import annotations

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
