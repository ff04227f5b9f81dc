"""A server as a queue: limits with textbook formulas (Erlang, Pollaczek-Khinchine), identities, and bad input."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.errors import InputError
from inference_econ.formulas.queueing import load, mixture_quantiles, reached, split_scv, wait_quantiles


def erlang_c(servers: int, offered: Fraction) -> Fraction:
    """Return the probability of waiting in M/M/c, in exact arithmetic."""
    term, total = Fraction(1), Fraction(0)
    for busy in range(servers):
        total += term
        term = term * offered / (busy + 1)
    full = term / (1 - offered / servers)
    return full / (total + full)


@given(use=st.floats(0.001, 0.999), slots=st.integers(1, 40))
def test_one_server_of_constant_rate_is_m_m_1(use: float, slots: int) -> None:
    found = load(use, np.ones(slots))
    assert found.busy == pytest.approx(use, rel=1e-9)
    in_system = found.in_flight + use * found.wait_seconds
    assert in_system == pytest.approx(use / (1 - use), rel=1e-9)
    # Geometric: all slots are used with probability use^slots.
    assert found.waiting == pytest.approx(use**slots, rel=1e-9)
    assert found.wait_scale == pytest.approx(1 / (1 - use), rel=1e-9)


@pytest.mark.parametrize("servers", [1, 2, 5, 30, 200])
@pytest.mark.parametrize("use", [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10), Fraction(99, 100)])
def test_slots_of_their_own_speed_are_m_m_c(servers: int, use: Fraction) -> None:
    offered = use * servers
    found = load(float(offered), np.arange(1.0, servers + 1.0))
    assert found.waiting == pytest.approx(float(erlang_c(servers, offered)), rel=1e-10)
    assert found.wait_seconds == pytest.approx(float(erlang_c(servers, offered) / (servers - offered)), rel=1e-10)
    assert found.in_flight == pytest.approx(float(offered), rel=1e-12)
    assert found.service_seconds == pytest.approx(1.0, rel=1e-12)


def test_many_slots_of_their_own_speed_are_m_m_infinity() -> None:
    found = load(20.0, np.arange(1.0, 4097.0) * 2.0)
    poisson = [math.exp(n * math.log(10.0) - 10.0 - math.lgamma(n + 1)) for n in range(60)]
    np.testing.assert_allclose(found.probabilities[:60], poisson, rtol=1e-11)
    assert found.in_flight == pytest.approx(10.0, rel=1e-12)
    assert found.waiting == 0.0
    assert found.wait_seconds == 0.0


def test_thousands_of_slots_neither_over_nor_underflow() -> None:
    slots = np.arange(1.0, 4097.0)
    for rates in (slots, slots * 1e-200, slots * 1e200, np.sqrt(slots), 1.0 - np.exp(-slots / 100.0)):
        arrivals = rates[-1] * np.array([1e-9, 0.01, 0.5, 0.99, 1.0 - 1e-9])
        found = load(arrivals, rates)
        np.testing.assert_allclose(found.probabilities.sum(axis=-1), 1.0, rtol=1e-12)
        assert np.isfinite(found.in_flight).all()
        assert np.isfinite(found.wait_seconds).all()
        assert not found.saturated.any()
        assert (np.diff(found.in_flight) > 0.0).all()


@given(rates=st.lists(st.floats(0.1, 10.0), min_size=1, max_size=20), use=st.floats(0.01, 0.99))
def test_work_is_done_as_fast_as_it_arrives(rates: list[float], use: float) -> None:
    found = load(use * rates[-1], rates)
    completed = float(found.probabilities[1:] @ np.array(rates))
    assert completed == pytest.approx(use * rates[-1], rel=1e-9)
    # Detailed balance: a token finds the batch that an arriving request finds, itself added.
    seen = found.probabilities[:-1].copy()
    seen[-1] += found.probabilities[-1]
    np.testing.assert_allclose(found.work, seen, rtol=1e-9, atol=1e-12)


def test_kingman_and_allen_cunneen() -> None:
    poisson = load(0.9, [1.0])
    for arrival, service in ((1.0, 0.0), (4.0, 1.0), (0.5, 0.0), (2.5, 3.5)):
        found = load(0.9, [1.0], arrival_scv=arrival, service_scv=service)
        assert found.wait_scale == pytest.approx((arrival + service) / 2 * float(poisson.wait_scale), rel=1e-12)
        assert found.waiting == pytest.approx(0.9 ** ((1 + service) / (arrival + service)), rel=1e-12)
        # Whatever arrives must be worked off.
        assert found.busy == pytest.approx(0.9, rel=1e-12)
    # One slot with Poisson arrivals: Pollaczek and Khinchine, exact; fixed lengths wait half as long (M/D/1).
    assert load(0.9, [1.0], service_scv=0.0).wait_seconds == pytest.approx(0.9 / (2 * 0.1), rel=1e-12)


@pytest.mark.parametrize(("arrival", "service"), [(4.0, 1.0), (4.0, 0.0), (0.25, 1.0), (2.0, 4.0)])
def test_bursts_give_the_peakedness_of_many_slots(arrival: float, service: float) -> None:
    found = load(400.0, np.arange(1.0, 1001.0), arrival_scv=arrival, service_scv=service)
    number = np.arange(1001.0)
    variance = float(found.probabilities @ number**2 - found.in_flight**2)
    assert found.in_flight == pytest.approx(400.0, rel=1e-4)
    assert variance / 400.0 == pytest.approx((arrival + service) / (1.0 + service), rel=0.01)


@given(
    slots=st.integers(1, 40),
    growth=st.floats(0.0, 1.0),  # from one rate for all concurrencies to slots with separate speeds
    use=st.floats(0.01, 0.99),
    arrival=st.floats(1.0, 20.0),
    service=st.floats(0.0, 5.0),
)
def test_bursts_lengthen_waits(slots: int, growth: float, use: float, arrival: float, service: float) -> None:
    rates = np.arange(1.0, slots + 1.0) ** growth
    smooth = load(use * rates[-1], rates, service_scv=service)
    bursty = load(use * rates[-1], rates, arrival_scv=arrival, service_scv=service)
    assert bursty.wait_seconds >= float(smooth.wait_seconds) * (1 - 1e-9)
    assert bursty.waiting >= float(smooth.waiting) * (1 - 1e-9)
    assert bursty.probabilities.sum() == pytest.approx(1.0, rel=1e-12)
    assert bursty.work.sum() == pytest.approx(1.0, rel=1e-12)


@given(
    slots=st.integers(2, 40), growth=st.floats(0.1, 1.0), use=st.floats(0.1, 0.95), arrival=st.floats(0.0, 4.0),
    bunching=st.floats(0.0, 5.0),
)  # fmt: skip
def test_bunches_crowd_the_slots_but_not_the_wait(
    slots: int, growth: float, use: float, arrival: float, bunching: float
) -> None:
    rates = np.arange(1.0, slots + 1.0) ** growth
    plain, bunched, bursty = (
        load(use * rates[-1], rates, arrival_scv=ca2, service_scv=0.5, bunching=more)
        for ca2, more in ((arrival, 0.0), (arrival, bunching), (arrival + bunching, 0.0))
    )
    assert bunched.wait_scale == pytest.approx(plain.wait_scale, rel=1e-12)
    np.testing.assert_allclose(bunched.probabilities, bursty.probabilities, rtol=1e-9, atol=1e-12)
    assert bunched.in_flight == pytest.approx(bursty.in_flight, rel=1e-9)
    assert bunched.waiting >= plain.waiting * (1.0 - 1e-9)


def test_a_clock_never_waits() -> None:
    found = load(0.5, [1.0, 1.0], arrival_scv=0.0, service_scv=0.0)
    assert (float(found.busy), float(found.in_flight), float(found.waiting)) == (0.5, 0.5, 0.0)


@given(use=st.floats(0.05, 0.98), slots=st.integers(1, 10), share=st.floats(0.0, 0.999))
def test_quantiles_of_the_wait_invert_its_tail(use: float, slots: int, share: float) -> None:
    found = load(use, np.ones(slots))
    (wait,) = wait_quantiles(found, [share])
    tail = float(found.waiting) * math.exp(-wait / float(found.wait_scale))
    if wait > 0.0:
        assert tail == pytest.approx(1.0 - share, rel=1e-9)
    else:
        assert found.waiting <= (1.0 - share) * (1 + 1e-12)


def test_the_mean_wait_is_the_area_below_its_quantiles() -> None:
    found = load(0.9, np.arange(1.0, 5.0) / 4.0)
    shares = (np.arange(100_000) + 0.5) / 100_000
    assert wait_quantiles(found, shares).mean() == pytest.approx(float(found.wait_seconds), rel=1e-4)


def test_saturation_is_a_finding() -> None:
    found = load([0.0, 1.9, 2.0, 5.0], [1.0, 2.0])
    assert found.saturated.tolist() == [False, False, True, True]
    assert found.offered.tolist() == [0.0, 0.95, 1.0, 2.5]
    np.testing.assert_array_equal(found.probabilities[2:], [[0.0, 0.0, 1.0]] * 2)
    assert found.busy[2:].tolist() == [1.0, 1.0]
    assert found.in_flight[2:].tolist() == [2.0, 2.0]
    assert found.service_seconds[2:].tolist() == [1.0, 1.0]
    assert found.wait_seconds[2:].tolist() == [np.inf, np.inf]
    assert wait_quantiles(found)[2:].tolist() == [[np.inf] * 3] * 2
    assert wait_quantiles(found)[0].tolist() == [0.0, 0.0, 0.0]
    assert found.work[0].tolist() == pytest.approx([1.0, 0.0], abs=1e-300)
    # Without arrivals there is no wait, and a request would have the server alone.
    assert (found.busy[0], found.in_flight[0], found.wait_seconds[0], found.service_seconds[0]) == (0.0, 0.0, 0.0, 1.0)


def test_vectors_broadcast() -> None:
    rates = np.stack([np.ones(3), np.arange(1.0, 4.0)])
    found = load(np.array([[0.2], [0.5], [0.8]]), rates, arrival_scv=[1.0, 2.0])
    assert found.probabilities.shape == (3, 2, 4)
    assert found.work.shape == (3, 2, 3)
    assert all(field.shape == (3, 2) for field in found[2:])
    assert wait_quantiles(found).shape == (3, 2, 3)
    assert mixture_quantiles([1.0, 2.0, 3.0], found.work, [0.5, 0.9]).shape == (3, 2, 2)
    assert mixture_quantiles([1.0, 2.0, 3.0], found.work[1, 1], 0.5).shape == ()


@given(values=st.lists(st.floats(-5.0, 5.0), min_size=1, max_size=15), share=st.floats(0.01, 1.0), data=st.data())
def test_mixture_quantiles_are_those_of_repeated_values(values: list[float], share: float, data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(0, 9), min_size=len(values), max_size=len(values)).filter(any))
    repeated = np.repeat(values, counts)
    found = mixture_quantiles(values, np.array(counts, dtype=float), share)
    assert found == np.quantile(repeated, share, method="inverted_cdf")


@pytest.mark.rows
def test_impossible_rates(arguments: tuple[float, list[float]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(*arguments)


def test_impossible_variations_and_shares() -> None:
    with pytest.raises(InputError, match=r"the shares of quantiles must be from 0 to below 1, got 0\.5, 1"):
        wait_quantiles(load(1.0, [2.0]), [0.5, 1.0])


def test_loads_together_are_those_of_each_by_itself() -> None:
    rates = np.array([[1.0, 1.5, 1.75], [2.0, 3.0, 3.5]])
    # One is mostly idle, one is busy, one is saturated.
    for arrivals in ([0.01, 3.2], [1.2, 0.5], [9.0, 0.001]):
        every = load(np.array(arrivals), rates)
        for place, arriving in enumerate(arrivals):
            alone = load(arriving, rates[place])
            for together, single in zip(every, alone, strict=True):
                np.testing.assert_allclose(
                    np.asarray(together[place], dtype=float), np.asarray(single, dtype=float), rtol=1e-14
                )


@pytest.mark.parametrize(("scv", "instances"), [(10.0, 4), (10.0, 35), (0.0, 3)])
def test_a_stream_that_is_dealt_at_random_is_less_bursty_at_each_instance(scv: float, instances: int) -> None:
    """Draw gamma-distributed gaps, assign arrivals at random, and count the arrivals at the first instance."""
    random, count = np.random.default_rng(5), 4_000_000
    gaps = random.gamma(1.0 / scv, scv, count) if scv else np.ones(count)
    part = np.diff(np.cumsum(gaps)[random.integers(instances, size=count) == 0])
    assert split_scv(scv, instances) == pytest.approx(np.var(part) / np.mean(part) ** 2, rel=0.02)
    assert split_scv(split_scv(scv, instances), 1.0 / instances) == pytest.approx(scv)


@pytest.mark.parametrize("arrival_scv", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("rate", [0.1, 3.0, 60.0])
def test_states_that_are_never_reached_change_nothing(rate: float, arrival_scv: float) -> None:
    rates = np.minimum(np.arange(1.0, 20_001.0) ** 0.5, 100.0)
    count = reached(rate, rates, arrival_scv + 1.0)
    every, fewer = (load(rate, some, arrival_scv=arrival_scv, service_scv=1.0) for some in (rates, rates[:count]))
    assert count < rates.size or rate > 50.0
    np.testing.assert_allclose(fewer.probabilities, every.probabilities[: count + 1], atol=1e-13)
    assert every.probabilities[count + 1 :].sum() == 0.0
    assert fewer.in_flight == pytest.approx(float(every.in_flight), rel=1e-12)
