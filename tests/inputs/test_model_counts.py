"""Parameters and cached elements of the shipped models, against the published classes and the published study."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

import pytest

from inference_econ.errors import SpecError
from inference_econ.inputs import (
    BYTES_PER_ELEMENT,
    DenseFeedForward,
    ExpertFeedForward,
    GroupedQueryAttention,
    LatentAttention,
    ModelSpec,
    catalog,
)
from inference_econ.inputs.models.sizes import scaled
from tests.reading import fixture_table, tables

FIXTURES = Path(__file__).parents[1] / "fixtures"

#: Models that no class was published for.
WITHOUT_CLASS: dict[str, str] = tables(Path(__file__))["WITHOUT_CLASS"]


@cache
def _by_repository() -> dict[str, ModelSpec]:
    models = (catalog.model(name) for name in catalog.names("models"))
    return {model.huggingface_id: model for model in models if model.huggingface_id is not None}


def _fact_model(row: dict[str, str]) -> ModelSpec:
    if row["id"] in WITHOUT_CLASS:
        return catalog.model(WITHOUT_CLASS[row["id"]])
    return _by_repository()[row["hf_repo"]]


def _places(text: str) -> int:
    """Return the number of digits after the decimal point."""
    return len(text.partition(".")[2])


def test_total_parameters(facts_models_row: dict[str, str]) -> None:
    model = _fact_model(facts_models_row)
    if facts_models_row["hf_meta_total"]:
        # The published class, instantiated: equal to the last parameter.
        assert model.total_parameters == int(facts_models_row["hf_meta_total"])
    else:
        printed = facts_models_row["official_total_B"]
        digits = -2 if printed == "1800" else _places(printed)  # a rumour, to two digits
        assert round(model.total_parameters / 1e9, digits) == float(printed)


def test_active_parameters_round_to_the_published_count(facts_models_row: dict[str, str]) -> None:
    expected = facts_models_row["computed_active_B"]
    if expected:
        found = _fact_model(facts_models_row).active_parameters / 1e9
        assert round(found, _places(expected)) == float(expected)


def test_cached_elements_per_token(facts_models_row: dict[str, str]) -> None:
    expected = facts_models_row["kv_grow_elems_per_tok"]
    if expected:
        model = _fact_model(facts_models_row)
        assert model.kv_elements_per_token == int(expected)
        grouped = [block for block in model.blocks if isinstance(block.attention, GroupedQueryAttention)]
        elements = sum(block.layers * block.attention.cache.window_elements for block in grouped)
        assert elements == int(facts_models_row["window_elems"])


def test_models_that_the_facts_leave_out_by_hand() -> None:
    # Mixtral 8x7B: embeddings, 32 layers of attention, 8 experts with a router, two norms, and a last norm.
    layer = 4096 * (2 * 4096 + 2 * 1024) + 8 * (3 * 4096 * 14336) + 8 * 4096 + 2 * 4096
    assert catalog.model("mixtral_8x7b").total_parameters == 2 * 32000 * 4096 + 32 * layer + 4096 == 46_702_792_704
    # Qwen3-32B: heads of 128 that are wider than hidden / heads, and norms of queries and keys.
    layer = 5120 * (2 * 8192 + 2 * 1024) + 3 * 5120 * 25600 + 2 * 5120 + 2 * 128
    assert catalog.model("qwen3_32b").total_parameters == 2 * 151936 * 5120 + 64 * layer + 5120 == 32_762_123_264


@pytest.mark.rows
def test_models_with_heads_of_128_by_hand(
    name: str, hidden: int, layers: int, heads: list[int], width: int, matrices: int, further: int
) -> None:
    queries, keys = (128 * count for count in heads)
    layer = hidden * (2 * queries + 2 * keys) + 3 * hidden * width + 2 * hidden + further
    assert catalog.model(name).total_parameters == matrices * hidden + layers * layer + hidden
    assert catalog.model(name).kv_elements_per_token == layers * 2 * keys


def test_models_whose_class_or_checkpoint_was_counted() -> None:
    # The index of the published checkpoint states 47,144,806,400 B of bf16.
    assert catalog.model("mistral_small_24b").total_parameters * 2 == 47_144_806_400
    classes = json.loads((FIXTURES / "hf_configs" / "siblings.json").read_text(encoding="utf-8"))
    for name in ("glm-5", "glm-4.7-flash", "gemma-3-27b", "mistral-nemo", "kimi-k2-thinking"):
        ours = name.replace("-", "_").replace(".", "_").replace("nemo", "nemo_12b")
        assert catalog.model(ours).total_parameters == classes[name]["total_parameters"]


@pytest.mark.parametrize("name", catalog.names("models"))
def test_parts_add_up(name: str) -> None:
    model = catalog.model(name)
    parts = model.parameter_parts()
    assert round(math.fsum(parts.values())) == model.total_parameters
    assert all(part >= 0 for part in parts.values())
    assert 0 < model.active_parameters <= model.total_parameters
    experts = any(block.feed_forward.kind == "experts" for block in model.blocks)
    assert (model.active_parameters < model.total_parameters) == experts
    assert model.layers == sum(block.layers for block in model.blocks)


def test_only_the_rumoured_model_is_marked_so() -> None:
    marked = {name for name in catalog.names("models") if catalog.model(name).rumoured}
    assert {name.rpartition("/")[2] for name in marked} <= {"gpt_4", "gpt_3_5"}
    assert "gpt_4" in marked


# Counts in the study.


def _paper_model(code_name: str) -> tuple[ModelSpec, str | None]:
    """Return a model of the study and the format of its weights, by its name in the study's code."""
    name = code_name.lower()
    if name.startswith(("gpt_4_", "llama_3_gpt4_size")):
        return _scaled_model(name), None
    for ending, dtype in (("_8_bit", "int8"), ("_4_bit", "int4_channel")):
        if name.endswith(ending):
            return catalog.model(f"paper/{name.removesuffix(ending)}"), dtype
    return catalog.model(f"paper/{name}"), None


def _scaled_model(name: str) -> ModelSpec:
    """Return the study's scaled variants: GPT-4 in depth and width, Llama 3.1 405B first in width to GPT-4's size."""
    if name.startswith("gpt_4"):
        factors = {"gpt_4_100t_param": 50.0, **{f"gpt_4_{n}x": 1 / n for n in (2, 4, 8, 16)}}
        return scaled(catalog.model("paper/gpt_4"), factors[name], grid="paper")
    base = catalog.model("paper/llama_3_405b")
    width = float(fixture_table("models", "code_name")["Llama_3_gpt4_size"]["d_model"])
    wide = scaled(base, (width / float(base.hidden_size)) ** 2, depth_exponent=0, grid="paper")
    factors = {"llama_3_gpt4_size": 1.0, **{f"llama_3_gpt4_size_{n}x": 1 / n for n in (2, 4, 8, 16)}}
    return scaled(wide, factors[name], grid="paper")


def test_paper_models_equal_the_studys_code(models_row: dict[str, str]) -> None:
    model, dtype = _paper_model(models_row["code_name"])
    # Relative 1e-12; the scaled variants are fractional.
    assert model.hidden_size == pytest.approx(float(models_row["d_model"]), rel=1e-12)
    assert model.layers == int(models_row["layers"])
    (block,) = model.blocks
    assert isinstance(block.attention, (GroupedQueryAttention, LatentAttention))
    assert isinstance(block.feed_forward, (DenseFeedForward, ExpertFeedForward))
    assert block.attention.query_heads == float(models_row["num_query_heads"])
    assert block.feed_forward.intermediate_size == pytest.approx(float(models_row["d_ff"]), rel=1e-12)
    assert model.total_parameters == pytest.approx(float(models_row["total_params"]), rel=1e-12, abs=0.5)
    elements = float(models_row["kv_cache_bytes_per_token"]) / float(models_row["activation_precision_bytes"])
    assert model.kv_elements_per_token == pytest.approx(elements, rel=1e-12, abs=0.5)
    stored = BYTES_PER_ELEMENT[dtype or model.weights]
    if models_row["code_name"] != "Llama_3_8B_8_bit":  # its precisions are swapped in the code
        assert stored == float(models_row["weight_precision_bytes"])


def test_active_parameters_of_the_studys_models(models_row: dict[str, str]) -> None:
    model, _ = _paper_model(models_row["code_name"])
    expected = float(models_row["total_active_params"])
    if models_row["code_name"] == "DeepSeek_V3":
        # 256 experts over 9 active ones, floored to 28 in the code: 1 % more than the exact count.
        assert model.active_parameters == pytest.approx(expected, rel=0.011)
        assert model.active_parameters < expected
    else:
        # The code floors where fractional sizes are rounded here.
        assert model.active_parameters == pytest.approx(expected, rel=1e-12, abs=1.5)


# The building blocks, one by one.


def test_biases_norms_and_sinks_are_counted() -> None:
    plain = GroupedQueryAttention(kind="grouped_query", query_heads=8, kv_heads=2, head_dim=16)
    count = 64 * (128 + 2 * 32) + 128 * 64
    assert plain.parameters(64).total == count
    assert plain.replace(qkv_bias=True).parameters(64).total == count + 128 + 2 * 32
    assert plain.replace(output_bias=True).parameters(64).total == count + 64
    assert plain.replace(qk_norm="per_head").parameters(64).total == count + 2 * 16
    assert plain.replace(qk_norm="full").parameters(64).total == count + 128 + 32
    assert plain.replace(sinks=True).parameters(64).total == count + 8


def test_latent_attention_with_and_without_compressed_queries() -> None:
    spec = LatentAttention(
        kind="latent", query_heads=4, kv_rank=32, nope_head_dim=16, rope_head_dim=8, value_head_dim=24
    )
    shared = 64 * (32 + 8) + 32 * 4 * (16 + 24) + 4 * 24 * 64 + 32
    assert spec.parameters(64).total == shared + 64 * 4 * (16 + 8)
    assert spec.replace(query_rank=48).parameters(64).total == shared + 64 * 48 + 48 * 4 * (16 + 8) + 48
    assert spec.cache.elements == 32 + 8


def test_experts_shared_ones_gates_and_routers_are_counted() -> None:
    spec = ExpertFeedForward(kind="experts", experts=8, active_experts=2, intermediate_size=32)
    expert = 3 * 64 * 32
    assert spec.parameters(64).total == 8 * expert + 8 * 64
    assert spec.replace(router=False).parameters(64).total == 8 * expert
    assert spec.replace(router_bias=True).parameters(64).total == 8 * expert + 8 * 64 + 8
    assert spec.replace(bias=True).parameters(64).total == 8 * (expert + 2 * 32 + 64) + 8 * 64
    shared = spec.replace(shared_intermediate_size=96, shared_gate=True)
    assert shared.parameters(64).total == 8 * expert + 8 * 64 + 3 * 64 * 96 + 64
    assert shared.parameters(64).idle == 6 * expert


def test_groups_of_experts_change_no_count() -> None:
    spec = ExpertFeedForward(kind="experts", experts=16, active_experts=4, intermediate_size=32)
    assert spec.replace(routing_groups=8, active_groups=2).parameters(64) == spec.parameters(64)


@pytest.mark.rows
def test_groups_of_experts_are_whole(changes: dict[str, int], problem: str) -> None:
    spec = ExpertFeedForward(kind="experts", experts=16, active_experts=4, intermediate_size=32)
    with pytest.raises(SpecError, match=problem):
        spec.replace(**changes)


@pytest.mark.parametrize(
    ("name", "groups"), [("deepseek_v2", (8, 3)), ("deepseek_v3", (8, 4)), ("kimi_k2", (None, None))]
)
def test_groups_of_experts_of_shipped_models(name: str, groups: tuple[int | None, int | None]) -> None:
    spec = catalog.model(name).blocks[-1].feed_forward
    assert isinstance(spec, ExpertFeedForward)
    assert (spec.routing_groups, spec.active_groups) == groups


def test_a_dense_block_leaves_nothing_idle() -> None:
    dense = DenseFeedForward(kind="dense", intermediate_size=128, input_matrices=1)
    assert dense.parameters(64).total == 2 * 64 * 128
    assert dense.parameters(64).idle == 0


def test_tied_embeddings_and_learned_positions() -> None:
    model = catalog.model("llama_3_8b")
    embedding = 128256 * 4096
    assert model.replace(tied_embeddings=True).total_parameters == model.total_parameters - embedding
    longer = model.replace(
        learned_positions=100, sources={**model.sources, "learned_positions": model.sources["blocks"]}
    )
    assert longer.total_parameters == model.total_parameters + 100 * 4096
    assert model.replace(output_bias=True).total_parameters == model.total_parameters + 128256
    assert model.replace(final_norm=False).total_parameters == model.total_parameters - 4096
