"""``compare``: several frontiers in one table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import Command, record

SUBJECT = ("compare", "llama_3_8b", "--on", "h100_sxm", "--max-instance-gpus", 2)
TOGETHER = ("--aggregated", "--no-speculation", "--engine", "vllm")


@pytest.mark.rows
def test_what_is_repeated_is_compared(command: Command, options: list[str], labels: list[str]) -> None:
    series = record(command, *SUBJECT, *TOGETHER, *options)["series"]
    assert [one["label"] for one in series] == labels
    assert all(one["points"] for one in series)


def test_chips_without_watts_are_not_drawn_against_power(command: Command, tmp_path: Path) -> None:
    command(*SUBJECT, "--on", "tpu_v7", "--y", "power", "--plot", "power.svg")
    assert "Ironwood" not in (tmp_path / "power.svg").read_text(encoding="utf-8")


def test_prices_speeds_pins_and_what_ifs(command: Command) -> None:
    prices = ("--on", "h200_sxm", "--price", "h100_sxm=2", "--price", "h200_sxm=3", "--speed", 50, "--speed", 20)
    pins = ("--tp", 2, "--batch", 100, "--domain", 2, "--set", "assumptions.host.launch=0 us")
    series = record(command, *SUBJECT, "--decode-only", *prices, *pins, "--quiet")["series"]
    for one, price in zip(series, (2.0, 3.0), strict=True):
        assert one["dollars_per_accelerator_hour"] == price
        assert [cost["tokens_per_second_per_user"] for cost in one["costs"]] == [20.0, 50.0]
        assert {(point["layout"]["tp"], point["batch"]) for point in one["points"]} == {(2.0, 100.0)}
