"""The study's rule for larger and smaller models, and the schemas of the files."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from inference_econ.errors import InputError
from inference_econ.inputs import LatentAttention, catalog
from inference_econ.inputs.assumptions import GROUPS, field_names
from inference_econ.inputs.scaling import scaled
from inference_econ.inputs.schemas import json_schema, reference_page


@pytest.mark.parametrize("name", ["llama_3_70b", "deepseek_v3", "gpt_oss_20b"])
@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_scaling_multiplies_the_parameters_of_the_layers(name: str, factor: float) -> None:
    model = catalog.model(name)
    before, after = (one.parameter_parts() for one in (model, scaled(model, factor)))
    layers = [part["attention"] + part["feed_forward"] for part in (before, after)]
    # Whole layers and heads: within 10 %.
    assert layers[1] / layers[0] == pytest.approx(factor, rel=0.1)


def test_scaling_keeps_the_kind_of_attention() -> None:
    model = catalog.model("deepseek_v3")
    larger = scaled(model, 2.0, layers=False)
    for before, after in zip(model.blocks, larger.blocks, strict=True):
        assert isinstance(before.attention, LatentAttention)
        assert isinstance(after.attention, LatentAttention)
        assert after.layers == before.layers
        assert after.attention.kv_rank == pytest.approx(before.attention.kv_rank * math.sqrt(2.0), rel=1e-12)


@pytest.mark.parametrize("factor", [0.0, -1.0, math.nan, math.inf])
def test_the_factor_is_a_positive_number(factor: float) -> None:
    with pytest.raises(InputError, match=f"the factor must be a positive number, got {factor:g}"):
        scaled(catalog.model("llama_3_8b"), factor)


def test_no_run_of_layers_may_vanish() -> None:
    with pytest.raises(InputError, match=r"3 layers scaled by 0\.1 leave none"):
        scaled(catalog.model("deepseek_v3"), 1e-3)


@pytest.mark.parametrize("kind", ["hardware", "model", "traffic", "assumptions", "scenario", "engine"])
def test_schemas_describe_every_field(kind: str) -> None:
    schema = json_schema(kind)
    assert schema["additionalProperties"] is False
    for name, field in schema["properties"].items():
        assert field.get("description"), name


def test_quantities_are_numbers_or_text_in_the_schema() -> None:
    field = json_schema("hardware")["properties"]["hbm_bytes"]
    assert {option["type"] for option in field["anyOf"]} == {"number", "string"}


def test_an_unknown_kind_of_schema() -> None:
    with pytest.raises(InputError, match=r"unknown kind 'chip'; kinds: .*, scenario, engine"):
        json_schema("chip")


def test_the_page_of_assumptions_is_what_the_fields_say() -> None:
    page = reference_page()
    assert all(f"\n## {group}\n" in page for group in GROUPS)
    assert sum(line.startswith("| `") for line in page.splitlines()) == len(field_names())
    assert "| `overlap` | `step`, `operator`, `none` | What hides behind what" in page
    kept = Path(__file__).parents[2] / "docs" / "assumptions.md"
    assert kept.read_text(encoding="utf-8") == page, "inference-econ schema assumptions --page -o docs/assumptions.md"
