"""Options of single commands whose effect is a relation between results; the others are rows of ``test_words.yaml``."""

from __future__ import annotations

from pathlib import Path

import pytest

from inference_econ.inputs import catalog
from inference_econ.inputs.engine import profiles
from inference_econ.requests import Invocation
from tests.commands import Command, record


def test_explain_options(command: Command) -> None:
    subject = ("explain", "llama_3_8b", "tpu_v7", "--weights", "fp8", "--assumptions", "ideal", "--price", "2")
    answer = record(command, *subject, "--set", "hardware.hbm_bytes_per_second=1 TB/s")
    assert (answer["assumptions"], answer["weights"]) == ("ideal", "fp8")
    # 8.0 GB minus the input embedding of 0.5 GB, and a cache of 0.26 GB, at 1 TB/s; no other time.
    seconds = answer["step_seconds"]
    assert seconds == pytest.approx(7.77e-3, rel=0.01)
    assert answer["dollars_per_million_output_tokens"] == pytest.approx(seconds * 2 / 3600 * 1e6, rel=1e-12)
    assert "no price known" in command("explain", "llama_3_8b", "trainium3", "--why").out


def test_multi_token_prediction_is_as_quick_as_published(command: Command) -> None:
    """SGLang's documents (basic_usage/deepseek_v3, H200 TP8) report speedups of 1.8 alone and 1.5 at 32."""
    rows = record(command, "speculate", "deepseek_v3", "h200_sxm", "--tp", 8, "--mtp")["rows"]
    speedup = {row["concurrency"]: row["speedup"] for row in rows}
    assert (speedup[1], speedup[32]) == pytest.approx((1.8, 1.5), rel=0.15)
    assert {row["draft_tokens"] for row in rows} <= {1, 2, 3}


def test_an_engine_s_recipe_says_how_many_tokens_are_proposed(command: Command) -> None:
    """For GLM-4.5, vLLM's recipes set 1 draft token and SGLang's set 3; an explicit length overrides them."""

    def longest(*options: object) -> int:
        subject = ("speculate", "glm_4_5", "h200_sxm", "--tp", 8, "--weights", "fp8", "--mtp")
        return len(record(command, *subject, *options)["speculation"]["acceptance"])

    assert [longest(), longest("--engine", "vllm"), longest("--engine", "sglang")] == [3, 1, 3]
    assert longest("--engine", "vllm", "--max-draft", 2) == 2
    assert longest("--engine", "vllm", "--acceptance", "0.9,0.8,0.7") == 3


#: The example of the help of ``assess``.
SERVED = ("assess", "llama_3_70b", "h100_sxm", "--weights", "fp8", "--tokens-per-second", 45, "--gpus")
LENGTHS = ("--isl", 2000, "--osl", 500)


def test_a_fleet_is_equal_instances(command: Command) -> None:
    one = record(command, *SERVED, 4, "--tp", 4, "--batch", 64, *LENGTHS)
    two = record(command, *SERVED, 8, "--tp", 4, "--batch", 128, *LENGTHS)
    assert (two["measured"]["instances"], two["measured"]["accelerators"]) == (2, 8)
    assert two["measured"]["throughput"] == pytest.approx(2 * one["measured"]["throughput"])
    for name in ("predicted_seconds", "beside_prediction", "beside_frontier"):
        assert two["verdict"][name] == one["verdict"][name]
    sized = command(*SERVED, 8, "--instance-gpus", 4, "--batch", 128, *LENGTHS).said
    assert "2 instances of 4 GPUs, tp4" in sized
    alone = record(command, *SERVED, 4, "--tp", 4, "--batch", 64)
    steps = record(command, *SERVED, 8, "--tp", 4, "--batch", 128)
    assert steps["predicted"]["batch"] == alone["predicted"]["batch"] == 64
    assert steps["frontiers"]["same_size"] == alone["frontiers"]["same_size"]


def test_power_of_the_facility_buys_a_fleet(command: Command) -> None:
    """Four chips of 1.68 kW: their power draw and its emissions."""
    subject = ("recommend", "llama_3_8b", "h100_sxm", "--max-instance-gpus", 2, "--isl", 2000, "--osl", 200)
    asked = (*subject, "--disaggregated", "--any-group", "--engine", "vllm", "--no-speculation")
    by_chips, by_power = (
        record(command, *asked, "--ttft", 500, "--tpot", 20, *means)["choices"][0]
        for means in (("--gpus", 4), ("--power-budget", "7kW", "--carbon", 50))
    )
    assert by_power["completed_requests_per_second"] == by_chips["completed_requests_per_second"]
    assert by_power["board_watts"] < by_power["facility_watts"] < by_power["provisioned_watts"] <= 7e3
    kwh = by_power["facility_joules_per_output_token"] * 1e6 / 3.6e6
    assert by_power["grams_co2e_per_million_output_tokens"] == pytest.approx(50 * kwh)


def test_several_chips_have_their_own_assumptions(command: Command) -> None:
    """An engine is known for the first two chips; the third has no profile."""
    small = ("--max-instance-gpus", 2, "--isl", 1000)
    compared = ("compare", "falcon_7b", "--on", "h100_sxm", "--on", "b200", "--on", "tpu_v6e", *small)
    engines = {"h100_sxm": "vllm", "b200": "vllm", "tpu_v6e": None}
    names = {chip: profiles.for_hardware(chip, engine).name for chip, engine in engines.items()}
    assert [one["assumptions"] for one in record(command, *compared)["series"]] == list(names.values())
    named = ", ".join(f"{name} ({chip})" for chip, name in names.items())
    assert f"Assumptions: {named}." in command(*compared, "--why").said
    both = command("recommend", "falcon_7b", "h100_sxm", "--on", "tpu_v6e", *small, "--why").said
    assert f"{names['h100_sxm']} (NVIDIA H100 SXM5 80GB)" in both
    assert "deployable (Google TPU v6e (Trillium))" in both


STEPS = ("frontier", "llama_3_8b", "h100_sxm", "--max-instance-gpus", 4, "--decode-only")


def test_degrees_of_frontiers(command: Command) -> None:
    def degrees(name: str, *words: object) -> set[float]:
        return {point["layout"][name] for point in record(command, *words)["points"]}

    assert degrees("pp", *STEPS, "--no-pipeline") == {1.0}
    assert len(degrees("pp", *STEPS, "--grid", "paper", "--pipeline")) > 1
    assert degrees("pp", *STEPS, "--instance-gpus", 3, "--grid", "paper") >= {1.0}
    experts = ("frontier", "gpt_oss_20b", "h100_sxm", "--decode-only", "--ep", 4, "--tp", 2, "--dp", "any")
    assert (degrees("ep", *experts), degrees("tp", *experts)) == ({4.0}, {2.0})


def test_a_fixed_layout_is_one_point(command: Command) -> None:
    options = ("--tp", 2, "--dp", 2, "--pp", 1, "--batch", 100, "--any-layout")
    (point,) = record(command, *STEPS, *options)["points"]
    assert (point["accelerators"], point["batch"]) == (4.0, 100.0)
    step = record(command, "explain", "llama_3_8b", "h100_sxm", *options)["step_seconds"]
    assert point["tokens_per_second_per_user"] == pytest.approx(1 / step, rel=1e-12)
    fraction = ("--grid", "paper", "--instance-gpus", 1.5, "--batch", 2.5, "--no-pipeline")
    (point,) = record(command, *STEPS, *fraction)["points"]
    assert (point["accelerators"], point["batch"]) == (1.5, 2.5)


def test_users_own_files_need_no_registration(command: Command, tmp_path: Path) -> None:
    for kind, name in (("hardware", "h100_sxm"), ("models", "llama_3_8b")):
        text = (catalog.folder(kind) / f"{name}.yaml").read_text(encoding="utf-8")
        (tmp_path / f"my_{kind}.yaml").write_text(text.replace("name: ", "name: My ", 1), encoding="utf-8")
    answer = record(command, "frontier", "my_models.yaml", "./my_hardware.yaml", "--quiet")
    assert (answer["model"], answer["hardware"]) == ("My Llama 3.1 8B", "My NVIDIA H100 SXM5 80GB")
    remark = "My Llama 3.1 8B has the architecture of Llama 3.1 8B, and uses its recipes and measurements\n"
    assert command("explain", "my_models.yaml", "h100_sxm").err == remark


def test_a_picture_to_point_at_is_a_page_that_loads_nothing(command: Command, tmp_path: Path) -> None:
    outcome = command("frontier", "llama_3_8b", "h100_sxm", "--max-instance-gpus", 2, "--plot", "a.html")
    assert (outcome.code, outcome.err) == (0, "wrote a.html\n")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<title>What do services cost at each speed?</title>" in page
    assert "https://cdn" not in page


def test_a_mixture_of_workloads_is_one_word_of_a_command() -> None:
    mixture = "500:200:0.7,3000:300:0.3"
    words = Invocation.of("load", {"model": "llama_3_8b", "hardware": "h100_sxm", "workloads": mixture}).words()
    assert words[-2:] == ["--workloads", mixture]
