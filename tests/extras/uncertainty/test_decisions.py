"""Choices under uncertainty, against formulas for normal costs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import norm, qmc

from inference_econ._types import Array
from inference_econ.extras.uncertainty import decisions

#: Means and standard deviations of two independent normal costs.
MEANS, SPREADS = (2.0, 2.1), (0.3, 0.2)


def uniform(count: int, samples: int) -> Array:
    """Return two independent halves of samples of some variables, each of which covers all of their values."""
    return np.concatenate(np.split(qmc.Sobol(2 * count, scramble=True, seed=4).random(samples // 2), 2, axis=1))


def drawn(samples: int = 2**14) -> tuple[Array, Array]:
    """Return shares and values of two normal costs."""
    shares = uniform(2, samples)
    return shares, np.asarray(norm.ppf(shares)) * SPREADS + MEANS


def halves(samples: int) -> npt.NDArray[np.bool_]:
    return np.arange(samples) < samples // 2


def unit_loss(mean: float, spread: float) -> float:
    """Return E max(x, 0) of a normal x."""
    return float(mean * norm.cdf(mean / spread) + spread * norm.pdf(mean / spread))


@pytest.mark.parametrize("column", [0, 1])
def test_knowing_one_normal_cost_is_worth_its_unit_loss(column: int) -> None:
    shares, costs = drawn()
    worth = decisions.value_of_knowing(shares[:, column], costs, halves(len(costs)))
    # The first is chosen without knowing; knowing one cost, the other is where the difference in means is negative.
    exact = unit_loss(MEANS[0] - MEANS[1], SPREADS[column])
    assert worth.value == pytest.approx(exact, rel=0.02)
    assert worth.standard_error < 0.05 * exact


def test_knowing_both_is_worth_the_unit_loss_of_their_difference() -> None:
    _, costs = drawn()
    exact = unit_loss(MEANS[0] - MEANS[1], float(np.hypot(*SPREADS)))
    assert decisions.value_of_knowing_all(costs).value == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("column", [0, 1])
def test_knowing_one_cost_avoids_the_mistakes_that_the_other_leaves(column: int) -> None:
    shares, costs = drawn()
    worth = decisions.value_of_knowing(shares[:, column], decisions.wrong_choice(costs), halves(len(costs)))
    known = norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    sign = 1.0 - 2.0 * column
    first_is_cheaper = norm.cdf((MEANS[1] - MEANS[0] - sign * SPREADS[column] * known) / SPREADS[1 - column])
    exact = np.maximum(first_is_cheaper, 1 - first_is_cheaper).mean() - first_is_cheaper.mean()
    assert worth.value == pytest.approx(exact, rel=0.03)


def test_what_says_nothing_is_worth_nothing() -> None:
    shares = uniform(3, 1024)
    costs = norm.ppf(shares[:, :2])
    worth = decisions.value_of_knowing(shares[:, 2], costs, halves(1024))
    assert worth.value <= 3 * worth.standard_error


def test_the_error_of_a_share_covers_what_seeds_differ_by() -> None:
    chances = []
    for seed in range(20):
        costs = np.random.default_rng(seed).normal(MEANS, SPREADS, (500, 2))
        chances.append(decisions.share(decisions.cheapest(costs)[:, 0]))
    between = np.std([chance.value for chance in chances])
    assert 0.5 * between < chances[0].standard_error < 2.0 * between


def test_where_all_samples_agree_the_error_is_not_nothing() -> None:
    assert decisions.share(np.ones(100)).value == 1.0
    assert decisions.share(np.ones(100)).standard_error > 0.01


def test_what_is_impossible_is_never_the_cheapest_nor_a_mistake_where_all_is() -> None:
    costs = np.array([[np.inf, 5.0], [np.inf, np.inf], [2.0, 2.0]])
    assert decisions.cheapest(costs).tolist() == [[0, 1], [0, 0], [1, 1]]
    assert decisions.wrong_choice(costs).tolist() == [[1, 0], [0, 0], [0, 0]]
