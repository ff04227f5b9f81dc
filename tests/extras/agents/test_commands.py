"""Agents instead of a rate: load, recommend and price of a workload with sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import inference_econ as ie
from inference_econ.extras import web
from inference_econ.extras.agents import simulation as agent_play
from tests.commands import Command, record
from tests.reading import tables

ONE = ("llama_3_8b", "h100_sxm", "--tp", 1, "--dp", 1, "--pp", 1)
API = {"given": {"input": 1.0, "output": 3.0}}


@pytest.fixture
def helpers(tmp_path: Path) -> str:
    """Write a workload of short sessions."""
    (tmp_path / "helpers.yaml").write_text(tables(Path(__file__))["HELPERS"], encoding="utf-8")
    return "helpers.yaml"


@pytest.mark.long
def test_python_answers_as_the_command_line(command: Command, helpers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_play, "_LEAST", 300)
    workers, setup = ie.Agents.of(helpers), ie.Setup.of("llama_3_8b", "h100_sxm", engine="vllm")
    space = ie.Space(ie.Pins(tp=1, dp=1, pp=1))
    layouts, offers = ie.layouts(setup, workers.requests, space), ie.candidates(setup, workers.requests, space)
    kept, behind = ie.Targets(ttft_seconds=0.5), dict[str, Any](router="round_robin", tiers=["dram"])
    words = (*ONE, "--engine", "vllm", "--traffic", helpers, "--router", "round_robin", "--tier", "dram")
    answers = {
        "load": (workers.load(layouts, [5], replicas=2, targets=kept, **behind), (5, "--replicas", 2)),
        "recommend": (workers.recommend(offers, 9, kept, **behind), (9,)),
        "price": (workers.price(offers, 9, kept, **behind), (9,)),
        "buy": (workers.buy(offers, API, 9, kept, **behind), (9, "--api-prices", "input=1,output=3")),
    }
    said = record(command, "recommend", *words, "--ttft", "500 ms", "--gpus", 1)
    del said["asked"]
    assert said == json.loads(json.dumps(workers.most_agents(offers, ie.Means(1), kept, **behind).to_dict()))
    for name, (answer, asked) in answers.items():
        if name != "buy":
            script = answer.launch()
            assert "--max-model-len 2163" in script and "predicted with host memory behind HBM" in script, name
        said = record(command, name, *words, "--ttft", "500 ms", "--agents", *asked)
        del said["asked"]
        assert said == json.loads(json.dumps(answer.to_dict())), name


def test_tokens_or_machines_for_agents(command: Command, helpers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_play, "_LEAST", 300)
    kept = ("--tpot", 8, "--traffic", helpers, "--slots", 16, "--engine", "vllm")
    words = ("buy", *ONE, *kept, "--api-prices", "input=0.06,cached_input=0.01,output=0.2", "--pricing", "on_demand")
    (row,) = record(command, *words, "--agents", 200)["crossovers"]
    bill = row["agent_bill"]
    # The offer: mean turns of 500 + 200 + 260 x 2.5 tokens, of which the 200 are new to it.
    choice = record(command, "recommend", *ONE, *kept, "--agents", 200)["choices"][0]
    turn = (200 * 0.06 + (500 + 260 * 2.5) * 0.01 + 60 * 0.2) / 1e6
    turns_per_hour = 6 * choice["agent_use"]["tasks_per_hour"]
    assert bill["offer_dollars_per_month"] == pytest.approx(730 * turns_per_hour * turn, rel=0.01)
    fleet = (choice["accelerators"], pytest.approx(730 * choice["dollars_per_hour"]))
    assert (bill["accelerators"], bill["dollars_per_month"]) == fleet
    assert bill["cheaper_from_agents"] == pytest.approx(3.99 * 730 / bill["offer_dollars_per_agent_month"])


def test_usual_slos_are_met_with_a_confidence(command: Command, helpers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_play, "_LEAST", 300)
    words = (*ONE, "--slots", 16, "--engine", "vllm", "--traffic", helpers, "--agents", 60)
    plain, sure = (record(command, "recommend", *words, *more) for more in ((), ("--confidence", 80)))
    assert sure["targets"] == {**plain["targets"], "confidence": 0.8}
    assert sure["choices"][0]["dollars_per_hour"] >= plain["choices"][0]["dollars_per_hour"]
    assert record(command, "price", *words, "--confidence", 80)["targets"] == sure["targets"]


def test_shipped_sessions_beyond_a_model_are_written_to_a_file_to_be_changed(command: Command, tmp_path: Path) -> None:
    """The fix in the message works."""
    words = ("load", "qwen3_32b", "h100_sxm", "--tp", 2, "--dp", 1, "--pp", 1, "--agents", 2, "--traffic")
    said = command(*words, "coding_agent").warned
    assert "sessions of coding_agent grow to 120,000 tokens, beyond the 40,960 that Qwen3 32B was made for" in said
    assert "'inference-econ show traffic coding_agent -o mine.yaml'" in said and ".yaml:" not in said
    assert command("show", "traffic", "coding_agent", "-o", "mine.yaml").code == 0
    assert ie.Agents.of("mine.yaml").spec == ie.Agents.of("coding_agent").spec
    written = (tmp_path / "mine.yaml").read_text(encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(written.replace("compacts_at: 120000", "compacts_at: 40960"), encoding="utf-8")
    outcome = command(*words, "mine.yaml", "--why")
    assert outcome.code == 0, outcome.err
    assert "3 side agents" in outcome.said


def test_rows_of_one_engine_say_their_recipes_and_what_is_reached_where_nothing_fits(
    command: Command, refused: Command, helpers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_play, "_LEAST", 600)
    asked = ("recommend", *ONE, "--engine", "vllm", "--traffic", helpers, "--agents", 20)
    outcome = command(*asked)
    assert outcome.code == 0 and "bf16 cache, EAGLE 3" in outcome.out, outcome.err
    told = refused(*asked, "--tpot", "0.1 ms", code=1).warned
    assert "relax the SLOs. Best reachable: NVIDIA H100 SXM5 80GB: TTFT" in told and "with the mean turn alone" in told


def test_pools_for_agents_are_shown_saved_and_started(
    command: Command, helpers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_play, "_LEAST", 300)
    words = ("llama_3_8b", "h100_sxm", "--engine", "vllm", "--traffic", helpers, "--agents", 200)
    asked = (*words, "--max-instance-gpus", 1, "--disaggregated", "--any-group", "--tpot", 20)
    outcome = command("recommend", *asked, "-o", tmp_path / "plan.json", "--plot", tmp_path / "plan.svg")
    assert outcome.code == 0, outcome.err
    choice = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))["choices"][0]
    readers, writers = choice["prefill_instances"], choice["decode_instances"]
    assert choice["serving"] == "disaggregated" and choice["agent_use"]["agents"] == 200
    assert choice["tpot_seconds"]["p90"] <= 0.02 and choice["ttft_seconds"]["p90"] <= 10.0
    assert choice["accelerators"] == readers + writers
    said = command("launch", tmp_path / "plan.json")
    assert said.code == 0 and "predicted for 200 agents (helpers.yaml)" in said.out, said.err
    assert "\nprefill)" in said.out and "\ndecode)" in said.out
    shown = command("price", *asked, "--why")
    assert f"{readers}P{writers}D" in shown.out and "recompute the outputs of earlier turns" in shown.said
    bill = record(command, "price", *asked)
    assert bill["dollars_per_hour"] == choice["dollars_per_hour"] and bill["serving"] == "disaggregated"
    assert bill["agent_use"] == choice["agent_use"]


DAY = ("--rates", "1,4,2", "--pricing", "on_demand", "--target", 0.8)


def test_a_day_of_agents(command: Command, helpers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_play, "_LEAST", 300)
    words = ("fleet", *ONE, "--engine", "vllm", "--traffic", helpers, "--tpot", 8)
    shaped = record(command, *words, "--agents", 80, *DAY)
    typed = record(command, *words, "--agents", "20,80,40", *DAY[2:])
    assert shaped["hours"] == typed["hours"]
    assert [hour["agents"] for hour in shaped["hours"]] == [20, 80, 40]
    asked = {"model": "llama_3_8b", "hardware": "h100_sxm", "traffic": "chat", "agents": "80", "rates": "1,4,2"}
    page: Any = web.answer("fleet", {**asked, "tp": 1}).page
    assert [hour["agents"] for hour in page.answer.to_dict()["hours"]] == [20, 80, 40]
