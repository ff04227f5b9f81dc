"""Shared options: common names, degrees of an instance, scheduler settings, adapters."""

from __future__ import annotations

import pytest

from tests.commands import Command, record

EXPLAIN = ("--tp", 2, "--weights", "fp8")


def test_names_that_people_have_get_the_same_answer(command: Command) -> None:
    plain = command("explain", "qwen3_32b", "h100_sxm", *EXPLAIN)
    named = command("explain", "Qwen/Qwen3-32B", "h100", *EXPLAIN)
    assert (named.code, named.out) == (0, plain.out)
    assert named.err == plain.err + "'h100' is taken as h100_sxm (NVIDIA H100 SXM5 80GB), not h100_nvl or h100_pcie\n"


def test_launch_takes_them_too(command: Command) -> None:
    asked = ("--to", "vllm", "--request-rate", 5, "--tpot", "50 ms", "--tp", 2, "--dp", 1, "--pp", 1)
    plain = command("launch", "qwen3_32b", "h100_sxm", *asked)
    assert plain.code == 0
    named = command("launch", "Qwen/Qwen3-32B-Instruct", "H100-SXM", *asked)
    assert named.out == plain.out.replace("Qwen/Qwen3-32B", "Qwen/Qwen3-32B-Instruct")  # the typed name
    assert "'Qwen/Qwen3-32B-Instruct' is taken as qwen3_32b" in named.err


def test_lengths_mean_the_same_context_in_both(command: Command) -> None:
    asked = ("llama_3_8b", "h100_sxm", "--tp", 1, "--batch", 16, "--isl", 1000, "--osl", 3000)
    (point,) = record(command, "frontier", "--decode-only", *asked)["points"]
    step = record(command, "explain", *asked)
    assert step["context"] == 2500
    assert step["step_seconds"] == pytest.approx(1 / point["tokens_per_second_per_user"], rel=1e-12)
    shorter = record(command, "explain", *asked[:6], "--context", 1000)
    assert shorter["step_seconds"] < step["step_seconds"]


def test_a_degree_alone_is_an_instance_of_that_size(command: Command) -> None:
    found = record(command, "load", "llama_3_8b", "h100_sxm", "--tp", 2, "--rates", 2)
    assert (found["accelerators_per_instance"], found["layout"]["dp"]) == (2, 1)
    opened = record(command, "frontier", "gpt_oss_20b", "h100_sxm", "--tp", 2, "--dp", "any", "--max-instance-gpus", 8)
    assert {point["layout"]["dp"] for point in opened["points"]} > {1.0}
    assert {point["layout"]["tp"] for point in opened["points"]} == {2.0}
    sized = record(command, "frontier", "llama_3_8b", "h100_sxm", "--instance-gpus", 2)
    assert {point["accelerators"] for point in sized["points"]} == {2.0}


@pytest.mark.rows
def test_without_a_degree_the_fewest_accelerators_that_hold_the_model(
    command: Command, asked: list[object], chips: int
) -> None:
    layout = record(command, *asked)["layout"]
    assert layout["tp"] * layout["dp"] * layout["pp"] == chips


ONE = ("llama_3_8b", "h100_sxm", "--tp", 1, "--dp", 1, "--pp", 1)
RATE = ("--request-rate", 2)


def test_slots_bind_in_every_service_question(command: Command) -> None:
    few = ("--slots", 8)
    assert record(command, "load", *ONE, "--rates", 1, *few)["slots"] == 8
    assert record(command, "price", *ONE, *RATE, *few)["slots"] == 8
    # A request with speculation ends sooner, so fewer slots would be enough.
    plain = ("recommend", *ONE, *RATE, "--engine", "vllm", "--no-speculation")
    choice = record(command, *plain, *few)["choices"][0]
    assert (choice["slots"], choice["replicas"]) == (8, 2)
    assert record(command, *plain)["choices"][0]["replicas"] == 1
    quicker = record(command, *plain[:-1], *few)["choices"][0]
    assert (quicker["slots"], quicker["replicas"]) == (8, 1)
    # For prefill and decode pools, it is unclear which slots are limited.
    most = record(command, "recommend", *ONE[:2], "--max-instance-gpus", 1, "--gpus", 2, *few)["choices"]
    assert {(each["serving"], each["slots"]) for each in most} == {("aggregated", 8)}
    points = record(command, "frontier", *ONE, *few)["points"]
    assert max(point["concurrency"] for point in points) == pytest.approx(8, rel=0.01)


def test_a_budget_of_tokens_is_what_a_step_reads(command: Command) -> None:
    by_option = record(command, "load", *ONE, "--rates", 4, "--token-budget", 256)
    by_set = record(command, "load", *ONE, "--rates", 4, "--set", "assumptions.serving.prefill_chunk=256")
    assert by_option["points"] == by_set["points"] != record(command, "load", *ONE, "--rates", 4)["points"]
    tokens = ("frontier", *ONE, "--token-budget", 256)
    assert record(command, *tokens)["points"] != record(command, *tokens[:-2])["points"]


def test_less_memory_holds_fewer_requests(command: Command) -> None:
    asked = ("load", *ONE, "--rates", 1, "--no-simulate")
    by_option = record(command, *asked, "--usable-memory", 0.5)
    by_set = record(command, *asked, "--set", "assumptions.capacity.usable_memory=0.5")
    assert by_option["slots"] == by_set["slots"] < record(command, *asked)["slots"]
    launched = command("launch", *ONE, *RATE, "--to", "vllm", "--usable-memory", 0.8).out
    assert "--gpu-memory-utilization 0.8 " in launched


STEP = ("explain", "llama_3_8b", "h100_sxm", "--tp", 1, "--batch", 8, "--engine", "vllm")


def test_adapters_are_rows_of_a_step_and_a_part_of_the_memory(command: Command) -> None:
    words = (*STEP, "--loras", 8, "--lora-rank", 32)
    out = command(*words, "--operators").out
    assert "adapters (qkv)" in out
    assert "adapters (LoRA)" in out
    answer = record(command, *words)
    assert answer["bytes_per_accelerator"]["adapters"] == 8 * 32 * 32 * 81_920 * 2
    assert "adapters" not in record(command, *STEP)["bytes_per_accelerator"]
