"""Runs of the command through its entry point, with errors and exit codes."""

from __future__ import annotations

import csv
import importlib
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference_econ.requests import COMMANDS


@dataclass(frozen=True)
class Outcome:
    """Result of one run."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Return the printed words, independent of line breaks."""
        return " ".join(self.out.split())

    @property
    def warned(self) -> str:
        """Return the words of the error stream, independent of line breaks."""
        return " ".join(self.err.split())


Command = Callable[..., Outcome]


def process(*words: str | Path, folder: Path | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder and return its output as text."""
    return subprocess.run(list(map(str, words)), cwd=folder, capture_output=True, text=True, check=False, **options)


def python(*words: str | Path, folder: Path | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the Python of the tests with arguments."""
    return process(sys.executable, *words, folder=folder, **options)


def stand_ins(folder: Path, programs: Mapping[str, str], *tools: str) -> str:
    """Write shell scripts in the place of programs into a folder, with links to tools, and return the folder."""
    folder.mkdir(exist_ok=True)
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    for tool in tools:
        if not (folder / tool).exists():
            (folder / tool).symlink_to(shutil.which(tool) or tool)
    return str(folder)


def parsers() -> dict[str, Any]:
    """Return the click command of each command by its name."""
    main: Any = importlib.import_module("inference_econ_cli.main")
    return {name: main.ClickCommand(row) for name, row in COMMANDS.items()}


def record(command: Command, *arguments: object) -> dict[str, Any]:
    """Return the record that a command prints without notes."""
    outcome = command(*arguments, "--format", "json")
    assert (outcome.code, outcome.err) == (0, ""), outcome
    answer = json.loads(outcome.out)
    assert isinstance(answer, dict)
    return answer


def rows(command: Command, *arguments: object) -> list[dict[str, str]]:
    """Return the rows that a command prints as CSV."""
    outcome = command(*arguments, "--csv")
    assert outcome.code == 0, outcome
    return list(csv.DictReader(io.StringIO(outcome.out)))
