"""Cost and preference: eqs. (2) and (45) of Erdil (2025)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.formulas.money import dollars_per_million_tokens, preference

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


def test_costs_broadcast() -> None:
    cost = dollars_per_million_tokens(np.ones((3, 1)), 0.01, np.ones((1, 4)), 2.0)
    assert cost.shape == (3, 4)


def test_table_6_the_8_bit_row_is_preferred_to_the_16_bit_row_at_exponent_3() -> None:
    # Speed and cost as printed in Table 6; the cube of the speed decides between two prices.
    speeds, costs = np.array([122.0, 99.0, 83.0]), np.array([0.23, 0.37, 0.70])
    assert np.argsort(-preference(speeds, costs, 3)).tolist() == [0, 1, 2]


@given(speed=st.floats(1.0, 1e4), cost=st.floats(1e-3, 1e3), exponent=st.floats(0.0, 6.0))
def test_equation_45(speed: float, cost: float, exponent: float) -> None:
    assert preference(speed, cost, exponent) == pytest.approx(speed**exponent / cost, rel=1e-12)
    # A buyer who does not care for speed takes the cheapest.
    assert preference(speed, cost, 0.0) == pytest.approx(1 / cost, rel=1e-15)
