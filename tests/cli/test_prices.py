"""All prices of the catalog's files, and prices as options."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.commands import Command, record

_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "price_table.md"
_UPDATE = "inference-econ list gpus --prices --format markdown -o docs/reference/price_table.md"


def test_the_document_is_what_the_command_prints(command: Command) -> None:
    printed = command("list", "gpus", "--prices", "--format", "markdown").out
    assert _PAGE.read_text(encoding="utf-8").strip() == printed.strip(), f"out of date: {_UPDATE}"


_RATES = "--isl", 100, "--osl", 50, "--max-instance-gpus", 2, "--aggregated"


@pytest.mark.rows
def test_a_kind_of_price_is_that_of_each_chip(command: Command, price: str, b200: float, mi355x: float) -> None:
    asked = ("compare", "llama_3_8b", "--on", "b200", "--on", "mi355x", *_RATES, "--price", price)
    series = record(command, *asked)["series"]
    assert [each["price"]["usd_per_gpu_hour"] for each in series] == [b200, mi355x]


def test_series_with_chips_of_their_own_are_priced_alike(command: Command) -> None:
    listed = ("--series", "one: model=llama_3_8b, hardware=b200", "--series", "two: model=llama_3_8b, hardware=mi355x")
    series = record(command, "compare", *listed, *_RATES, "--price", "alike")["series"]
    assert [each["price"]["usd_per_gpu_hour"] for each in series] == [3.5, 2.59]
    assert {each["price"]["source"].partition(":")[0] for each in series} == {"vultr_pricing"}


@pytest.mark.parametrize("price", [(), ("--price", "alike")])
def test_one_gpu_has_its_default_price(command: Command, price: tuple[str, ...]) -> None:
    answer = record(command, "frontier", "llama_3_8b", "h100_sxm", *_RATES, *price)
    assert answer["price"]["usd_per_gpu_hour"] == pytest.approx(3.99)


@pytest.mark.parametrize(
    "chips",
    [("b200", "gb200_nvl72", "tpu_v7"), ("h100_sxm", "mi355x", "trainium3")],
    ids="-".join,
)
def test_a_third_gpu_changes_no_row(command: Command, chips: tuple[str, ...]) -> None:
    def rows(*names: str) -> dict[str, object]:
        series = record(command, "frontier", "llama_3_8b", *names, *_RATES, "--speed", "50", "--speed", "100")["series"]
        return {each["label"]: each for each in series}

    together = rows(*chips)
    for pair in itertools.combinations(chips, 2):
        assert {name: together[name] for name in pair} == rows(*pair)


def test_a_gpu_without_a_price_has_speeds_and_no_costs(command: Command) -> None:
    asked = ("frontier", "llama_3_8b", "h100_sxm", "trainium3", *_RATES, "--speed", "50")
    line = next(line for line in command(*asked).out.splitlines() if line.startswith("trainium3"))
    assert "$" not in line and line.split()[2:] != []
    priced, unpriced = record(command, *asked)["series"]
    assert priced["costs"][0]["dollars"] > 0
    assert unpriced["price"] is None and unpriced["costs"][0]["dollars"] is None
    assert unpriced["preferred"]["dollars_per_million_output_tokens"] is None
    assert unpriced["preferred"]["tokens_per_second_per_user"] > 0
    choices = record(command, "recommend", "llama_3_8b", "h100_sxm", "--on", "trainium3", "--request-rate", 1, *_RATES)[
        "choices"
    ]
    assert choices[0]["dollars_per_hour"] > 0
    assert choices[-1]["hardware"] == "AWS Trainium3" and choices[-1]["dollars_per_hour"] is None


def test_prices_of_several_kinds_are_not_ranked_with_each_other(command: Command) -> None:
    asked = ("llama_3_8b", "b200", "tpu_v7", *_RATES)
    printed = " ".join(command("frontier", *asked, "--speed", "50", "--why").out.split())
    assert "2.00 reserved" in printed
    assert (
        "prices differ in kind (NVIDIA B200 SXM6 180GB on-demand, Google TPU7x (Ironwood) reserved for 3 years)"
        in printed
    )
    assert record(command, "frontier", *asked, "--speed", "50")["cheapest"] == []
    answer = record(command, "recommend", "llama_3_8b", "b200", "--on", "tpu_v7", "--request-rate", 1, *_RATES)
    kinds = [choice["price"]["kind"] for choice in answer["choices"]]
    assert kinds == sorted(kinds)
