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
    for file, text in row.get("files", {}).items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    for line in row.get("first", ()):
        assert command(*shlex.split(line)).code == 0, line
    outcome = command(*shlex.split(row["words"].replace("FIXTURES", str(FIXTURES))))
    assert outcome.code == row.get("code", 0), outcome
    assert "Traceback" not in outcome.err
    assert outcome.code == 0 or ("Error: " in outcome.err and outcome.out == "")
    said = outcome.said
    for name, text in {"printed": outcome.out, "said": said, "warned": outcome.warned}.items():
        assert [part for part in row.get(name, ()) if part not in text] == [], text
        assert [part for part in row.get(f"un{name}", ()) if part in text] == [], text
    assert outcome.err == row.get("err", outcome.err)
    for path, value in row.get("json", {}).items():
        steps = (int(step) if step.lstrip("-").isdigit() else step for step in path.split("."))
        found = reduce(lambda record, step: record[step], steps, json.loads(outcome.out))
        assert found == (pytest.approx(value) if isinstance(value, float) else value), path
    for other, same in (("same_as", True), ("unlike", False)):
        if other in row:
            assert (command(*shlex.split(row[other])).out == outcome.out) is same
    for file, parts in row.get("wrote", {}).items():
        text = (tmp_path / file).read_text(encoding="utf-8", errors="replace")
        assert [part for part in parts if part not in text] == [], text
    for file, line in row.get("file_as", {}).items():
        assert (tmp_path / file).read_text(encoding="utf-8") == command(*shlex.split(line)).out
