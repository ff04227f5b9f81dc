"""Words and numbers that commands print; each row of the table next to this file is one command line."""

from __future__ import annotations

import json
import shlex
import shutil
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Command
from tests.reading import FIXTURES, tables

ROWS: Any = tables(Path(__file__))


@pytest.mark.parametrize("row", ROWS, ids=[row["holds"][:80] for row in ROWS])
def test_a_command_says_what_it_should(command: Command, tmp_path: Path, row: dict[str, Any]) -> None:
    shutil.copy(FIXTURES / "traces" / "mooncake.jsonl", tmp_path)
    outcome = command(*shlex.split(row["words"]))
    assert outcome.code == row.get("code", 0), outcome
    said = outcome.said
    for name, text in {"printed": outcome.out, "said": said, "warned": outcome.err}.items():
        assert [part for part in row.get(name, ()) if part not in text] == [], text
        assert [part for part in row.get(f"un{name}", ()) if part in text] == [], text
    assert outcome.err == row.get("err", outcome.err)
    for path, value in row.get("json", {}).items():
        steps = (int(step) if step.isdigit() else step for step in path.split("."))
        assert reduce(lambda record, step: record[step], steps, json.loads(outcome.out)) == value
