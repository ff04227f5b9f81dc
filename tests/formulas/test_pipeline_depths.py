"""Pipeline depths of the published code, and its rounding trap."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.formulas.pipeline import logarithmic_degrees


@given(deepest=st.floats(1.0, 1e4), steps=st.integers(1, 20))
def test_from_one_to_the_deepest_in_equal_ratios(deepest: float, steps: int) -> None:
    degrees = logarithmic_degrees(deepest, steps)
    assert degrees.shape == (steps + 1,)
    assert degrees[0] == 1.0
    assert degrees[1:] / degrees[:-1] == pytest.approx(np.full(steps, deepest ** (1 / steps)), rel=1e-12)


def test_the_last_depth_is_exact() -> None:
    deepest = np.linspace(1.0, 200.0, 5000)
    # 2 ** log2(b) is a unit in the last place above b for some of these; the depths are not.
    assert any(2.0 ** math.log2(value) > value for value in deepest)
    assert np.array_equal(logarithmic_degrees(deepest, 9)[-1], deepest)


def test_one_axis_in_front_of_any_shape() -> None:
    deepest = np.array([[4.0, 16.0, 64.0], [1.0, 2.0, 3.0]])
    degrees = logarithmic_degrees(deepest, 2)
    assert degrees.shape == (3, 2, 3)
    assert degrees[1] == pytest.approx(np.sqrt(deepest), rel=1e-15)
    assert degrees[:, 1, 0].tolist() == [1.0, 1.0, 1.0]
