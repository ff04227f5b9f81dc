"""The cost of an accelerator hour: listed, given, of a node, or owned."""

from __future__ import annotations

import re

import pytest

from inference_econ.engine import Setup
from inference_econ.engine.pricing import hour_price
from inference_econ.errors import InputError
from inference_econ.inputs import catalog
from inference_econ.report.headings import price_label
from tests.reading import present


@pytest.mark.rows
def test_a_price_is_a_number_a_kind_of_a_node_or_the_best_of_the_file(
    asked: float | str | None, dollars: float, kind: str
) -> None:
    price = Setup.of("llama_3_8b", "h100_sxm", price=asked).hour_price
    assert (price.dollars, price.kind) == (dollars, kind)


@pytest.mark.rows
def test_prices_that_there_are_not(chip: str, asked: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        hour_price(catalog.hardware(chip), asked)


def test_an_owned_hour_is_that_of_the_usual_terms_with_the_source_of_the_purchase() -> None:
    chip, terms = catalog.hardware("h100_sxm"), catalog.ownership()
    price, bought = present(hour_price(chip, "owned")), present(chip.purchase)
    hours = terms.lifetime_years * 8760 * terms.utilisation
    assert price.dollars > bought.dollars_per_accelerator / hours
    assert (price.kind, price.date, price.verified, price.ref) == ("owned", bought.date, True, bought.ref)
    assert price.where.endswith("(quote: 38,750 USD)")
    # GB200 has no public price, so the price of a rack is an estimate.
    guessed = present(hour_price(catalog.hardware("gb200_nvl72"), "owned"))
    assert (guessed.verified, guessed.doubt) == (False, "not verified")


def test_labels_say_what_a_gpu_and_a_node_cost_of_which_kind_and_when() -> None:
    def label(chip: str, price: float | str | None = None) -> str:
        setup = Setup.of("llama_3_8b", chip, price=price)
        return price_label(setup.hardware, setup.hour_price)

    assert label("h100_sxm") == "$3.99 per GPU-hour ($31.92 per node of 8), on-demand, 2026-09-20"
    assert label("h100_sxm", 2.0) == "$2 per GPU-hour ($16 per node of 8), given"
    assert label("gh200_96") == "$2.29 per GPU-hour, on-demand, 2026-09-20"
    assert label("h100_pcie", 2.0) == "$2 per GPU-hour, given"
