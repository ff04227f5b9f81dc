"""Every question over HTTP: its answer is what its command prints, and what Python says."""

from __future__ import annotations

import importlib
import json
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import inference_econ as ie

if TYPE_CHECKING:
    from starlette.testclient import TestClient

    from inference_econ.answers.candidates import Candidate

SUBJECT = {"model": "llama_3_8b", "hardware": "h100_sxm", "weights": "fp8"}
SPACE = ie.Space(max_accelerators=1)
LENGTHS = ie.Requests(isl=ie.Length.parse("1000"), osl=ie.Length.parse("200"))
SMALL = {**SUBJECT, "isl": 1000, "osl": 200, "max_instance_gpus": 1}
TRAFFIC, TARGETS = ie.Traffic(isl=1000, osl=200), ie.Targets(tpot_seconds=0.05)
PROMISED = {**SMALL, "tpot": 50}


class Asked(NamedTuple):
    """A question as HTTP takes it, and as Python does."""

    fields: Mapping[str, Any]
    python: Callable[[], Any] | None
    """None where Python has data and no answer."""
    name: str = ""
    """Of the question, where there are several of it."""


def setup(**options: Any) -> ie.Setup:
    return ie.Setup.of("llama_3_8b", "h100_sxm", weights="fp8", **options)


def layouts() -> Any:
    return ie.offer(setup(), LENGTHS, SPACE)


def market(arrangement: Any = "both") -> tuple[Candidate, ...]:
    return ie.market(setup(), LENGTHS, SPACE, arrangement=arrangement)


#: Every question, small.
QUESTIONS: dict[str, Asked] = {
    "frontier": Asked(SMALL, lambda: ie.frontier(setup(), TRAFFIC, SPACE)),
    "decode steps alone": Asked(
        {**SMALL, "decode_only": True}, lambda: ie.decode_frontier(setup(), TRAFFIC, SPACE), "frontier"
    ),
    "fits": Asked(SMALL, lambda: ie.fits(setup(), LENGTHS, SPACE)),
    "explain": Asked({**SUBJECT, "tp": 1, "batch": 8}, lambda: ie.explain(setup(), ie.Pins(tp=1, batch=8))),
    "intensity": Asked({**SUBJECT, "tp": 1}, lambda: ie.intensity(setup(), ie.Pins(tp=1))),
    "assess": Asked(
        {**SUBJECT, "isl": 1000, "osl": 200, "tokens_per_second": 100, "gpus": 1, "batch": 8},
        lambda: ie.assess(setup(), TRAFFIC, ie.Observation(100.0, 1, batch=8.0)),
    ),
    "price": Asked({**SMALL, "request_rate": 5}, lambda: ie.price(market(), 5.0)),
    "speculate": Asked(
        {**SUBJECT, "isl": 1000, "osl": 200, "ngram": True, "acceptance": "0.5", "tp": 1},
        lambda: ie.speculate(setup(), LENGTHS, ie.Speculation.of("ngram", 0.5), ie.Pins(tp=1)),
    ),
    "cache": Asked({**SUBJECT, "tp": 1}, lambda: ie.cache(setup(), ie.Space(ie.Pins(tp=1)))),
    "prefill": Asked({**SUBJECT, "prompt": "2048", "ranks": "2"}, lambda: ie.prefill(setup(), [2048], [2])),
    "hour-cost": Asked({"hardware": "h100_sxm"}, lambda: ie.hour_cost(ie.hardware("h100_sxm"))),
    "compare": Asked(
        {"models": ["llama_3_8b"], "on": ["h100_sxm", "h200_sxm"], "max_instance_gpus": 1},
        lambda: ie.compare("llama_3_8b", ["h100_sxm", "h200_sxm"], max_instance_gpus=1),
    ),
    "what-if": Asked(
        {"model": "llama_3_8b", "hardware": "h100_sxm", "input": ["price"], "max_instance_gpus": 1},
        lambda: ie.what_if("llama_3_8b", "h100_sxm", inputs=["price"], max_instance_gpus=1),
    ),
    "recommend": Asked({**PROMISED, "request_rate": 5}, lambda: ie.recommend(market(), 5.0, TARGETS)),
    "most traffic": Asked(
        {**PROMISED, "gpus": 8}, lambda: ie.most_traffic(market(), ie.Means(8), TARGETS), "recommend"
    ),
    "load": Asked({**PROMISED, "rates": [1, 5]}, lambda: ie.load(layouts(), [1.0, 5.0], targets=TARGETS)),
    "disaggregate": Asked(
        {**SMALL, "request_rate": 20, "engine": ["vllm"], "kv": "bf16"},
        lambda: ie.disaggregate(ie.pools(setup(engine="vllm", kv="bf16"), LENGTHS, SPACE), requests_per_second=20.0),
    ),
    "buy": Asked(
        {**PROMISED, "hardware": None, "chips": ["h100_sxm"], "api_prices": "input=0.3,output=0.9"},
        lambda: ie.buy(market("together"), {"given": {"input": 0.3, "output": 0.9}}, TARGETS),
    ),
    "fleet": Asked(
        {**PROMISED, "rates": [5, 30, 80], "target": 0.8},
        lambda: ie.fleet(market("together"), [5.0, 30.0, 80.0], TARGETS, target=0.8),
    ),
    "rollout": Asked(
        {**SMALL, "gpus": 2, "prompts": 8, "samples": 2},
        lambda: ie.rollout(market("together"), 2, prompts=8, samples=2),
    ),
    "launch": Asked({**PROMISED, "request_rate": 5}, lambda: ie.recommend(market(), 5.0, TARGETS)),
    "validate": Asked({"datasets": ["collectives"]}, None),
    "hardware": Asked({"name": "h100_sxm"}, None),
    "models": Asked({"name": "llama_3_8b"}, None),
    "scenarios": Asked({"name": "paper/table_1"}, None),
    "traffic": Asked({"name": "coding_agent"}, None),
    "assumptions": Asked({"name": "deployable"}, None),
    "engines": Asked({"name": "vllm"}, None),
}


def test_every_question_that_http_has_is_here() -> None:
    served = importlib.import_module("inference_econ_cli.commands").served()
    assert {asked.name or name for name, asked in QUESTIONS.items()} == set(served)


@pytest.mark.parametrize("name", QUESTIONS)
def test_all_doors_say_the_same(client: TestClient, capsys: pytest.CaptureFixture[str], name: str) -> None:
    asked = QUESTIONS[name]
    fields = {key: value for key, value in asked.fields.items() if value is not None}
    reply = client.post(f"/api/v1/{asked.name or name}", json=fields)
    assert reply.status_code == 200, reply.text
    command, answer = reply.json()["command"], reply.json().get("answer")
    form = [] if answer is None else ["--json"]
    importlib.import_module("inference_econ_cli.main").app([*shlex.split(command)[1:], *form], standalone_mode=False)
    printed = capsys.readouterr().out
    if answer is None:
        assert reply.json()["text"] == printed
        assert asked.python is not None
        assert _started(asked.python().launch()) == _started(printed)
        return
    typed = json.loads(printed)
    assert answer == (typed if isinstance(typed, dict) else {"rows": typed})
    if asked.python is not None:
        answer.pop("asked", None)
        assert answer == json.loads(json.dumps(asked.python().to_dict()))


def _started(script: str) -> list[str]:
    """Lines of a script but the one that says by which door it was picked."""
    return [line for line in script.splitlines() if not line.startswith("# picked: ")]
