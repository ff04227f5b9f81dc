"""The package alone answers, and draws the published study; extras that are missing are named by their tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_STUDIES = ("SALib", "pyarrow")


def _run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command in a process that finds none of the packages of studies."""
    program = (
        "import importlib.util, sys\n"
        f"gone = {_STUDIES}\n"
        "sys.modules.update(dict.fromkeys(gone))\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name in gone else find(name, *rest)\n"
        f"sys.argv = ['inference-econ', *{arguments}]\n"
        "from inference_econ_cli.main import run; run()"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=folder)


@pytest.mark.rows
def test_answers_need_nothing_of_studies(tmp_path: Path, arguments: list[str]) -> None:
    done = _run(*arguments, folder=tmp_path)
    assert (done.returncode, done.stderr.count("Error")) == (0, 0), done.stderr
    assert done.stdout.count("\n") > 5 or (tmp_path / "figure.svg").stat().st_size > 10_000
