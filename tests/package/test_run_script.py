"""``run.sh``: its help, wrong commands and arguments, and its mentions elsewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = (ROOT / "run.sh").read_text(encoding="utf-8")
#: Commands, of which some have a name behind them.
COMMANDS = {label.strip('"') for label in re.findall(r'^("?[a-z][a-z -]*"?)\)$', SCRIPT, flags=re.MULTILINE)}
#: Files that name commands which there are not.
_OTHERS = ("tests/package/test_run_script.py", "tests/package/test_readme.yaml")
_MENTION = re.compile(r"\bsh run\.sh ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?")


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "run.sh", *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=20)


def test_help_is_a_dozen_plain_lines() -> None:
    listed = _run("--help")
    lines = listed.stdout.splitlines()[1:]
    assert listed.returncode == 0
    assert len(lines) <= 12
    assert {line.split()[0] for line in lines} == {command.split()[0] for command in COMMANDS}
    assert max(map(len, lines)) <= 110


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "sh run.sh: a command is missing"),
        (("fuzz",), "sh run.sh: unknown command 'fuzz'"),
        (("refit",), "sh run.sh: refit needs a NAME: evidence kernels levels measurements power priors profiles "),
        (("refit", "all"), "sh run.sh: refit has no 'all'; it has: evidence kernels levels "),
        (("validate", "servers"), "sh run.sh: validate has no 'servers'; it has: agreement closed-loop "),
        (("demo", "now"), "sh run.sh: demo takes no argument, got 'now'"),
        (("validate", "--cases", "3"), "sh run.sh: validate takes no argument, got '--cases 3'"),
        (("refit", "traffic"), "sh run.sh: refit traffic needs the FOLDER of its traces"),
    ],
)
def test_a_wrong_command_is_answered_with_the_right_ones(words: tuple[str, ...], message: str) -> None:
    refused = _run(*words)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(message)
    assert "  refit NAME " in refused.stderr


def test_every_mention_is_a_command() -> None:
    command = ["git", "ls-files"]
    files = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    with_names = {command.split()[0] for command in COMMANDS if " " in command}
    for file in set(files) - set(_OTHERS):
        text = (ROOT / file).read_bytes().decode("utf-8", "replace") if (ROOT / file).is_file() else ""
        for first, name in _MENTION.findall(text.partition("\n## 0.1.0 ")[0]):
            alone = first in COMMANDS and (not name or first not in with_names)
            assert alone or f"{first} {name}" in COMMANDS, f"{file}: sh run.sh {first} {name}"
