"""``list`` and ``show``: entries of the catalog, schemas and fields."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inference_econ.inputs import catalog
from tests.commands import Command, rows

#: Kinds of entries, by the word behind ``list``.
LISTED: dict[str, catalog.Kind] = {
    "gpus": "hardware",
    "models": "models",
    "scenarios": "scenarios",
    "assumptions": "assumptions",
    "engines": "engines",
    "traffic": "traffic",
}


@pytest.mark.parametrize("word", LISTED)
def test_a_list_of_names(command: Command, word: str) -> None:
    kind = LISTED[word]
    outcome = command("list", word)
    assert outcome.code == 0
    assert outcome.err == ""
    names = catalog.names(kind)
    assert outcome.out.startswith(f"{len(names)} {kind}\n")
    records = json.loads(command("list", word, "--format", "json").out)
    assert [record["name"] for record in records] == list(names)
    if word == "gpus":
        assert [row["name"] for row in rows(command, "list", word)] == list(names)
        lines = command("list", word, "--format", "markdown").out.splitlines()
        assert sum(line.startswith("|") for line in lines) == len(names) + 2


def test_a_path_can_be_shown(command: Command, tmp_path: Path) -> None:
    text = (catalog.folder("hardware") / "h100_sxm.yaml").read_text(encoding="utf-8")
    (tmp_path / "chip.yaml").write_text(text, encoding="utf-8")
    assert "NVIDIA H100 SXM5 80GB" in command("show", "gpu", "chip.yaml").out


@pytest.mark.parametrize("kind", ["hardware", "model", "traffic", "assumptions", "scenario", "engine"])
def test_schemas(command: Command, kind: str, tmp_path: Path) -> None:
    outcome = command("show", "schema", kind)
    assert outcome.code == 0
    schema = json.loads(outcome.out)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    if kind == "traffic":
        assert command("show", "schema", kind, "-o", "s.json").err == "wrote s.json\n"
        assert json.loads((tmp_path / "s.json").read_text(encoding="utf-8")) == schema


def test_fields_of_answers(command: Command) -> None:
    """``show`` prints a command's fields as a table for people and as a JSON schema for programs."""
    lines = command("show", "field", "recommend").out.splitlines()
    assert lines[0] == "Fields of recommend"
    assert any(line.startswith("choices ") and "Deployments, best first." in line for line in lines)
    schema = json.loads(command("show", "field", "recommend", "--format", "json").out)
    assert schema["properties"]["choices"]["items"] == {"$ref": "#/$defs/choice"}
    assert schema["$defs"]["choice"]["properties"]["dollars_per_hour"]["unit"] == "USD/h"
    listed = json.loads(command("show", "field", "busy_seconds", "--format", "json").out)
    assert [field["meaning"] for field in listed] == ["Time of each resource in a step, regardless of overlap."]


def test_fields_are_found_by_the_headings_of_columns(command: Command) -> None:
    for asked in ("utilization", "util. %", "TTFT p90 ms"):
        listed = json.loads(command("show", "field", asked, "--format", "json").out)
        assert ("ttft_seconds" if "TTFT" in asked else "utilization") in {field["name"] for field in listed}
    said = command("show", "field", "utilization").said
    assert "in records" in said and "fleet_lot" in said


def test_recipes_of_one_engine_and_format(command: Command) -> None:
    asked = ("show", "engine", "vllm", "--recipes", "llama_3_70b", "h200_sxm")
    narrow = json.loads(command(*asked, "--weights", "fp8", "--format", "json").out)
    assert [(record["engine"], record["kv"]) for record in narrow] == [("vllm", "fp8")]
    (plain,) = json.loads(command(*asked, "--format", "json").out)
    assert (plain["recipe"], plain["source"], plain["layouts"]) == ("16-bit cache", None, [])
