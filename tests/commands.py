"""The command as a user runs it: through its entry point, errors and exit codes included."""

from __future__ import annotations

import csv
import importlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inference_econ.requests import COMMANDS


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


def parsers() -> dict[str, Any]:
    """The click command of each command, by what is typed."""
    main: Any = importlib.import_module("inference_econ_cli.main")
    return {name: main.ClickCommand(row) for name, row in COMMANDS.items()}


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
