"""Speculative decoding: eq. (46) of Erdil (2025), eq. (1) of Leviathan et al. (2023)."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from inference_econ.errors import InputError
from inference_econ.formulas.speculation import (
    acceptance_probability,
    best_draft_length,
    expected_tokens,
    expected_tokens_by_position,
    seconds_per_token,
    speculative_sample,
)

acceptances = st.floats(0.0, 1.0)


@given(acceptance=acceptances, checked=st.integers(1, 64))
def test_equation_46_is_a_truncated_geometric_series(acceptance: float, checked: int) -> None:
    series = sum(acceptance**power for power in range(checked))
    # Near an acceptance of 1 the formula loses digits: (1 - a^n) / (1 - a).
    assert expected_tokens(acceptance, checked) == pytest.approx(series, rel=1e-9 if acceptance < 0.999 else 1e-3)


def enumerated(chances: list[float]) -> float:
    """Sum over every pattern of accepted draft tokens: tokens before the first rejection, plus one of the target."""
    mean = 0.0
    for pattern in itertools.product([True, False], repeat=len(chances)):
        accepted = pattern.index(False) if False in pattern else len(chances)
        mean += (accepted + 1) * math.prod(a if kept else 1 - a for kept, a in zip(pattern, chances, strict=True))
    return mean


@pytest.mark.parametrize("acceptance", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("drafted", [1, 2, 5])
def test_leviathan_equation_1_by_enumeration(acceptance: float, drafted: int) -> None:
    mean = enumerated([acceptance] * drafted)
    assert expected_tokens(acceptance, drafted + 1) == pytest.approx(mean, rel=1e-12)
    assert expected_tokens_by_position([acceptance] * drafted) == pytest.approx(mean, rel=1e-12)


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


# Acceptance by position, and the best draft


def test_positions_by_enumeration() -> None:
    chances = [0.9, 0.5, 0.7]
    assert expected_tokens_by_position(chances) == pytest.approx(enumerated(chances), rel=1e-12)
    assert expected_tokens_by_position([]) == 1.0
    assert expected_tokens_by_position(np.zeros((4, 2))).tolist() == [1.0] * 4


def test_the_best_draft_is_that_of_a_search() -> None:
    verify = np.array([[0.010, 0.0101, 0.0103, 0.0106], [0.010, 0.020, 0.030, 0.040]])
    tokens = np.array([expected_tokens(0.7, length + 1) for length in range(4)])
    best = best_draft_length(verify, [0.0005, 0.0001], tokens)
    by_hand = (verify + np.arange(4) * np.array([[0.0005], [0.0001]])) / tokens
    assert best.length.tolist() == by_hand.argmin(axis=1).tolist() == [3, 0]
    assert best.seconds.tolist() == by_hand.min(axis=1).tolist()
    assert best.speedup.tolist() == (by_hand[:, 0] / by_hand.min(axis=1)).tolist()
    assert best.speedup[1] == 1.0
    fixed = best_draft_length(verify, [0.0005, 0.0001], tokens, shortest=3)
    assert fixed.length.tolist() == [3, 3]
    assert fixed.seconds.tolist() == by_hand[:, 3].tolist()
    assert fixed.speedup[1] < 1.0


# The rule of Leviathan et al.


@pytest.mark.parametrize("seed", range(3))
def test_leviathan_outputs_have_the_distribution_of_the_target(seed: int) -> None:
    """Chi-square of the tokens at each position; a correct sampler fails a position once in 10,000."""
    random = np.random.default_rng(seed)
    k, vocabulary, rounds = 3, 8, 60_000
    target, draft = random.dirichlet(np.full(vocabulary, 0.7), k + 1), random.dirichlet(np.full(vocabulary, 0.7), k)
    found = speculative_sample(target, draft, k, random, rounds)
    for position in range(k + 1):
        reached = found.tokens[:, position]
        counts = np.bincount(reached[reached >= 0], minlength=vocabulary)
        assert stats.chisquare(counts, target[position] * counts.sum()).pvalue > 1e-4


@pytest.mark.parametrize("seed", range(3))
def test_leviathan_rounds_yield_as_many_tokens_as_equation_1_says(seed: int) -> None:
    """Within 3.9 standard errors, which a correct sampler misses once in 10,000."""
    random = np.random.default_rng(100 + seed)
    target, draft = random.dirichlet(np.ones(20)), random.dirichlet(np.ones(20))
    found = speculative_sample(target, draft, 4, random, 40_000)
    alpha = acceptance_probability(target, draft)
    error = found.produced.std() / 40_000**0.5
    assert abs(found.produced.mean() - expected_tokens(float(alpha), 5)) < 3.9 * error
    by_position = random.dirichlet(np.ones(20), 5), random.dirichlet(np.ones(20), 4)
    found = speculative_sample(*by_position, 4, random, 40_000)
    alphas = acceptance_probability(by_position[0][:4], by_position[1])
    error = found.produced.std() / 40_000**0.5
    assert abs(found.produced.mean() - expected_tokens_by_position(alphas)) < 3.9 * error


def test_leviathan_limits() -> None:
    random = np.random.default_rng(0)
    same = speculative_sample([0.5, 0.5], [0.5, 0.5], 4, random, 100)
    assert set(same.produced.tolist()) == {5}
    # Without overlap of the distributions, every draft token is rejected, and the target adds its only token.
    other = speculative_sample([1.0, 0.0], [0.0, 1.0], 4, random, 100)
    assert set(other.produced.tolist()) == {1}
    assert other.tokens[:, 0].tolist() == [0] * 100
    assert (other.tokens[:, 1:] == -1).all()


def test_leviathan_theorem_3_5() -> None:
    random = np.random.default_rng(3)
    target, draft = random.dirichlet(np.ones(30), (2, 5)), random.dirichlet(np.ones(30), (2, 5))
    distance = np.abs(target - draft).sum(axis=-1) / 2
    np.testing.assert_allclose(acceptance_probability(target, draft), 1 - distance, rtol=1e-12)


def test_single_precision_sums_are_accepted() -> None:
    weights = np.random.default_rng(0).random(50_000).astype(np.float32)
    half = (weights / weights.sum()).astype(np.float32)
    assert acceptance_probability(half, half) == pytest.approx(1.0, abs=1e-5)


# Bad input


@pytest.mark.rows
def test_impossible_values(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _sample(**changes)


def _sample(**changes: Any) -> object:
    given = {"target": [0.5, 0.5], "draft": [0.5, 0.5], "draft_length": 2, "random": np.random.default_rng(0)}
    return speculative_sample(**{**given, **changes})
