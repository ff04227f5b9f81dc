"""Rendering of results: formats, files, colors and ``--quiet``. Widths are tested in tests/golden."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.commands import Command

SUBJECT = ("frontier", "llama_3_8b", "h100_sxm", "--max-instance-gpus", 1)


def test_quiet_leaves_the_drawing_and_remarks_out(command: Command) -> None:
    subject = (*SUBJECT[:-1], 4)
    loud, quiet = command(*subject), command(*subject, "--quiet")
    assert loud.code == quiet.code == 0
    assert "is outside the calibration data" in loud.out
    assert "is outside the calibration data" not in quiet.out
    assert len(quiet.out.splitlines()) < len(loud.out.splitlines()) - 15
    written = command(*SUBJECT, "--quiet", "-o", "a.txt", "--plot", "a.png")
    assert (written.code, written.out, written.err) == (0, "", "")


@pytest.mark.parametrize("name", ["COLUMNS", "LINES"])
def test_a_terminal_size_of_5000_digits(command: Command, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv("COLUMNS")
    plain = command(*SUBJECT).out
    monkeypatch.setenv(name, "9" * 5000)
    shown = command(*SUBJECT)
    assert (shown.code, shown.out) == (0, plain)


@pytest.mark.parametrize("other", ["a.svg", "./a.svg", "b/../a.svg"])
def test_a_result_and_its_picture_need_two_names(refused: Command, tmp_path: Path, other: str) -> None:
    (tmp_path / "b").mkdir()
    outcome = refused(*SUBJECT, "-o", "a.svg", "--plot", other)
    assert f"-o a.svg and --plot {other} are the same file; give two names" in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_files_have_no_escape_codes(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[" in command("explain", "llama_3_8b", "h100_sxm").out
    assert command("explain", "llama_3_8b", "h100_sxm", "-o", "a.txt").code == 0
    assert "\x1b[" not in (tmp_path / "a.txt").read_text(encoding="utf-8")


def test_the_picture_is_no_part_of_the_result(command: Command, tmp_path: Path) -> None:
    with_picture = command(*SUBJECT, "--format", "json", "--plot", "a.pdf")
    assert with_picture.out == command(*SUBJECT, "--format", "json").out
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")


def test_a_picture_after_o_is_drawn_as_by_plot(command: Command, tmp_path: Path) -> None:
    outcome = command(*SUBJECT, "-o", "a.png")
    assert outcome.out == command(*SUBJECT, "--plot", "b.png").out
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_what_numbers_rest_on_is_said_when_it_is_asked_for(command: Command, tmp_path: Path) -> None:
    short, long = command(*SUBJECT).out, command(*SUBJECT, "--why").out
    assert short.endswith("\n\nAdd --why for assumptions and errors.\n")
    assert "profiles/vllm_hopper" not in short
    for text in ("profiles/vllm_hopper", "lists only layouts that", "above the prediction of"):
        assert text in long
    assert "--why" not in long
    assert command(*SUBJECT, "-o", "a.txt").code == 0
    assert command(*SUBJECT, "-o", "a.md").code == 0
    for name in ("a.txt", "a.md"):
        assert "profiles/vllm_hopper" in (tmp_path / name).read_text(encoding="utf-8")
    assert "--why" not in command(*SUBJECT, "--quiet").out
    assert "profiles/vllm_hopper" in command(*SUBJECT, "--quiet", "--why").out


def test_narrow_screens_name_what_they_omit(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "66")
    subject = (*SUBJECT, "--decode-only")
    printed = command(*subject).out
    assert "MFU %" not in printed.splitlines()[2]
    end = "Add --why for assumptions and errors and --csv for more columns ('MFU %', 'MBU %')."
    assert " ".join(printed.split()).endswith(end)
    assert command(*subject, "-o", "a.txt").code == 0
    assert "MBU %" in (tmp_path / "a.txt").read_text(encoding="utf-8")


def test_without_a_terminal_lines_have_100_characters(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")
    lines = command("explain", "gpt_oss_120b", "h100_sxm", "--tp", 2, "--operators", "--why").out.splitlines()
    assert 90 < max(map(len, lines)) <= 100


def _has_codes(command: Command) -> bool:
    return "\x1b[" in command("explain", "llama_3_8b", "h100_sxm").out


def test_colour_follows_the_usual_variables(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    plain = command("explain", "llama_3_8b", "h100_sxm").out
    assert not _has_codes(command)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = command("explain", "llama_3_8b", "h100_sxm").out
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain  # color is never the only sign
    monkeypatch.setenv("NO_COLOR", "1")
    assert not _has_codes(command)
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert not _has_codes(command)
    monkeypatch.delenv("NO_COLOR")
    assert _has_codes(command)
    monkeypatch.setenv("TERM", "dumb")
    assert not _has_codes(command)
