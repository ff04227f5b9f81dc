"""What answers need is installed with the package alone; what studies need is named where it is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_STUDIES = ("SALib", "matplotlib", "pyarrow", "scipy")


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
    assert done.stdout.count("\n") > 5


@pytest.mark.rows
def test_what_a_study_lacks_is_named(tmp_path: Path, arguments: list[str], package: str) -> None:
    done = _run(*arguments, folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        f"Error: {package} is not installed, which this command needs: pip install 'inference-econ[studies]'"
    )
    assert not list(tmp_path.iterdir())
