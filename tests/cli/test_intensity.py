"""The command that says where a step turns from memory traffic to arithmetic."""

from __future__ import annotations

import json
from pathlib import Path

from tests.commands import Command, rows

ASKED = ("intensity", "llama_3_70b", "h100_sxm", "--tp", "8", "--assumptions", "ideal")


def test_forms_and_picture(command: Command, tmp_path: Path) -> None:
    picture = tmp_path / "intensity.svg"
    record = json.loads(command(*ASKED, "--to", "64", "--format", "json", "--plot", picture).out)
    assert record["values"] == [1, 2, 4, 8, 16, 32, 64]
    assert record["step"]["turns_at"] is None
    lines = rows(command, *ASKED, "--to", "64")
    assert len(lines) == 7 * (len(record["operators"]) + 1)
    drawn = picture.read_text(encoding="utf-8")
    assert "From which batch on is arithmetic the limit?" in drawn
    assert "ridge of bf16: 295 FLOP/B" in drawn
