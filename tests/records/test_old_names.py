"""Names of earlier releases are accepted until 0.3.0, with one warning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import inference_econ as ie
from inference_econ.inputs import Settings


def test_a_saved_result_with_old_keys_is_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, head = tmp_path / "answer.json", {"program": "inference-econ", "version": "0.1.0", "command": "recommend"}
    path.write_text(json.dumps({"asked": head, "choices": [{"binding": "ttft", "room_to_ttft": 0.5, "lots": []}]}))
    (choice,) = ie.load_answer(path).to_dict()["choices"]
    assert choice == {"limiting_constraint": "ttft", "ttft_margin_elasticity": 0.5, "rental_units": []}
    (line,) = caplog.messages
    assert line.endswith("answer.json has old names of keys, which are read until 0.3.0; save it again")


def test_an_old_arrangement_is_read(caplog: pytest.LogCaptureFixture) -> None:
    assert Settings.model_validate({"arrangement": "together"}).arrangement == "aggregated"
    assert caplog.messages == ["note: arrangement 'together' is now 'aggregated'; the old name works until 0.3.0"]


@pytest.mark.parametrize(("old", "new"), [("market", "candidates"), ("offer", "layouts")])
def test_old_names_of_python_are_read(old: str, new: str, caplog: pytest.LogCaptureFixture) -> None:
    assert getattr(ie, old) is getattr(ie, new)
    assert caplog.messages == [f"note: {old!r} is now {new!r}; the old name works until 0.3.0"]
