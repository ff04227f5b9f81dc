"""The package without extras computes results and draws the published study; tests name missing extras."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.reading import tables

_STUDIES = ("SALib", "pyarrow")


#: Commands in one process without any package of studies, each with its exit code.
_PROGRAM = """\
import importlib, importlib.util, json, sys
gone, commands = {gone}, json.loads(sys.argv[1])
sys.modules.update(dict.fromkeys(gone))
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in gone else find(name, *rest)
main = importlib.import_module("inference_econ_cli.main")
for words in commands:
    main.app(words, standalone_mode=False)
    print(f"\\n@{{words[0]}}")
"""
COMMANDS: list[list[str]] = tables(Path(__file__))["COMMANDS"]


def test_answers_need_nothing_of_studies(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(gone=_STUDIES), json.dumps(COMMANDS)],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stderr.count("Error")) == (0, 0), done.stderr
    for words, printed in zip(COMMANDS, re.split(r"\n@\w+\n", done.stdout), strict=False):
        picture = next((tmp_path / word for word in words if word.endswith(".svg")), None)
        assert printed.count("\n") > 5 or (picture is not None and picture.stat().st_size > 10_000), words
