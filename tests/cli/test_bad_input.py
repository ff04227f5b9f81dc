"""Bad input: one clear message, exit code 2 (1 if nothing fits), no traceback, and nothing written."""

from __future__ import annotations

import csv
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from inference_econ.extras.papers import gallery
from tests.commands import Command

FRONTIER = ("frontier", "llama_3_8b", "h100_sxm", "--max-instance-gpus", "4")
TRACES = Path(__file__).parents[1] / "fixtures" / "traces"
#: Command lines (in addition to :data:`TRACES`), their messages (``...``: anything between), and exit codes.
REFUSED = list(csv.DictReader(Path(__file__).with_name("refused.csv").read_text(encoding="utf-8").splitlines()))


@pytest.mark.parametrize("row", REFUSED, ids=[row["words"][:80] for row in REFUSED])
def test_wrong_commands_are_refused_and_write_nothing(refused: Command, tmp_path: Path, row: dict[str, str]) -> None:
    shutil.copytree(TRACES, tmp_path, dirs_exist_ok=True)
    files = sorted(tmp_path.iterdir())
    said = refused(*shlex.split(row["words"]), code=int(row["code"])).warned
    place = 0
    for part in row["said"].split(" ... "):
        assert part in said[place:], said
        place = said.index(part, place)
    assert sorted(tmp_path.iterdir()) == files


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"just words\n", "bad.yaml:1: a mapping of field names to values is needed, found str"),
        (b"\xff\xfe\x00\x01", "bad.yaml:1: not a text file in UTF-8"),
        (10_000_000 * b"x", "bad.yaml: 10.0 MB is too large; at most 1 MB is read"),
    ],
    ids=["words", "bytes", "large"],
)
def test_files_that_are_no_specification(refused: Command, tmp_path: Path, content: bytes, message: str) -> None:
    """Messages about mistakes in files are tested in ``tests/inputs``."""
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    for arguments in (["frontier", "llama_3_8b", "bad.yaml"], ["hardware", "bad.yaml"]):
        assert message in refused(*arguments, "-o", "a.txt").err
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.rows
def test_arguments_are_checked_where_commands_are_parsed(refused: Command, words: str, said: str) -> None:
    """N is a number of 5,000 digits, and HALF the first half of a character."""
    long = words.replace("HALF", "\udcff").replace("N", 5000 * "9")
    assert said in refused(*shlex.split(long)).err


# Files that cannot be written, and files that must not be touched


@pytest.mark.rows
def test_unwritable_output(refused: Command, tmp_path: Path, arguments: Sequence[str]) -> None:
    suffix = ".svg" if arguments[1] == "figure" else ".txt"
    (tmp_path / f"folder{suffix}").mkdir()
    for place, reason in (
        (f"missing/a{suffix}", "No such file or directory"),
        (f"folder{suffix}", "Is a directory"),
        (f"/dev/null/a{suffix}", "Not a directory"),
    ):
        outcome = refused(*arguments, "-o", place)
        assert outcome.err == f"Error: {place}: cannot be written: {reason}\n"
    assert [path.name for path in tmp_path.iterdir()] == [f"folder{suffix}"]


@pytest.mark.parametrize(("picture", "result"), [("missing/a.svg", "a.txt"), ("a.svg", "missing/a.csv")])
@pytest.mark.parametrize("arguments", [FRONTIER, ("paper", "run", "paper/table_1")])
def test_a_result_and_its_picture_are_both_written_or_neither(
    refused: Command, tmp_path: Path, arguments: Sequence[str], picture: str, result: str
) -> None:
    outcome = refused(*arguments, "--plot", picture, "-o", result)
    name = picture if "missing" in picture else result
    assert outcome.err == f"Error: {name}: cannot be written: No such file or directory\n"
    assert list(tmp_path.iterdir()) == []


def test_impossible_folders_of_the_gallery(refused: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "scenario_names", lambda: ["paper/table_1"])
    (tmp_path / "file").write_text("", encoding="utf-8")
    for folder in ("file/below", "/dev/null/x"):
        outcome = refused("paper", "reproduce", "--folder", folder)
        assert re.search(rf"{folder}: cannot be made: Not a directory", outcome.err)
    assert "is a file" in refused("paper", "reproduce", "--folder", "file").err


@pytest.mark.rows
def test_existing_files_survive_errors(refused: Command, tmp_path: Path, words: str, code: int) -> None:
    path = tmp_path / "precious.txt"
    path.write_text("precious", encoding="utf-8")
    refused(*words.split(), "-o", path, code=code)
    assert path.read_text(encoding="utf-8") == "precious"
    assert list(tmp_path.iterdir()) == [path]


def test_pairs_of_layouts_have_an_estimate_in_bytes(refused: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inference_econ.answers.disaggregated.pools._PAIR_BYTES", 1e8)
    said = refused(*FRONTIER).warned
    assert "pairs of prefill and decode layouts take about" in said
    assert "of memory, and 1 GB is the most; reduce --max-instance-gpus" in said
