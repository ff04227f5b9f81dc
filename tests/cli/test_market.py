"""Options that say who competes to serve: engines and their layouts, pools, and who proposes tokens."""

from __future__ import annotations

import pytest

from tests.commands import Command, record

SMALL = ("llama_3_8b", "h100_sxm", "--max-instance-gpus", 1, "--isl", 1000, "--osl", 200)


@pytest.mark.parametrize("question", ["frontier", "recommend", "price"])
def test_an_engine_that_cannot_serve_is_named_and_the_others_answer(command: Command, question: str) -> None:
    words = (question, "llama_3_8b", "mi300x", "--engine", "trtllm", "--engine", "vllm", "--max-instance-gpus", 1)
    reason = "trtllm 1.3.0rc20 is not known to run on AMD Instinct MI300X 192GB"
    found = record(command, *words)
    answer = found["choices"][0] if question == "recommend" else found
    assert answer["left_out"] == [reason]
    assert answer["assumptions"] == "profiles/cdna3"
    assert f"Left out: {reason}." in command(*words).said


def test_an_engine_that_nothing_fits_is_named_and_the_others_answer(command: Command) -> None:
    """Engines reserve different shares of the memory: at this size the weights leave room under one of both only."""
    chip = ("--set", "hardware.hbm_bytes=22 GB")
    words = ("frontier", *SMALL, "--together", "--engine", "sglang", "--engine", "vllm", *chip)
    alone = command(*words[:-4], *chip, "--engine", "sglang")
    found = record(command, *words)
    assert alone.code == 1
    assert {point["layout"]["engine"] for point in found["points"]} == {"vllm"}
    (reason,) = found["left_out"]
    assert reason.startswith("sglang 0.5.23: ")


FRONTIER = ("frontier", "qwen3_30b_a3b", "h100_sxm", "--max-instance-gpus", 16)


def test_an_engine_brings_its_layouts_and_its_profile(command: Command) -> None:
    found = record(command, *FRONTIER, "--engine", "trtllm")
    assert found["assumptions"] == "profiles/trtllm_hopper"
    points = found["points"]
    assert all(1.0 in (point["layout"]["tp"], point["layout"]["dp"]) for point in points)
    assert {point["layout"]["engine"] for point in points} == {"trtllm"}
    named = record(command, *FRONTIER, "--engine", "trtllm", "--assumptions", "deployable")
    assert named["assumptions"] == "deployable"
