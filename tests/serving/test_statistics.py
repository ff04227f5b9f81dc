"""Mean and percentiles of arbitrary times."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.serving import loaded
from inference_econ.serving.statistics import STATISTICS, Statistics, listed, of_constant, of_mixture, of_sample
from tests.offered import service_of

shares = st.decimals(1, 99, places=1).map(float)
seconds = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=50).map(np.array)


@given(seconds, shares)
def test_of_a_sample_every_percentile_is_that_of_numpy(times: np.ndarray, share: float) -> None:
    assert of_sample(times)[f"p{share:g}"] == pytest.approx(float(np.percentile(times, share)))
    assert of_sample(times)["mean"] == pytest.approx(float(times.mean()))


@given(seconds, shares, shares)
def test_percentiles_ascend(times: np.ndarray, one: float, other: float) -> None:
    low, high = sorted((one, other))
    for known in (of_sample(times), of_mixture(times, np.ones_like(times))):
        assert known[f"p{low:g}"] <= known[f"p{high:g}"]


def test_of_a_mixture_by_hand() -> None:
    """Half of the times are 10 s, three tenths 20 s, and the rest 30 s."""
    known = of_mixture(np.array([10.0, 20.0, 30.0]), np.array([5.0, 3.0, 2.0]))
    assert [known[name] for name in ("mean", "p1", "p50", "p75", "p80", "p95")] == [17.0, 10.0, 10.0, 20.0, 20.0, 30.0]


def test_those_that_are_reported_are_listed_and_others_can_be_had() -> None:
    known = of_sample(np.arange(101.0))
    assert dict(known) == {"mean": 50.0, "p50": 50.0, "p90": 90.0, "p99": 99.0}
    assert list(known) == list(STATISTICS)
    assert list(listed(known, "p95", "p90", "p25")) == ["mean", "p25", "p50", "p90", "p95", "p99"]
    assert "p95" in known
    assert "p100" not in known
    with pytest.raises(KeyError, match="pfoo"):
        known["pfoo"]
    assert pickle.loads(pickle.dumps(known)) == known


def test_of_times_without_end_and_of_none() -> None:
    assert set(of_sample(np.array([1.0, math.inf])).values()) == {math.inf}
    assert math.isnan(of_sample(np.array([]))["p95"])
    assert of_constant(2.0)["p7"] == 2.0
    assert repr(of_constant(2.0)) == "Statistics(mean=2.0)"


def test_a_loaded_service_knows_every_percentile_of_what_its_requests_see() -> None:
    load = loaded(service_of(), 20.0)
    for times in (load.ttft_seconds, load.tpot_seconds, load.e2e_seconds):
        assert isinstance(times, Statistics)
        seen = [times[name] for name in ("p1", "p10", "p50", "p75", "p90", "p95", "p99", "p99.9")]
        assert seen == sorted(seen)
        assert seen[0] < times["mean"] < seen[-1]
