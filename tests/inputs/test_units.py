"""Quantities as people write them in YAML files and on the command line, one base unit per kind."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.errors import UnitError
from inference_econ.inputs import parse_quantity
from inference_econ.inputs.units import EXAMPLES, looks_like_quantity


@pytest.mark.rows
def test_units(text: str, unit: str, value: float) -> None:
    assert parse_quantity(text, unit) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(("unit", "example"), EXAMPLES.items())
def test_the_examples_in_the_messages_are_right(unit: str, example: str) -> None:
    assert parse_quantity(example, unit) > 0
    assert looks_like_quantity(example)


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_bare_numbers_are_base_units(value: float) -> None:
    assert parse_quantity(value, "s") == value
    assert parse_quantity(repr(value), "s") == value


@given(value=st.floats(1e-6, 1e6), prefix=st.sampled_from(["", "k", "M", "G", "T", "P"]))
def test_prefixes_multiply(value: float, prefix: str) -> None:
    factor = 1000.0 ** ["", "k", "M", "G", "T", "P"].index(prefix)
    assert parse_quantity(f"{value!r} {prefix}FLOP/s", "FLOP/s") == pytest.approx(value * factor, rel=1e-14)


@pytest.mark.rows
def test_errors(value: object, unit: str, message: str) -> None:
    with pytest.raises(UnitError, match=re.escape(message)):
        parse_quantity(value, unit)


def test_a_whole_number_beyond_all_floats_is_not_finite() -> None:
    with pytest.raises(UnitError, match="is not finite"):
        parse_quantity(10**400, "B")


@pytest.mark.parametrize(
    ("text", "expected"), [("4 us", True), ("4", True), ("2d", False), ("h100", False), ("", False)]
)
def test_looks_like_quantity(text: str, expected: bool) -> None:
    assert looks_like_quantity(text) is expected
