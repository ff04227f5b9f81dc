"""Expected distinct experts: eq. (22) of Erdil (2025)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.formulas.experts import expected_largest, touched_fraction


@pytest.mark.parametrize(
    ("experts", "active", "tokens"), [(4, 1, 3), (4, 2, 3), (5, 2, 2), (6, 4, 2), (3, 3, 2), (8, 2, 2), (3, 1, 6)]
)
def test_equation_22_equals_the_mean_over_every_routing(experts: int, active: int, tokens: int) -> None:
    choices = [frozenset(choice) for choice in itertools.combinations(range(experts), active)]
    routings = itertools.product(choices, repeat=tokens)
    touched = [len(frozenset().union(*routing)) for routing in routings]
    mean = sum(touched) / len(touched) / experts
    assert touched_fraction(experts / active, tokens) == pytest.approx(mean, rel=1e-12)


@given(sparsity=st.floats(1.0, 512.0), tokens=st.floats(1.0, 1e6))
def test_between_one_token_s_share_and_all(sparsity: float, tokens: float) -> None:
    share = touched_fraction(sparsity, tokens)
    assert 1 / sparsity * (1 - 1e-12) <= share <= 1.0


def test_limits() -> None:
    assert touched_fraction(1.0, 7) == 1.0  # a dense block is always read
    assert touched_fraction(8.0, 0) == 0.0
    assert touched_fraction(8.0, 1e9) == 1.0


@given(sparsity=st.floats(1.0, 512.0), tokens=st.floats(1.0, 1e5), more=st.floats(1.0, 10.0))
def test_more_tokens_touch_more_and_never_proportionally_more(sparsity: float, tokens: float, more: float) -> None:
    few, many = touched_fraction(sparsity, np.array([tokens, more * tokens]))
    assert few <= many * (1 + 1e-14)
    assert many <= more * few * (1 + 1e-12)


@pytest.mark.parametrize("scv", [0.25, 1.0, 3.0])
def test_popular_experts_against_drawn_popularity(scv: float) -> None:
    # An expert of popularity g is missed with probability exp(-g m n), where m makes a single token touch 1 / s.
    draw, sparsity, tokens = np.random.default_rng(5), 16.0, np.array([1.0, 4.0, 32.0, 256.0])
    popularity = draw.gamma(1.0 / scv, scv, 400_000)
    scale = ((1.0 - 1.0 / sparsity) ** -scv - 1.0) / scv
    missed = np.exp(-np.outer(tokens, scale * popularity)).mean(axis=1)
    assert touched_fraction(sparsity, tokens, scv) == pytest.approx(1.0 - missed, abs=3e-3)


@given(sparsity=st.floats(1.0, 512.0), tokens=st.floats(1.0, 1e5), scv=st.floats(1e-3, 10.0))
def test_popularity_only_makes_less_be_touched_and_nothing_of_a_single_token(
    sparsity: float, tokens: float, scv: float
) -> None:
    assert touched_fraction(sparsity, 1.0, scv) == pytest.approx(1.0 / sparsity, rel=1e-9)
    assert touched_fraction(sparsity, tokens, scv) <= touched_fraction(sparsity, tokens) * (1 + 1e-9)
    assert touched_fraction(sparsity, tokens, 1e-9) == pytest.approx(touched_fraction(sparsity, tokens), rel=1e-4)


@pytest.mark.parametrize("count", [1, 2, 4, 8, 64])
def test_the_largest_of_some_normal_amounts(count: int) -> None:
    drawn = np.random.default_rng(7).normal(size=(100_000, count)).max(axis=1).mean()
    assert float(expected_largest(count)) == pytest.approx(drawn, abs=0.04)
