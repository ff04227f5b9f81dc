"""Analytical load model of one instance: utilization, latency percentiles and SLO attainment."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np

from inference_econ._types import Array
from inference_econ.errors import InputError
from inference_econ.formulas import queueing, special
from inference_econ.inputs import Requests
from inference_econ.serving.lengths import levels, new_tokens, quantiles
from inference_econ.serving.services import Service
from inference_econ.serving.simulation.arrivals import POISSON, ArrivalProcess
from inference_econ.serving.statistics import of_sample
from inference_econ.serving.steady import Steady, several_fit

#: Number of earlier prompts whose lengths are sampled one by one; further prompts are approximated together [1].
_ONE_BY_ONE = 8
#: Largest utilization and smallest share in formulas, which prevent a division by zero [1].
_BUSIEST, _LEAST = 1.0 - 1e-9, 1e-9
#: Mean above which a normal distribution replaces a Poisson distribution [1].
_MANY = 40.0


@dataclass(frozen=True)
class LengthSample:
    """Sample of equally likely requests that represents a workload.

    Attributes
    ----------
    requests : Requests
        Length distributions.
    count : int
        Sample size [1].
    """

    requests: Requests
    count: int

    def shares(self, respect: str, place: int = 0) -> Array:
        """Random number between 0 and 1 for each sampled request, shape (count,) [1].

        The numbers are midpoints of equal intervals in random order. Different values of ``respect`` or ``place`` give
        independent orders.
        """
        return _shuffled(self.count, respect, place)

    def prompts(self) -> Array:
        """Uncached prompt lengths, shape (count,) [tokens]."""
        return new_tokens(self.requests, self.shares("prompt"))

    def answers(self) -> Array:
        """Output lengths, shape (count,) [tokens]."""
        return quantiles(self.requests.osl, self.shares("answer"))

    def work(self, prompts: Array, respect: str) -> Array:
        """Random total length of ``prompts`` prompts, divided by the mean prompt length, shape (count,) [1]."""
        if self.requests.isl.scv == 0.0:
            return prompts
        usual = float(self.prompts().mean())
        total = self._sum(prompts, lambda place: new_tokens(self.requests, self.shares(respect, place)) / usual)
        # The total length of many prompts is nearly normally distributed.
        further = np.sqrt(np.maximum(prompts - _ONE_BY_ONE, 0.0) * self.requests.isl.scv)
        return np.asarray(np.maximum(total + further * _scores(self.count, respect, _ONE_BY_ONE), 0.0))

    def found(self, respect: str, place: int = 0) -> Array:
        """Random length of the prompt that a server processes at a random time, divided by the mean prompt length [1].

        Long prompts are more likely, because their prefill takes longer.
        """
        if self.requests.isl.scv == 0.0:
            return np.ones(self.count)
        tokens = np.sort(self.prompts())
        drawn = np.searchsorted(np.cumsum(tokens), self.shares(respect, place) * tokens.sum())
        return np.asarray(tokens[drawn] / tokens.mean())

    def left(self, prompts: Array) -> Array:
        """Random remaining prefill work of ``prompts`` prompts, each at a random point of its prefill [1].

        The work is in units of the mean prompt length, with shape (count,).
        """
        mean = (1.0 + self.requests.isl.scv) / 2.0
        return self._sum(prompts, lambda place: self.found("found", place) * self.shares("left", place), mean)

    def _sum(self, prompts: Array, share_at: Callable[[int], Array], mean: float = 1.0) -> Array:
        total = mean * np.maximum(prompts - _ONE_BY_ONE, 0.0)
        for place in range(min(_ONE_BY_ONE, int(prompts.max()))):
            total += np.where(prompts > place, share_at(place), 0.0)
        return np.asarray(total)

    def numbers(self, respect: str, mean: Array) -> Array:
        """Sample a Poisson-distributed number for each request, with the given means, shape (count,) [1]."""
        shares, few = self.shares(respect), mean <= _MANY
        count = np.zeros(shares.shape)
        if few.any():
            count[few] = _poisson(shares[few], mean[few])
        if few.all():
            return count
        many = np.rint(np.maximum(mean + np.sqrt(mean) * _scores(self.count, respect, 0), 0.0))
        return np.where(few, count, many)


def _poisson(shares: Array, mean: Array) -> Array:
    """Quantiles of Poisson distributions at probabilities ``shares``, for means up to :data:`_MANY`, shape (n,) [1]."""
    chance = np.exp(-mean)
    below, count = chance.copy(), np.zeros(shares.shape)
    for number in range(1, round(_MANY + 8.0 * math.sqrt(_MANY))):
        more = shares > below
        if not more.any():
            break
        count += more
        chance *= mean / number
        below += chance
    return count


@cache
def _scores(count: int, respect: str, place: int) -> Array:
    """Standard normal quantiles at the shuffled probabilities of :func:`_shuffled`, shape (count,) [1]."""
    return special.normal_quantiles(_shuffled(count, respect, place))


@cache
def _shuffled(count: int, respect: str, place: int) -> Array:
    return np.random.default_rng([count, place, *respect.encode()]).permutation(levels(count))


def shared_step_waits(states: Steady, drawn: LengthSample, bursts: float, steps_ahead: float) -> Array:
    """Queueing times of prompts that share steps with decoding and with other prompts, shape (count,) [s].

    Parameters
    ----------
    states : Steady
        Steady state of the instance that each request finds on arrival; arrays of shape (count,).
    drawn : LengthSample
        Sampled requests.
    bursts : float
        Factor on the queueing time under bursty arrivals [1].
    steps_ahead : float
        Steps that the engine has already scheduled when a request arrives [1].

    Returns
    -------
    ndarray
        Remaining time of the running step, plus the time of the other prompts in the request's own step. The mean waits
        equal the mean waits of the steady states. A request also waits for steps that were already scheduled; for these
        steps, the result includes only the deviation of their prompts from the mean.

    Notes
    -----
    A step takes D + k P, with the decode time D and the time P per prompt. The number k of prompts that arrived during
    the previous step is Poisson-distributed. A request is more likely to arrive during a long step. The step during
    which it arrives therefore has one additional prompt with probability k P / (D + k P).

    Requests that arrive during the same step are processed together in the next step. The number of these requests is
    also Poisson-distributed.
    """
    # If a request is alone on the instance, no other request decodes.
    decode, rate = states.decode_seconds * np.clip(states.batch - 1.0, 0.0, 1.0), states.requests_per_second
    following, share = states.follow_share / rate, np.minimum(states.follow_share, _BUSIEST)
    usual = rate * decode / (1.0 - share)
    more = usual * following / np.maximum(decode + usual * following, np.finfo(float).tiny)
    long, longer = (drawn.shares(which) < more for which in ("running is long", "one before is long"))
    before = drawn.work(drawn.numbers("before", usual), "before lengths")
    before = before + (long & longer) * drawn.found("before length")
    running = drawn.work(drawn.numbers("running", rate * (decode + following * before)), "running lengths")
    met = decode + following * (running + long * drawn.found("running length"))
    joining = drawn.work(drawn.numbers("joining", rate * met), "joining lengths")
    waits = drawn.shares("rest") * met + following * joining
    biased = more * (1.0 + drawn.requests.isl.scv)
    mean = (0.5 + share) * (decode + following * (usual + biased * (1.0 + more * share)))
    prepared = drawn.work(drawn.numbers("prepared", usual), "prepared lengths") - usual
    return (
        _with_mean(waits, mean, bursts * states.queue_seconds + states.running_seconds)
        + steps_ahead * following * prepared
    )


def in_turn(states: Steady, drawn: LengthSample, bursts: float) -> Array:
    """Queueing times of prompts if each step processes at most one prompt, shape (count,) [s].

    See :func:`shared_step_waits` for the parameters.

    Notes
    -----
    The number of earlier prompts has a geometric distribution. Each earlier prompt is at a random point of its prefill
    when the request arrives. The sum of their remaining times has the mean of the Pollaczek-Khinchine formula. The
    remaining time of the running step is uniformly distributed.
    """
    busy = np.clip(states.apart_share, _LEAST, _BUSIEST)
    ahead = np.floor(np.log1p(-drawn.shares("ahead")) / np.log(busy))
    mean = busy / (1.0 - busy) * (1.0 + drawn.requests.isl.scv) / 2.0
    waits = _with_mean(drawn.left(ahead), mean, bursts * states.queue_seconds)
    return np.asarray(waits + 2.0 * states.running_seconds * drawn.shares("rest"))


def per_token(states: Steady, drawn: LengthSample) -> Array:
    """Mean time per output token of each request, shape (count,) [s].

    See :func:`shared_step_waits` for the parameters.

    Notes
    -----
    Decode steps have the duration of the steady state that the request finds on arrival. The number of prompts that
    extend these steps is Poisson-distributed. During a short output, this number may be zero or several.
    """
    share, steps = np.minimum(states.prefill_share, _BUSIEST), np.maximum(drawn.answers() - 1.0, 1.0)
    expected = np.maximum(states.requests_per_second * steps * states.tpot_seconds, _LEAST)
    met = drawn.work(drawn.numbers("met", expected), "met lengths")
    # If a request is alone on the instance, no other prompts extend its steps.
    return np.asarray(
        states.tpot_seconds * (1.0 + share * np.clip(states.batch - 1.0, 0.0, 1.0) * (met / expected - 1.0))
    )


def _with_mean(times: Array, mean: Array, wanted: Array) -> Array:
    """Scale times from the mean ``mean`` to the mean ``wanted`` [s]; if ``mean`` is 0, all times become ``wanted``."""
    return np.where(mean > 0.0, times * (wanted / np.where(mean > 0.0, mean, 1.0)), wanted)


#: Requests in the sample that represents the workload [1].
_DRAWN = 4_000
#: Smallest wait for a slot, in units of the mean wait [1].
_SOONEST = 1e-12


@dataclass(frozen=True, slots=True)
class Loaded:
    """State of one instance under an offered load.

    Attributes
    ----------
    requests_per_second : float
        Offered request rate [1/s].
    saturated : bool
        True if requests arrive faster than the instance completes them. Queues and latencies are then unbounded.
    utilization : float
        Offered rate divided by the capacity at full concurrency [1]; above 1 if saturated.
    completed_per_second : float
        Rate of completed requests [1/s].
    in_flight : float
        Mean number of concurrent requests [1].
    waiting : float
        Probability that an arriving request must wait for a slot [1].
    ttft_seconds, tpot_seconds, e2e_seconds : dict of str to float
        TTFT, time per output token after the first (TPOT), and end-to-end latency [s]. Keys are ``mean``, ``p50`` and
        other percentiles. See :class:`inference_econ.serving.statistics.Statistics`.
    e2e_seconds_per_output_token : dict of str to float
        End-to-end latency divided by the number of output tokens [s]. InferenceX calls the inverse of this value "E2E
        normalized interactivity". For disaggregated deployments the percentiles are upper bounds.
    played : bool
        True if the latencies come from the simulator; False if they come from the analytical model.
    arrivals : ArrivalProcess
        Arrival process of the requests.
    """

    requests_per_second: float
    saturated: bool
    utilization: float
    completed_per_second: float
    in_flight: float
    waiting: float
    ttft_seconds: Mapping[str, float]
    tpot_seconds: Mapping[str, float]
    e2e_seconds: Mapping[str, float] = field(default_factory=dict)
    e2e_seconds_per_output_token: Mapping[str, float] = field(default_factory=dict)
    played: bool = False
    arrivals: ArrivalProcess = POISSON


def loaded(service: Service, requests_per_second: float, *, arrivals: ArrivalProcess = POISSON) -> Loaded:
    """Predict the latencies of one instance at a request rate with the analytical model.

    Parameters
    ----------
    service : Service
        Instance, with its layout and workload.
    requests_per_second : float
        Rate of arrivals at this replica [1/s].
    arrivals : ArrivalProcess
        Arrival process of the requests.

    Returns
    -------
    Loaded
        Utilization, concurrency and latencies.

    Raises
    ------
    InputError
        If the rate is not positive and finite.

    Notes
    -----
    For each request, the instance is assumed to stay in the steady state that the request finds on arrival; see
    :func:`occupancy`. The steady state gives the TPOT of the request, so its last token arrives (osl - 1) * TPOT after
    the first. The TTFT of a request depends on its own prompt length.

    Bursty arrivals multiply the number of earlier prompts by (ca2 + cs2) / (1 + cs2) (Allen and Cunneen, in Allen,
    1990). The symbols ca2 and cs2 are the squared coefficients of variation of interarrival times and of prompt
    lengths.
    """
    queue, state = occupancy(service, requests_per_second, arrivals)
    seen = _seen(service, queue, state, arrivals)
    return Loaded(
        requests_per_second,
        bool(queue.saturated),
        float(queue.offered),
        min(requests_per_second, service.most_requests_per_second),
        float(queue.in_flight),
        float(queue.waiting),
        of_sample(seen.ttft),
        of_sample(seen.tpot),
        of_sample(seen.e2e),
        of_sample(seen.e2e / seen.output_tokens),
        arrivals=arrivals,
    )


def slo_met_share(
    service: Service,
    requests_per_second: float,
    *,
    ttft_seconds: float = math.inf,
    tpot_seconds: float = math.inf,
    e2e_seconds: float = math.inf,
    arrivals: ArrivalProcess = POISSON,
) -> float:
    """Share of requests that meet all three SLOs, on TTFT, TPOT and end-to-end latency [1].

    Parameters
    ----------
    service : Service
        Instance, with its layout and workload.
    requests_per_second : float
        Rate of arrivals at this replica [1/s].
    ttft_seconds, tpot_seconds, e2e_seconds : float
        SLO on each latency [s]; ``inf`` without an SLO.
    arrivals : ArrivalProcess
        Arrival process of the requests.

    Returns
    -------
    float
        Share of completed requests that meet all SLOs. A saturated instance meets no TTFT or end-to-end SLO.

    Raises
    ------
    InputError
        If a rate or an SLO is not positive.

    Notes
    -----
    The TPOT of a request equals the TPOT of the steady state that the request finds on arrival. Long requests, and
    requests that arrive at high concurrency, therefore often miss several SLOs at once.
    """
    for name, value in (("ttft", ttft_seconds), ("tpot", tpot_seconds), ("e2e", e2e_seconds)):
        if not value > 0:
            raise InputError(f"the SLO of {name} must be positive, got {value:g} s")
    queue, state = occupancy(service, requests_per_second, arrivals)
    seen = _seen(service, queue, state, arrivals)
    kept = (seen.ttft <= ttft_seconds) & (seen.tpot <= tpot_seconds) & (seen.e2e <= e2e_seconds)
    return float(kept.mean())


def check_rate(requests_per_second: float) -> None:
    """Reject a request rate that is not positive and finite [1/s].

    Raises
    ------
    InputError
        If the rate is not positive and finite.
    """
    if not 0 < requests_per_second < math.inf:
        raise InputError(f"the request rate must be positive, got {requests_per_second:g}")


def occupancy(service: Service, requests_per_second: float, arrivals: ArrivalProcess) -> tuple[queueing.Load, Steady]:
    """Distribution of the number of concurrent requests, and steady states with 1, 2, ... concurrent requests.

    Notes
    -----
    With n concurrent requests, the instance completes mu(n) requests per second, as in a closed loop of n clients.
    :func:`inference_econ.formulas.queueing.load` describes the Markov chain and its validity.

    Prefill has priority over decode. If r prompts arrive during a prefill on average, 1 / (1 - r) prompts are processed
    one after the other and then start decoding as a group. Groups of m requests multiply the variability of starts of
    decoding by m. The factor m is validated against the simulator.
    """
    check_rate(requests_per_second)
    state, rates = service.in_flight, service.completions
    above = int(np.searchsorted(rates, requests_per_second, "right"))
    near = slice(max(above - 1, 0), above + 1)
    share = float(np.interp(requests_per_second, (0.0, *rates[near]), (0.0, *state.follow_share[near])))
    decoding = service.requests.decode_steps * float(state.tpot_seconds[0])
    bunching = share / max(1.0 - share, 1e-9) * decoding / (float(state.ttft_seconds[0]) + decoding)
    scv = service.requests.osl.scv
    # Most states are practically never reached; arrays without these states are much shorter.
    reached = queueing.reached(requests_per_second, rates, arrivals.scv + scv + bunching)
    queue = queueing.load(
        requests_per_second, rates[:reached], arrival_scv=arrivals.scv, service_scv=scv, bunching=bunching
    )
    return queue._replace(offered=np.asarray(requests_per_second / rates[-1])), state


class _Seen(NamedTuple):
    """Latencies of the sampled requests; every field has shape (n,)."""

    ttft: Array
    """Time to first token [s]."""
    tpot: Array
    """Time per output token after the first [s]."""
    e2e: Array
    """Time from arrival to the last token [s]."""
    output_tokens: Array
    """Output length [tokens]."""


def _seen(service: Service, queue: queueing.Load, state: Steady, arrivals: ArrivalProcess) -> _Seen:
    """Sample the latencies of requests, including waits for a free slot.

    Latencies are unbounded if the queue is saturated.
    """
    drawn = LengthSample(service.requests, _DRAWN)
    # A request that finds n other requests raises the concurrency to n + 1. If all slots are in use, the request queues
    # until a slot is free.
    free, chance = queue.probabilities[:-1], float(queue.waiting)
    below = np.cumsum(free) * ((1.0 - chance) / max(float(free.sum()), 1e-300))
    place = np.searchsorted(below, levels(_DRAWN))
    states = state.among(np.minimum(place, state.batch.size - 1))
    patience = np.where(place < below.size, 0.0, -np.log1p(-drawn.shares("patience")))
    # The request's own prompt, the earlier prompts and the rest of the running step are statistically independent.
    scv, setup = service.requests.isl.scv, service.setup
    bursts = (arrivals.scv + scv) / (1.0 + scv)
    if several_fit(setup, service.requests):
        waits = shared_step_waits(states, drawn, bursts, setup.assumptions.host.steps_ahead)
    else:
        waits = in_turn(states, drawn, bursts)
    ttft = states.fixed_seconds + states.prompts.beyond_mean(drawn.prompts(), states.beside_seconds) + waits
    ttft = ttft + np.where(patience > 0.0, float(queue.wait_scale) * np.maximum(patience, _SOONEST), 0.0)
    answers = drawn.answers()
    tpot = per_token(states, drawn)
    return _Seen(ttft, tpot, ttft + np.maximum(answers - 1.0, 0.0) * tpot, answers)
