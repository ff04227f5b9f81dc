"""Names that people have for models and chips."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

import inference_econ as ie
from inference_econ.engine import Setup
from inference_econ.errors import UnknownNameError
from inference_econ.inputs import Precision, catalog, names, spellings


@pytest.mark.parametrize("name", [name for name in catalog.names("models") if "/" not in name])
def test_every_model_goes_by_its_hugging_face_id_in_any_case(name: str) -> None:
    spec = catalog.model(name)
    for text in (spec.name, spec.huggingface_id, (spec.huggingface_id or "").upper()):
        if text:
            assert catalog.meaning("models", text) == catalog.Meaning(name)


@pytest.mark.parametrize("name", [name for name in catalog.names("hardware") if "/" not in name])
def test_every_chip_goes_by_its_title(name: str) -> None:
    assert catalog.meaning("hardware", catalog.hardware(name).name.lower()) == catalog.Meaning(name)


@pytest.mark.parametrize(
    ("kind", "text", "name"),
    [
        ("models", "gpt-oss-120b", "gpt_oss_120b"),
        ("models", "qwen/qwen3-32b", "qwen3_32b"),
        ("models", "Llama 3.1 70B", "llama_3_70b"),
        ("models", "llama3_70b", "llama_3_70b"),
        ("models", "gpt4", "gpt_4"),
        ("hardware", "H100-SXM", "h100_sxm"),
        ("hardware", "H100 NVL", "h100_nvl"),
        ("hardware", "rtx4090", "rtx_4090"),
        ("hardware", "Paper/H100", "paper/h100"),
        ("assumptions", "profiles/Hopper", "profiles/hopper"),
        ("assumptions", "hopper", "profiles/hopper"),
        ("engines", "vLLM", "vllm"),
        ("scenarios", "paper/table-1", "paper/table_1"),
    ],
)
def test_case_and_separators_do_not_count(kind: catalog.Kind, text: str, name: str) -> None:
    assert catalog.meaning(kind, text) == catalog.Meaning(name)
    assert catalog.locate(kind, text) == catalog.folder(kind) / f"{name}.yaml"


@pytest.mark.parametrize(
    ("kind", "text", "name", "remark"),
    [
        (
            "hardware",
            "h100",
            "h100_sxm",
            "'h100' is taken as h100_sxm (NVIDIA H100 SXM5 80GB), not h100_nvl or h100_pcie",
        ),
        ("hardware", "H100 80GB", "h100_sxm", "not h100_pcie"),
        ("hardware", "h200", "h200_sxm", "'h200' is taken as h200_sxm (NVIDIA H200 SXM5 141GB), not h200_nvl"),
        ("hardware", "gb200", "gb200_nvl72", "'gb200' is taken as gb200_nvl72 (NVIDIA GB200 NVL72 186GB)"),
        ("hardware", "mi300", "mi300x", "'mi300' is taken as mi300x"),
        ("models", "llama-3.3-70b", "llama_3_70b", "(Llama 3.1 70B), which stands for models of its shape"),
        ("models", "Llama-3.3-70B-Instruct", "llama_3_70b", "is taken as llama_3_70b"),
        ("models", "DeepSeek-R1-NVFP4", "deepseek_v3_nvfp4", "is taken as deepseek_v3_nvfp4"),
        ("models", "gpt-oss-20b-mxfp4", "gpt_oss_20b", "is taken as gpt_oss_20b"),
    ],
)
def test_what_is_not_plain_comes_with_a_remark(kind: catalog.Kind, text: str, name: str, remark: str) -> None:
    meaning = catalog.meaning(kind, text)
    assert meaning.name == name
    assert remark in meaning.remark


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("hardware", "A100", "a100_sxm_40 (NVIDIA A100 SXM4 40GB) or a100_sxm_80 (NVIDIA A100 SXM4 80GB); name one"),
        ("hardware", "A100 80GB", "'A100 80GB' could be a100_pcie_80 (NVIDIA A100 PCIe 80GB) or a100_sxm_80"),
        ("hardware", "gh200", "'gh200' could be gh200_144 (NVIDIA GH200 144GB) or gh200_96"),
        ("hardware", "rtx 6000", "unknown hardware 'rtx 6000'; did you mean rtx_pro_6000"),
        ("hardware", "8xH100", "unknown hardware '8xH100'; did you mean h100_nvl, h100_pcie, h100_sxm, paper/h100"),
        ("hardware", "h100,h200", "'h100,h200' is no hardware: give one name here; options that take several"),
        ("hardware", "l40x", "unknown hardware 'l40x'; did you mean l40, l40s, l4"),
        ("hardware", "blackwell", "unknown hardware 'blackwell'"),
        ("models", "gpt-oss", "'gpt-oss' could be gpt_oss_120b (gpt-oss 120b) or gpt_oss_20b (gpt-oss 20b); name one"),
        ("models", "llama-70b", "'llama-70b' could be llama_2_70b (Llama 2 70B) or llama_3_70b (Llama 3.1 70B)"),
        ("models", "qwen3-coder", "could be qwen3_coder_30b_a3b (Qwen3-Coder 30B-A3B) or qwen3_coder_480b_a35b ("),
        ("models", "coder-480b", "could be qwen3_coder_480b_a35b (Qwen3-Coder 480B-A35B); write that if it is meant"),
        (
            "models",
            "Qwen3-32B-FP8",
            "'Qwen3-32B-FP8' is qwen3_32b with weights in fp8, which the catalogue has in bf16; write qwen3_32b "
            "--weights fp8, or the id of the checkpoint with its owner (OWNER/Qwen3-32B-FP8)",
        ),
        ("models", "Qwen3-235B-A22B-FP8", "write qwen3_235b_a22b --weights fp8_block, or the id"),
        ("models", "Qwen3-32B-GGUF", "unknown model 'Qwen3-32B-GGUF'; did you mean qwen3_32b"),
        ("models", "Qwen3-32B-3bit", "unknown model 'Qwen3-32B-3bit'"),
        ("models", "nvidia/gpt-oss-120b-Eagle3", "unknown model 'nvidia/gpt-oss-120b-Eagle3'"),
    ],
)
def test_what_could_be_several_is_refused_with_a_list(kind: catalog.Kind, text: str, message: str) -> None:
    with pytest.raises(UnknownNameError, match=re.escape(message)):
        catalog.meaning(kind, text)


@pytest.mark.parametrize(
    ("text", "base", "weights", "embeddings"),
    [
        ("Qwen/Qwen3-235B-A22B-FP8", "qwen3_235b_a22b", "fp8_block", "bf16"),
        ("hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4", "llama_3_70b", "int4", "bf16"),
        ("nvidia/Llama-3.3-70B-Instruct-FP4", "llama_3_70b", "nvfp4", "bf16"),
        ("nvidia/DeepSeek-R1-NVFP4", "deepseek_v3_nvfp4", None, None),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama_3_70b", None, None),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek_v3", None, None),
        ("openai/gpt-oss-20b-mxfp4", "gpt_oss_20b", None, None),
    ],
)
def test_a_checkpoint_is_its_model_in_its_format_under_its_id(
    text: str, base: str, weights: str | None, embeddings: str | None
) -> None:
    assert catalog.meaning("models", text).base == base
    checkpoint, model = catalog.model(text), catalog.model(base)
    assert (checkpoint.name, checkpoint.huggingface_id) == (model.name, text)
    assert Precision.of(checkpoint) == Precision.of(model, weights=weights)
    assert embeddings is None or Precision.of(checkpoint).embeddings == embeddings


def test_an_id_that_no_shell_should_see_is_no_checkpoint() -> None:
    with pytest.raises(UnknownNameError):
        catalog.meaning("models", "Qwen/Qwen3-32B-FP8;reboot")


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


def test_python_is_told_what_a_name_was_taken_for(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert ie.hardware("h100") == ie.hardware("h100_sxm")
        assert ie.model("Qwen/Qwen3-32B") == ie.model("qwen3_32b")
    assert [record.getMessage().partition(" (")[0] for record in caplog.records] == ["'h100' is taken as h100_sxm"]


def test_other_names_lead_to_what_there_is() -> None:
    assert set(names.measured_names().plain_hardware) <= set(catalog.names("hardware"))
    assert set(names.model_spellings().values()) <= set(catalog.names("models"))


@pytest.mark.parametrize(("first", "second", "same"), [("fp8", "fp8_block", True), ("fp8", "int8", False)])
def test_formats_that_names_do_not_tell_apart(first: str, second: str, same: bool) -> None:
    assert spellings.alike(first, second) is same
