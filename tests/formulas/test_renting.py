"""The number of rented accelerators for a fleet, against every way to pack it."""

from __future__ import annotations

from functools import cache
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.formulas.renting import rented, rented_in_bulk, rented_together

#: Machines of H100, of MI300X, of a tray of GB200, of TPU v5e, and fictitious sizes.
MACHINES = ([1, 2, 4, 8], [1, 8], [4], [1, 4, 8], [5, 20], [3, 9, 18])


def cheapest(instances: int, size: int, machines: list[int]) -> float:
    """Return the cheapest of all ways to place instances, one machine after the other."""
    if size > machines[-1]:
        return instances * ceil(size / machines[-1]) * machines[-1]

    @cache
    def least(left: int) -> float:
        if left <= 0:
            return 0.0
        return min(machine + least(left - machine // size) for machine in machines if machine >= size)

    return least(instances)


@pytest.mark.parametrize("machines", MACHINES)
def test_no_other_machines_hold_a_fleet_for_less(machines: list[int]) -> None:
    for size in range(1, 25):
        counts = np.arange(0, 40)
        wanted = [cheapest(count, size, machines) for count in counts.tolist()]
        np.testing.assert_array_equal(rented(counts, size, machines), wanted)


@pytest.mark.parametrize("machines", [*MACHINES, []])
def test_a_large_fleet_pays_what_each_instance_takes_of_full_machines(machines: list[int]) -> None:
    sizes = np.arange(1, 25)
    each = rented_in_bulk(sizes, machines)
    assert (each[:, None] * np.arange(1, 200) <= rented(np.arange(1, 200), sizes[:, None], machines) + 1e-9).all()
    np.testing.assert_allclose(rented(5040, sizes, machines) / 5040, each, rtol=0.01)


def test_without_machines_chips_are_rented_one_by_one() -> None:
    assert rented(7, 3, []) == 21
    assert rented_together((7, 3), (2, 5), []) == 31


@given(
    st.tuples(st.integers(1, 20), st.integers(1, 20)),
    st.tuples(st.integers(1, 20), st.integers(1, 20)),
    st.sampled_from(MACHINES),
)
def test_two_kinds_share_machines_when_they_fit(
    first: tuple[int, int], second: tuple[int, int], machines: list[int]
) -> None:
    chips = rented_together(first, second, machines)
    assert chips == rented_together(second, first, machines)
    assert first[0] * first[1] + second[0] * second[1] <= chips
    assert chips <= rented(*first, machines) + rented(*second, machines)


def test_four_of_two_fill_what_a_pool_of_fours_leaves() -> None:
    # Three instances of 4 on two nodes of 8, with room for two of 2.
    assert rented_together((3, 4), (2, 2), [8]) == 16
    assert rented_together((3, 4), (3, 2), [8]) == 24
    # Instances larger than a node have separate nodes without spare room.
    assert rented_together((1, 12), (1, 4), [8]) == 24
