"""Sweeps as commands: folder, output, and rejected inputs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

import inference_econ as ie
from inference_econ.inputs import spec_text
from tests.commands import Command, record
from tests.extras.sweeps.studies import study


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the small sweep and its results in the folder ``out``."""
    folder = tmp_path_factory.mktemp("answered")
    (folder / "study.yaml").write_text(spec_text(study()))
    ie.sweep(str(folder / "study.yaml"), folder / "out")
    return folder


@pytest.fixture
def swept(command: Command, answered: Path, tmp_path: Path) -> Command:
    """Run commands in a copy of that folder."""
    shutil.copytree(answered, tmp_path, dirs_exist_ok=True)
    return command


@pytest.mark.rows
def test_what_cannot_be_asked_is_refused(swept: Command, arguments: list[str], message: str) -> None:
    outcome = swept(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert "Traceback" not in outcome.err
    assert not Path("new").exists()


def test_run_and_figure_answer_small_sweeps_too(swept: Command) -> None:
    run = record(swept, "paper", "run", "study.yaml")
    assert run["combinations"] == 12
    assert run["cheapest"] == record(swept, "sweep", "study.yaml", "-o", "out", "--quiet")["cheapest"]
    assert swept("paper", "figure", "study.yaml", "-o", "figure.svg").code == 0
    assert "llama_3_70b" in Path("figure.svg").read_text()


def test_a_folder_can_be_reported(swept: Command) -> None:
    assert swept("report", "out", "-o", "report.html", "--quiet").code == 0
    text = Path("report.html").read_text()
    assert "<h1>Which hardware is cheapest for each model and speed, traffic chat?</h1>" in text
    assert "12 combinations: 6 frontiers with " in text
    refused = swept("report", ".", "-o", "other.html", "--quiet")
    assert (refused.code, refused.err[:30]) == (2, "Error: .: no folder of a sweep")


def test_a_missing_package_is_named_with_its_installation(refused: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("study.yaml").write_text(spec_text(study()))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    message = "pyarrow is not installed, which this command needs: pip install 'inference-econ[studies]'"
    assert message in refused("sweep", "study.yaml", "-o", "out", "--jobs", "1").err
    assert not Path("out").exists()
