"""Which engines have a model, a chip and formats, and what is said where one has not."""

from __future__ import annotations

import re

import pytest

from inference_econ.errors import InputError
from inference_econ.inputs import ANY_LAYOUT, Precision, catalog, engines_for, known_engines


def names(
    model: str, chip: str, wanted: str | None = None, weights: str | None = None, kv: str | None = None
) -> list[str]:
    spec = catalog.model(model)
    precision = Precision.of(spec, weights, kv=kv)
    return [engine.label for engine in engines_for(spec, catalog.hardware(chip), precision, wanted)]


def test_all_that_are_known_are_asked_at_their_newest() -> None:
    assert names("llama_3_70b", "h100_sxm") == ["sglang 0.5.23", "trtllm 1.3.0rc20", "vllm 0.33.0"]
    assert names("llama_3_70b", "mi300x") == ["sglang 0.5.23", "vllm 0.33.0"]
    assert names("llama_3_70b", "tpu_v6e") == names("paper/llama_3_70b", "h100_sxm") == []
    assert names("llama_3_70b", "h100_sxm", ANY_LAYOUT) == []


def test_one_can_be_named_with_a_version() -> None:
    assert names("llama_3_70b", "h100_sxm", "vllm") == ["vllm 0.33.0"]
    assert names("llama_3_70b", "h100_sxm", "vllm@0.25.1") == ["vllm 0.24.0"]


def test_formats_depend_on_the_chip() -> None:
    # Kernels of NVFP4 on Hopper are Marlin's of vLLM; TensorRT-LLM's matrix has none.
    assert names("llama_3_70b", "h100_sxm", weights="nvfp4") == ["vllm 0.33.0"]
    assert "trtllm 1.3.0rc20" in names("llama_3_70b", "b200", weights="nvfp4")
    assert names("llama_3_70b", "a100_sxm_80", kv="fp8") == ["trtllm 1.3.0rc20"]


@pytest.mark.rows
def test_what_an_engine_lacks_is_said(
    model: str, chip: str, wanted: str, formats: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        names(model, chip, wanted, **formats)


@pytest.mark.parametrize("name", [name for name in catalog.names("models") if "/" not in name])
def test_models_of_hugging_face_have_an_architecture(name: str) -> None:
    model = catalog.model(name)
    assert (model.architecture is None) == (model.huggingface_id is None)
    if model.architecture is not None:
        known = {arch for engine in known_engines() for entry in engine.facts.models for arch in entry.architectures}
        assert model.architecture in known


def test_generations_of_chips_are_those_of_hardware() -> None:
    generations = {catalog.hardware(name).generation for name in catalog.names("hardware")}
    for engine in known_engines():
        facts = engine.facts
        for named in (facts.chips, facts.models, facts.kernels, facts.overlap):
            assert {name for entry in named for name in entry.generations} <= generations


def test_captured_batches_are_those_of_the_source() -> None:
    # vllm/config/vllm.py: [1, 2, 4] + range(8, 256, 8) + range(256, 513, 16), up to twice the slots.
    vllm = catalog.engine("vllm").at().captured
    assert vllm is not None
    assert vllm.sizes(1024) == (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))
    assert vllm.sizes(16) == (1, 2, 4, 8, 16, 24, 32)
    before = catalog.engine("vllm").at("0.11.0").captured
    assert before is not None
    assert before.sizes(1024)[-2:] == (504, 512)
