"""``hardware``, ``models``, ``scenarios``, ``assumptions``, ``engines`` and ``schema``: what there is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inference_econ.inputs import catalog
from tests.cli.conftest import Command, rows

ENTRIES: list[tuple[catalog.Kind, str, str]] = [
    ("hardware", "h100_sxm", "NVIDIA H100 SXM5 80GB"),
    ("models", "llama_3_70b", "Llama 3.1 70B"),
    ("scenarios", "paper/table_4", "Table 4"),
    ("assumptions", "paper", "paper"),
    ("engines", "sglang", "SGLang"),
]
KINDS = [kind for kind, _, _ in ENTRIES]


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_of_names(command: Command, kind: catalog.Kind) -> None:
    outcome = command(kind)
    assert outcome.code == 0
    assert outcome.err == ""
    names = catalog.names(kind)
    assert outcome.out.startswith(f"{len(names)} {kind}\n")
    records = json.loads(command(kind, "--format", "json").out)
    assert [record["name"] for record in records] == list(names)
    listed = rows(command, kind)
    assert [row["name"] for row in listed] == list(names)
    lines = command(kind, "--format", "markdown").out.splitlines()
    assert sum(line.startswith("|") for line in lines) == len(names) + 2


@pytest.mark.parametrize(("kind", "name", "full"), ENTRIES)
def test_one_entry_with_its_sources(command: Command, kind: catalog.Kind, name: str, full: str) -> None:
    outcome = command(kind, name)
    assert outcome.code == 0
    assert outcome.out.startswith(f"{kind} {name}\n")
    assert full in outcome.out
    assert "source" in outcome.out
    record = json.loads(command(kind, name, "--format", "json").out)
    assert record["name"] == full
    assert record["sources"]
    lines = rows(command, kind, name)
    assert {"field", "value", "source"} == lines[0].keys()
    assert any(row["source"] for row in lines)
    assert command(kind, name, "--format", "markdown").out.startswith("| field | value | source |\n")


def test_a_path_can_be_shown(command: Command, tmp_path: Path) -> None:
    text = (catalog.folder("hardware") / "h100_sxm.yaml").read_text(encoding="utf-8")
    (tmp_path / "chip.yaml").write_text(text, encoding="utf-8")
    assert "NVIDIA H100 SXM5 80GB" in command("hardware", "chip.yaml").out


@pytest.mark.parametrize("kind", ["hardware", "model", "traffic", "assumptions", "scenario", "engine"])
def test_schemas(command: Command, kind: str, tmp_path: Path) -> None:
    outcome = command("schema", kind)
    assert outcome.code == 0
    schema = json.loads(outcome.out)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert command("schema", kind, "-o", "s.json").err == "wrote s.json\n"
    assert json.loads((tmp_path / "s.json").read_text(encoding="utf-8")) == schema


def test_fields_of_answers(command: Command) -> None:
    """A question is described as a table for people and as a JSON schema for programs."""
    lines = command("fields", "recommend").out.splitlines()
    assert lines[0] == "What recommend holds"
    assert any(line.startswith("choices ") and "Deployments, the best first." in line for line in lines)
    schema = json.loads(command("fields", "recommend", "--format", "json").out)
    assert schema["properties"]["choices"]["items"] == {"$ref": "#/$defs/choice"}
    assert schema["$defs"]["choice"]["properties"]["dollars_per_hour"]["unit"] == "USD/h"
    listed = json.loads(command("fields", "busy_seconds", "--format", "json").out)
    assert [field["meaning"] for field in listed] == ["Time of each resource in a step, however much overlaps."]


def test_fields_are_found_by_the_headings_of_columns(command: Command) -> None:
    for asked in ("busy", "busy %", "TTFT p90 ms"):
        listed = json.loads(command("fields", asked, "--format", "json").out)
        assert {"busy", "utilization"} <= {field["name"] for field in listed} or asked != "busy"
        assert ("ttft_seconds" if "TTFT" in asked else "utilization") in {field["name"] for field in listed}
    said = command("fields", "utilization").said
    assert "in records" in said and "fleet_lot" in said


def test_recipes_of_a_model_on_a_chip(command: Command) -> None:
    """What InferenceX' scripts run DeepSeek with on H200: TensorRT-LLM with a cache in fp8, SGLang without."""
    outcome = command("engines", "--recipes", "deepseek_v3", "h200_sxm")
    assert outcome.out.startswith("Recipes of DeepSeek-V3 on NVIDIA H200 SXM5 141GB\n")
    lines = [line.split() for line in outcome.out.splitlines()]
    assert any(line[:5] == ["trtllm", "fp8", "cache,", "MTP", "3"] for line in lines)
    records = json.loads(command("engines", "--recipes", "deepseek_v3", "h200_sxm", "--format", "json").out)
    assert [record["practice"] for record in records if record["engine"] == "sglang"] == [
        "16-bit cache",
        "16-bit cache, MTP 2",
    ]
    (throughput,) = (record for record in records if record["practice"] == "fp8 cache, MTP 1")
    assert throughput["layouts"] == [{"tp": 1, "dp": 8, "pp": 1, "ep": 8}]
    assert throughput["pools"][0] == {
        "prefill": {"tp": 1, "dp": 8, "pp": 1, "ep": 8},
        "decode": {"tp": 1, "dp": 8, "pp": 1, "ep": 8},
        "workers": [[1, 2]],
    }
    assert throughput["source"]["ref"] == "inferencex"


def test_recipes_of_one_engine_and_format(command: Command) -> None:
    asked = ("engines", "vllm", "--recipes", "llama_3_70b", "h200_sxm")
    narrow = json.loads(command(*asked, "--weights", "fp8", "--format", "json").out)
    assert [(record["engine"], record["kv"]) for record in narrow] == [("vllm", "fp8")]
    (plain,) = json.loads(command(*asked, "--format", "json").out)
    assert (plain["practice"], plain["source"], plain["layouts"]) == ("16-bit cache", None, [])
