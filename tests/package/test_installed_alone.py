"""The package without extras computes results and draws the published study; tests name missing extras."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.commands import python
from tests.reading import tables

_STUDIES = ("SALib", "pyarrow")


#: Commands in one process without any package of studies, each with its exit code.
_PROGRAM: str = tables(Path(__file__))["PROGRAM"]
COMMANDS: list[list[str]] = tables(Path(__file__))["COMMANDS"]


def test_answers_need_nothing_of_studies(tmp_path: Path) -> None:
    done = python("-c", _PROGRAM.format(gone=_STUDIES), json.dumps(COMMANDS), folder=tmp_path)
    assert (done.returncode, done.stderr.count("Error")) == (0, 0), done.stderr
    for words, printed in zip(COMMANDS, re.split(r"\n@\w+\n", done.stdout), strict=False):
        picture = next((tmp_path / word for word in words if word.endswith(".svg")), None)
        assert printed.count("\n") > 5 or (picture is not None and picture.stat().st_size > 10_000), words
