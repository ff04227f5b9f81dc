"""Which of the prices of a file is meant, and what is known of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from inference_econ.errors import InputError
from inference_econ.inputs import HardwareSpec, catalog, prices
from tests.reading import tables

#: Listed prices, by name.
PRICES: dict[str, dict[str, Any]] = tables(Path(__file__))["PRICES"]


def _chip(*listed: str | Mapping[str, Any], machines: tuple[int, ...] = (1, 8)) -> HardwareSpec:
    """An H100 with prices of its own."""
    known = [PRICES[entry] if isinstance(entry, str) else entry for entry in listed]
    entries = [{"ref": "erdil2025", "where": "here", **entry} for entry in known]
    return catalog.hardware("h100_sxm").replace(prices=entries, rented_as=machines)


@pytest.mark.rows
def test_the_best_price_is_dated_and_verified_and_what_anybody_can_have(listed: list[str], dollars: float) -> None:
    best = prices.best(_chip(*listed))
    assert best is not None
    assert best.dollars == dollars


def test_a_file_without_prices_has_no_best_one() -> None:
    assert prices.best(_chip()) is None
    assert prices.of_kind(_chip("FIRM"), "spot") is None


@pytest.mark.rows
def test_what_can_be_doubted_is_said(listed: str, doubt: str, terms: str) -> None:
    (price,) = prices.listed(_chip(listed))
    assert (price.doubt, price.terms) == (doubt, terms)
    assert (prices.HourPrice(2.0).doubt, prices.HourPrice(2.0).terms) == ("", "given")


@pytest.mark.rows
def test_prices_in_words(text: str, meant: str) -> None:
    assert prices.checked(text) == meant


@pytest.mark.rows
def test_texts_that_are_no_price(text: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        prices.checked(text)


def test_a_price_of_a_node_is_that_of_its_accelerators() -> None:
    assert prices.amount(_chip("FIRM"), "24.0/node") == 3.0
    assert prices.amount(_chip("FIRM"), "24.0/gpu") == 24.0
    with pytest.raises(InputError, match="does not say how many accelerators a node of it has; give USD per GPU-hour"):
        prices.amount(_chip("FIRM", machines=()), "24.0/node")


@pytest.mark.rows
def test_several_chips_are_compared_at_one_kind_and_seller(
    first: list[str], second: list[str], asked: float | str | None, meant: float | str | None
) -> None:
    chips = [_chip(*listed) for listed in (first, second)]
    assert prices.compared(chips, asked) == prices.compared(chips[::-1], asked) == meant


def test_prices_of_one_source_come_before_the_first_of_each_file() -> None:
    """What two providers ask for two chips differs by the providers, too."""
    first, second = (
        _chip("CLOUD", {**PRICES["CLOUD"], "ref": "there"}),
        _chip({**PRICES["DEAR"], "seller": "neocloud", "ref": "there"}, "DEAR"),
    )
    assert prices.compared([first, second]) == prices.compared([second, first]) == "on_demand:neocloud:there"
    assert prices.checked("on-demand:neocloud:there") == "on_demand:neocloud:there"
    doubted = _chip({**PRICES["LISTED"], "seller": "neocloud", "ref": "there"}, {**PRICES["CLOUD"], "ref": "elsewhere"})
    assert prices.compared([first, doubted]) == "on_demand:neocloud"


def test_a_single_chip_is_asked_for_what_was_asked() -> None:
    assert prices.compared([]) is None
    assert prices.compared([_chip("CLOUD")]) is None
    assert prices.compared([_chip("CLOUD")], "on_demand") == "on_demand"


def test_costs_of_ownership_and_contracts_of_years_are_taken_only_by_those_who_ask() -> None:
    chip = _chip("OWNERSHIP", "RENT", "GUESS")
    best, owned, rent = prices.best(chip), prices.of_kind(chip, "tco"), prices.of_kind(chip, "reserved:survey")
    assert best is not None and owned is not None and rent is not None
    assert (best.kind, owned.terms, rent.terms) == (
        "estimate",
        "TCO of a neocloud, 2026-07",
        "reserved for 3 years, 2026-07",
    )
