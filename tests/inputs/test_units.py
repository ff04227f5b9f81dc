"""Quantities as users write them in YAML files and on the command line: one base unit per kind, and SLOs."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.errors import InputError, SpecError, UnitError
from inference_econ.inputs import Settings, parse_quantity
from inference_econ.inputs.units import EXAMPLES, looks_like_quantity
from inference_econ.inputs.workload import percentiles


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


# Percentiles and SLOs that name them.


@given(st.decimals(1, 99, places=1))
def test_every_percentile_has_one_name_and_its_share(number: object) -> None:
    name = percentiles.percentile(f" P{number} ")
    assert percentiles.percentile(name) == name
    assert percentiles.share(name) == pytest.approx(float(f"{number}") / 100.0)


@pytest.mark.parametrize(
    "text", ["p0", "p0.99", "p99.91", "p100", "pfoo", "p", "95", "median", "p-5", "p1e1", "pnan", ""]
)
def test_what_is_no_percentile_is_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        percentiles.percentile(text)
    assert str(caught.value) == f"percentile: got {text!r}; allowed: mean, and p1 to p99.9, for example p95"


@pytest.mark.rows
def test_a_promise_is_taken_apart(text: str, promise: list[str | None]) -> None:
    assert percentiles.promise(text) == tuple(promise)


@pytest.mark.rows
def test_promises_that_say_too_little_or_too_much(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        percentiles.promise(text)
    assert message in str(caught.value)


def test_files_promise_means_and_may_say_so() -> None:
    said = Settings.build({"ttft": "mean:500 ms", "tpot": "30 ms", "e2e": 9}, origin="here")
    assert (said.ttft, said.tpot, said.e2e) == (0.5, 0.03, 9.0)
    with pytest.raises(SpecError, match="ttft: a frontier has no queues, so SLOs apply to means, got 'p95:500 ms'"):
        Settings.build({"ttft": "p95:500 ms"}, origin="here")
    with pytest.raises(SpecError, match=r"percentile: got 'p100'; allowed: mean, and p1 to p99.9"):
        Settings.build({"tpot": "p100:30 ms"}, origin="here")
