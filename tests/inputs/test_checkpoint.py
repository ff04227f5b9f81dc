"""The tensors of a checkpoint, compared with the count from its configuration."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from inference_econ.engine import unknown_share
from inference_econ.errors import InputError
from inference_econ.inputs import ModelSpec
from inference_econ.inputs.huggingface import Checkpoint, checkpoint_beside, import_config
from inference_econ.report.questions.import_model import ImportedModelPage, stored_record, stored_table
from tests.reading import present

CONFIG = Path(__file__).parents[1] / "fixtures" / "hf_configs" / "Qwen--Qwen3-0.6B_config.json"
#: Parameters of the model, as published.
TOTAL = 596_049_920
Shapes = dict[str, list[int]]


def tensors() -> Shapes:
    """Return names and shapes of the published checkpoint of Qwen3-0.6B."""
    layer: Shapes = {f"self_attn.{name}_norm.weight": [128] for name in "qk"}
    layer |= {
        f"self_attn.{name}_proj.weight": [rows, 1024] for name, rows in zip("qkv", (2048, 1024, 1024), strict=True)
    }
    layer |= {"self_attn.o_proj.weight": [1024, 2048], "mlp.down_proj.weight": [1024, 3072]}
    layer |= {f"mlp.{name}_proj.weight": [3072, 1024] for name in ("gate", "up")}
    layer |= {f"{name}_layernorm.weight": [1024] for name in ("input", "post_attention")}
    shapes: Shapes = {"model.embed_tokens.weight": [151936, 1024], "model.norm.weight": [1024]}
    return shapes | {f"model.layers.{n}.{name}": shape for n in range(28) for name, shape in layer.items()}


def folder(path: Path, shapes: Shapes, kind: str = "BF16", *, index: bool = False, file: bool = True) -> Path:
    """Write a configuration and a checkpoint of given shapes, which has only a header."""
    (path / "config.json").write_bytes(CONFIG.read_bytes())
    header = json.dumps({name: {"dtype": kind, "shape": shape} for name, shape in shapes.items()}).encode()
    if file:
        (path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    if index:
        text = {"metadata": {"total_size": 2 * TOTAL}, "weight_map": dict.fromkeys(shapes, "model.safetensors")}
        (path / "model.safetensors.index.json").write_text(json.dumps(text))
    return path / "config.json"


def read(config: Path) -> tuple[ModelSpec, Checkpoint]:
    model = import_config(config)
    checkpoint = present(checkpoint_beside(config, model.layers))
    return model, checkpoint


def notes(config: Path) -> str:
    return " ".join(stored_table(*read(config)).notes)


def test_a_checkpoint_that_holds_what_is_counted(tmp_path: Path) -> None:
    config = folder(tmp_path, tensors(), index=True)
    model, checkpoint = read(config)
    assert checkpoint.parameters == {part: round(count) for part, count in model.parameter_parts().items()}
    record = stored_record(model, checkpoint)
    assert (record["uncounted_parameters"], record["bytes"], record["counted_bytes"]) == (0, 2 * TOTAL, 2 * TOTAL)
    assert notes(config) == "The checkpoint has exactly the counted parameters."
    assert len(ImportedModelPage(model, checkpoint).tables()) == 2


@pytest.mark.parametrize(("kind", "each"), [("BF16", 2), ("F8_E4M3", 1), ("U8", 1), ("I32", 4), ("BOOL", 1)])
def test_bytes_without_an_index_are_those_of_all_headers(tmp_path: Path, kind: str, each: int) -> None:
    """Scales are bytes, but not parameters."""
    config = folder(tmp_path, tensors() | {"model.layers.0.mlp.down_proj.weight_scale": [10]}, kind)
    assert read(config)[1].size == each * (TOTAL + 10)


def test_an_unknown_block_of_a_known_family_is_counted_and_named(tmp_path: Path) -> None:
    # 28 tables of 1,000 x 1,024 are 28,672,000 parameters, in addition to 596,049,920 others.
    tables = {f"model.layers.{n}.engram.table": [1000, 1024] for n in range(28)}
    config = folder(tmp_path, tensors() | tables)
    model = import_config(config)
    assert [(part.name, part.parameters) for part in model.unknown] == [("layers.N.engram.table", 28_672_000)]
    assert (model.total_parameters, model.active_parameters) == (TOTAL + 28_672_000, TOTAL + 28_672_000)
    assert notes(config) == "The checkpoint has exactly the counted parameters."
    assert unknown_share(model) == pytest.approx(28_672_000 / (TOTAL + 28_672_000))


def test_usual_tensors_beyond_the_count_are_no_unknown_block(tmp_path: Path) -> None:
    wider = {name: [4096, 1024] if "gate_proj" in name else shape for name, shape in tensors().items()}
    config = folder(tmp_path, wider)
    assert import_config(config).unknown == ()
    assert "reads each of them once, the weights per token grow by up to 4.9%." in notes(config)


def test_what_is_not_stored_is_named(tmp_path: Path) -> None:
    shapes = {name: shape for name, shape in tensors().items() if "gate_proj" not in name}
    text = notes(folder(tmp_path, shapes))
    assert "88,080,384 parameters are counted but not stored. They belong to these tensors: layers.N.mlp." in text
    assert "the weights per token grow" not in text


def test_what_no_count_has_is_no_difference(tmp_path: Path) -> None:
    more = {"model.layers.28.mlp.up_proj.weight": [3072, 1024], "visual.blocks.0.attn.qkv.weight": [64, 64]}
    scales = {"model.layers.0.mlp.up_proj.weight_scale_inv": [24, 8]}
    assert notes(folder(tmp_path, tensors() | more | scales)) == "The checkpoint has exactly the counted parameters."


def test_packed_tensors_and_an_index_alone_say_nothing_of_parameters(tmp_path: Path) -> None:
    config = folder(tmp_path, tensors(), "I32")
    assert notes(config) == "The checkpoint cannot be compared: elements of its tensors contain several parameters."
    (tmp_path / "model.safetensors").unlink()
    config = folder(tmp_path, tensors(), index=True, file=False)
    assert notes(config) == "The checkpoint cannot be compared: no file has its tensor shapes."


def test_without_a_checkpoint_nothing_is_compared(tmp_path: Path) -> None:
    config = folder(tmp_path, tensors(), file=False)
    assert checkpoint_beside(config, 28) is None
    assert checkpoint_beside(CONFIG, 28) is None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.safetensors", b"\x02\0\0\0", "not a safetensors file: it does not start with the length of a header"),
        ("model.safetensors", b"\xff" * 9, "not a safetensors file"),
        ("model.safetensors", struct.pack("<Q", 8) + b'{"a": 1}', "no shape of the tensor 'a' in its header"),
        ("model.safetensors", struct.pack("<Q", 22) + b'{"a": {"shape": [-1]}}', "no shape of the tensor 'a'"),
        ("model.safetensors.index.json", b'{"weight_map": 3}', "no index of a checkpoint: 'weight_map' must give each"),
        ("model.safetensors.index.json", b'{"weight_map": {"a": 3}}', "no index of a checkpoint"),
    ],
)
def test_files_that_are_none(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    config = folder(tmp_path, {}, file=False)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        checkpoint_beside(config, 28)
