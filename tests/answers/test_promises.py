"""SLOs, each with its own percentile."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_econ.answers.deployments.recommend import recommend
from inference_econ.answers.slo import Targets, chances, check_mean, promised_rates
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.report.headings import promises_label
from inference_econ.serving import loaded
from tests.offered import offer_of, service_of

MIXED = Targets(0.3, 0.03, e2e_seconds=9.0, percentile="p90", ttft_percentile="p95", tpot_percentile="mean")
names = st.sampled_from(("mean", "p5", "p50", "p75", "p90", "p95", "p99.9"))


def test_each_promise_is_held_against_its_own_percentile() -> None:
    load = loaded(service_of(), 25.0)
    ttft, tpot = load.ttft_seconds["p95"], load.tpot_seconds["mean"]
    assert (MIXED.statistic("ttft", load), MIXED.statistic("tpot", load)) == (ttft, tpot)
    assert MIXED.statistic("e2e", load) == load.e2e_seconds["p90"]

    def broken(ttft_limit: float, tpot_limit: float) -> str | None:
        return Targets(ttft_limit, tpot_limit, ttft_percentile="p95", tpot_percentile="mean").first_violated(load)

    assert broken(1.001 * ttft, 1.001 * tpot) is None
    assert broken(0.999 * ttft, 1.001 * tpot) == "ttft"
    assert broken(1.001 * ttft, 0.999 * tpot) == "tpot"
    # The 99th percentile of either would break both.
    assert Targets(1.001 * ttft, 1.001 * tpot, "p99").first_violated(load) == "ttft"


def test_one_percentile_for_all_is_a_shorthand() -> None:
    short = Targets(0.3, 0.03, "P95")
    long = Targets(0.3, 0.03, ttft_percentile="p95", tpot_percentile="p95.0")
    assert (short.percentile, short.common, long.common) == ("p95", "p95", "p95")
    assert short.text == long.text == "TTFT 300 ms, TPOT 30 ms (p95)"
    assert promises_label(short) == promises_label(long) == "p95 TTFT <= 300 ms, TPOT <= 30 ms"
    assert (MIXED.common, Targets().common, Targets(percentile="mean").common) == (None, "p90", "mean")


def test_promises_of_several_percentiles_are_named_with_them() -> None:
    assert MIXED.text == "p95 TTFT 300 ms, mean TPOT 30 ms, p90 E2E 9000 ms"
    assert promises_label(MIXED) == "p95 TTFT <= 300 ms, mean TPOT <= 30 ms, p90 E2E <= 9000 ms"
    sure = Targets(0.3, 0.03, ttft_percentile="p95", confidence=0.8)
    assert sure.text == "p95 TTFT 300 ms, p90 TPOT 30 ms (with 80 %)"
    assert Targets(0.3, confidence=0.8).text == "TTFT 300 ms (p90, with 80 %)"
    record = MIXED.record()
    assert [record[f"{name}_percentile"] for name in ("ttft", "tpot", "e2e")] == ["p95", "mean", "p90"]


def test_probabilities_are_those_of_what_is_promised() -> None:
    service = service_of(preset="profiles/hopper")
    load = loaded(service, 20.0)
    slack = 1.05
    tight = Targets(slack * load.ttft_seconds["p95"], slack * load.tpot_seconds["mean"], ttft_percentile="p95",
                    tpot_percentile="mean")  # fmt: skip
    other = Targets(slack * load.ttft_seconds["p50"], slack * load.tpot_seconds["p99"], ttft_percentile="p50",
                    tpot_percentile="p99")  # fmt: skip
    assert chances(service, load, tight)[:2] == pytest.approx(chances(service, load, other)[:2])


@settings(max_examples=12, deadline=None)
@given(names, names, st.floats(1.05, 3.0), st.floats(1.05, 3.0))
def test_what_is_recommended_keeps_each_promise(ttft: str, tpot: str, wait: float, slower: float) -> None:
    layouts = offer_of(most=2)
    idle = loaded(layouts.service(0), 1e-3)
    targets = Targets(
        wait * idle.ttft_seconds[ttft], slower * idle.tpot_seconds[tpot], ttft_percentile=ttft, tpot_percentile=tpot
    )
    try:
        best = recommend([layouts], 20.0, targets, most=1, play=False)[0]
    except NothingFitsError:
        return
    assert best.load.ttft_seconds[ttft] <= targets.ttft_seconds
    assert best.load.tpot_seconds[tpot] <= targets.tpot_seconds
    assert best.service.requests == layouts.requests


@settings(max_examples=12, deadline=None)
@given(names, names, st.floats(1.0, 4.0))
def test_the_rate_of_two_promises_is_the_less_of_both(ttft: str, tpot: str, factor: float) -> None:
    layouts = offer_of(most=2)
    idle = loaded(layouts.service(0), 1e-3)
    wait, slow = factor * idle.ttft_seconds["mean"], factor * idle.tpot_seconds["mean"]
    both = Targets(wait, slow, ttft_percentile=ttft, tpot_percentile=tpot)
    each = Targets(wait, math.inf, ttft), Targets(math.inf, slow, tpot)
    first, second = (promised_rates(layouts, targets) for targets in each)
    assert promised_rates(layouts, both).tolist() == pytest.approx(
        [min(pair) for pair in zip(first, second, strict=True)]
    )


def test_frontiers_promise_means() -> None:
    means = Targets(0.3, 0.03, ttft_percentile="mean", tpot_percentile="mean")
    assert check_mean(means) is means
    message = r"a frontier has no queues, so SLOs apply to means \(got p95\); write mean:TIME"
    with pytest.raises(InputError, match=message):
        check_mean(Targets(0.3, 0.03, "mean", ttft_percentile="p95"))
