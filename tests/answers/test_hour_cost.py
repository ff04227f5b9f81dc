"""What an hour of an owned accelerator costs."""

from __future__ import annotations

import pytest

from inference_econ.answers.hour_cost import hour_cost
from inference_econ.errors import InputError
from inference_econ.formulas.money import Power, accelerator_hour_cost
from inference_econ.inputs import catalog


def test_the_parts_are_those_of_the_formula_with_the_watts_of_the_file() -> None:
    chip = catalog.hardware("h100_sxm")
    terms = catalog.ownership().replace(utilisation=0.5, cost_of_capital=0.0)
    cost = hour_cost("h100_sxm", 30e3, terms=terms)
    assert (cost.hardware, cost.board_watts, cost.purchase_dollars) == (chip, 700.0, 30e3)
    assert cost.parts == accelerator_hour_cost(
        30e3, 5, utilisation=0.5, power=Power(700, 300, 1.2, 0.08), yearly_operations=0.05
    )
    # 30,000 dollars over half of the hours of five years.
    assert float(cost.parts.depreciation) == pytest.approx(30e3 / (5 * 8760 * 0.5))


def test_given_watts_replace_those_of_the_file() -> None:
    assert hour_cost("h100_sxm", 30e3, board_watts=350).board_watts == 350.0


def test_somebody_must_say_what_a_chip_draws() -> None:
    chip = catalog.hardware("h100_sxm", changes=["watts=null"])
    with pytest.raises(InputError, match="NVIDIA H100 SXM5 80GB lists no watts; give --board-watts"):
        hour_cost(chip, 30e3)
    with pytest.raises(InputError, match="lifetime_years must be > 0, got 0"):
        catalog.ownership().replace(lifetime_years=0.0)
