"""``run.sh``: its help, wrong commands and arguments, and its mentions elsewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.commands import process

ROOT = Path(__file__).parents[2]
SCRIPT = (ROOT / "run.sh").read_text(encoding="utf-8")
#: Commands, of which some have a name behind them.
COMMANDS = {label.strip('"') for label in re.findall(r'^("?[a-z][a-z -]*"?)\)$', SCRIPT, flags=re.MULTILINE)}
#: Files that name commands which there are not.
_OTHERS = ("tests/package/test_run_script.py", "tests/package/test_readme.yaml")
_MENTION = re.compile(r"\bsh run\.sh ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?")


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return process("sh", "run.sh", *words, folder=ROOT, timeout=20)


def test_help_is_a_dozen_plain_lines() -> None:
    listed = _run("--help")
    lines = listed.stdout.splitlines()[1:]
    assert listed.returncode == 0
    assert len(lines) <= 12
    assert {line.split()[0] for line in lines} == {command.split()[0] for command in COMMANDS}
    assert max(map(len, lines)) <= 110


@pytest.mark.rows
def test_a_wrong_command_is_answered_with_the_right_ones(words: list[str], message: str) -> None:
    refused = _run(*words)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(message)
    assert "  refit NAME " in refused.stderr


def test_every_mention_is_a_command() -> None:
    files = process("git", "ls-files", folder=ROOT).stdout.splitlines()
    assert files
    with_names = {command.split()[0] for command in COMMANDS if " " in command}
    for file in set(files) - set(_OTHERS):
        text = (ROOT / file).read_bytes().decode("utf-8", "replace") if (ROOT / file).is_file() else ""
        for first, name in _MENTION.findall(text.partition("\n## 0.1.0 ")[0]):
            alone = first in COMMANDS and (not name or first not in with_names)
            assert alone or f"{first} {name}" in COMMANDS, f"{file}: sh run.sh {first} {name}"
