"""Every command over HTTP: its result equals the command's output and the Python result."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import inference_econ as ie
from inference_econ.extras.web import questions
from inference_econ.records import saved
from tests import small
from tests.reading import tables

if TYPE_CHECKING:
    from starlette.testclient import TestClient

FIELDS: dict[str, dict[str, Any]] = tables(Path(__file__))["FIELDS"]
SLUGS: dict[str, str] = tables(Path(__file__))["SLUGS"]


def test_every_question_that_http_has_is_here() -> None:
    assert {SLUGS.get(name, name) for name in FIELDS} == set(questions())


@pytest.mark.parametrize("name", FIELDS)
def test_all_doors_agree(client: TestClient, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    reply = client.post(f"/api/v1/{SLUGS.get(name, name)}", json=FIELDS[name])
    assert reply.status_code == 200, reply.text
    line, answer = reply.json()["command"], reply.json().get("answer")
    form = [] if answer is None else ["--json"]
    importlib.import_module("inference_econ_cli.main").app([*shlex.split(line)[1:], *form], standalone_mode=False)
    printed = capsys.readouterr().out
    if answer is None:
        assert reply.json()["text"] == printed
        assert _started(small.ANSWERS["recommend"]().launch()) == _started(printed)
        assert ie.launch(**FIELDS[name]) == printed
        return
    typed = json.loads(printed)
    assert answer == (typed if isinstance(typed, dict) else {"rows": typed})
    answer.pop("asked", None)
    command = questions()[SLUGS.get(name, name)]
    if command.call:
        assert answer == json.loads(json.dumps(getattr(ie, command.python_name)(**FIELDS[name]).to_dict()))
    if python := small.ANSWERS.get(name):
        asked = python()
        assert answer == json.loads(json.dumps(asked.to_dict()))
        (tmp_path / "answer.json").write_text(printed, encoding="utf-8")
        if "asked" in typed and typed["asked"]["command"] in saved._ROWS:
            kept, frame = ie.load_answer(tmp_path / "answer.json").to_frame(), asked.to_frame()
            assert (list(kept.columns), len(kept)) == (list(frame.columns), len(frame))


def _started(script: str) -> list[str]:
    """Return lines of a script without the comment on the interface that selected the deployment."""
    return re.sub(r"# selected: .*\n(#     .*\n)*", "", script).splitlines()
