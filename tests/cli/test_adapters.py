"""LoRA adapters as a user asks for them: memory and time, the flags of engines, bad input."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Command, record

STEP = ("explain", "llama_3_8b", "h100_sxm", "--tp", 1, "--batch", 8, "--engine", "vllm")
START = ("launch", "llama_3_8b", "h100_sxm", "--tp", 1, "--request-rate", 5)


def test_adapters_are_rows_of_a_step_and_a_part_of_the_memory(command: Command) -> None:
    words = (*STEP, "--loras", 8, "--lora-rank", 32)
    out = command(*words, "--operators").out
    assert "adapters (qkv)" in out
    assert "adapters (LoRA)" in out
    answer = record(command, *words)
    assert answer["bytes_per_accelerator"]["adapters"] == 8 * 32 * 32 * 81_920 * 2
    assert "adapters" not in record(command, *STEP)["bytes_per_accelerator"]


@pytest.mark.rows
def test_engines_are_told_the_room(command: Command, engine: str, flags: list[str]) -> None:
    out = command(*START, "--engine", engine, "--loras", 12, "--lora-rank", 20).out
    assert all(flag in out for flag in flags)
    assert "lora" not in command(*START, "--engine", engine).out
