"""One vocabulary for the size and the degrees of an instance, in every command."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Command, record


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
