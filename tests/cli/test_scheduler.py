"""What an engine is told about its batches: slots, tokens of a step, memory."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Command, record

ONE = ("llama_3_8b", "h100_sxm", "--tp", 1, "--dp", 1, "--pp", 1)
RATE = ("--request-rate", 2)


def test_slots_bind_in_every_service_question(command: Command) -> None:
    few = ("--slots", 8)
    assert record(command, "load", *ONE, "--rates", 1, *few)["slots"] == 8
    assert record(command, "price", *ONE, *RATE, *few)["slots"] == 8
    # Who proposes tokens is done with a request sooner, so that fewer slots would do.
    plain = ("recommend", *ONE, *RATE, "--engine", "vllm", "--no-speculation")
    choice = record(command, *plain, *few)["choices"][0]
    assert (choice["slots"], choice["replicas"]) == (8, 2)
    assert record(command, *plain)["choices"][0]["replicas"] == 1
    quicker = record(command, *plain[:-1], *few)["choices"][0]
    assert (quicker["slots"], quicker["replicas"]) == (8, 1)
    # Of pools that prefill and decode apart nobody says whose slots are meant.
    most = record(command, "recommend", *ONE[:2], "--max-instance-gpus", 1, "--gpus", 2, *few)["choices"]
    assert {(each["serving"], each["slots"]) for each in most} == {("together", 8)}
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
