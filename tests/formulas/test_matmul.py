"""Parallel cuts of a model: traffic around a cut matrix (Erdil 2025, eq. (35)), and pipeline depths of the published
code.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.formulas.matmul import (
    SPLITS,
    activation_elements_per_token,
    balanced_split,
    single_copy,
    unbalanced_split,
)
from inference_econ.formulas.pipeline import logarithmic_degrees

widths = st.floats(64.0, 2e5)
ranks = st.floats(1.0, 1e5)


@given(rows=widths, columns=widths, split=ranks)
def test_balanced_copies_multiply_to_the_ranks_and_neither_is_below_one(
    rows: float, columns: float, split: float
) -> None:
    column_copies, row_copies = balanced_split(rows, columns, split)
    assert column_copies * row_copies == pytest.approx(split, rel=1e-14)
    assert 1.0 <= column_copies <= split
    assert row_copies >= 1.0 - 1e-15


@given(rows=widths, columns=widths, split=ranks)
def test_balanced_is_symmetric_in_rows_and_columns(rows: float, columns: float, split: float) -> None:
    assert balanced_split(rows, columns, split) == pytest.approx(balanced_split(columns, rows, split)[::-1], rel=1e-13)


@given(rows=widths, columns=widths, split=ranks, other=st.floats(0.0, 1.0))
def test_balanced_moves_least_of_all_cuts(rows: float, columns: float, split: float, other: float) -> None:
    # Any t1 from 1 to t, with t2 = t / t1, is a cut.
    column_copies = split**other
    moved = column_copies * columns + split / column_copies * rows
    assert activation_elements_per_token(rows, columns, split) <= moved * (1 + 1e-13)


@pytest.mark.rows
def test_balanced_limits(rows: float, columns: float, split: float, copies: list[float]) -> None:
    assert np.array(balanced_split(rows, columns, split)).tolist() == copies


@given(rows=widths, columns=widths, split=ranks)
def test_may_22_copies_are_the_published_ones(rows: float, columns: float, split: float) -> None:
    column_copies, row_copies = unbalanced_split(rows, columns, split)
    assert column_copies == pytest.approx(max(1.0, split * (rows / columns) ** 0.5), rel=1e-14)
    assert row_copies == pytest.approx(max(1.0, split * (columns / rows) ** 0.5), rel=1e-14)


@given(rows=widths, columns=widths, split=ranks)
def test_single_copy_least_then_balanced_then_may_22(rows: float, columns: float, split: float) -> None:
    moved = [
        float(activation_elements_per_token(rows, columns, split, rule))
        for rule in ("single_copy", "balanced", "unbalanced")
    ]
    assert moved[0] <= moved[1] * (1 + 1e-14)
    assert moved[1] <= moved[2] * (1 + 1e-14)


def test_equation_35_one_copy_of_inputs_and_outputs() -> None:
    column_copies, row_copies = single_copy(8192, 28672, np.array([1.0, 8.0, 64.0]))
    assert column_copies.tolist() == row_copies.tolist() == [1.0, 1.0, 1.0]
    assert activation_elements_per_token(8192, 28672, 64, "single_copy") == 8192 + 28672


@pytest.mark.parametrize("rule", ["balanced", "single_copy"])
def test_one_rank_moves_everything_once(rule: str) -> None:
    assert activation_elements_per_token(8192, 28672, 1, rule) == 8192 + 28672


@pytest.mark.parametrize("rule", sorted(SPLITS))
def test_rules_keep_the_shape_of_the_ranks(rule: str) -> None:
    split = np.array([[1.0, 2.0], [4.0, 8.5]])
    assert activation_elements_per_token(4096, 14336, split, rule).shape == (2, 2)


# Pipeline depths of the published code, and its rounding trap.


@given(deepest=st.floats(1.0, 1e4), steps=st.integers(1, 20))
def test_from_one_to_the_deepest_in_equal_ratios(deepest: float, steps: int) -> None:
    degrees = logarithmic_degrees(deepest, steps)
    assert degrees.shape == (steps + 1,)
    assert degrees[0] == 1.0
    assert degrees[1:] / degrees[:-1] == pytest.approx(np.full(steps, deepest ** (1 / steps)), rel=1e-12)


def test_the_last_depth_is_exact() -> None:
    deepest = np.linspace(1.0, 200.0, 5000)
    # 2 ** log2(b) is a unit in the last place above b for some of these; the depths are not.
    assert any(2.0 ** math.log2(value) > value for value in deepest)
    assert np.array_equal(logarithmic_degrees(deepest, 9)[-1], deepest)


def test_one_axis_in_front_of_any_shape() -> None:
    deepest = np.array([[4.0, 16.0, 64.0], [1.0, 2.0, 3.0]])
    degrees = logarithmic_degrees(deepest, 2)
    assert degrees.shape == (3, 2, 3)
    assert degrees[1] == pytest.approx(np.sqrt(deepest), rel=1e-15)
    assert degrees[:, 1, 0].tolist() == [1.0, 1.0, 1.0]
