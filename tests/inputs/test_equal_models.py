"""Models in users' files that have the architecture of a catalog model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import inference_econ as ie
from inference_econ import inputs
from inference_econ.engine import Setup, evidence_of
from inference_econ.inputs import catalog, huggingface, practices

CONFIGS = Path(__file__).parents[1] / "fixtures" / "hf_configs"
#: Configurations with their models of the catalog: equal ones, other number formats and contexts, and another model.
EQUAL = {
    "deepseek-ai--DeepSeek-R1": "DeepSeek-V3",
    "nvidia--DeepSeek-V3.1-NVFP4": "DeepSeek-V3 NVFP4",
    "openai--gpt-oss-120b": "gpt-oss 120b",
    "Qwen--Qwen3-32B-FP8": "Qwen3 32B",
    "meta-llama--Meta-Llama-3-8B": "Llama 3.1 8B",
    "Qwen--Qwen3.5-27B": "Qwen3.5 27B",
    "XiaomiMiMo--MiMo-7B-Base": "XiaomiMiMo--MiMo-7B-Base",
}


@pytest.fixture
def imported(tmp_path: Path) -> Path:
    """Return the file of an imported DeepSeek-V3 with another name."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.json").write_bytes((CONFIGS / "deepseek-ai--DeepSeek-V3_config.json").read_bytes())
    path = tmp_path / "mine.yaml"
    path.write_text(inputs.spec_text(huggingface.import_config(folder)), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", EQUAL)
def test_imported_models_are_known_as_their_catalog_models(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    for file in ("config.json", "hf_quant_config.json"):
        if (source := CONFIGS / f"{name}_{file}").exists():
            (folder / file).write_bytes(source.read_bytes())
    model = catalog.recognized(huggingface.import_config(folder))
    assert (model.name, model.known_as) == (name, EQUAL[name])
    assert catalog.model(folder).known_as == EQUAL[name]
    assert catalog.remark("models", str(folder)) == model.equal_remark
    assert bool(model.equal_remark) == (EQUAL[name] != name)


def test_every_catalog_model_equals_itself_alone() -> None:
    """Models with the same architecture differ in number formats or in the longest context."""
    for name in catalog.models():
        model = catalog.model(name)
        assert (model.known_as, model.equal_remark) == (model.name, "")
        if "/" not in name:
            assert catalog.recognized(model.model_copy(update={"name": "mine"})).known_as == model.name


def test_changed_architectures_are_not_known(imported: Path) -> None:
    name = "mine"
    assert catalog.model(imported).known_as == "DeepSeek-V3"
    assert catalog.model(imported, changes=["max_context=200000"]).known_as == "DeepSeek-V3"
    for change in ("mtp_layers=0", "vocab_size=129281", "hidden_size=7169", "layers=60"):
        assert catalog.model(imported, changes=[change]).known_as == name
    scaled = inputs.scaled(catalog.model(imported), 2.0)
    assert scaled.known_as == scaled.name == "mine x 2"
    broken = json.loads((CONFIGS / "deepseek-ai--DeepSeek-V3_config.json").read_text(encoding="utf-8"))
    config = imported.parent / "config.json"
    config.write_text(json.dumps({**broken, "hidden_size": None}), encoding="utf-8")
    assert catalog.remark("models", str(config)) == ""


def test_recipes_evidence_and_costs_are_those_of_the_catalog_model(imported: Path) -> None:
    mine, known, chip = catalog.model(imported), catalog.model("deepseek_v3"), catalog.hardware("h200_sxm")
    assert practices("trtllm", mine, chip) == practices("trtllm", known, chip)
    assert catalog.usual_acceptance("mtp", mine) == catalog.usual_acceptance("mtp", known)
    setups = [Setup.of(model, "h200_sxm", engine="trtllm") for model in (mine, "deepseek_v3")]
    first, second = (evidence_of(setup, disaggregated=False, speculates=True) for setup in setups)
    assert first == second and first.kind == "measured"
    query: dict[str, Any] = {"request_rate": 5, "instance_gpus": 8, "aggregated": True, "engine": "trtllm"}
    sheets = [ie.price(model, "h200_sxm", **query) for model in (str(imported), "deepseek_v3")]
    assert sheets[0].dollars_per_million_tokens == sheets[1].dollars_per_million_tokens
    assert sheets[0].usual == sheets[1].usual


def test_catalog_models_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "recognized", lambda model: pytest.fail(f"compared {model.name}"))
    assert catalog.model("llama_3_70b", changes=["max_context=1000"]).known_as == "Llama 3.1 70B"
