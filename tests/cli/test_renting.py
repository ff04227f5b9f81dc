"""Fleets that are billed for the machines they are rented on."""

from __future__ import annotations

from math import ceil

import pytest

from tests.commands import Command, record

QUICK = ("--ttft", "2 s", "--tpot", "40 ms", "--max-instance-gpus", 8)
RATE = ("--request-rate", 5)


def test_instances_take_the_smallest_machines_that_hold_them(command: Command) -> None:
    for choice in record(command, "recommend", "llama_3_8b", "h100_sxm", *QUICK, *RATE)["choices"]:
        size = choice["accelerators_per_instance"]
        # One instance each, as the load is small.
        machine = next(machine for machine in (1, 2, 4, 8) if machine >= size)
        assert choice["accelerators_rented"] == machine * choice["replicas"]
        assert choice["dollars_per_hour"] == pytest.approx(2.95 * choice["accelerators_rented"])


def test_whole_nodes_are_billed_whole(command: Command) -> None:
    arguments = ("llama_3_8b", "h100_sxm", *QUICK, *RATE, "--rent", "node")
    for choice in record(command, "recommend", *arguments)["choices"]:
        assert choice["accelerators_rented"] == 8 * ceil(choice["accelerators"] / 8)
    table = command("recommend", *arguments).out
    assert "rented" in table
    sheet = record(command, "price", *arguments)
    assert sheet["dollars_per_hour"] == pytest.approx(8 * 2.95)
    tokens = sheet["tokens_per_hour"]
    bill = sum(tokens[kind] * sheet[f"dollars_per_million_{kind}_tokens"] for kind in tokens) / 1e6
    assert bill == pytest.approx(sheet["dollars_per_hour"])


def test_loads_carry_the_bill_of_their_machines(command: Command) -> None:
    pinned = ("load", "llama_3_8b", "h100_sxm", "--tp", 2, "--dp", 1, "--pp", 1, "--replicas", 3, "--rates", "5")
    by_slices, by_nodes = record(command, *pinned), record(command, *pinned, "--rent", "node")
    assert (by_slices["accelerators"], by_slices["accelerators_rented"]) == (6, 6)
    assert (by_nodes["accelerators"], by_nodes["accelerators_rented"]) == (6, 8)
    assert by_nodes["dollars_per_hour"] == pytest.approx(by_slices["dollars_per_hour"] * 8 / 6)
    assert "3 instances of 2 x NVIDIA H100 SXM5 80GB (8 rented), tp2" in command(*pinned, "--rent", "node").out


def test_trays_are_rented_whole_by_default(command: Command) -> None:
    choice = record(command, "recommend", "llama_3_8b", "gb200_nvl72", "--max-instance-gpus", 1, *RATE)["choices"][0]
    assert (choice["accelerators"], choice["accelerators_rented"]) == (1, 4)


def test_pools_share_a_node(command: Command) -> None:
    arguments = ("recommend", "llama_3_8b", "h100_sxm", "--apart", *QUICK, *RATE, "--rent", "node")
    fleet = record(command, *arguments)["choices"][0]
    assert fleet["accelerators"] < fleet["accelerators_rented"] == 8
    assert fleet["dollars_per_hour"] == pytest.approx(8 * 2.95)


def test_pools_of_two_kinds_have_machines_of_their_own(command: Command) -> None:
    arguments = ("recommend", "llama_3_8b", "h100_sxm", "--apart", "--decode-on", "gb200_nvl72", *QUICK, *RATE)
    fleet = record(command, *arguments)["choices"][0]
    prompts = fleet["prefill_instances"] * fleet["prefill_accelerators_per_instance"]
    answers = fleet["decode_instances"] * fleet["decode_accelerators_per_instance"]
    assert fleet["accelerators_rented"] == prompts + 4 * ceil(answers / 4)
