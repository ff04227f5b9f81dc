"""Cost and preference: eqs. (2) and (45) of Erdil (2025); the cost of an hour, of energy, and bills."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.errors import InputError
from inference_econ.formulas.money import (
    HourCostByCause,
    Power,
    accelerator_hour_cost,
    allocate,
    dollars_per_million,
    dollars_per_million_tokens,
    dollars_per_second,
    joules_per_token,
    preference,
)

positive = st.floats(1e-6, 1e6)


@given(size=positive, seconds=positive, batch=positive, price=positive, factor=st.floats(0.01, 100.0))
def test_cost_is_linear_in_price_size_and_time_and_inverse_in_the_batch(
    size: float, seconds: float, batch: float, price: float, factor: float
) -> None:
    cost = dollars_per_million_tokens(size, seconds, batch, price)
    scaled = pytest.approx(float(factor * cost), rel=1e-12)
    assert dollars_per_million_tokens(size, seconds, batch, factor * price) == scaled
    assert dollars_per_million_tokens(factor * size, seconds, batch, price) == scaled
    assert dollars_per_million_tokens(size, factor * seconds, batch, price) == scaled
    assert dollars_per_million_tokens(size, seconds, batch / factor, price) == scaled


def test_equation_2_cost_of_a_full_hour() -> None:
    # 8 chips for an hour at 2.1 USD, 100 users with 100 tokens/s each: 36 million tokens for 16.8 USD.
    assert dollars_per_million_tokens(8, 0.01, 100, 2.1) == pytest.approx(16.8 / 36, rel=1e-14)


def test_table_6_the_8_bit_row_is_preferred_to_the_16_bit_row_at_exponent_3() -> None:
    # Speed and cost as printed in Table 6; the cube of the speed decides between two prices.
    speeds, costs = np.array([122.0, 99.0, 83.0]), np.array([0.23, 0.37, 0.70])
    assert np.argsort(-preference(speeds, costs, 3)).tolist() == [0, 1, 2]


@given(speed=st.floats(1.0, 1e4), cost=st.floats(1e-3, 1e3), exponent=st.floats(0.0, 6.0))
def test_equation_45(speed: float, cost: float, exponent: float) -> None:
    assert preference(speed, cost, exponent) == pytest.approx(speed**exponent / cost, rel=1e-12)
    # A buyer without a preference for speed selects the cheapest.
    assert preference(speed, cost, 0.0) == pytest.approx(1 / cost, rel=1e-15)


# Cost of an hour

dollars = st.floats(0.0, 1e6)
shares = st.floats(0.01, 1.0)
#: Yearly; interest below a billionth is lost in rounding.
rates = st.just(0.0) | st.floats(1e-9, 0.5)


@given(price=dollars, years=st.floats(0.5, 20.0), use=shares, watts=st.floats(0.0, 1e4), capital=rates, yearly=rates)
def test_the_parts_of_an_hour_add_up(
    price: float, years: float, use: float, watts: float, capital: float, yearly: float
) -> None:
    def cost(price: float = price, use: float = use, kwh: float = 0.1) -> HourCostByCause:
        fixed = {"yearly_operations": yearly, "cost_of_capital": capital}
        return accelerator_hour_cost(price, years, utilisation=use, power=Power(watts, watts / 2, 1.3, kwh), **fixed)

    found = cost()
    assert found.total == pytest.approx(math.fsum(map(float, found)), rel=1e-14, abs=1e-300)
    assert all(part >= -1e-12 * float(found.depreciation) for part in found)
    # Linear in the price, and in that of electricity.
    doubled = cost(price=2 * price)
    assert [float(part) for part in doubled[:3]] == pytest.approx([2 * float(part) for part in found[:3]], rel=1e-9)
    assert doubled[3:] == found[3:]
    assert float(cost(kwh=0.3).accelerator_energy) == pytest.approx(3 * float(found.accelerator_energy))
    # An hour in use of a chip that is used half as much carries twice the fixed cost.
    halved = cost(use=use / 2)
    for part in ("depreciation", "operations", "host_energy"):
        assert float(getattr(halved, part)) == pytest.approx(2 * float(getattr(found, part)), rel=1e-9)
    assert float(halved.accelerator_energy) == float(found.accelerator_energy)


@pytest.mark.parametrize(("rate", "years"), [(0.0, 5), (0.08, 5), (0.2, 3), (1e-9, 4)])
def test_payments_pay_off_the_debt(rate: float, years: int) -> None:
    found = accelerator_hour_cost(1000.0, years, cost_of_capital=rate)
    yearly = float(found.depreciation + found.capital) * 8760
    debt = 1000.0
    for _ in range(years):
        debt = debt * (1 + rate) - yearly
    assert debt == pytest.approx(0.0, abs=1e-6)


def test_energy_by_hand() -> None:
    found = accelerator_hour_cost(0.0, 1, utilisation=0.5, power=Power(700, 300, 1.2, 0.1))
    assert found.accelerator_energy == pytest.approx(0.7 * 1.2 * 0.1)
    assert found.host_energy == pytest.approx(0.3 * 1.2 * 0.1 / 0.5)
    # A full instance of 8 chips at 700 W, 50 tokens/s for each of 100 users: 1.12 J per token.
    assert joules_per_token(700, 8, 50 * 100) == pytest.approx(1.12)


# Dividing a bill


@given(bill=st.floats(0.0, 1e12), times=st.tuples(*[st.floats(0.0, 1e9)] * 3).filter(lambda times: sum(times) > 1e-6))
def test_a_divided_bill_adds_up(bill: float, times: tuple[float, float, float]) -> None:
    parts = [float(part) for part in allocate(bill, *times)]
    assert math.fsum(parts) == pytest.approx(bill, rel=1e-14)
    assert all(part >= 0.0 for part in parts)
    for part, seconds in zip(parts, times, strict=True):
        assert part == pytest.approx(bill * seconds / sum(times), rel=1e-14)


# Tokens that carry a bill


@given(size=positive, speed=positive, price=positive)
def test_equation_2_by_the_second(size: float, speed: float, price: float) -> None:
    by_the_second = dollars_per_million(dollars_per_second(size, price), speed)
    assert by_the_second == pytest.approx(float(dollars_per_million_tokens(size, 1.0, speed, price)), rel=1e-14)


def test_tokens_that_there_are_none_of_cost_nothing() -> None:
    assert dollars_per_million(6.0, np.array([[3e6], [0.0]])).tolist() == [[2.0], [0.0]]
    assert float(dollars_per_million(6.0, 0)) == 0.0


@pytest.mark.rows
def test_impossible_amounts(power: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        accelerator_hour_cost(1, 5, power=Power(**power))
