"""Distributions of studies: scipy's names and parameters, units, bounds, and rejected inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from scipy import stats

import inference_econ as ie
from inference_econ.extras.uncertainty.distributions import Distribution

LEVELS = np.array([0.01, 0.25, 0.5, 0.75, 0.99])


def read(**given: Any) -> Distribution:
    return Distribution.build(given, origin="study")


@pytest.mark.rows
def test_values_are_those_of_scipy(given: Mapping[str, Any], expected: dict[str, float]) -> None:
    law = getattr(stats, given["distribution"])(**expected)
    assert read(**given).quantiles(LEVELS) == pytest.approx(law.ppf(LEVELS), rel=1e-6)


def test_bounds_cut_a_distribution() -> None:
    cut = read(distribution="norm", loc=3, scale=1, low=2, high=5)
    whole = stats.truncnorm(-1, 2, loc=3, scale=1)
    assert cut.quantiles(LEVELS) == pytest.approx(whole.ppf(LEVELS), rel=1e-6)
    assert cut.support == (2.0, 5.0)
    assert cut.words == "norm(loc=3, scale=1, low=2, high=5)"


def test_the_ends_of_the_shares_have_finite_values() -> None:
    ends = read(distribution="lognorm", s=0.2, scale=2).quantiles([0.0, 1.0])
    assert np.isfinite(ends).all()
    assert (ends > 0).all()


@pytest.mark.rows
def test_what_cannot_be_is_refused(given: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ie.SpecError, match=message):
        read(**given)


def test_a_heavy_tail_that_is_cut_has_a_variance() -> None:
    assert read(distribution="cauchy", loc=3, scale=1, low=1, high=9).quantiles(0.5) == pytest.approx(3.1, abs=0.2)
