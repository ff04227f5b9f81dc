"""Configurations without a supported family, counted from the names and shapes of their tensors."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from inference_econ.engine.memory import weight_bytes
from inference_econ.errors import SpecError
from inference_econ.inputs import Precision
from inference_econ.inputs.huggingface import import_config
from inference_econ.inputs.layers import GroupedQueryAttention
from inference_econ.inputs.models.model import ModelSpec
from tests.checkpoints import ATTENTION, CONFIG, EXPERT, TOTAL, folder, tensors


def unknown(model: ModelSpec) -> list[tuple[str, int]]:
    return [(part.name, part.parameters) for part in model.unknown]


@pytest.mark.parametrize("index_alone", [False, True])
def test_a_model_of_usual_tensors_is_counted_whatever_its_type(tmp_path: Path, index_alone: bool) -> None:
    model = import_config(folder(tmp_path, tensors(), index_alone=index_alone))
    assert model.total_parameters == TOTAL
    assert model.active_parameters == TOTAL - 2 * 2 * EXPERT
    assert model.kv_elements_per_token == 3 * 2 * 2 * 16
    assert [block.feed_forward.kind for block in model.blocks] == ["dense", "experts"]
    assert unknown(model) == [("model_type new_moe", 0)]


def test_sizes_that_no_key_states_are_those_of_shapes(tmp_path: Path) -> None:
    keys = ("num_key_value_heads", "head_dim", "num_experts", "moe_intermediate_size", "intermediate_size")
    model = import_config(folder(tmp_path, tensors(), dict.fromkeys(keys)))
    assert model.total_parameters == TOTAL
    attention = model.blocks[0].attention
    assert isinstance(attention, GroupedQueryAttention)
    assert (attention.kv_heads, attention.head_dim, attention.qk_norm) == (2, 16, "per_head")


def test_stacked_experts_count_as_those_that_stand_apart(tmp_path: Path) -> None:
    model = import_config(folder(tmp_path, tensors(stacked=True)))
    assert (model.total_parameters, model.active_parameters) == (TOTAL, TOTAL - 2 * 2 * EXPERT)


def test_an_unknown_block_is_named_with_its_parameters(tmp_path: Path) -> None:
    more = {f"model.layers.{n}.engram.{name}": [50, 64] for n in range(3) for name in ("table", "mix")}
    model = import_config(folder(tmp_path, tensors() | more, {"engram_rows": 50}))
    families = [("layers.N.engram.table", 9600), ("layers.N.engram.mix", 9600)]
    assert unknown(model) == [("model_type new_moe", 0), *families, ("key engram_rows", 0)]
    assert model.total_parameters == TOTAL + 19200
    assert model.active_parameters == TOTAL + 19200 - 2 * 2 * EXPERT


def test_a_table_of_more_rows_than_the_vocabulary_takes_room_and_no_time(tmp_path: Path) -> None:
    table = {"model.layers.1.ngram.embedding.weight": [1_000_000, 16]}
    model = import_config(folder(tmp_path, tensors() | table))
    assert [part.name for part in model.unknown if part.looked_up] == ["layers.N.ngram.embedding.weight"]
    assert (model.total_parameters, model.active_parameters) == (TOTAL + 16_000_000, TOTAL - 2 * 2 * EXPERT)
    assert model.unknown_parameters == 0
    assert weight_bytes(model, Precision.of(model)) == 2 * (TOTAL + 16_000_000)


def test_of_an_index_alone_unknown_families_stand_together(tmp_path: Path) -> None:
    more = {f"model.layers.{n}.engram.{name}": [50, 64] for n in range(3) for name in ("table", "mix")}
    model = import_config(folder(tmp_path, tensors() | more, index_alone=True))
    assert unknown(model)[1:] == [("layers.N.engram", 19200)]


def test_a_layer_that_mixes_in_an_unknown_way_keeps_its_parameters_and_no_cache(tmp_path: Path) -> None:
    shapes = {name: shape for name, shape in tensors().items() if "layers.1.self_attn" not in name}
    shapes["model.layers.1.linear_mixer.in_proj.weight"] = [256, 64]
    model = import_config(folder(tmp_path, shapes))
    assert unknown(model)[1:] == [("layers.N.linear_mixer.in_proj.weight", 256 * 64)]
    assert model.kv_elements_per_token == 2 * 2 * 2 * 16
    assert model.total_parameters == TOTAL - ATTENTION + 256 * 64


def test_latent_attention_is_known_by_its_projections(tmp_path: Path) -> None:
    shapes = {name: shape for name, shape in tensors().items() if "self_attn" not in name}
    latent = {"q_proj": [8 * 24, 64], "kv_a_proj_with_mqa": [40, 64], "kv_a_layernorm": [32]}
    latent |= {"kv_b_proj": [8 * 32, 32], "o_proj": [64, 128]}
    shapes |= {f"model.layers.{n}.self_attn.{name}.weight": size for n in range(3) for name, size in latent.items()}
    model = import_config(folder(tmp_path, shapes))
    assert model.total_parameters == sum(map(math.prod, shapes.values()))
    assert model.kv_elements_per_token == 3 * 40
    assert unknown(model) == [("model_type new_moe", 0)]


def test_packed_experts_are_counted_by_their_four_bits(tmp_path: Path) -> None:
    scheme = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    shapes = {name: [rows, *more] for name, (rows, *more) in tensors().items()} | {"model.layers.1.new.table": [10, 8]}
    model = import_config(folder(tmp_path, shapes, {"quantization_config": scheme}, kind="U8"))
    assert unknown(model) == [("model_type new_moe", 0), ("layers.N.new.table", 160)]


def test_sliding_windows_are_those_of_layer_types(tmp_path: Path) -> None:
    kinds = ["hybrid_sliding", "hybrid_sliding", "full_attention"]
    model = import_config(folder(tmp_path, tensors(), {"layer_types": kinds, "sliding_window": 128}))
    assert (model.kv_elements_per_token, model.window_elements_per_token) == (2 * 2 * 16, 2 * 2 * 2 * 16)


def test_an_unknown_key_of_a_known_family_passes_with_its_name(tmp_path: Path) -> None:
    shapes = {name: shape for name, shape in tensors().items() if "experts" not in name and "mlp.gate.w" not in name}
    for layer in (1, 2):
        shapes |= {f"model.layers.{layer}.mlp.{name}_proj.weight": [96, 64] for name in ("gate", "up")}
        shapes[f"model.layers.{layer}.mlp.down_proj.weight"] = [64, 96]
    experts = dict.fromkeys(("num_experts", "num_experts_per_tok", "moe_intermediate_size"))
    model = import_config(folder(tmp_path, shapes, {"model_type": "qwen3", "new_thing": 3, **experts}))
    assert unknown(model) == [("key new_thing", 0)]
    assert model.total_parameters == sum(map(math.prod, shapes.values()))


def test_without_an_index_it_is_refused_and_told_what_would_do(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    with pytest.raises(SpecError, match="model_type 'new_moe' is not understood") as refused:
        import_config(tmp_path)
    assert "an index would do: with model.safetensors.index.json" in str(refused.value)


@pytest.mark.rows
def test_what_neither_shapes_nor_keys_say_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        import_config(folder(tmp_path, tensors(), changes))


def test_elements_of_which_nobody_says_how_many_parameters_they_hold_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="fp4 is stated, and tensors are stored as I8"):
        import_config(folder(tmp_path, tensors(), {"expert_dtype": "fp4"}, kind="I8"))


def test_a_checkpoint_without_an_embedding_is_refused(tmp_path: Path) -> None:
    shapes = {name: shape for name, shape in tensors().items() if "embed_tokens" not in name}
    with pytest.raises(SpecError, match="no tensor is called embed_tokens"):
        import_config(folder(tmp_path, shapes))


def test_projections_that_are_no_heads_are_an_unknown_block(tmp_path: Path) -> None:
    model = import_config(folder(tmp_path, tensors(), {"num_attention_heads": 1000, "head_dim": None}))
    assert unknown(model)[1] == ("layers.N.self_attn.q_proj.weight", 3 * 64 * 128)
    assert model.unknown_parameters == 3 * ATTENTION
    assert (model.total_parameters, model.kv_elements_per_token) == (TOTAL, 0)


def test_recurrences_with_usual_projections_cache_no_keys(tmp_path: Path) -> None:
    shapes = tensors() | {"model.layers.1.self_attn.A_log": [8]}
    model = import_config(folder(tmp_path, shapes))
    assert unknown(model)[1:] == [("layers.N.self_attn", ATTENTION + 8)]
    assert model.kv_elements_per_token == 2 * 2 * 2 * 16


def test_a_padded_embedding_counts_with_the_rows_of_the_output(tmp_path: Path) -> None:
    shapes = tensors() | {"model.embed_tokens.weight": [1024, 64]}
    assert import_config(folder(tmp_path, shapes, {"vocab_size": 1024})).total_parameters == TOTAL
