"""Texts that users send (configurations, benchmark results, saved results) by name, never as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from inference_econ.extras.web import RefusedError
from inference_econ.extras.web.requests import Recent, Texts
from tests.reading import tables

if TYPE_CHECKING:
    from starlette.testclient import TestClient

CONFIGURATION: dict[str, Any] = tables(Path(__file__))["CONFIGURATION"]


def sent(client: TestClient, text: str) -> str:
    reply = client.post("/api/v1/texts", content=text)
    assert reply.status_code == 200
    return str(reply.json()["name"])


def test_a_configuration_is_a_model(client: TestClient) -> None:
    own = sent(client, json.dumps(CONFIGURATION))
    asked = {"hardware": "h100_sxm", "batch": 16}
    ours = client.post("/api/v1/explain", json={**asked, "model": own}).json()["answer"]
    shipped = client.post("/api/v1/explain", json={**asked, "model": "llama_3_8b"}).json()["answer"]
    assert ours["step_seconds"] == pytest.approx(shipped["step_seconds"], rel=1e-12)


def test_a_configuration_that_is_not_understood_is_refused_by_name(client: TestClient) -> None:
    own = sent(client, json.dumps({**CONFIGURATION, "model_type": "unheard_of"}))
    reply = client.post("/api/v1/frontier", json={"model": own, "hardware": "h100_sxm"})
    assert reply.status_code == 422
    assert "model_type 'unheard_of' is not understood" in reply.json()["error"]["message"]


def result(**changes: Any) -> str:
    means = {f"{kind}_{name}_ms": 10.0 for kind in ("mean", "median", "p99") for name in ("tpot", "ttft")}
    counts = {"completed": 200, "num_prompts": 200, "total_input_tokens": 200_000, "total_output_tokens": 40_000}
    run = {"duration": 100.0, "request_throughput": 2.0, "output_throughput": 400.0, "max_concurrency": 4}
    return json.dumps({**means, "std_tpot_ms": 1.0, **counts, **run, "model_id": "llama-3.1-8b", **changes})


def test_a_result_is_validated(client: TestClient) -> None:
    own = sent(client, result())
    fields = {"datasets": [own], "hardware": "h100_sxm", "model": "llama_3_8b"}
    reply = client.post("/api/v1/validate", json=fields)
    assert reply.status_code == 200
    (servers,) = reply.json()["answer"]["rows"]
    assert servers["coverage"]["predicted"] == 1


def test_all_measured_servers_are_more_than_a_server_predicts(client: TestClient) -> None:
    reply = client.post("/api/v1/validate", json={})
    assert reply.status_code == 422
    assert "measured servers take about 111 s; reduce datasets" in reply.json()["error"]["message"]


def test_a_result_is_held_against_an_answer_that_starts_something_too(client: TestClient) -> None:
    asked = {"model": "llama_3_8b", "hardware": "h100_sxm", "max_instance_gpus": 1, "isl": 1000, "osl": 200}
    answer = client.post("/api/v1/frontier", json=asked).json()["answer"]
    saved = sent(client, json.dumps(answer))
    script = client.post("/api/v1/launch", json={"model": saved, "to": "vllm", "choice": 1}).json()["text"]
    assert "vllm serve" in script
    in_flight = round(answer["points"][0]["concurrency"])
    own = sent(client, result(max_concurrency=in_flight))
    reply = client.post("/api/v1/validate", json={"datasets": [own], "against": saved, "choice": 1})
    assert reply.status_code == 200, reply.text
    assert "against" in reply.json()["tables"][0]["title"]


def test_what_is_too_large_or_no_text_is_refused(client: TestClient) -> None:
    assert client.post("/api/v1/texts", content=b"x" * 1_000_001).status_code == 413
    reply = client.post("/api/v1/texts", content=b"\xff\xfe\x00")
    assert (reply.status_code, reply.json()["error"]["message"][:18]) == (422, "not a text in UTF-")


def test_a_text_that_is_forgotten_is_asked_for_again() -> None:
    texts = Texts(most_bytes=20)
    first = texts.keep(b'{"a": 1}')
    assert texts.named({"model": first}) == {first: '{"a": 1}'}
    texts.keep(b"a,b\n1,2,3,4,5,6")
    with pytest.raises(RefusedError, match="send it again") as caught:
        texts.named({"model": first})
    assert caught.value.option == "model"


def test_a_forgotten_text_is_refused_every_time(client: TestClient) -> None:
    asked = {"model": "own/0123456789abcdef.json", "hardware": "h100_sxm"}
    for _ in range(2):
        error = client.post("/api/v1/frontier", json=asked).json()["error"]
        assert error["field"] == "model"
        assert "send it again" in error["message"]


def test_what_was_used_last_is_kept() -> None:
    recent: Recent[str] = Recent(10)
    recent.put("a", "1", 4)
    recent.put("b", "2", 4)
    assert recent.get("a") == "1"
    recent.put("c", "3", 4)
    assert (recent.get("a"), recent.get("b"), recent.get("c")) == ("1", None, "3")
    recent.put("d", "4", 11)
    assert recent.get("d") is None


@pytest.mark.rows
def test_no_option_reads_a_file(client: TestClient, question: str, fields: dict[str, Any]) -> None:
    reply = client.post(f"/api/v1/{question}", json=fields)
    assert reply.status_code == 422, reply.text


def test_weights_are_named_plainly(client: TestClient) -> None:
    asked = {"model": "llama_3_8b", "hardware": "h100_sxm", "to": "vllm", "model_id": "a/b$(touch PWNED)"}
    reply = client.get("/api/v1/launch.txt", params=asked)
    assert reply.status_code == 422
    assert "is needed, in letters, digits" in reply.text
