"""Which of the prices of a file is meant."""

from __future__ import annotations

import re

import pytest

from inference_econ.engine import Setup
from inference_econ.errors import InputError
from inference_econ.inputs import catalog, prices


@pytest.mark.parametrize(
    ("asked", "dollars"),
    [(None, 2.95), (2, 2.0), ("on_demand", 2.95), ("on-demand", 2.95), ("index", 2.35), ("spot", 1.25)],
)
def test_a_price_is_a_number_a_kind_or_the_first_of_the_file(asked: float | str | None, dollars: float) -> None:
    assert prices.dollars(catalog.hardware("h100_sxm"), asked) == dollars
    assert Setup.of("llama_3_8b", "h100_sxm", price=asked).price == dollars


@pytest.mark.parametrize(
    ("chip", "asked", "message"),
    [
        (
            "h100_sxm",
            "reserved",
            "80GB lists no price of the kind reserved; listed: on_demand, index, spot; or",
        ),
        ("tpu_v7", "spot", "lists no price of the kind spot; listed: none; or give USD per hour"),
        (
            "h100_sxm",
            "cheap",
            "'cheap' is neither a number of USD per hour nor a kind of price: on_demand",
        ),
        ("h100_sxm", "owned", "give the total of 'inference-econ hour-cost HARDWARE --purchase USD' as the price"),
    ],
)
def test_kinds_that_there_are_not(chip: str, asked: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        prices.dollars(catalog.hardware(chip), asked)


@pytest.mark.parametrize(
    ("chips", "kind"),
    [
        (("h100_sxm", "a100_sxm_40"), "on_demand"),
        (("a100_sxm_40", "h100_sxm"), "index"),
        (("h100_sxm", "gaudi3"), None),
        (("gaudi3", "h100_sxm"), None),
        ((), None),
    ],
)
def test_the_kind_that_all_files_list(chips: tuple[str, ...], kind: str | None) -> None:
    assert prices.common_kind(catalog.hardware(chip) for chip in chips) == kind


def test_the_label_of_a_price_says_what_is_known_of_it() -> None:
    label = Setup.of("llama_3_8b", "h100_sxm").price_label
    assert label == "$2.95 per GPU-hour, on-demand, 2026-05"
    assert Setup.of("llama_3_8b", "h100_sxm", price=2.0).price_label == "$2 per GPU-hour"
