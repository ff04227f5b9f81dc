"""Sizes of instances: powers of two inside a machine, and of machines."""

from __future__ import annotations

import numpy as np
import pytest

from inference_econ.engine.layouts import instances
from inference_econ.inputs import catalog

CHIP = catalog.hardware("h100_sxm")


@pytest.mark.parametrize("largest", [32.0, 32_776.0, 1e6, 1e9])
def test_every_doubling_of_machines_is_a_size(largest: float) -> None:
    sizes = instances.sizes(CHIP, largest)
    assert sizes[:4].tolist() == [1, 2, 4, 8]
    np.testing.assert_array_equal(sizes[1:] / sizes[:-1], 2.0)
    assert largest / 2.0 < sizes[-1] <= largest


@pytest.mark.parametrize("largest", [1.0, 3.0, 7.0])
def test_less_than_a_machine_is_a_part_of_it(largest: float) -> None:
    assert instances.sizes(CHIP, largest).tolist() == [size for size in (1.0, 2.0, 4.0) if size <= largest]
