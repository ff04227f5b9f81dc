"""Grouped expert products, and kernels on unmeasured chips: by hand and in their limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.formulas.grouped_matmul import padded_share
from inference_econ.formulas.kernels import carried_share

SHARES = st.floats(0.0, 1.0)
RATIOS = st.floats(0.01, 100.0)


@pytest.mark.rows
def test_by_hand(
    tokens: float, width: float, depth: float, extra_tokens: float, extra_elements: float, share: float
) -> None:
    extra = {"extra_tokens": extra_tokens, "extra_elements": extra_elements}
    assert float(padded_share(tokens, width, depth, **extra)) == pytest.approx(share)


@given(
    tokens=st.floats(1e-3, 1e6),
    width=st.floats(1, 1e5),
    depth=st.floats(1, 1e5),
    extra=st.floats(0, 1e3),
    more=st.floats(1.0, 10.0),
)
def test_no_less_than_needed_and_less_for_larger_products(
    tokens: float, width: float, depth: float, extra: float, more: float
) -> None:
    share = float(padded_share(tokens, width, depth, extra_tokens=extra, extra_elements=extra))
    assert share >= 1.0
    assert share == pytest.approx(float(padded_share(tokens, depth, width, extra_tokens=extra, extra_elements=extra)))
    larger = float(padded_share(tokens * more, width * more, depth, extra_tokens=extra, extra_elements=extra))
    assert larger <= share
    # All time of a product grows with its tokens.
    assert larger * more * more >= share * (1.0 - 1e-12)


def test_a_kernel_on_another_chip_by_hand() -> None:
    """A kernel at 0.4 of a peak with 0.8 attainable: the unit needs half of its time.

    On another chip the unit is a quarter as far ahead of fp32, so the other half takes a quarter of the unit's time:
    0.5 + 0.5 / 4. The kernel reaches 0.4 / 0.625 = 0.64 of that peak.
    """
    assert float(carried_share(0.5, 0.25)) == pytest.approx(0.625)


@given(SHARES)
def test_chips_that_were_measured_keep_their_time(unit: float) -> None:
    assert float(carried_share(unit, 1.0)) == pytest.approx(1.0)


@given(SHARES, RATIOS, st.floats(1.0, 10.0))
def test_a_higher_peak_alone_is_never_slower(unit: float, ahead: float, faster: float) -> None:
    """The time is the work over the peak, and the ratio to fp32 grows with the peak."""
    assert float(carried_share(unit, ahead * faster)) / faster <= float(carried_share(unit, ahead)) * (1.0 + 1e-12)


@given(SHARES, RATIOS)
def test_never_faster_than_its_unit(unit: float, ahead: float) -> None:
    assert float(carried_share(unit, ahead)) >= unit
    assert np.isfinite(carried_share(unit, ahead))
