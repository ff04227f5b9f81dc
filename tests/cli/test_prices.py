"""All prices that files list, and prices that questions are asked with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import Command, record

_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "price_table.md"
_UPDATE = "inference-econ list gpus --prices --format markdown -o docs/reference/price_table.md"


def test_the_document_is_what_the_command_prints(command: Command) -> None:
    printed = command("list", "gpus", "--prices", "--format", "markdown").out
    assert _PAGE.read_text(encoding="utf-8").strip() == printed.strip(), f"out of date: {_UPDATE}"


_RATES = "--isl", 100, "--osl", 50, "--max-instance-gpus", 2


@pytest.mark.rows
def test_a_kind_is_taken_of_sellers_alike(command: Command, price: str, b200: float, mi355x: float) -> None:
    asked = ("compare", "llama_3_8b", "--on", "b200", "--on", "mi355x", *_RATES, "--price", price)
    series = record(command, *asked)["series"]
    assert [each["price"]["usd_per_gpu_hour"] for each in series] == [b200, mi355x]
    assert series[0]["price"]["seller"] == series[1]["price"]["seller"]


def test_series_with_chips_of_their_own_are_priced_alike(command: Command) -> None:
    listed = ("--series", "one: model=llama_3_8b, hardware=b200", "--series", "two: model=llama_3_8b, hardware=mi355x")
    series = record(command, "compare", *listed, *_RATES)["series"]
    assert [each["price"]["usd_per_gpu_hour"] for each in series] == [3.5, 2.59]
