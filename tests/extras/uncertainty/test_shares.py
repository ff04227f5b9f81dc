"""Sobol shares against analytic ones: of the Ishigami function, and of costs whose logarithms add up."""

from __future__ import annotations

import math

import numpy as np
import pytest

from inference_econ.extras.uncertainty.answer import design, shares
from tests.extras.uncertainty.studies import MEMORY_BOUND, TWO, answered, factor
from tests.reading import present

#: Function of Ishigami and Homma (1990): sin x + a sin^2 y + b z^4 sin x, each from -pi to pi.
A, B = 7.0, 0.1


def test_the_ishigami_function_has_its_analytic_shares() -> None:
    plan = design(3, 2**12, seed=3)
    x, y, z = (2.0 * math.pi * (plan.shares - 0.5)).T
    known = present(shares(plan, np.sin(x) + A * np.sin(y) ** 2 + B * z**4 * np.sin(x), seed=0))
    by_x = (1 + B * math.pi**4 / 5) ** 2 / 2
    by_y = A**2 / 8
    by_both = B**2 * math.pi**8 * (1 / 18 - 1 / 50)
    variance = by_x + by_y + by_both
    assert known.first[2] == pytest.approx(0.0, abs=0.02)
    assert known.first[:2] * variance == pytest.approx([by_x, by_y], rel=0.02)
    assert known.total * variance == pytest.approx([by_x + by_both, by_y, by_both], rel=0.02)
    assert (np.abs(known.first - np.array([by_x, by_y, 0.0]) / variance) < 2 * known.first_half_width).all()


def test_what_does_not_vary_has_no_shares() -> None:
    plan = design(2, 16, seed=0)
    assert shares(plan, np.full(len(plan.shares), 3.0), seed=0) is None


def test_a_seed_gives_the_same_shares_and_another_seed_others() -> None:
    first, again, other = (answered({"price": factor(0.2), "profile": factor(0.1)}, seed=seed) for seed in (0, 0, 1))
    ((name, known),) = first.shares.items()
    assert name == "cost of H100"
    assert known.first_half_width.tolist() == again.shares[name].first_half_width.tolist()
    assert known.first.tolist() != other.shares[name].first.tolist()


@pytest.mark.long
def test_of_a_memory_bound_step_the_variances_of_the_logarithms_add_up() -> None:
    inputs = {"price": 0.2, "hardware.hbm_bytes_per_second": 0.3, "profile": 0.1}
    study = answered({name: factor(s) for name, s in inputs.items()}, common=MEMORY_BOUND, samples=256, speed=1)
    variances = np.array([s**2 for s in inputs.values()])
    (known,) = study.shares.values()
    assert known.first == pytest.approx(variances / variances.sum(), abs=0.02)
    assert known.total == pytest.approx(variances / variances.sum(), abs=0.02)
    # ... and the band is that of the product of log-normal factors.
    band = study.bands[:, study.at, 0] / study.present[study.at, 0]
    assert band == pytest.approx(np.exp(np.array([-1.2816, 0.0, 1.2816]) * math.sqrt(variances.sum())), rel=0.02)
    # Two values of the bandwidth per point, in addition to the present one and the earlier ones.
    assert study.frontiers == 2 * 256 + 3


def test_of_inputs_that_need_no_frontier_shares_are_within_two_per_cent() -> None:
    spreads = {"price": 0.2, "profile": 0.1}
    study = answered({name: factor(s) for name, s in spreads.items()}, common=MEMORY_BOUND, speed=1)
    (known,) = study.shares.values()
    assert study.frontiers == 1
    assert study.plan.samples == 4096
    assert known.first == pytest.approx([0.8, 0.2], rel=0.02)
    assert known.total == pytest.approx([0.8, 0.2], rel=0.02)


def test_the_choice_has_the_shares_of_the_ratio_of_costs() -> None:
    own = [{**series, "inputs": {"price": factor(s)}} for series, s in zip(TWO, (0.3, 0.1), strict=True)]
    study = answered({"profile": factor(0.5)}, own, common=MEMORY_BOUND, speed=1)
    # All that is common to both drops out of the ratio.
    assert study.shares["choice"].first == pytest.approx([0.0, 0.9, 0.1], abs=0.02)
    assert study.shares["cost of H200"].first == pytest.approx([0.25 / 0.26, 0.0, 0.01 / 0.26], abs=0.02)
