"""Special functions and roots, compared with those of scipy, and their properties."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from inference_econ.formulas.special import (
    gamma_shares,
    log_gamma,
    normal_quantiles,
    normal_shares,
    poisson_capped,
    root,
    wright_omega,
)


def test_logarithms_of_factorials() -> None:
    counts = np.arange(1.0, 3000.0).reshape(1, -1)
    np.testing.assert_allclose(log_gamma(counts), special.gammaln(counts), rtol=1e-14, atol=1e-14)
    assert log_gamma(np.array([5.0])) == pytest.approx([math.log(24.0)], rel=1e-15)


def test_quantiles_of_the_normal_distribution() -> None:
    shares = np.concatenate([np.linspace(1e-6, 1.0 - 1e-6, 999), [1e-15, 1e-9, 0.999999999]]).reshape(2, -1)
    np.testing.assert_allclose(normal_quantiles(shares), special.ndtri(shares), rtol=1e-12, atol=1e-15)
    assert normal_quantiles(np.array(0.5)) == 0.0


def test_shares_of_the_normal_distribution_are_those_of_scipy() -> None:
    values = np.array([-35.0, -5.0, -0.1, 0.0, 0.3, 6.0])
    np.testing.assert_allclose(normal_shares(values), special.ndtr(values), rtol=1e-12)
    assert normal_shares(np.array(0.0)) == 0.5


def test_shares_of_the_gamma_distribution_are_those_of_scipy() -> None:
    shapes, values = np.meshgrid(np.arange(1.0, 200.0, 7.0), [0.0, 1e-9, 0.3, 1.0, 7.0, 90.0, 1e4])
    np.testing.assert_allclose(gamma_shares(shapes, values), special.gammainc(shapes, values), rtol=1e-10, atol=1e-300)


def test_wright_omega_is_that_of_scipy() -> None:
    values = np.concatenate([[-np.inf, -1e4, -300.0], np.linspace(-40.0, 40.0, 801), [1e3, 1e9, 1e300]])
    np.testing.assert_allclose(wright_omega(values), special.wrightomega(values), rtol=1e-14)


@given(
    mean=st.floats(1e-6, 5000.0),
    most=st.one_of(st.floats(0.0, 3.0), st.floats(0.0, 600.0), st.integers(0, 80).map(float)),
)
def test_a_capped_poisson_number_is_that_of_incomplete_gamma_functions(mean: float, most: float) -> None:
    above = most * special.gammainc(max(most, 1.0), mean)
    below = mean * special.gammaincc(max(most - 1.0, 1e-300), mean)
    assert poisson_capped(np.array(mean), np.array([most])) == pytest.approx([above + below], rel=1e-11, abs=1e-300)


@given(mean=st.floats(0.01, 200.0), most=st.integers(0, 300))
def test_a_capped_poisson_number_is_what_its_chances_say(mean: float, most: int) -> None:
    chances = [math.exp(number * math.log(mean) - mean - math.lgamma(number + 1.0)) for number in range(most)]
    expected = sum(number * chance for number, chance in enumerate(chances)) + most * (1.0 - math.fsum(chances))
    assert poisson_capped(np.array([mean]), np.array([float(most)])) == pytest.approx([expected], rel=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
@pytest.mark.parametrize(
    ("function", "expected", "off"),
    [
        (lambda x: x**3 - 2.0, 2.0 ** (1.0 / 3.0), 1e-12),
        (lambda x: math.exp(-x) - 0.3, -math.log(0.3), 1e-12),
        (lambda x: math.tanh(50.0 * (x - 0.7)), 0.7, 1e-12),
        (lambda x: 1.0 if x > 1.3 else -1.0, 1.3, 2e-12),
        (lambda x: (x - 1.0) ** 5, 1.0, 1e-3),  # flat: in reach of the least number that is not zero
    ],
)
def test_roots_by_hand(function: Callable[[float], float], expected: float, off: float, scale: float) -> None:
    calls: list[float] = []

    def counted(x: float) -> float:
        calls.append(x)
        return function(x / scale)

    assert root(counted, 0.0, 2.5 * scale, 1e-12 * scale) == pytest.approx(expected * scale, rel=1e-14, abs=off * scale)
    assert len(calls) < 100


def test_roots_at_the_ends_and_none() -> None:
    assert root(lambda x: x, 0.0, 1.0, 1e-12) == 0.0
    assert root(lambda x: x - 1.0, 0.0, 1.0, 1e-12) == 1.0
    with pytest.raises(ValueError, match="no change of sign between 1 and 2"):
        root(lambda x: x, 1.0, 2.0, 1e-12)


def test_a_number_that_never_comes() -> None:
    assert poisson_capped(np.zeros(2), np.array([0.0, 3.0])).tolist() == [0.0, 0.0]
