"""``run``, ``table``, ``figure`` and ``reproduce``: scenarios, also those of the published study."""

from __future__ import annotations

from pathlib import Path

import pytest

from inference_econ.extras.papers import gallery
from inference_econ.inputs import catalog
from tests.commands import Command, record
from tests.reading import tables

SCENARIO: str = tables(Path(__file__))["SCENARIO"]


def test_what_ifs_reach_all_series(command: Command, tmp_path: Path) -> None:
    slow = ("--set", "hardware.hbm_bytes_per_second=1 TB/s")
    title, _, _, *rows = command("paper", "table", "table_1", *slow).out.splitlines()
    assert title.startswith("Table 1 with hardware.hbm_bytes_per_second=1 TB/s: the fastest point")
    assert rows[0].split()[-2] == "600"
    # What-ifs of a series replace common ones, and may be followed by further ones.
    (tmp_path / "mine.yaml").write_text(
        SCENARIO.replace("{weights: fp8}", "{changes: [model.layers=16]}"), encoding="utf-8"
    )
    speeds = [
        [row["tokens_per_second_per_user"] for row in record(command, "paper", "run", "mine.yaml", *more)["rows"]]
        for more in ((), slow)
    ]
    assert all(after < before for before, after in zip(*speeds, strict=True))
    assert command("paper", "figure", "mine.yaml", *slow, "-o", "a.svg").code == 0
    assert "with hardware.hbm_bytes_per_second=1 TB/s" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_a_result_without_curves_has_no_figure(refused: Command, tmp_path: Path) -> None:
    text = (catalog.folder("scenarios") / "seeds" / "speculative_sampling.yaml").read_text(encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(text.replace("rounds: 1000000", "rounds: 1000"), encoding="utf-8")
    said = refused("paper", "figure", "mine.yaml", "-o", "a.svg").warned
    assert "Speculative sampling: the result has no figure. 'paper table' prints it." in said
    assert not (tmp_path / "a.svg").exists()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restrict the study to its fast parts."""
    monkeypatch.setattr(gallery, "scenario_names", lambda: ["paper/table_1", "paper/figure_2"])


@pytest.mark.usefixtures("few")
def test_reproduce_fills_a_folder_and_reports_cell_by_cell(command: Command, tmp_path: Path) -> None:
    outcome = command("paper", "reproduce", "--folder", "out")
    assert outcome.code == 0
    assert "Reproduction of Erdil (2025), Tables 1-6" in outcome.out
    assert "10 of 10 printed cells match." in outcome.out
    assert "4 files written in" in outcome.out
    made = {path.name for path in (tmp_path / "out").iterdir()}
    assert made == {"table_1.csv", "figure_2.svg", "figure_2.png", "figure_2.csv"}
