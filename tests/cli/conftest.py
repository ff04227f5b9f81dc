"""The command as a user runs it: through its entry point, errors and exit codes included."""

from __future__ import annotations

import csv
import importlib.metadata
import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Outcome:
    """What one run left behind."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Words that were printed, however they are wrapped."""
        return " ".join(self.out.split())

    @property
    def warned(self) -> str:
        """Words of the error stream, however they are wrapped."""
        return " ".join(self.err.split())


Command = Callable[..., Outcome]


def record(command: Command, *arguments: object) -> dict[str, Any]:
    """The record that a command prints without a remark."""
    outcome = command(*arguments, "--format", "json")
    assert (outcome.code, outcome.err) == (0, ""), outcome
    answer = json.loads(outcome.out)
    assert isinstance(answer, dict)
    return answer


def rows(command: Command, *arguments: object) -> list[dict[str, str]]:
    """The rows that a command prints as CSV."""
    outcome = command(*arguments, "--csv")
    assert outcome.code == 0, outcome
    return list(csv.DictReader(io.StringIO(outcome.out)))


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Runs ``inference-econ`` with some arguments in an empty folder."""
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="inference-econ")
    start = entry.load()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "118")
    monkeypatch.setenv("LINES", "40")

    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["inference-econ", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_info:
            start()
        code = exit_info.value.code
        assert isinstance(code, int)
        printed = capsys.readouterr()
        return Outcome(code, printed.out, printed.err)

    return run


@pytest.fixture
def refused(command: Command) -> Command:
    """Runs a command that must fail: nothing on the output stream, one message, no traceback."""

    def run(*arguments: object, code: int = 2) -> Outcome:
        outcome = command(*arguments)
        assert outcome.code == code, outcome
        assert outcome.out == ""
        assert "Error: " in outcome.err
        assert "Traceback" not in outcome.err
        return outcome

    return run
