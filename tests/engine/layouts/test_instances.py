"""Sizes of instances: every number of machines, and where there are thousands, some of them."""

from __future__ import annotations

import numpy as np
import pytest

from inference_econ.engine.layouts import instances
from inference_econ.inputs import catalog

CHIP = catalog.hardware("h100_sxm")


def test_every_number_of_machines_is_a_size() -> None:
    machines = instances.sizes(CHIP, 32_768.0)[3:] / 8.0
    assert machines.tolist() == list(range(1, 4097))


@pytest.mark.parametrize("largest", [32_776.0, 1e6, 1e9])
def test_of_thousands_of_machines_there_are_eight_sizes_in_a_doubling(largest: float) -> None:
    sizes = instances.sizes(CHIP, largest)
    assert sizes.size < 4300
    assert sizes[-1] == largest // 8 * 8
    ratios = sizes[1:] / sizes[:-1]
    assert np.all(ratios > 1.0)
    assert np.all(ratios[4100:] < 1.1)
