"""Output files: the format follows the name, files are complete, inputs are never overwritten, errors come before the
work.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.commands import Command, python

EXPLAIN = ("explain", "llama_3_8b", "h100_sxm")
START = "import inference_econ_cli.main as main; main.run()"


@pytest.mark.rows
def test_what_cannot_be_written_is_found_before_the_work(
    refused: Command, tmp_path: Path, arguments: Sequence[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def worked(*_: object, **__: object) -> None:
        raise AssertionError("the work has begun")

    monkeypatch.setattr("inference_econ.studies.scenario.run", worked)
    monkeypatch.setattr("inference_econ.extras.papers.gallery.run", worked)
    monkeypatch.setattr("inference_econ.extras.servers.validation.servers.read_files", worked)
    (tmp_path / "file").touch()
    for folder in ("drawn.png", "figure_6.svg", "made/table_6.csv"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "linked.svg").symlink_to(tmp_path / "a.svg")
    (tmp_path / "linked.csv").symlink_to(tmp_path / "made" / "table_4.csv")
    before = sorted(tmp_path.rglob("*"))
    assert message in refused(*arguments).warned
    assert sorted(tmp_path.rglob("*")) == before


def test_names_that_differ_in_case_are_two_files(command: Command, tmp_path: Path) -> None:
    """Case-sensitive systems have two files; on other systems the last one written remains."""
    outcome = command("explain", "llama_3_8b", "h100_sxm", "--plot", "a.svg", "--roofline", "A.svg", "--quiet")
    assert outcome.code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["A.svg", "a.svg"]


def _few_addresses() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (50_000_000_000, 50_000_000_000))


@pytest.mark.parametrize(("picture", "drawn"), [("a.svg", False), ("a.html", True)])
def test_where_nothing_can_be_drawn_the_answer_is_written(tmp_path: Path, picture: str, drawn: bool) -> None:
    words = ("-B", "-c", START, *EXPLAIN, "-o", "a.json", "--plot", picture)
    ran = python(*words, folder=tmp_path, timeout=120, preexec_fn=_few_addresses)
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["asked"]["command"] == "explain"
    assert (tmp_path / picture).exists() is drawn
    refusal = "100 GB of addresses, not of memory, and this process may have 50 GB ('ulimit -v'); write .html, or raise"
    assert (ran.returncode, refusal in ran.stderr) == ((0, False) if drawn else (2, True)), ran.stderr


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
    shutil.copy(ROOT / "hardware" / "l40s.yaml", tmp_path / "base.yaml")
    (tmp_path / "extending.yaml").write_text("extends: base.yaml\nname: mine\n", encoding="utf-8")


@pytest.mark.usefixtures("_files")
@pytest.mark.rows
def test_nothing_is_lost(refused: Command, tmp_path: Path, arguments: Sequence[str], message: str) -> None:
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert message in refused(*arguments).warned
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize("place", ["llama_3_8b", "weights/answer.json", "/dev/stdout"])
def test_what_is_not_read_may_be_written(command: Command, tmp_path: Path, place: str) -> None:
    """A catalog name is not interpreted as a file, and a new file in an input folder replaces nothing."""
    outcome = command("explain", "llama_3_8b" if place != "weights/answer.json" else "weights", "h100_sxm", "-o", place)
    assert outcome.code == 0, outcome
    if place != "/dev/stdout":
        assert (tmp_path / place).stat().st_size > 1000
