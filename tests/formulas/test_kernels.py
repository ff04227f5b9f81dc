"""Kernels on other chips than they were measured on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.formulas.kernels import carried_share

SHARES = st.floats(0.0, 1.0)
RATIOS = st.floats(0.01, 100.0)


def test_by_hand() -> None:
    """A kernel at 0.4 of a peak of which 0.8 can be had: the unit needs half of its time.

    On a chip whose unit is a quarter as far ahead of fp32, the other half takes a quarter of the unit's time there:
    0.5 + 0.5 / 4, so that the kernel reaches 0.4 / 0.625 = 0.64 of that peak.
    """
    assert float(carried_share(0.5, 0.25)) == pytest.approx(0.625)


@given(SHARES)
def test_chips_that_were_measured_keep_their_time(unit: float) -> None:
    assert float(carried_share(unit, 1.0)) == pytest.approx(1.0)


@given(SHARES, RATIOS, st.floats(1.0, 10.0))
def test_a_higher_peak_alone_is_never_slower(unit: float, ahead: float, faster: float) -> None:
    """Time is what is carried over the peak, and the ratio to fp32 grows with the peak."""
    assert float(carried_share(unit, ahead * faster)) / faster <= float(carried_share(unit, ahead)) * (1.0 + 1e-12)


@given(SHARES, RATIOS)
def test_never_faster_than_its_unit(unit: float, ahead: float) -> None:
    assert float(carried_share(unit, ahead)) >= unit
    assert np.isfinite(carried_share(unit, ahead))
