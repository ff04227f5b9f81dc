"""How answers are shown: forms, files, widths, and what quiet leaves out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Command

SUBJECT = ("frontier", "llama_3_8b", "h100_sxm", "--max-instance-gpus", 4)


def test_quiet_leaves_the_drawing_and_remarks_out(command: Command) -> None:
    loud, quiet = command(*SUBJECT), command(*SUBJECT, "--quiet")
    assert loud.code == quiet.code == 0
    assert "maximises speed^3" in loud.out
    assert "maximises speed^3" not in quiet.out
    assert len(quiet.out.splitlines()) < len(loud.out.splitlines()) - 15
    written = command(*SUBJECT, "--quiet", "-o", "a.txt", "--plot", "a.png")
    assert (written.code, written.out, written.err) == (0, "", "")


@pytest.mark.parametrize("form", ["table", "json", "csv", "markdown"])
def test_output_goes_to_a_file(command: Command, tmp_path: Path, form: str) -> None:
    printed = command(*SUBJECT, "--format", form)
    written = command(*SUBJECT, "--format", form, "-o", "result.txt")
    assert (written.code, written.out, written.err) == (0, "", "wrote result.txt\n")
    assert (tmp_path / "result.txt").read_text(encoding="utf-8") == printed.out
    assert [path.name for path in tmp_path.iterdir()] == ["result.txt"]


@pytest.mark.parametrize(
    "arguments",
    [SUBJECT, ("explain", "llama_3_8b", "h100_sxm"), ("table", "paper/table_1")],
    ids=["frontier", "explain", "scenario"],
)
@pytest.mark.parametrize(
    ("suffix", "form"), [(".csv", "csv"), (".JSON", "json"), (".md", "markdown"), (".txt", "table"), ("", "table")]
)
def test_the_name_of_the_file_decides_the_form(
    command: Command, tmp_path: Path, arguments: tuple[object, ...], suffix: str, form: str
) -> None:
    assert command(*arguments, "-o", f"result{suffix}").err == f"wrote result{suffix}\n"
    printed = command(*arguments, "--format", form).out
    assert (tmp_path / f"result{suffix}").read_text(encoding="utf-8") == printed


def test_a_name_that_is_nothing_but_an_ending(command: Command, tmp_path: Path) -> None:
    printed = command(*SUBJECT, "--format", "csv").out
    for name in (".csv", "..csv"):
        assert command(*SUBJECT, "--quiet", "-o", name).code == 0
        assert (tmp_path / name).read_text(encoding="utf-8") == printed
    assert command(*SUBJECT, "--quiet", "--plot", ".svg").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["..csv", ".csv", ".svg"]


@pytest.mark.parametrize("other", ["a.svg", "./a.svg", "b/../a.svg"])
def test_a_result_and_its_picture_need_two_names(refused: Command, tmp_path: Path, other: str) -> None:
    (tmp_path / "b").mkdir()
    outcome = refused(*SUBJECT, "--format", "json", "-o", "a.svg", "--plot", other)
    assert f"-o a.svg and --plot {other} are the same file; give two names" in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_form_that_is_given_must_not_contradict_the_name(command: Command, refused: Command, tmp_path: Path) -> None:
    for name in ("result.pdf", "result"):
        assert command(*SUBJECT, "--format", "json", "-o", name).code == 0
        assert (tmp_path / name).read_text(encoding="utf-8") == command(*SUBJECT, "--format", "json").out
    message = "result.csv: --format json contradicts .csv, which is csv; change one of them"
    assert message in refused(*SUBJECT, "--format", "json", "-o", "result.csv").err
    message = "a.pdf: results are written as .csv, .json, .md and .txt (a table); end the name so, or give --format"
    assert message in refused(*SUBJECT, "-o", "a.pdf").err
    said = " ".join(command("frontier", "--help").out.split())
    assert "[default: (as the name after -o ends: .json, .csv, .md; else table)]" in said


def test_a_file_has_no_escape_codes_of_the_terminal(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[" in command("explain", "llama_3_8b", "h100_sxm").out
    assert command("explain", "llama_3_8b", "h100_sxm", "-o", "a.txt").code == 0
    assert "\x1b[" not in (tmp_path / "a.txt").read_text(encoding="utf-8")


def test_the_picture_is_no_part_of_the_result(command: Command, tmp_path: Path) -> None:
    with_picture = command(*SUBJECT, "--format", "json", "--plot", "a.pdf")
    assert with_picture.out == command(*SUBJECT, "--format", "json").out
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")


def test_wide_tables_are_not_folded_in_files_and_lose_their_lines_in_narrow_terminals(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = ("explain", "gpt_oss_120b", "h100_sxm", "--tp", 2, "--quiet", "--assumptions", "deployable")

    def row() -> str:
        return next(line for line in command(*subject).out.splitlines() if "attention (last 128)" in line)

    assert len(row()) <= 118
    monkeypatch.setenv("COLUMNS", "90")
    assert len(row()) <= 90
    assert "│" not in row()
    assert row().split()[-2:] == ["launch", "0"]
    monkeypatch.delenv("COLUMNS")
    assert [cell.strip() for cell in row().split("│")][-3:] == ["launch", "0", ""]
