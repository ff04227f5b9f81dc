"""The study's rule for larger and smaller models, and the schemas of the files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from inference_econ.answers.layout_services import decode_frontier
from inference_econ.engine import Pins, Setup, Space
from inference_econ.engine.layouts.startable import attention_degrees
from inference_econ.errors import InputError
from inference_econ.inputs import Block, GroupedQueryAttention, LatentAttention, ModelSpec, Traffic, catalog
from inference_econ.inputs._spec import Spec
from inference_econ.inputs._validation import adapter
from inference_econ.inputs.models.sizes import layer_parameters, scaled, spread
from inference_econ.inputs.presets.assumptions import GROUPS, field_names
from inference_econ.inputs.schemas import json_schema, reference_page


@pytest.mark.parametrize("name", ["llama_3_70b", "deepseek_v3", "gpt_oss_20b"])
@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_the_studys_rule_multiplies_the_parameters_of_the_layers(name: str, factor: float) -> None:
    model = catalog.model(name)
    # Whole layers and heads: within 10 %.
    assert _layers(scaled(model, factor, grid="paper")) / _layers(model) == pytest.approx(factor, rel=0.1)


def test_the_studys_rule_keeps_the_kind_of_attention() -> None:
    model = catalog.model("deepseek_v3")
    larger = scaled(model, 2.0, depth_exponent=0, grid="paper")
    for before, after in zip(model.blocks, larger.blocks, strict=True):
        assert isinstance(before.attention, LatentAttention)
        assert isinstance(after.attention, LatentAttention)
        assert after.layers == before.layers
        assert after.attention.kv_rank == pytest.approx(before.attention.kv_rank * math.sqrt(2.0), rel=1e-12)


def _layers(model: ModelSpec) -> float:
    return layer_parameters(model.blocks, model.hidden_size)


def test_a_size_between_whole_widths_of_latent_experts_is_rejected() -> None:
    # Their weights do not depend on the hidden size, which therefore cannot make up for rounding.
    with pytest.raises(InputError, match=r"7.18e\+10 parameters are fewer than these layers have at any width"):
        scaled(catalog.model("nemotron_3_super_120b_a12b"), 0.6)


_SIZES = [(name, factor) for name in catalog.names("models") for factor in (0.3, 0.6, 1.1, 2.0, 5.0)]
_SIZES.remove(("nemotron_3_super_120b_a12b", 0.6))


@pytest.mark.parametrize(("name", "factor"), _SIZES)
def test_whole_sizes_split_over_chips_as_those_that_they_are_made_from(name: str, factor: float) -> None:
    model, larger = catalog.model(name), scaled(catalog.model(name), factor)
    # The hidden size makes up for all rounding but its own: half of a sixteenth.
    assert _layers(larger) / _layers(model) == pytest.approx(factor, rel=0.032)
    usual = {1.0, 2.0, 4.0, 8.0}
    assert usual & set(attention_degrees(model)) <= set(attention_degrees(larger))
    for before, after in zip(model.blocks, larger.blocks, strict=True):
        assert (after.attention.kind, after.feed_forward.kind) == (before.attention.kind, before.feed_forward.kind)
        for degree in usual:
            assert not _splits(before, degree) or _splits(after, degree)
        assert _cached(after) == _cached(before) or (
            isinstance(before.attention, GroupedQueryAttention)
            and before.attention.kv_heads == before.attention.query_heads
        )
    assert scaled(model, 1.0) == model


def _cached(block: Block) -> tuple[float, float]:
    return block.attention.cache.elements, block.attention.cache.window_elements


def _splits(block: Block, degree: float) -> bool:
    widths = (getattr(block.feed_forward, name, None) for name in ("intermediate_size", "shared_intermediate_size"))
    return all(width is None or width % degree == 0 for width in widths)


@pytest.mark.parametrize("name", ["llama_3_8b", "deepseek_v3", "qwen3_next_80b_a3b", "deepseek_v4_flash"])
def test_scaled_models_are_served_on_the_default_grid(name: str) -> None:
    setup = Setup.of(scaled(catalog.model(name), 1.3), "h200_sxm")
    best = decode_frontier(setup, Traffic(isl=1000, osl=200), Space(Pins(), 16)).preferred()
    assert best.tokens_per_second_per_user > 10


@pytest.mark.parametrize(("exponent", "layers"), [(0.0, 80), (0.25, 96), (1 / 3, 100), (1.0, 160)])
def test_layers_grow_by_the_depth_exponent(exponent: float, layers: int) -> None:
    model = catalog.model("llama_3_70b")
    larger = scaled(model, 2.0, depth_exponent=exponent)
    assert larger.layers == layers
    assert _layers(larger) / _layers(model) == pytest.approx(2.0, rel=0.01)


def test_proportions_of_kinds_of_layers_are_kept() -> None:
    assert spread([36, 12], 60) == [45, 15]
    assert spread([3, 58], 10) == [1, 9]
    with pytest.raises(InputError, match="2 layers are too few: the model has 3 kinds of layers"):
        scaled(catalog.model("deepseek_v4_flash"), 0.05, depth_exponent=1)


@pytest.mark.rows
def test_settings_that_scaling_does_not_have(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        scaled(catalog.model("llama_3_8b"), 2.0, **settings)


@pytest.mark.parametrize("factor", [0.0, -1.0, math.nan, math.inf])
def test_the_factor_is_a_positive_number(factor: float) -> None:
    with pytest.raises(InputError, match=f"the factor must be a positive number, got {factor:g}"):
        scaled(catalog.model("llama_3_8b"), factor)


def test_no_run_of_layers_may_vanish() -> None:
    with pytest.raises(InputError, match=r"3 layers scaled by 0\.1 leave none"):
        scaled(catalog.model("deepseek_v3"), 1e-3, grid="paper")


@pytest.mark.parametrize("kind", ["hardware", "model", "traffic", "assumptions", "scenario", "engine"])
def test_schemas_describe_every_field(kind: str) -> None:
    schema = json_schema(kind)
    assert schema["additionalProperties"] is False
    for name, field in schema["properties"].items():
        assert field.get("description"), name


def test_what_is_inherited_or_varies_by_family_is_described_too() -> None:
    parts = json_schema("assumptions")["$defs"]
    assert json_schema("hardware")["properties"]["sources"]["description"].startswith("Source of every number")
    group, exceptions = (parts[name]["properties"] for name in ("HostAssumptions", "HostAssumptionsExceptions"))
    assert {name: field["description"] for name, field in exceptions.items()} == {
        name: field["description"] for name, field in group.items()
    }


def test_a_class_that_was_put_together_has_descriptions_only_of_what_it_is_made_of() -> None:
    class Written(Spec):
        size: int
        """Number of elements."""
        plain: int

    made = type("Made", (Written,), {"__annotations__": {"more": "int"}})
    fields = adapter(made).json_schema()["properties"]
    assert fields["size"]["description"] == "Number of elements."
    assert "description" not in fields["plain"]
    assert "description" not in fields["more"]


def test_quantities_are_numbers_or_text_in_the_schema() -> None:
    field = json_schema("hardware")["properties"]["hbm_bytes"]
    assert {option["type"] for option in field["anyOf"]} == {"number", "string"}


def test_the_page_of_assumptions_is_what_the_fields_say() -> None:
    page = reference_page()
    assert all(f"\n## {group}\n" in page for group in GROUPS)
    assert sum(line.startswith("| `") for line in page.splitlines()) == len(field_names())
    assert "| `overlap` | `step`, `operator`, `none` | Overlap of arithmetic and memory traffic" in page
    kept = Path(__file__).parents[2] / "docs" / "reference" / "assumptions.md"
    assert kept.read_text(encoding="utf-8") == page, (
        "inference-econ show schema assumptions --page -o docs/reference/assumptions.md"
    )
