"""Errors of predictions, on data with known errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

from inference_econ.extras.servers import by_group
from inference_econ.extras.servers.accuracy import accuracy, log_errors


def test_half_and_double_are_equally_wrong() -> None:
    errors = log_errors([10.0, 10.0, 10.0], [5.0, 20.0, 10.0])
    assert errors == pytest.approx([-math.log(2), math.log(2), 0.0], rel=1e-12)
    found = accuracy([10.0, 10.0], [5.0, 20.0])
    assert found.median == found.mean == found.p90 == pytest.approx(math.log(2), rel=1e-12)
    assert found.bias == pytest.approx(0.0, abs=1e-12)


def test_a_ladder_of_errors() -> None:
    steps = np.arange(1, 12) / 100
    found = accuracy(np.ones(11), np.exp(steps))
    assert (found.rows, found.predicted, found.coverage) == (11, 11, 1.0)
    assert found.median == pytest.approx(0.06, rel=1e-12)
    assert found.p90 == pytest.approx(0.10, rel=1e-12)
    assert found.mean == found.bias == pytest.approx(0.06, rel=1e-12)
    assert accuracy(np.ones(11), np.exp(-steps)).bias == pytest.approx(-0.06, rel=1e-12)


def test_the_unit_does_not_matter() -> None:
    rng = np.random.default_rng(5)
    measured, predicted = rng.uniform(1, 9, 50), rng.uniform(1, 9, 50)
    assert accuracy(measured, predicted).median == pytest.approx(
        accuracy(1e3 * measured, 1e3 * predicted).median, rel=1e-12
    )


@pytest.mark.parametrize("none", [math.nan, math.inf, 0.0, -1.0])
def test_no_prediction_lowers_the_coverage_only(none: float) -> None:
    found = accuracy([1.0, 1.0, 1.0, 1.0], [2.0, none, none, none])
    assert (found.rows, found.predicted, found.coverage) == (4, 1, 0.25)
    assert found.median == pytest.approx(math.log(2), rel=1e-12)


def test_nothing_predicted_and_nothing_measured() -> None:
    found = accuracy([1.0], [math.nan])
    assert (found.predicted, found.coverage) == (0, 0.0)
    assert found[2:] == (None, None, None, None)
    assert accuracy([], []).coverage == 0.0
    assert accuracy([math.nan, 1.0], [1.0, 1.0]).predicted == 1


def test_groups() -> None:
    found = by_group(["b", "a", "b"], [1.0, 1.0, 1.0], [2.0, 1.0, math.nan])
    assert list(found) == ["b", "a"]
    assert found["b"][:2] == (2, 1)
    assert found["b"][2:] == pytest.approx([math.log(2)] * 4, rel=1e-12)
    assert found["a"].bias == 0.0
