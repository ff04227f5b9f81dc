"""Percentiles and the promises that name them, as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.errors import InputError, SpecError
from inference_econ.inputs import Settings, percentiles


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
    with pytest.raises(
        SpecError, match="ttft: a frontier has no queue, so that only means can be promised on it, got 'p95:500 ms'"
    ):
        Settings.build({"ttft": "p95:500 ms"}, origin="here")
    with pytest.raises(SpecError, match=r"percentile: got 'p100'; allowed: mean, and p1 to p99.9"):
        Settings.build({"tpot": "p100:30 ms"}, origin="here")
