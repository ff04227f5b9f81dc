"""The tables and figures of the published study, reproduced."""

from __future__ import annotations

import subprocess
import sys
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from inference_econ.extras.papers import gallery
from inference_econ.records.plain import csv_text
from inference_econ.studies.scenario import run
from tests.reading import tables

FOLDER = Path(__file__).parents[2] / "figures"
NAMES = ["paper/table_1", "paper/figure_1", "paper/figure_2"]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restrict the study to scenarios that take no time."""
    monkeypatch.setattr(gallery, "scenario_names", lambda: NAMES)


@pytest.mark.long
@pytest.mark.usefixtures("few")
def test_reproduce_makes_every_file_and_compares_every_cell(tmp_path: Path) -> None:
    told: list[tuple[float, str]] = []
    folder = tmp_path / "new" / "folder"
    reproduction = gallery.reproduce(folder, progress=lambda share, what: told.append((share, what)))
    expected = {"table_1.csv", *(f"figure_{n}.{suffix}" for n in (1, 2) for suffix in ("svg", "png", "csv"))}
    assert {path.name for path in reproduction.files} == expected
    assert {path.name for path in folder.iterdir()} == expected
    assert all(path.stat().st_size > 100 for path in reproduction.files)
    assert len(reproduction.cells) == 10
    assert all(cell.match for cell in reproduction.cells)
    page = gallery.ReproductionPage(reproduction)
    assert page.record().keys() == {"cells", "seconds"}
    (table,) = page.tables()
    assert len(table.rows) == 10
    assert table.notes[0] == "10 of 10 printed cells match."
    assert table.notes[1].startswith("7 files written in ")
    assert [what for _, what in told] == [name.removeprefix("paper/") for name in NAMES]
    assert [share for share, _ in told] == sorted(share for share, _ in told)
    # A second run writes identical bytes.
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    gallery.reproduce(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == first


def test_the_study_is_made_in_the_order_of_its_numbers() -> None:
    names = gallery.scenario_names()
    assert names == [f"paper/table_{n}" for n in range(1, 7)] + [f"paper/figure_{n}" for n in range(1, 11)]


def test_the_committed_gallery_is_complete() -> None:
    expected = {f"table_{n}.csv" for n in range(1, 7)}
    expected |= {f"figure_{n}.{suffix}" for n in range(1, 11) for suffix in ("svg", "png", "csv")}
    assert expected <= {path.name for path in FOLDER.iterdir()}


@pytest.mark.parametrize("name", ["paper/figure_1", "paper/figure_6", "paper/table_1", "paper/table_4"])
def test_the_committed_data_is_what_the_code_gives(name: str) -> None:
    """To eight digits: another machine may round the last ones in another way."""
    committed = pd.read_csv(FOLDER / f"{name.removeprefix('paper/')}.csv")
    pd.testing.assert_frame_equal(pd.read_csv(StringIO(csv_text(run(name).to_frame()))), committed, rtol=1e-8)


def test_who_draws_ends_with_whoever_is_killed() -> None:
    """Both write to one pipe, which is at its end when neither is left."""
    program = tables(Path(__file__))["PROGRAM"]
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    process.kill()
    assert process.communicate(timeout=120)[0] == ""
