"""Products of many experts, by hand and in their limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.formulas.grouped_matmul import padded_share


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
