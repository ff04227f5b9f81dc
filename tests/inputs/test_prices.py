"""Selection of a price in a file, and its metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from inference_econ.errors import InputError
from inference_econ.inputs import HardwareSpec, catalog, prices
from tests.reading import present, tables

#: Listed prices, by name.
PRICES: dict[str, dict[str, Any]] = tables(Path(__file__))["PRICES"]


def _chip(*listed: str | Mapping[str, Any], machines: tuple[int, ...] = (1, 8)) -> HardwareSpec:
    """Return an H100 with separate prices."""
    known = [PRICES[entry] if isinstance(entry, str) else entry for entry in listed]
    entries = [{"ref": "erdil2025", "where": "here", **entry} for entry in known]
    return catalog.hardware("h100_sxm").replace(prices=entries, rented_as=machines)


@pytest.mark.rows
def test_the_default_is_the_median_of_recent_offers_or_of_the_first_kind(listed: list[str], dollars: float) -> None:
    best = present(prices.best(_chip(*listed)))
    assert best.dollars == dollars


def test_the_last_quarter_ends_at_the_newest_price_of_the_files() -> None:
    chips = (catalog.hardware(name) for name in catalog.names("hardware"))
    dates = {str(price.date) for chip in chips for price in prices.listed(chip)} - {"undated"}
    assert max(dates) == prices.NEWEST


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
def test_alike_is_one_source_of_all_chips(first: list[str], second: list[str], meant: str) -> None:
    chips = [_chip(*listed) for listed in (first, second)]
    assert prices.priced_alike(chips, prices.ALIKE) == prices.priced_alike(chips[::-1], prices.ALIKE) == meant
    assert prices.priced_alike(chips, 2.0) == 2.0
    assert prices.checked(meant) == meant


def test_without_a_source_of_all_chips_their_kinds_are_named() -> None:
    elsewhere = {**PRICES["CLOUD"], "ref": "elsewhere"}
    message = (
        "no source has prices of one kind for all of these (NVIDIA H100 SXM5 80GB: on_demand, reserved; NVIDIA H100"
    )
    with pytest.raises(InputError, match=re.escape(message)):
        prices.priced_alike([_chip("CLOUD", "RENT"), _chip(elsewhere)], prices.ALIKE)


@pytest.mark.rows
def test_a_price_is_marked_by_its_kind_or_its_age(listed: str, mark: str) -> None:
    (price,) = prices.listed(_chip(listed))
    assert price.mark == mark


def test_prices_of_one_kind_are_ranked_and_typed_ones_as_on_demand() -> None:
    cloud, rent, owner = (prices.listed(_chip(name))[0].order for name in ("CLOUD", "RENT", "OWNERSHIP"))
    given, unpriced = prices.HourPrice(2.0).order, prices.HourPrice(1.0, prices.UNPRICED).order
    assert given == cloud < rent < owner < unpriced


def test_a_kind_names_its_contract() -> None:
    chip = _chip("OWNERSHIP", "RENT", "GUESS")
    owned, rent = present(prices.of_kind(chip, "tco")), present(prices.of_kind(chip, "reserved:survey"))
    assert (owned.terms, rent.terms) == ("TCO of a neocloud, 2026-07", "reserved for 3 years, 2026-07")
