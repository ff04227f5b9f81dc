"""Quantiles of errors for unmeasured servers: outliers, few groups, and the base profile."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from inference_econ._types import Array
from inference_econ.extras.servers import coverage, fit, joined
from inference_econ.extras.servers.fit import by_chance, error_quantiles, no_narrower, own_share, stretch
from inference_econ.inputs import LEVELS, ErrorSpread, likely_ends
from tests.reading import present

NORMAL = tuple(0.1 * norm.ppf(LEVELS))


def _groups(chance: np.random.Generator, runs: int, rows: int, between: float, within: float) -> list[list[Array]]:
    return [[chance.normal(chance.normal(0.0, between), within, rows)] for _ in range(runs)]


def _width(quantiles: Sequence[float] | None) -> float:
    """Return the width of the 80% interval, in logarithms."""
    assert quantiles is not None
    low, high = likely_ends(quantiles)
    return high - low


def test_a_profile_without_a_base_by_hand() -> None:
    # Five runs of two rows: ten errors from -0.45 to 0.45 in steps of a tenth.
    groups = [[np.array([-0.45 + 0.2 * number, -0.35 + 0.2 * number])] for number in range(5)]
    quantiles = present(error_quantiles(groups))
    # numpy's 10% quantile lies 0.9 steps above the lowest. Student's 90% quantile with four degrees of freedom is
    # 1.5332, and the normal one 1.2816. One more group after five is another factor of the square root of 6/5.
    assert quantiles[LEVELS.index(0.1)] == pytest.approx(-0.36 * 1.5332 / 1.2816 * math.sqrt(1.2), abs=1e-4)
    assert quantiles[LEVELS.index(0.5)] == 0.0
    assert stretch(5) == pytest.approx(1.5332 / 1.2816 * math.sqrt(1.2), rel=1e-4)


def test_few_groups_lie_between_their_errors_and_those_of_the_base() -> None:
    # Two groups of distances 0.2 x 2.94, and a base of 0.1282 at 10% and 90%: the groups have a third of the weight in
    # logarithms.
    groups = [[np.array([-0.25, 0.25])], [np.array([-0.25, 0.25])]]
    assert own_share(2) == pytest.approx(1.0 / 3.0)
    quantiles = present(error_quantiles(groups, NORMAL))
    own = 0.25 * stretch(2)
    assert quantiles[LEVELS.index(0.9)] == pytest.approx(own ** (1.0 / 3.0) * 0.12816 ** (2.0 / 3.0), abs=1e-4)
    # A number of groups equal to the weight of the base has a share of one half.
    assert own_share(int(fit.BASE_GROUPS)) == 0.5
    assert own_share(60) > 0.9


def test_a_bias_of_few_groups_is_believed_in_part() -> None:
    # Four groups 0.3 above a base without a bias have the weight of the base.
    groups = [[np.array([0.2, 0.3, 0.4])] for _ in range(4)]
    quantiles = present(error_quantiles(groups, NORMAL))
    low, middle, high = (quantiles[LEVELS.index(level)] for level in (0.1, 0.5, 0.9))
    distance = math.sqrt(0.1 * stretch(4) * 0.12816)
    assert (low, middle, high) == pytest.approx((0.15 - distance, 0.15, 0.15 + distance), abs=1e-4)
    # Without a base all of it is.
    alone = error_quantiles(groups)
    assert alone is not None and alone[LEVELS.index(0.5)] == 0.3


def test_a_bias_of_one_group_may_be_its_own_or_that_of_all() -> None:
    # A fifth of it moves the middle, the rest widens the side that it is on: the prediction stays well inside.
    quantiles = present(error_quantiles([[np.array([0.4, 0.5, 0.6])]], NORMAL))
    low, middle, high = (quantiles[LEVELS.index(level)] for level in (0.1, 0.5, 0.9))
    distance = 0.08**0.2 * 0.12816**0.8
    assert (low, middle, high) == pytest.approx((0.1 - distance, 0.1, 0.5 + distance), abs=1e-4)
    assert low < 0.0


def test_where_nothing_was_left_out_the_interval_of_the_base_moves_to_the_median() -> None:
    assert no_narrower([], NORMAL) is None
    assert no_narrower([[np.array([0.29, 0.3, 0.31])]], NORMAL) == pytest.approx(
        [0.3 + value for value in NORMAL], abs=1e-4
    )
    # Errors larger than those of the base remain.
    wide = present(no_narrower([[np.array([-0.5, 0.0, 0.5])]], NORMAL))
    assert wide[LEVELS.index(0.9)] == pytest.approx(0.4)


def test_a_bias_moves_the_interval_which_reaches_the_prediction() -> None:
    spread = ErrorSpread(rows=9, quantiles=(0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6))
    assert spread.bias == 0.3
    assert likely_ends(spread.quantiles) == (0.0, 0.5)
    assert spread.width == pytest.approx(math.exp(0.5))


def test_few_groups_say_less_than_many() -> None:
    groups = [np.array([-0.2, 0.1]), np.array([-0.1, 0.2]), np.array([0.0, 0.1]), np.array([-0.1, 0.1])]
    alone = error_quantiles([groups])
    two, four = (error_quantiles([[run] for run in some]) for some in (groups[:2], groups))
    assert alone is not None and two is not None and four is not None
    assert two[5] > four[5] >= alone[5]
    assert list(four) == sorted(four)
    assert error_quantiles([]) is None
    assert math.isnan(coverage([[groups[0]]]))


def test_errors_beyond_all_measure_can_still_be_read() -> None:
    quantiles = present(error_quantiles([[np.full(9, 14.0), np.full(9, -15.0), np.full(9, 0.1)]]))
    assert ErrorSpread(rows=27, quantiles=quantiles).quantiles == quantiles
    assert (min(quantiles), max(quantiles)) == (-10.0, 10.0)


@given(
    st.lists(
        st.lists(st.lists(st.floats(-5, 5), min_size=1, max_size=6), min_size=1, max_size=4), min_size=1, max_size=8
    ),
    st.none() | st.just(NORMAL),
)
def test_intervals_ascend_and_hold_predictions(groups: list[list[list[float]]], base: tuple[float, ...] | None) -> None:
    quantiles = present(error_quantiles(groups, base))
    low, high = likely_ends(ErrorSpread(rows=1, quantiles=quantiles).quantiles)
    assert low <= 0.0 <= high
    assert 0.0 <= (coverage(groups, base) if len(groups) > 1 else 0.0) <= 1.0


@given(st.integers(0, 1000), st.sampled_from([-3.0, 2.0, 6.0]), st.integers(1, 6))
def test_a_broken_run_moves_an_interval_by_its_rows_alone(seed: int, off: float, rows: int) -> None:
    """With six broken rows among a hundred others, the interval covers 85% of the others, for any error of the six."""
    groups = _groups(np.random.default_rng(seed), 10, 10, 0.1, 0.1)
    broken = [*groups, [np.full(rows, off)]]
    assert joined(fit.without_misfits(broken)).size == 100
    quantiles = present(error_quantiles(broken))
    others, reach = joined(groups), 0.4 * (100 + rows) / 100
    for level, side in ((0.1, 0.5 - reach), (0.9, 0.5 + reach)):
        middle, end = np.quantile(others, (0.5, side))
        assert quantiles[LEVELS.index(level)] == pytest.approx(middle + (end - middle) * stretch(10), abs=1e-4)


def test_misfits_that_are_many_are_held_by_none() -> None:
    # A fifth of the rows: the interval must cover all others to cover 80% of all.
    groups = _groups(np.random.default_rng(1), 8, 10, 0.1, 0.1)
    quantiles = present(error_quantiles([*groups, [np.full(20, 5.0)]]))
    low, high = likely_ends(quantiles)
    assert low <= joined(groups).min() and joined(groups).max() <= high < 5.0


def test_six_scattered_outliers_widen_an_interval_by_a_third_at_most() -> None:
    """Outliers inside otherwise normal runs count by their rank alone."""
    widths = []
    for seed in range(20):
        groups = _groups(np.random.default_rng(seed), 20, 5, 0.1, 0.1)
        spoilt = [[np.append(group[0], 5.0)] if number < 6 else group for number, group in enumerate(groups)]
        widths.append(_width(error_quantiles(spoilt)) / _width(error_quantiles(groups)))
    assert np.median(widths) < 1.2
    assert max(widths) < 1.35


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_intervals_hold_as_many_rows_of_a_new_group_as_they_say(level: float) -> None:
    # Groups of any size, each with an offset of the size of the scatter within groups.
    chance = np.random.default_rng(5)
    shares = []
    for _ in range(30):
        sizes = chance.integers(2, 40, 12)
        groups = [[chance.normal(chance.normal(0.0, 0.1), 0.1, size)] for size in sizes]
        shares.append(coverage(groups, level=level))
    assert np.mean(shares) == pytest.approx(level, abs=0.05)


@pytest.mark.parametrize("groups", [3, 6, 12])
def test_few_groups_with_a_base_of_their_kind_hold_what_they_say(groups: int) -> None:
    chance = np.random.default_rng(groups)
    base = tuple(math.hypot(0.1, 0.1) * norm.ppf(LEVELS))
    shares = []
    for _ in range(60):
        quantiles = present(error_quantiles(_groups(chance, groups, 10, 0.1, 0.1), base))
        low, high = likely_ends(quantiles)
        new = joined(_groups(chance, 50, 10, 0.1, 0.1))
        shares.append(np.mean((new >= low) & (new <= high)))
    assert np.mean(shares) == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize("sizes", [(1,) * 60, (5,) * 12, (2, 3, 30, 4, 9, 1, 7)])
def test_chance_leaves_nineteen_of_twenty_shares_of_rows_that_go_together(sizes: tuple[int, ...]) -> None:
    # The probability that a row of a run is covered is beta-distributed: mean 0.8, with the assumed correlation.
    chance = np.random.default_rng(3)
    weight = 1.0 / fit._ALIKE - 1.0
    held = [chance.binomial(size, chance.beta(0.8 * weight, 0.2 * weight, 4000)) for size in sizes]
    shares = np.sum(held, axis=0) / sum(sizes)
    low, high = by_chance(sizes)
    assert np.mean((shares >= low - 1e-9) & (shares <= high + 1e-9)) == pytest.approx(0.95, abs=0.025)


def test_a_single_row_may_be_held_or_not() -> None:
    assert by_chance([1]) == (0.0, 1.0)
