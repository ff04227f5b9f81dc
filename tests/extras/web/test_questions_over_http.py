"""Commands over HTTP: the same results as the command line, and errors with the option that caused them."""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from inference_econ.extras.web import models
from inference_econ.requests import by_name
from inference_econ.requests.tables import COMMANDS

if TYPE_CHECKING:
    from starlette.testclient import TestClient

SUBJECT = {"model": "llama_3_8b", "hardware": "h100_sxm"}


def error_of(client: TestClient, question: str, **fields: Any) -> tuple[int, str, str | None]:
    reply = client.post(f"/api/v1/{question}", json=fields)
    error = reply.json()["error"]
    return reply.status_code, error["message"], error["field"]


def test_answers_are_as_the_document_says(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    registry = Registry().with_resource("urn:api", Resource.from_contents(document, DRAFT202012))
    content = document["paths"]["/api/v1/gpu-cost"]["get"]["responses"]["200"]["content"]
    schema = content["application/json"]["schema"]
    assert schema["properties"]["answer"] == {"$ref": "#/components/schemas/gpu-costAnswer"}
    answered = client.get("/api/v1/gpu-cost", params={"hardware": "h100_sxm"}).json()
    whole = {"$ref": "urn:api#/paths/~1api~1v1~1gpu-cost/get/responses/200/content/application~1json/schema"}
    jsonschema.Draft202012Validator(whole, registry=registry).validate(answered)
    answered["answer"]["parts"].pop("capital")
    with pytest.raises(jsonschema.ValidationError, match="'capital' is a required property"):
        jsonschema.Draft202012Validator(whole, registry=registry).validate(answered)


@pytest.mark.rows
def test_answers_are_those_of_the_command_line(client: TestClient, question: str, fields: dict[str, Any]) -> None:
    posted = client.post(f"/api/v1/{question}", json={**SUBJECT, **fields})
    assert posted.status_code == 200
    got = client.get(f"/api/v1/{question}", params={**SUBJECT, **fields})
    assert posted.json() == got.json()
    assert posted.json()["command"].startswith(f"inference-econ {question} llama_3_8b h100_sxm --")
    assert posted.json()["answer"]["model"] == "Llama 3.1 8B"


@pytest.mark.rows
def test_agents_are_answered_as_their_command_prints(
    client: TestClient, capsys: pytest.CaptureFixture[str], question: str, fields: dict[str, Any]
) -> None:
    pinned = {**SUBJECT, "tp": 1, "dp": 1, "pp": 1, "engine": ["vllm"], "traffic": "rag", "aggregated": True}
    if question == "load":
        del pinned["aggregated"]
    reply = client.post(f"/api/v1/{question}", json={**pinned, **fields})
    assert reply.status_code == 200, reply.text
    importlib.import_module("inference_econ_cli.main").app(
        [*reply.json()["command"].split()[1:], "--json"], standalone_mode=False
    )
    assert reply.json()["answer"] == json.loads(capsys.readouterr().out)


@pytest.mark.rows
def test_errors_name_the_option(
    client: TestClient, question: str, fields: dict[str, Any], field: str, message: str
) -> None:
    status, text, at_fault = error_of(client, question, **fields)
    assert (status, at_fault) == (422, field)
    assert message in text


def test_hints_are_fields() -> None:
    """Python also accepts other names, and options about the output."""
    for command in (it for it in COMMANDS.values() if it.call and "served" in it.doors):
        fields = {name for it in command.asked for name in (it.field, *it.synonyms)}
        for name in by_name._options(command).keys() - fields:
            hint = by_name.option_hint(command, name, "questions", remote=True)
            assert not hint or hint.removeprefix("did you mean ").removesuffix("?") in fields, (
                command.name,
                name,
                hint,
            )
    assert by_name.option_hint(COMMANDS["price"], "output", "questions", remote=True) == ""


def test_the_document_is_made_once(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    first = client.get("/openapi.json").content
    monkeypatch.delattr(models, "document")
    assert client.get("/openapi.json").content == first


def test_lists_are_taken_as_they_are(client: TestClient) -> None:
    one = {**SUBJECT, "tp": 1, "dp": 1, "pp": 1, "simulate": False}
    reply = client.post("/api/v1/load", json={**one, "rates": [1, 2.5]}).json()
    assert reply["command"].endswith("--tp 1 --pp 1 --dp 1 --rates 1,2.5 --no-simulate")
    assert reply["answer"]["asked"]["options"]["rates"] == [1.0, 2.5]
    _, message, field = error_of(client, "load", **one, rates=[1, -2])
    assert field == "rates"
    assert "'1,-2' is not a list of positive numbers" in message
    recipes = client.post("/api/v1/list-engines", json={"recipes": "deepseek_v3 h200_sxm"}).json()
    assert recipes["command"] == "inference-econ list engines --recipes deepseek_v3 h200_sxm"


@pytest.mark.parametrize("name", ["../hardware/h100_sxm.yaml", "/etc/passwd", "file:///etc/passwd", "!!python/name:os"])
@pytest.mark.parametrize("option", ["model", "hardware", "draft", "assumptions"])
def test_no_name_is_a_path(client: TestClient, name: str, option: str) -> None:
    status, message, field = error_of(client, "frontier", **{**SUBJECT, option: name})
    assert (status, field) == (422, option)
    assert message.startswith("unknown")
    assert "path" not in message


def test_addresses_that_are_none(client: TestClient) -> None:
    assert client.get("/api/v1/frontiers").status_code == 404
    assert client.get("/api/v1/frontier.exe", params=SUBJECT).status_code == 404
    assert client.delete("/api/v1/frontier").status_code == 405
    assert client.post("/api/v1/frontier", content="model=x").status_code == 415
    twice = '{"model": "llama_3_8b", "hardware": "h100_sxm", "isl": 1, "isl": 2}'
    reply = client.post("/api/v1/frontier", content=twice, headers={"content-type": "application/json"})
    assert (reply.status_code, reply.json()["error"]["message"]) == (422, "isl: given twice; give it once")
    headers = {"content-type": "application/json"}
    assert client.post("/api/v1/frontier", content='{"isl": NaN}', headers=headers).status_code == 400
    assert client.post("/api/v1/frontier", content="[1]", headers=headers).status_code == 422
    assert client.post("/api/v1/frontier", content=b" " * 1_000_001, headers=headers).status_code == 413


def test_promises_have_the_percentiles_of_the_command_line(client: TestClient) -> None:
    asked = {**SUBJECT, "max_instance_gpus": 1, "request_rate": 5, "percentile": "p95"}
    reply = client.post("/api/v1/recommend", json={**asked, "ttft": 500, "tpot": "mean:30"}).json()
    assert reply["command"].endswith("--ttft 500 --tpot mean:30 --percentile p95 --max-instance-gpus 1")
    targets = reply["answer"]["targets"]
    assert (targets["ttft_percentile"], targets["tpot_percentile"]) == ("p95", "mean")
    assert (targets["ttft_seconds"], targets["tpot_seconds"]) == (0.5, 0.03)
    told = error_of(client, "recommend", **asked, ttft="p100:500")
    assert told[1:] == (told[1], "ttft")
    assert "percentile: got 'p100'; allowed: mean, and p1 to p99.9" in told[1]
    assert error_of(client, "recommend", **{**asked, "percentile": "pfoo"})[2] == "percentile"


def test_a_text_that_is_too_long_is_no_mistyped_number(client: TestClient) -> None:
    _, message, field = error_of(client, "frontier", **SUBJECT, ttft="1" * 2_500)
    assert (message.partition("; ")[2], field) == ("String should have at most 2000 characters", "ttft")
