"""Expected distinct experts: eq. (22) of Erdil (2025)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.formulas.experts import touched_fraction


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
