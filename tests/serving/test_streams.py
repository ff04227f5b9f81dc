"""Percentiles of request streams compared with the same streams simulated one by one, over part of the benchmark's
grid.
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.streams import BEGIN, DOCUMENT, END, SERVERS, SPREADS, Case, compared, length, service_of, table
from inference_econ.inputs import Length
from inference_econ.serving import loaded
from inference_econ.serving.lengths import levels, quantiles
from tests.offered import service_of as offered

MODELS = {server[0]: server for server in SERVERS}


def _case(model: str, lengths: list[int] | tuple[int, int], spread: str, filled: float, *, waits: bool = False) -> Case:
    service = service_of(*MODELS[model], [length(mean, spread) for mean in lengths], waits=waits)
    return compared(service, spread, filled, waits=waits)


@pytest.mark.rows
def test_what_is_proven_is_what_requests_see(
    model: str, lengths: list[int], spread: str, filled: float, waits: bool
) -> None:
    case = _case(model, lengths, spread, filled, waits=waits)
    assert case.proven
    assert case.worst < 0.15
    # With short prompts, percentiles of the TTFT are multiples of steps.
    assert case.close["tpot"] and case.close["e2e"]


@pytest.mark.parametrize("spread", ["lognormal 0.8", "lognormal 1.2"])
def test_what_is_not_proven_is_near(spread: str) -> None:
    """The errors are small enough to rank deployments."""
    case = _case("llama_3_8b", (2000, 500), spread, 0.4)
    assert not case.proven
    assert case.worst < 0.3


def test_the_document_has_the_table_of_the_benchmark() -> None:
    _, _, rest = Path(DOCUMENT).read_text().partition(BEGIN)
    written = rest.partition(END)[0].strip().splitlines()
    errors, close = {"ttft": [0.0]}, dict.fromkeys(("ttft", "tpot", "e2e"), True)
    ours = list(table([Case(waits, spread, 0.1, True, errors, close) for waits in (False, True) for spread in SPREADS]))
    assert [line.split("|")[1] for line in written] == [line.split("|")[1] for line in ours]


# Lengths


@pytest.mark.parametrize("text", ["300", "uniform:200:400", "lognormal:300:0.5", "100@0.75,900@0.25"])
def test_equally_likely_lengths_have_the_mean_and_variation(text: str) -> None:
    length = Length.parse(text)
    drawn = quantiles(length, levels(20_000))
    assert (np.diff(drawn) >= 0.0).all()
    assert drawn.mean() == pytest.approx(length.mean, rel=1e-3)
    assert drawn.var() / length.mean**2 == pytest.approx(length.scv, rel=0.01, abs=1e-6)


@settings(max_examples=10, deadline=None)
@given(st.floats(0.02, 0.98), st.sampled_from(("1000", "12000")), st.sampled_from(("p90", "p99")))
def test_more_spread_of_prompts_is_never_a_shorter_tail(filled: float, mean: str, percentile: str) -> None:
    services = [offered(isl=text) for text in (mean, f"lognormal:{mean}:0.4", f"lognormal:{mean}:0.8")]
    rate = filled * min(one.most_requests_per_second for one in services)
    times = [loaded(one, rate).ttft_seconds[percentile] for one in services]
    # Percentiles come from some thousand requests.
    assert all(less <= 1.02 * more for less, more in itertools.pairwise(times))


@pytest.mark.parametrize("waits", [False, True])
def test_alone_a_percentile_is_that_of_the_prompt(waits: bool) -> None:
    """On an idle server, the latency is the time to process a prompt of that percentile, and its output."""
    changes = ("serving.prefill_chunk=0",) if waits else ()
    one = offered(isl="lognormal:4000:0.8", osl="lognormal:200:0.5", changes=changes)
    load = loaded(one, 1e-6)
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        tokens = float(quantiles(one.requests.isl, np.array([share]))[0])
        assert load.ttft_seconds[name] == pytest.approx(float(one.reading(tokens).seconds[0]), rel=0.03)
    each = float(one.states.tpot_seconds[0])
    assert load.tpot_seconds["p99"] == pytest.approx(each, rel=1e-6)
    mean = load.ttft_seconds["mean"] + one.requests.decode_steps * each
    assert load.e2e_seconds["mean"] == pytest.approx(mean, rel=0.01)


def test_request_latency_is_that_of_all_tokens() -> None:
    one = offered(isl="2000", osl="500")
    load = loaded(one, 0.5 * one.most_requests_per_second)
    for name in ("mean", "p50", "p90", "p99"):
        assert load.e2e_seconds_per_output_token[name] == pytest.approx(load.e2e_seconds[name] / 500)
        assert math.log(load.e2e_seconds[name] / (500 * load.tpot_seconds[name])) == pytest.approx(0.0, abs=0.1)
