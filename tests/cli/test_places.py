"""What a command reads is never what it writes, and the files of a sweep are its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.conftest import Command

ROOT = Path(__file__).parents[2]


@pytest.fixture
def _files(tmp_path: Path) -> None:
    measured = ROOT / "tests" / "fixtures" / "transcripts"
    shutil.copy(measured / "my_runs.csv", tmp_path / "runs.csv")
    shutil.copytree(measured / "my_model", tmp_path / "weights")
    (tmp_path / "linked.csv").symlink_to(tmp_path / "runs.csv")
    shutil.copy(ROOT / "models" / "llama_3_8b.yaml", tmp_path / "llama_3_8b")
    (tmp_path / "swept").mkdir()
    for name in ("sweep.json", "part.json"):
        (tmp_path / "swept" / name).write_text("{}", encoding="utf-8")
    os.mkfifo(tmp_path / "pipe.json")


@pytest.mark.usefixtures("_files")
@pytest.mark.rows
def test_nothing_is_lost(refused: Command, tmp_path: Path, arguments: Sequence[str], message: str) -> None:
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert message in " ".join(refused(*arguments).err.split())
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize("place", ["llama_3_8b", "weights/answer.json", "/dev/stdout"])
def test_what_is_not_read_may_be_written(command: Command, tmp_path: Path, place: str) -> None:
    """A name of the catalogue is no file of the same name, and a new file in a folder that is read takes no place."""
    outcome = command("explain", "llama_3_8b" if place != "weights/answer.json" else "weights", "h100_sxm", "-o", place)
    assert outcome.code == 0, outcome
    if place != "/dev/stdout":
        assert (tmp_path / place).stat().st_size > 1000
