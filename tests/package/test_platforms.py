"""Limits of other systems, simulated on this one: modules, signals, names of files, encodings."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import inference_econ
from tests.commands import python
from tests.reading import tables

PACKAGE = Path(inference_econ.__file__).parent
ROOT = PACKAGE.parent
#: Folders with installed files.
FOLDERS = (PACKAGE, *(ROOT / name for name in ("cli", "models", "hardware", "scenarios")))
#: Names of devices of Windows, with any ending; characters that its file systems reject; a last dot or space.
FORBIDDEN = re.compile(r'(con|prn|aux|nul|com\d|lpt\d)(\..*)?|.*[<>:"|?*\\].*|.*[. ]', re.IGNORECASE)
#: Longest path of Windows, less a long folder of packages [characters].
LONGEST = 260 - 120
#: Starts the program as on Windows: without modules, functions and signals of POSIX, and with its default encoding.
WITHOUT_POSIX: str = tables(Path(__file__))["WITHOUT_POSIX"]


def test_installed_files_have_names_that_every_system_accepts() -> None:
    paths = [it.relative_to(ROOT) for folder in FOLDERS for it in folder.rglob("*") if "__pycache__" not in it.parts]
    assert not [path for path in paths if FORBIDDEN.fullmatch(path.name) or len(path.as_posix()) > LONGEST]
    assert max(Counter(path.as_posix().lower() for path in paths).values()) == 1


def test_stubs_that_are_read_at_run_time_are_ascii() -> None:
    """lazy_loader reads them in the encoding of the system."""
    assert all(path.read_bytes().isascii() for path in PACKAGE.rglob("*.pyi"))


def test_commands_need_nothing_of_posix(tmp_path: Path) -> None:
    (tmp_path / "start.py").write_text(WITHOUT_POSIX, encoding="utf-8")
    options = ("--max-instance-gpus", "1", "--tp", "1", "--engine", "vllm", "-o", "a.csv", "--plot", "a.svg")
    asked = ("start.py", "frontier", "llama_3_8b", "h100_sxm", *options)
    outcome = python("-X", "warn_default_encoding", *asked, folder=tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"start.py", "a.csv", "a.svg"}
