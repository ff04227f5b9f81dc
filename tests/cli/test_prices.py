"""All prices that files list, and prices that questions are asked with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inference_econ.inputs import catalog
from inference_econ.report.prices import PricesPage
from tests.cli.conftest import Command, record

_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "price_table.md"
_UPDATE = "inference-econ hardware --prices --format markdown -o docs/reference/price_table.md"


def test_the_command_shows_them_of_all_or_of_one(command: Command) -> None:
    first = json.loads(command("hardware", "gb200_nvl72", "--prices", "--format", "json").out)[0]
    assert (first["usd_per_gpu_hour"], first["usd_per_node_hour"], first["gpus_per_node"]) == (10.5, 42.0, 4)
    assert (first["kind"], first["date"], first["verified"], first["default"]) == (
        "on_demand",
        "2026-09-20",
        True,
        True,
    )
    every = PricesPage(catalog.names("hardware")).record()
    assert len(command("hardware", "--prices", "--format", "csv").out.splitlines()) == 1 + len(every)


def test_the_document_is_what_the_command_prints(command: Command) -> None:
    printed = command("hardware", "--prices", "--format", "markdown").out
    assert _PAGE.read_text(encoding="utf-8").strip() == printed.strip(), f"out of date: {_UPDATE}"


_RATES = "--isl", 100, "--osl", 50, "--max-instance-gpus", 2


@pytest.mark.parametrize(
    "question",
    [
        ("frontier", "llama_3_8b", "h100_sxm", *_RATES),
        ("explain", "llama_3_8b", "h100_sxm", "--batch", 8),
        ("assess", "llama_3_8b", "h100_sxm", "--gpus", 1, "--tokens-per-second", 40, "--batch", 8),
        ("load", "llama_3_8b", "h100_sxm", "--instance-gpus", 1, "--rates", 1),
        ("price", "llama_3_8b", "h100_sxm", "--instance-gpus", 1),
        ("cache", "llama_3_8b", "h100_sxm", "--tp", 1),
        ("speculate", "llama_3_8b", "h100_sxm", "--ngram"),
    ],
)
def test_every_question_takes_a_price_by_node_under_the_name_that_people_have(
    command: Command, question: tuple[object, ...]
) -> None:
    price = record(command, *question, "--price", "h100=20/node")["price"]
    assert (price["usd_per_gpu_hour"], price["usd_per_node_hour"], price["kind"]) == (2.5, 20.0, "given")


def test_a_price_goes_by_the_name_that_people_have_of_each_chip(command: Command) -> None:
    words = ("compare", "llama_3_8b", "--on", "h100", "--on", "h200", *_RATES)
    outcome = command(*words, "--price", "h100=2", "--price", "h200=3")
    text = " ".join(outcome.out.split())
    assert "NVIDIA H100 SXM5 80GB at $2 per GPU-hour" in text
    assert "NVIDIA H200 SXM5 141GB at $3 per GPU-hour" in text
    assert "'h200' is taken as h200_sxm" in outcome.err


def test_chips_are_compared_at_prices_of_one_kind_and_seller(command: Command) -> None:
    # The on-demand price of GB300 is undated and a hyperscaler's, that of B200 a neocloud's of this year.
    text = " ".join(command("compare", "llama_3_8b", "--on", "b200", "--on", "gb300_nvl72", *_RATES).out.split())
    assert "at $3.7 per GPU-hour ($29.6 per node of 8), reserved for 3 years, 2026-07 and" in text
    assert "at $5 per GPU-hour ($20 per node of 4), reserved for 3 years, 2026-07; prices alike: reserved" in text
    assert "prices alike: reserved for 3 years, survey, of one source (inferencex_tco) (alone: NVIDIA B200" in text
    assert "doubted" not in text
    assert "different kinds" not in text


def test_chips_without_a_kind_in_common_are_compared_with_a_remark(command: Command) -> None:
    text = " ".join(command("compare", "llama_3_8b", "--on", "h100_sxm", "--on", "h800_sxm", *_RATES).out.split())
    kinds = "NVIDIA H100 SXM5 80GB on-demand survey, NVIDIA H800 SXM5 80GB estimate."
    assert f"Prices are of different kinds or sellers: {kinds}" in text
    assert "Prices that can be doubted: NVIDIA H800 SXM5 80GB ($2, an estimate)." in text
    assert "prices alike" not in text


@pytest.mark.parametrize(
    ("price", "b200", "mi355x"),
    [
        ("on_demand", 3.5, 2.59),  # both of one provider
        ("on_demand:hyperscaler", 14.0, 8.6),
        ("tco", 2.07, 2.09),
        ("tco:hyperscaler", 1.73, 1.5),
    ],
)
def test_a_kind_is_taken_of_sellers_alike(command: Command, price: str, b200: float, mi355x: float) -> None:
    asked = ("compare", "llama_3_8b", "--on", "b200", "--on", "mi355x", *_RATES, "--price", price)
    series = record(command, *asked)["series"]
    assert [each["price"]["usd_per_gpu_hour"] for each in series] == [b200, mi355x]
    assert series[0]["price"]["seller"] == series[1]["price"]["seller"]


def test_series_with_chips_of_their_own_are_priced_alike(command: Command) -> None:
    listed = ("--series", "one: model=llama_3_8b, hardware=b200", "--series", "two: model=llama_3_8b, hardware=mi355x")
    series = record(command, "compare", *listed, *_RATES)["series"]
    assert [each["price"]["usd_per_gpu_hour"] for each in series] == [3.5, 2.59]


def test_a_kind_is_compared_in_all_chips(command: Command) -> None:
    asked = ("compare", "llama_3_8b", "--on", "h100_sxm", "--on", "h200_sxm", *_RATES, "--price", "reserved")
    text = " ".join(command(*asked).out.split())
    assert "at $2.72 per GPU-hour ($21.76 per node of 8), reserved, 2026-08-26 and NVIDIA H200" in text
    assert "at $2.79 per GPU-hour ($22.32 per node of 8), reserved, 2026-08-26" in text
