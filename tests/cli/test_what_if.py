"""``what-if``: per cent per per cent, and steps."""

from __future__ import annotations

import pytest

from tests.commands import Command, record

ASKED = ("what-if", "llama_3_8b", "h100_sxm", "--max-instance-gpus", 2, "--input", "price", "--input", "hbm_bandwidth")


def test_settings_reach_the_question(command: Command) -> None:
    answer = record(
        command, *ASKED, "--isl", 500, "--osl", 100, "--weights", "fp8", "--price", 2, "--tp", 1, "--ttft", 500,
        "--range", "0.9,1.1", "--set", "model.layers=16", "--slots", 64,
    )  # fmt: skip
    assert (answer["isl"], answer["osl"], answer["weights"], answer["range"]) == (500, 100, "fp8", [0.9, 1.1])
    assert (answer["layout"]["tp"], answer["promises"]["ttft_seconds"]) == (1, 0.5)
    (price,) = [each for each in answer["inputs"] if each["input"] == "price"]
    assert price["values"][0] == pytest.approx(1.8)
    assert all(one["concurrency"] <= 64 for one in answer["answers"])


def test_decode_steps_alone(command: Command) -> None:
    answer = record(command, *ASKED, "--decode-only", "--context", 500)
    assert answer["range"] == [0.8, 1.25]
    assert (answer["context"], "isl" in answer, "promises" in answer) == (500, False, False)
    assert "room_to_ttft" not in answer["inputs"][0]["elasticities"]
