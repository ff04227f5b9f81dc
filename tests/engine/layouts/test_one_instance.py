"""Degrees as users type them."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from inference_econ.engine import Pins, instance_pins
from tests.asking import pinned


@pytest.mark.parametrize(
    ("degrees", "size", "pins"),
    [
        ({}, None, Pins()),
        ({"tp": 2}, None, Pins(tp=2, pp=1, dp=1)),
        ({"dp": 4, "ep": 4}, None, Pins(tp=1, pp=1, dp=4, ep=4)),
        ({"tp": 8, "dp": "any"}, None, pinned(tp=8, pp=1)),
        ({"tp": "any"}, 4, pinned(pp=1, dp=1, accelerators=4)),
        ({"tp": 8, "dp": None, "ep": "any"}, 8, Pins(tp=8, pp=1, dp=1, accelerators=8)),
        ({"ep": 8}, None, Pins(ep=8)),
        ({}, 8, Pins(accelerators=8)),
    ],
)
def test_degrees_that_are_not_given_are_one_beside_others(
    degrees: dict[str, int | str | None], size: float | None, pins: Pins
) -> None:
    assert instance_pins(degrees, size) == pins


def test_in_python_degrees_mean_what_they_mean_on_the_command_line() -> None:
    """Try all combinations of open, 1 and 4: if one degree is given, the others are 1."""
    for tp, dp, pp in itertools.product((None, "any", 1, 4), repeat=3):
        degrees = {"tp": tp, "dp": dp, "pp": pp}
        some = any(value is not None for value in degrees.values())
        expected = {
            name: 1 if value is None and some else None if value == "any" else value for name, value in degrees.items()
        }
        pins = Pins(tp=tp, dp=dp, pp=pp)  # type: ignore[arg-type]
        assert {name: getattr(pins, name) for name in degrees} == expected
        assert pins == instance_pins(degrees)
        # Unspecified degrees stay unspecified with other changes.
        changed = dataclasses.replace(pins, batch=8)
        assert {name: getattr(changed, name) for name in degrees} == expected
        assert changed.batch == 8
