"""``compare``: several frontiers in one table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import Command, record

SUBJECT = ("compare", "llama_3_8b", "--on", "h100_sxm", "--max-instance-gpus", 2)
TOGETHER = ("--aggregated", "--no-speculation", "--engine", "vllm")


@pytest.mark.rows
def test_what_is_repeated_is_compared(command: Command, options: list[str], labels: list[str]) -> None:
    outcome = command(*SUBJECT, *TOGETHER, *options, "--format", "json")
    assert outcome.code == 0, outcome.err
    series = json.loads(outcome.out)["series"]
    assert [one["label"] for one in series] == labels
    assert all(one["points"] for one in series)


def test_chips_without_watts_are_not_drawn_against_power(command: Command, tmp_path: Path) -> None:
    both = (*SUBJECT, "--on", "tpu_v7", "--y", "power", "--plot", "power.svg")
    assert "Not in the chart: Google TPU7x (Ironwood) lists no watts" in command(*both).said
    assert "Ironwood" not in (tmp_path / "power.svg").read_text(encoding="utf-8")


def test_prices_speeds_pins_and_what_ifs(command: Command) -> None:
    prices = ("--on", "h200_sxm", "--price", "h100_sxm=2", "--price", "h200_sxm=3", "--speed", 50, "--speed", 20)
    pins = ("--tp", 2, "--batch", 100, "--domain", 2, "--set", "assumptions.host.launch=0 us")
    outcome = command(*SUBJECT, "--decode-only", *prices, *pins, "--format", "json")
    assert outcome.code == 0, outcome.err
    for one, price in zip(json.loads(outcome.out)["series"], (2.0, 3.0), strict=True):
        assert one["dollars_per_accelerator_hour"] == price
        assert [cost["tokens_per_second_per_user"] for cost in one["costs"]] == [20.0, 50.0]
        assert {(point["layout"]["tp"], point["batch"]) for point in one["points"]} == {(2.0, 100.0)}
    both = command(*SUBJECT, "--decode-only", "--price", "2.5", "--format", "json")
    assert json.loads(both.out)["series"][0]["dollars_per_accelerator_hour"] == 2.5


def test_services_are_asked_for_as_in_frontier(command: Command) -> None:
    asked = (*TOGETHER, "--cached", 1000, "--slots", 16, "--token-budget", 512, "--tpot", 9)
    outcome = command(*SUBJECT, *asked, "--format", "json")
    assert outcome.code == 0, outcome.err
    (series,) = json.loads(outcome.out)["series"]
    (again,) = (record(command, "frontier", "llama_3_8b", "h100_sxm", "--max-instance-gpus", 2, *asked),)
    assert series["points"] == again["points"]
    assert series["slos"] == again["slos"]
    assert max(point["concurrency"] for point in series["points"]) <= 16 * (1 + 1e-6)
    assert (series["cached"], series["slos"]["tpot_seconds"]) == (1000.0, pytest.approx(0.009))
