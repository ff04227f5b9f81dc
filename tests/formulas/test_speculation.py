"""Speculative decoding: eq. (46) of Erdil (2025), eq. (1) of Leviathan et al. (2023)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.formulas.speculation import expected_tokens, seconds_per_token

acceptances = st.floats(0.0, 1.0)


@given(acceptance=acceptances, checked=st.integers(1, 64))
def test_equation_46_is_a_truncated_geometric_series(acceptance: float, checked: int) -> None:
    series = sum(acceptance**power for power in range(checked))
    # Near an acceptance of 1 the closed form loses digits: (1 - a^n) / (1 - a).
    assert expected_tokens(acceptance, checked) == pytest.approx(series, rel=1e-9 if acceptance < 0.999 else 1e-3)


@pytest.mark.parametrize("acceptance", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("drafted", [1, 2, 5])
def test_leviathan_equation_1_by_enumeration(acceptance: float, drafted: int) -> None:
    # Every pattern of accepted proposals: those before the first refusal count, and the target adds one.
    mean = 0.0
    for pattern in itertools.product([True, False], repeat=drafted):
        accepted = pattern.index(False) if False in pattern else drafted
        chance = np.prod([acceptance if kept else 1 - acceptance for kept in pattern])
        mean += float(chance) * (accepted + 1)
    assert expected_tokens(acceptance, drafted + 1) == pytest.approx(mean, rel=1e-12)


def test_equation_46_limits() -> None:
    assert expected_tokens(0.0, 5) == 1.0
    assert expected_tokens(1.0, 5) == 5.0
    assert expected_tokens(0.8, 1) == pytest.approx(1.0, rel=1e-15)
    assert expected_tokens(0.8, 1000) == pytest.approx(5.0, rel=1e-15)  # 1 / (1 - a)


@given(acceptance=st.floats(0.0, 0.999), checked=st.integers(1, 63))
def test_longer_series_gain_less_and_less(acceptance: float, checked: int) -> None:
    gain = expected_tokens(acceptance, checked + 1) - expected_tokens(acceptance, checked)
    assert gain == pytest.approx(acceptance**checked, abs=1e-11)


def test_equation_46_seconds_per_token() -> None:
    verify, draft = np.array([0.010, 0.020]), np.array([0.001, 0.002])
    tokens = expected_tokens(0.8, 5)
    assert seconds_per_token(verify, draft, 5, tokens) == pytest.approx(
        [0.015 * 0.2 / (1 - 0.8**5), 0.030 * 0.2 / (1 - 0.8**5)], rel=1e-14
    )


def test_infeasible_draft_or_target_stays_infeasible() -> None:
    assert seconds_per_token(np.inf, 1e-3, 2, 1.8) == np.inf
    assert seconds_per_token(1e-2, np.inf, 2, 1.8) == np.inf
