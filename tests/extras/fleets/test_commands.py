"""``fleet``: the plan and simulation of a day."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import Command, record

ASKED = ("fleet", "llama_3_8b", "h100_sxm", "--tp", 1, "--ttft", 500, "--target", 0.8)
RATES = ("--rates", "20,60")


def test_a_trace_of_prompts_that_share_blocks_is_a_day(command: Command, tmp_path: Path) -> None:
    path, gaps = tmp_path / "day.jsonl", (10, 5, 10)
    # Two hours and half of a third, whose prompts share one half.
    seconds = [3600 * hour + at for hour, gap in enumerate(gaps) for at in range(0, 1800 if hour == 2 else 3600, gap)]
    lines = (
        {"timestamp": 1000 * at, "input_length": 1024, "output_length": 100, "hash_ids": [0, 1 + at]} for at in seconds
    )
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    answer = record(command, *ASKED, "--trace", path)
    assert [hour["request_rate"] for hour in answer["hours"]] == pytest.approx([0.1, 0.2, 0.1], rel=0.03)
    assert answer["rental_units"][0]["cached"] == pytest.approx(512, rel=0.01)
    shaped = record(command, *ASKED, "--trace", path, *RATES)
    assert [hour["request_rate"] for hour in shaped["hours"]] == [20, 60]


def test_a_stock_is_kept(command: Command) -> None:
    answer = record(command, *ASKED, *RATES, "--on", "h200_sxm", "--stock", "h100_sxm=1", "--stock", "h200_sxm=64")
    scarce = [lot["rental_units_by_hour"] for lot in answer["rental_units"] if "H100" in lot["hardware"]]
    assert all(sum(counts) <= 1 for counts in zip(*scarce, strict=True))
    assert any("H200" in lot["hardware"] for lot in answer["rental_units"])
