"""States that nothing beats, found by looking at few of them."""

from __future__ import annotations

import numpy as np
import pytest

from inference_econ.answers.disaggregated.frontiers import undominated
from inference_econ.formulas import pareto


@pytest.mark.parametrize("seed", range(20))
def test_the_frontier_is_that_of_all_states(seed: int) -> None:
    """Times rise with the load of a layout but for chance, and what a load costs is known beforehand."""
    random = np.random.default_rng(seed)
    rates = np.cumsum(random.uniform(0.5, 1.5, (9, 12)), axis=1)
    chance = random.uniform(0.996, 1.0, rates.shape)
    times = np.cumsum(random.uniform(0.01, 0.2, rates.shape), axis=1) * chance
    dollars = random.uniform(1.0, 4.0, (9, 1)) / rates
    looks: list[tuple[int, float]] = []

    def judge(row: int, rate: float) -> tuple[float, float]:
        looks.append((row, rate))
        column = int(np.searchsorted(rates[row], rate))
        return float(times[row, column]), float(dollars[row, column])

    bounds = times * random.uniform(0.3, 1.0, rates.shape)
    rows, columns = undominated(rates.copy(), bounds, dollars.copy(), judge)
    every = np.unravel_index(pareto.undominated(times.ravel(), dollars.ravel()), rates.shape)
    assert list(zip(rows, columns, strict=True)) == list(zip(*every, strict=True))
    assert len(looks) == len(set(looks)) < rates.size
