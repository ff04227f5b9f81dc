"""Options of single commands: explain, fits, speculate, sensitivity, recommend, and bills by machine."""

from __future__ import annotations

import json
from math import ceil
from pathlib import Path

import pytest

from inference_econ.requests import Invocation
from tests.commands import Command, record


def test_explain_options(command: Command) -> None:
    subject = ("explain", "llama_3_8b", "tpu_v7", "--weights", "fp8", "--assumptions", "ideal", "--price", "2")
    answer = record(command, *subject, "--set", "hardware.hbm_bytes_per_second=1 TB/s")
    assert (answer["assumptions"], answer["weights"]) == ("ideal", "fp8")
    # 8.0 GB minus the input embedding of 0.5 GB, and a cache of 0.26 GB, at 1 TB/s; no other time.
    assert answer["step_seconds"] == pytest.approx(7.77e-3, rel=0.01)
    assert answer["dollars_per_million_output_tokens"] == pytest.approx(
        answer["step_seconds"] * 2 / 3600 * 1e6, rel=1e-12
    )
    assert "no price known" in command("explain", "llama_3_8b", "trainium3", "--why").out


def test_sizes_that_have_room_for_so_many(command: Command) -> None:
    answer = record(command, "fits", "llama_3_8b", "rtx_4090", "--concurrency", 100)
    assert [instance["accelerators"] for instance in answer["instances"]] == [2, 4, 8]
    assert answer["most_context"] == 131_072


DRAFTED = ("speculate", "llama_3_70b", "h100_sxm", "--weights", "fp8", "--tp", "8", "--draft", "llama_3_8b")


def test_multi_token_prediction_is_as_quick_as_published(command: Command) -> None:
    """SGLang's documents (basic_usage/deepseek_v3, H200 TP8) report speedups of 1.8 alone and 1.5 at 32."""
    rows = record(command, "speculate", "deepseek_v3", "h200_sxm", "--tp", 8, "--mtp")["rows"]
    speedup = {row["concurrency"]: row["speedup"] for row in rows}
    assert speedup[1] == pytest.approx(1.8, rel=0.15)
    assert speedup[32] == pytest.approx(1.5, rel=0.15)
    assert {row["draft_tokens"] for row in rows} <= {1, 2, 3}


def test_an_engine_s_recipe_says_how_many_tokens_are_proposed(command: Command) -> None:
    """For GLM-4.5, vLLM's recipes set 1 draft token and SGLang's set 3; an explicit length overrides them."""

    def longest(*options: object) -> int:
        subject = ("speculate", "glm_4_5", "h200_sxm", "--tp", 8, "--weights", "fp8", "--mtp", "--format", "json")
        return len(json.loads(command(*subject, *options).out)["speculation"]["acceptance"])

    assert [longest(), longest("--engine", "vllm"), longest("--engine", "sglang")] == [3, 1, 3]
    assert longest("--engine", "vllm", "--max-draft", 2) == 2
    assert longest("--engine", "vllm", "--acceptance", "0.9,0.8,0.7") == 3


def test_acceptance_from_a_file(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("target_logprob,draft_logprob,position\n-1.0,-0.5,1\n-0.4,-0.5,2\n", encoding="utf-8")
    answer = record(command, *DRAFTED, "--acceptance-file", path)
    assert answer["speculation"]["acceptance"] == pytest.approx([0.6065306597, 1.0])
    one = record(command, *DRAFTED, "--acceptance-file", path, "--max-draft", 1)
    assert one["speculation"]["acceptance"] == pytest.approx([0.6065306597])


INPUTS = ("--input", "price", "--input", "hbm_bandwidth")
VARIED = ("sensitivity", "llama_3_8b", "h100_sxm", "--max-instance-gpus", 2, *INPUTS)


def test_settings_reach_the_question(command: Command) -> None:
    answer = record(
        command, *VARIED, "--isl", 500, "--osl", 100, "--weights", "fp8", "--price", 2, "--tp", 1, "--ttft", 500,
        "--range", "0.9,1.1", "--set", "model.layers=16", "--slots", 64,
    )  # fmt: skip
    assert (answer["isl"], answer["osl"], answer["weights"], answer["range"]) == (500, 100, "fp8", [0.9, 1.1])
    assert (answer["layout"]["tp"], answer["slos"]["ttft_seconds"]) == (1, 0.5)
    (price,) = [each for each in answer["inputs"] if each["input"] == "price"]
    assert price["values"][0] == pytest.approx(1.8)
    assert all(one["concurrency"] <= 64 for one in answer["answers"])


def test_decode_steps_alone(command: Command) -> None:
    answer = record(command, *VARIED, "--decode-only", "--context", 500)
    assert answer["range"] == [0.8, 1.25]
    assert (answer["context"], "isl" in answer, "slos" in answer) == (500, False, False)
    assert "room_to_ttft" not in answer["inputs"][0]["elasticities"]


SMALL = ("llama_3_8b", "h100_sxm", "--max-instance-gpus", 2)


@pytest.mark.parametrize("given", ["80 %", "0.8"])
def test_promises_are_kept_with_the_confidence_that_is_asked_for(command: Command, given: str) -> None:
    asked = ("recommend", *SMALL, "--request-rate", 100, "--ttft", 200, "--tpot", 20, "--confidence", given)
    found = record(command, *asked)
    assert found["targets"]["confidence"] == 0.8
    for choice in found["choices"]:
        for name in ("p_ttft_met", "p_tpot_met", "p_capacity_sufficient"):
            assert 0.8 <= choice[name] <= 0.95


def test_a_power_cap_makes_a_step_longer(command: Command) -> None:
    step = ("explain", "llama_3_8b", "h100_sxm", "--tp", 1, "--prefill", 4000)
    found = record(command, *step, "--power-cap", "400W")
    assert found["board_watts"] == pytest.approx(400.0)
    assert found["step_seconds"] > 1.2 * found["step_seconds_uncapped"]
    assert record(command, *step)["step_seconds_uncapped"] is None
    text = command(*step, "--power-cap", "400W").said
    assert "The power cap of 400 W makes the step" in text


def test_bare_latencies_are_milliseconds(command: Command) -> None:
    promised = ("recommend", *SMALL, "--request-rate", 5, "--engine", "vllm", "--tp", 1)
    options = record(command, *promised, "--ttft", 500, "--tpot", "25.5")["asked"]["options"]
    assert (options["ttft"], options["tpot"]) == (0.5, 0.0255)
    bare = command(*promised, "--ttft", 2000, "--tpot", 20).out
    assert bare == command(*promised, "--ttft", "2 s", "--tpot", "20 ms").out


QUICK = ("--ttft", "2 s", "--tpot", "40 ms", "--max-instance-gpus", 2)


RATE = ("--request-rate", 5)


def test_whole_nodes_are_billed_whole(command: Command) -> None:
    arguments = ("llama_3_8b", "h100_sxm", *QUICK, *RATE, "--rent", "node")
    for choice in record(command, "recommend", *arguments)["choices"]:
        assert choice["accelerators_rented"] == 8 * ceil(choice["accelerators"] / 8)
    table = command("recommend", *arguments).out
    assert "rented" in table
    sheet = record(command, "price", *arguments)
    assert sheet["dollars_per_hour"] == pytest.approx(8 * 3.99)
    tokens = sheet["tokens_per_hour"]
    bill = sum(tokens[kind] * sheet[f"dollars_per_million_{kind}_tokens"] for kind in tokens) / 1e6
    assert bill == pytest.approx(sheet["dollars_per_hour"])


def test_loads_carry_the_bill_of_their_machines(command: Command) -> None:
    pinned = ("load", "llama_3_8b", "h100_sxm", "--tp", 2, "--dp", 1, "--pp", 1, "--replicas", 3, "--rates", "5")
    by_slices, by_nodes = record(command, *pinned), record(command, *pinned, "--rent", "node")
    assert (by_slices["accelerators"], by_slices["accelerators_rented"]) == (6, 6)
    assert (by_nodes["accelerators"], by_nodes["accelerators_rented"]) == (6, 8)
    assert by_nodes["dollars_per_hour"] == pytest.approx(by_slices["dollars_per_hour"] * 8 / 6)
    assert "3 instances of 2 x NVIDIA H100 SXM5 80GB (8 rented), tp2" in command(*pinned, "--rent", "node", "--why").out


def test_a_mixture_of_workloads_has_the_lengths_of_its_shares(command: Command) -> None:
    mixture = "500:200:0.7,3000:300:0.3"
    answer = record(
        command, "load", "llama_3_8b", "h100_sxm", "--tp", 1, "--rates", 5, "--workloads", mixture, "--no-simulate"
    )
    assert (answer["isl"], answer["osl"]) == (1250, 230)
    words = Invocation.of("load", {"model": "llama_3_8b", "hardware": "h100_sxm", "workloads": mixture}).words()
    assert words[-2:] == ["--workloads", mixture]
