"""Results in every format, from the address with the state of a page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from inference_econ.inputs import Scenario
from inference_econ.inputs._yaml import parse

if TYPE_CHECKING:
    from starlette.testclient import TestClient

ASKED = "model=llama_3_8b&hardware=h100_sxm&max_instance_gpus=2&isl=1000"


@pytest.mark.rows
def test_forms(client: TestClient, form: str, media: str, begins: str) -> None:
    reply = client.get(f"/api/v1/frontier.{form}?{ASKED}")
    assert reply.status_code == 200
    assert reply.headers["content-type"] == media
    assert reply.content.startswith(begins.encode("latin-1"))
    kept = f'attachment; filename="frontier.{form}"'
    assert reply.headers.get("content-disposition") == (None if form in ("md", "txt") else kept)


def test_a_text_has_the_table_and_its_notes(client: TestClient) -> None:
    lines = client.get(f"/api/v1/frontier.txt?{ASKED}").text.splitlines()
    assert lines[0].startswith("inference-econ frontier llama_3_8b h100_sxm")
    assert lines[2].startswith("Services: Llama 3.1 8B on H100 SXM5 80GB")
    assert sum(line.startswith("| ") for line in lines) > 5
    assert any("Costs include prefill" in line for line in lines)


@pytest.mark.parametrize(
    ("address", "series"),
    [
        (f"frontier.yaml?{ASKED}", 1),
        ("compare.yaml?models=llama_3_8b&on=h100_sxm&on=h200_sxm&price=h100_sxm=2&price=h200_sxm=3&weights=fp8", 2),
    ],
)
def test_a_scenario_asks_the_same(client: TestClient, address: str, series: int) -> None:
    document = parse(client.get(f"/api/v1/{address}").text, "scenario")
    scenario = Scenario.from_document(document)
    assert scenario.ask.kind == "frontier"
    assert len(scenario.ask.series) == series


def test_what_has_no_such_form_says_so(client: TestClient) -> None:
    reply = client.get("/api/v1/explain.yaml?model=llama_3_8b&hardware=h100_sxm")
    assert reply.status_code == 422
    assert "scenarios hold questions of frontier and compare" in reply.json()["error"]["message"]
    reply = client.get("/api/v1/launch.csv?model=llama_3_8b&hardware=h100_sxm&to=vllm")
    assert "ask for it as .txt or .json" in reply.json()["error"]["message"]
    assert client.get("/api/v1/list-models.svg").status_code == 422


def test_a_question_asked_again_is_answered_from_memory(client: TestClient) -> None:
    first = client.post("/api/v1/explain", json={"model": "llama_3_8b", "hardware": "h100_sxm", "batch": 7})
    again = client.post("/api/v1/explain", json={"batch": 7, "hardware": "h100_sxm", "model": "llama_3_8b"})
    assert first.content == again.content
    assert json.loads(first.content)["command"].endswith("--batch 7")


def test_names_that_are_not_plain_are_said(client: TestClient) -> None:
    (remark,) = client.get("/api/v1/explain?model=llama_3_8b&hardware=H100").json()["remarks"]
    assert "'H100' is taken as h100_sxm" in remark
