"""Limits of other systems, simulated on this one: modules, signals, names of files, encodings."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import inference_econ

PACKAGE = Path(inference_econ.__file__).parent
ROOT = PACKAGE.parent
#: Folders with installed files.
FOLDERS = (PACKAGE, *(ROOT / name for name in ("cli", "models", "hardware", "scenarios")))
#: Names of devices of Windows, with any ending; characters that its file systems reject; a last dot or space.
FORBIDDEN = re.compile(r'(con|prn|aux|nul|com\d|lpt\d)(\..*)?|.*[<>:"|?*\\].*|.*[. ]', re.IGNORECASE)
#: Longest path of Windows, less a long folder of packages [characters].
LONGEST = 260 - 120
#: Starts the program as on Windows: without modules, functions and signals of POSIX, and with its default encoding.
WITHOUT_POSIX = """
import os, signal, sys, warnings
sys.modules.update(dict.fromkeys(("fcntl", "grp", "pwd", "resource", "termios", "tty")))
for module, names in {
    os: ("fork", "geteuid", "getuid", "killpg", "mkfifo", "sched_getaffinity", "O_NOFOLLOW", "O_NONBLOCK"),
    signal: ("SIGALRM", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGXFSZ"),
}.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
warnings.filterwarnings("error", category=EncodingWarning, module="inference_econ")
if __name__ == "__main__":
    from inference_econ_cli.start import run
    run()
"""


def test_installed_files_have_names_that_every_system_accepts() -> None:
    paths = [
        path.relative_to(ROOT) for folder in FOLDERS for path in folder.rglob("*") if "__pycache__" not in path.parts
    ]
    assert not [path for path in paths if FORBIDDEN.fullmatch(path.name) or len(path.as_posix()) > LONGEST]
    assert max(Counter(path.as_posix().lower() for path in paths).values()) == 1


def test_stubs_that_are_read_at_run_time_are_ascii() -> None:
    """lazy_loader reads them in the encoding of the system."""
    assert all(path.read_bytes().isascii() for path in PACKAGE.rglob("*.pyi"))


def test_commands_need_nothing_of_posix(tmp_path: Path) -> None:
    (tmp_path / "start.py").write_text(WITHOUT_POSIX, encoding="utf-8")
    options = ("--max-instance-gpus", "1", "--tp", "1", "--engine", "vllm", "-o", "a.csv", "--plot", "a.svg")
    outcome = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "start.py", "frontier", "llama_3_8b", "h100_sxm", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"start.py", "a.csv", "a.svg"}
