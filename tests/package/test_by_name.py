"""Python calls by names and options: valid calls, and the message of each wrong call."""

from __future__ import annotations

import inspect
import json
import pydoc
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inference_econ as ie
from benchmarks import signatures
from inference_econ.requests import COMMANDS, by_name
from tests.commands import python
from tests.reading import tables

ROOT = Path(__file__).parents[2]
#: As calls without type checks may write it.
ANY: Any = ie
#: Names in expressions of the tables.
NAMES = {"ie": ie, "np": np, "setup": ie.Setup.of("llama_3_8b", "h100_sxm"), "lengths": ie.Requests(1000, 200)}


def _value(call: str) -> Any:
    """Return the result of an expression of a table."""
    return eval(call, NAMES)


@pytest.mark.rows
@pytest.mark.usefixtures("short_runs")
def test_first_lines_work(call: str, kind: str) -> None:
    result = _value(call)
    assert type(result).__name__ == kind
    assert len(result if isinstance(result, tuple) else result.to_dict()) > 0


@pytest.mark.rows
def test_a_wrong_call_is_told_what_to_write(call: str, message: str) -> None:
    with pytest.raises(ie.InputError, match=message) as caught:
        _value(call)
    assert "\n" not in str(caught.value)


@pytest.mark.rows
def test_both_calls_mean_the_same(call: str, other: str) -> None:
    one, two = _value(call), _value(other)
    assert one == two if isinstance(one, str) else one.to_dict() == two.to_dict()


@pytest.mark.parametrize("command", [it for it in COMMANDS.values() if it.call], ids=lambda it: it.python_name)
def test_every_question_rejects_other_objects_and_options(command: Any) -> None:
    ask = getattr(ie, command.python_name)
    for arguments in ([3], [object()], [None], [None, 3], [ie.Targets(), ie.Targets(), ie.Targets()]):
        with pytest.raises(ie.InputError):
            ask(*arguments)
    with pytest.raises(ie.InputError, match=r"wieghts.*; (did you mean '?weights|functions that have weights)"):
        ask(*by_name._example(command), wieghts="fp8")


def test_help_has_the_description_and_the_options() -> None:
    text = pydoc.plain(pydoc.render_doc(ie.recommend))
    # Python 3.13 writes each parameter of a long signature on its own line.
    signature = re.sub(r"\(\s+", "(", " ".join(text.splitlines()[2:9]))
    assert re.sub(r"\s+", " ", signature).startswith("recommend(model, hardware, *, weights=None, ")
    assert "ttft : [PN:]MS|TIME, optional\n" in text
    assert "rent : 'gpu' or 'node', optional\n" in text
    assert "recommend(offers: Sequence[Candidate | Services], requests_per_second: float | None, " in text
    assert "--" not in re.sub(r"-{3,}|(?s:With objects.*)", "", text)
    assert list(inspect.signature(ie.sensitivity).parameters)[:2] == ["names", "vary"]


def test_an_engine_that_is_started_is_written_in_the_form_that_is_wanted() -> None:
    written = ie.launch("llama_3_8b", "h100_sxm", request_rate=5, max_instance_gpus=1, as_="compose")
    assert "services:" in written


def test_a_bar_and_a_longer_wait_are_options() -> None:
    shares: list[float] = []
    asked = {"request_rate": 1, "max_instance_gpus": 1, "yes": True}
    ANY.recommend("llama_3_8b", "h100", **asked, progress=lambda share, *_: shares.append(share))
    assert shares


def test_an_answer_by_names_is_kept_as_any_other(tmp_path: Path) -> None:
    answer = ie.explain("llama_3_8b", "h100_sxm", batch=8)
    answer.save(tmp_path / "a.json")
    assert ie.load_answer(tmp_path / "a.json").to_dict() == json.loads(json.dumps(answer.to_dict()))


def test_types_are_those_of_the_tables() -> None:
    assert signatures.FILE.read_text(encoding="utf-8") == signatures.text(), "python -m benchmarks.signatures"


@pytest.mark.long  # Type checks take a minute.
def test_type_checkers_see_what_is_wrong(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(tables(Path(__file__))["PROGRAM"], encoding="utf-8")
    checked = python("-m", "mypy", "--strict", program, folder=ROOT)
    wrong = {int(line) for line in re.findall(r"program\.py:(\d+): error", checked.stdout)}
    lines = program.read_text(encoding="utf-8").splitlines()
    assert wrong == {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}, checked.stdout


def test_options_have_the_names_of_other_tools() -> None:
    theirs: dict[str, Any] = {"input_len": 1000, "output_len": 100, "quantization": "fp8"}
    ours = ie.fits("llama_3_8b", "h100", isl=1000, osl=100, weights="fp8", tp=1)
    assert ie.fits("llama_3_8b", "h100", tp=1, **theirs).to_dict() == ours.to_dict()
