"""Common names of models and chips."""

from __future__ import annotations

import logging
import re
from collections import deque
from pathlib import Path

import pytest

import inference_econ as ie
from inference_econ.engine import Setup
from inference_econ.errors import UnknownNameError
from inference_econ.inputs import Precision, catalog, name_matching
from inference_econ.inputs import name_matching as spellings


@pytest.mark.parametrize("name", [name for name in catalog.names("models") if "/" not in name])
def test_every_model_goes_by_its_hugging_face_id_in_any_case(name: str) -> None:
    spec = catalog.model(name)
    for text in (spec.name, spec.huggingface_id, (spec.huggingface_id or "").upper()):
        if text:
            assert catalog.meaning("models", text) == catalog.Meaning(name)


@pytest.mark.parametrize("name", [name for name in catalog.names("hardware") if "/" not in name])
def test_every_chip_goes_by_its_title(name: str) -> None:
    assert catalog.meaning("hardware", catalog.hardware(name).name.lower()) == catalog.Meaning(name)


@pytest.mark.rows
def test_case_and_separators_do_not_count(kind: catalog.Kind, text: str, name: str) -> None:
    assert catalog.meaning(kind, text) == catalog.Meaning(name)
    assert catalog.locate(kind, text) == catalog.folder(kind) / f"{name}.yaml"


@pytest.mark.rows
def test_what_is_not_plain_comes_with_a_remark(kind: catalog.Kind, text: str, name: str, remark: str) -> None:
    meaning = catalog.meaning(kind, text)
    assert meaning.name == name
    assert remark in meaning.remark


@pytest.mark.rows
def test_the_name_of_another_checkpoint_stays_as_written(text: str, base: str, remark: str) -> None:
    meaning, model = catalog.meaning("models", text), catalog.model(text)
    assert (meaning.name, meaning.base, model.name) == (text, base, catalog.model(base).name)
    assert remark in meaning.remark
    assert model.checkpoint() is None


@pytest.mark.rows
def test_what_could_be_several_is_refused_with_a_list(kind: catalog.Kind, text: str, message: str) -> None:
    with pytest.raises(UnknownNameError, match=re.escape(message)):
        catalog.meaning(kind, text)


@pytest.mark.rows
def test_a_checkpoint_is_its_model_in_its_format_under_its_id(
    text: str, base: str, weights: str | None, embeddings: str | None
) -> None:
    assert catalog.meaning("models", text).base == base
    checkpoint, model = catalog.model(text), catalog.model(base)
    assert (checkpoint.name, checkpoint.huggingface_id) == (model.name, text)
    assert Precision.of(checkpoint) == Precision.of(model, weights=weights)
    assert embeddings is None or Precision.of(checkpoint).embeddings == embeddings


@pytest.mark.rows
def test_a_quantized_file_is_its_model_in_one_format(text: str, base: str, weights: str, identity: str | None) -> None:
    meaning, model = catalog.meaning("models", text), catalog.model(text)
    assert (meaning.name, meaning.base, model.huggingface_id) == (text, base, identity)
    assert f"{text!r} is taken as {base} (" in meaning.remark
    assert f"with weights in {weights}" in meaning.remark
    precision = Precision.of(model)
    assert precision.experts == weights
    assert precision.embeddings == ("bf16" if weights == "mxfp4" else weights)


def test_formats_that_a_message_tells_to_write_are_formats() -> None:
    with pytest.raises(UnknownNameError) as refusal:
        catalog.meaning("models", "Qwen3-32B-quantized.w4a16")
    dtype = re.findall(r"--weights (\w+), or the id", str(refusal.value))[0]
    assert Setup.of("qwen3_32b", "h100_sxm", weights=dtype).precision.weights == dtype


def test_a_path_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = catalog.locate("hardware", "b200").read_text(encoding="utf-8")
    (tmp_path / "h100").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert catalog.hardware("h100").name == "NVIDIA B200 SXM6 180GB"


def test_python_is_told_what_a_name_was_taken_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "_TOLD", deque())
    with caplog.at_level(logging.WARNING):
        assert ie.hardware("h100") == ie.hardware("h100") == ie.hardware("h100_sxm")
        assert ie.model("Qwen/Qwen3-32B") == ie.model("qwen3_32b")
        assert ie.model("Kimi-K2.5").layers == ie.model("Kimi-K2.5").layers
    told = [record.getMessage().partition(" (")[0] for record in caplog.records]
    assert told == ["'h100' is taken as h100_sxm", "'Kimi-K2.5' is taken as kimi_k2_thinking"]


def test_other_names_lead_to_what_there_is() -> None:
    assert set(name_matching.read_measured_names().plain_hardware) <= set(catalog.names("hardware"))
    assert set(name_matching.model_spellings().values()) <= set(catalog.names("models"))


@pytest.mark.parametrize(("first", "second", "same"), [("fp8", "fp8_block", True), ("fp8", "int8", False)])
def test_formats_that_names_do_not_tell_apart(first: str, second: str, same: bool) -> None:
    assert spellings.alike(first, second) is same
