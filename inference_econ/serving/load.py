"""A service under a stream of requests: how full it is, what users wait, and how many see what was promised."""

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
from inference_econ.serving.prefill_interference import several_fit
from inference_econ.serving.services import Service
from inference_econ.serving.simulation.arrivals import POISSON, ArrivalProcess
from inference_econ.serving.statistics import of_sample
from inference_econ.serving.steady import Steady

#: Prompts ahead whose lengths are drawn one by one; further ones are as long as the mean [1].
_ONE_BY_ONE = 8
#: Share of the time beyond which a server is taken to be busy, and the least that counts [1].
_BUSIEST, _LEAST = 1.0 - 1e-9, 1e-9
#: Mean number from which chance is normally distributed [1].
_MANY = 40.0


@dataclass(frozen=True)
class LengthSample:
    """Some requests that stand for all, each as likely as the others.

    Attributes
    ----------
    requests : Requests
        Lengths.
    count : int
        How many [1].
    """

    requests: Requests
    count: int

    def shares(self, respect: str, place: int = 0) -> Array:
        """Where each request stands among all in one respect, shape (count,) [1].

        Middles of equal parts of all, in an order that has nothing to do with that of other respects.
        """
        return _shuffled(self.count, respect, place)

    def prompts(self) -> Array:
        """Own prompts, shape (count,) [tokens]."""
        return new_tokens(self.requests, self.shares("prompt"))

    def answers(self) -> Array:
        """Own answers, shape (count,) [tokens]."""
        return quantiles(self.requests.osl, self.shares("answer"))

    def work(self, prompts: Array, respect: str) -> Array:
        """All tokens of some numbers of other prompts over those of a mean one, shape (count,) [1]."""
        if self.requests.isl.scv == 0.0:
            return prompts
        usual = float(self.prompts().mean())
        total = self._sum(prompts, lambda place: new_tokens(self.requests, self.shares(respect, place)) / usual)
        # Of many, the sum is nearly normally distributed.
        further = np.sqrt(np.maximum(prompts - _ONE_BY_ONE, 0.0) * self.requests.isl.scv)
        return np.asarray(np.maximum(total + further * _scores(self.count, respect, _ONE_BY_ONE), 0.0))

    def found(self, respect: str, place: int = 0) -> Array:
        """Tokens of a prompt over those of a mean one that is found at a random time: of long ones more often [1]."""
        if self.requests.isl.scv == 0.0:
            return np.ones(self.count)
        tokens = np.sort(self.prompts())
        drawn = np.searchsorted(np.cumsum(tokens), self.shares(respect, place) * tokens.sum())
        return np.asarray(tokens[drawn] / tokens.mean())

    def left(self, prompts: Array) -> Array:
        """Return the rest of some prompts, each met at a random time, over a mean one, shape (count,) [1]."""
        mean = (1.0 + self.requests.isl.scv) / 2.0
        return self._sum(prompts, lambda place: self.found("found", place) * self.shares("left", place), mean)

    def _sum(self, prompts: Array, share_at: Callable[[int], Array], mean: float = 1.0) -> Array:
        total = mean * np.maximum(prompts - _ONE_BY_ONE, 0.0)
        for place in range(min(_ONE_BY_ONE, int(prompts.max()))):
            total += np.where(prompts > place, share_at(place), 0.0)
        return np.asarray(total)

    def numbers(self, respect: str, mean: Array) -> Array:
        """Numbers that are Poisson-distributed about means of shape (count,), one for each request [1]."""
        shares, few = self.shares(respect), mean <= _MANY
        count = np.zeros(shares.shape)
        if few.any():
            count[few] = _poisson(shares[few], mean[few])
        if few.all():
            return count
        many = np.rint(np.maximum(mean + np.sqrt(mean) * _scores(self.count, respect, 0), 0.0))
        return np.where(few, count, many)


def _poisson(shares: Array, mean: Array) -> Array:
    """Quantiles of Poisson distributions about means, none above :data:`_MANY`, shape (n,) [1]."""
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
    """Normally distributed numbers in the order of :func:`_shuffled`."""
    return special.normal_quantiles(_shuffled(count, respect, place))


@cache
def _shuffled(count: int, respect: str, place: int) -> Array:
    return np.random.default_rng([count, place, *respect.encode()]).permutation(levels(count))


def shared_step_waits(states: Steady, drawn: LengthSample, bursts: float, steps_ahead: float) -> Array:
    """Waits of prompts that share steps with decoding and with each other, shape (count,) [s].

    Parameters
    ----------
    found : Steady
        The state that each request finds; arrays of shape (count,).
    drawn : Drawn
        The requests.
    bursts : float
        How much longer prompts of bursts take than others [1].
    steps_ahead : float
        Steps that are prepared when a request comes [1].

    Returns
    -------
    ndarray
        The rest of the running step, and others in the own one: with the means of the states. What prompts of the steps
        that were prepared take is there less its mean, which the states have counted.

    Notes
    -----
    A step takes D + k P with the k prompts that came during the one before, Poisson-distributed about what comes in
    that time, and is met in proportion to its length: with a chance of k P / (D + k P) as one that has a prompt more.
    Whoever comes during it joins the same step; the others there are Poisson-distributed about what comes in its time.
    """
    # Nobody decodes where nobody else is in flight.
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
    """Waits of prompts that are read one after the other, shape (count,) [s]; see :func:`shared_step_waits`.

    Notes
    -----
    Prompts ahead take what is left of as many of them as a geometric distribution has, each found at a random time:
    Pollaczek and Khinchine's formula as a sum. The rest of the running step is anything from none to the whole.
    """
    busy = np.clip(states.apart_share, _LEAST, _BUSIEST)
    ahead = np.floor(np.log1p(-drawn.shares("ahead")) / np.log(busy))
    mean = busy / (1.0 - busy) * (1.0 + drawn.requests.isl.scv) / 2.0
    waits = _with_mean(drawn.left(ahead), mean, bursts * states.queue_seconds)
    return np.asarray(waits + 2.0 * states.running_seconds * drawn.shares("rest"))


def per_token(states: Steady, drawn: LengthSample) -> Array:
    """Mean time between two tokens of each request, shape (count,) [s]; see :func:`shared_step_waits`.

    Notes
    -----
    Decode steps are those of the state that a request finds. Prompts that make them longer come while it decodes: their
    number is Poisson-distributed, and a short answer may meet none or several.
    """
    share, steps = np.minimum(states.prefill_share, _BUSIEST), np.maximum(drawn.answers() - 1.0, 1.0)
    expected = np.maximum(states.requests_per_second * steps * states.tpot_seconds, _LEAST)
    met = drawn.work(drawn.numbers("met", expected), "met lengths")
    # Alone in the house nobody is met.
    return np.asarray(
        states.tpot_seconds * (1.0 + share * np.clip(states.batch - 1.0, 0.0, 1.0) * (met / expected - 1.0))
    )


def _with_mean(times: Array, mean: Array, wanted: Array) -> Array:
    """Times of some means in proportion to others [s]; the means themselves where nothing varies."""
    return np.where(mean > 0.0, times * (wanted / np.where(mean > 0.0, mean, 1.0)), wanted)


#: Requests that stand for all [1].
_DRAWN = 4_000
#: Longer than no wait at all [1].
_SOONEST = 1e-12


@dataclass(frozen=True, slots=True)
class Loaded:
    """An instance under load.

    Attributes
    ----------
    requests_per_second : float
        Offered to the instance [1/s].
    saturated : bool
        More arrives than it completes: queues grow without end, and latencies are infinite.
    utilization : float
        Offered over what the full instance completes [1]; above 1 if saturated.
    completed_per_second : float
        [1/s]
    in_flight : float
        Mean number of requests in flight [1].
    waiting : float
        Probability that a request waits for a slot [1].
    ttft_seconds, tpot_seconds, e2e_seconds : dict of str to float
        Time to first token, per output token after it, and to the last one: ``mean``, ``p50`` or any other percentile,
        see :class:`inference_econ.serving.statistics.Statistics` [s].
    e2e_seconds_per_output_token : dict of str to float
        The last over the tokens of the answer, the same statistics [s]; one over its percentiles is the
        "E2E normalized interactivity" of InferenceX. Of disaggregated deployments the percentiles are upper bounds.
    played : bool
        It is what requests saw in the simulation; otherwise it follows from closed forms.
    arrivals : ArrivalProcess
        How requests arrive.
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
    """A service under a steady stream of requests.

    Parameters
    ----------
    service : Service
        One instance.
    requests_per_second : float
        Arrivals at this instance [1/s].
    arrivals : ArrivalProcess
        How they arrive.

    Returns
    -------
    Loaded
        Shares and latencies; the TPOT of a request is that of the steady state its tokens see.

    Raises
    ------
    InputError
        If the rate is not positive.

    Notes
    -----
    See :func:`occupancy`. The TTFT of a request is that of the steady state which it finds, with the time that its own
    prompt takes in the place of the average one; with bursty arrivals the prompts before it take (ca2 + cs2) / (1 +
    cs2) times as long: Allen and Cunneen in Allen (1990). Its TPOT is that of the same state, so that its last token
    comes osl - 1 times that after the first.
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
    """Share of the requests whose TTFT, TPOT and time to the last token all keep their promises [1].

    Parameters
    ----------
    service : Service
        One instance.
    requests_per_second : float
        Arrivals at this instance [1/s].
    ttft_seconds, tpot_seconds, e2e_seconds : float
        Promises [s]; ``inf`` if there is none.
    arrivals : ArrivalProcess
        How they arrive.

    Returns
    -------
    float
        Of what the instance completes. Of a saturated one no request keeps a promised TTFT, or time to the last token.

    Raises
    ------
    InputError
        If a rate or promise is not positive.

    Notes
    -----
    A request has the TPOT of the steady state that it finds, so that promises of all kinds are broken by the same
    requests: those that come when many are in flight, and those that are long.
    """
    for name, value in (("ttft", ttft_seconds), ("tpot", tpot_seconds), ("e2e", e2e_seconds)):
        if not value > 0:
            raise InputError(f"a promised {name} must be positive, got {value:g} s")
    queue, state = occupancy(service, requests_per_second, arrivals)
    seen = _seen(service, queue, state, arrivals)
    kept = (seen.ttft <= ttft_seconds) & (seen.tpot <= tpot_seconds) & (seen.e2e <= e2e_seconds)
    return float(kept.mean())


def check_rate(requests_per_second: float) -> None:
    """Refuse a rate of requests that is not positive and finite [1/s].

    Raises
    ------
    InputError
        With the rate.
    """
    if not 0 < requests_per_second < math.inf:
        raise InputError(f"the request rate must be positive, got {requests_per_second:g}")


def occupancy(service: Service, requests_per_second: float, arrivals: ArrivalProcess) -> tuple[queueing.Load, Steady]:
    """How many requests are in flight, and the steady states with 1, 2, .. slots of them.

    Notes
    -----
    The instance completes mu(n) requests per second with n in flight, its closed-loop rate; see
    :func:`inference_econ.formulas.queueing.load` for the chain, and its validity.

    Prefill goes before decoding. Where r others come while a prompt is read, prompts begin to decode in bunches, as
    many as follow each other without a pause: 1 / (1 - r) on average, the customers of a busy period. A stream of
    bunches of m is m times as variable, for the part of their time that requests decode. An approximation, held
    against the simulation.
    """
    check_rate(requests_per_second)
    state, rates = service.in_flight, service.completions
    rates_from_none, shares_from_none = (np.concatenate(([0.0], values)) for values in (rates, state.follow_share))
    share = float(np.interp(requests_per_second, rates_from_none, shares_from_none))
    decoding = service.requests.decode_steps * float(state.tpot_seconds[0])
    bunching = share / max(1.0 - share, 1e-9) * decoding / (float(state.ttft_seconds[0]) + decoding)
    scv = service.requests.osl.scv
    queue = queueing.load(requests_per_second, rates, arrival_scv=arrivals.scv, service_scv=scv, bunching=bunching)
    return queue, state


class _Seen(NamedTuple):
    """Latencies of requests that stand for all; every field has shape (n,)."""

    ttft: Array
    """[s]"""
    tpot: Array
    """[s]"""
    e2e: Array
    """From arrival to the last token [s]."""
    output_tokens: Array
    """[tokens]"""


def _seen(service: Service, queue: queueing.Load, state: Steady, arrivals: ArrivalProcess) -> _Seen:
    """Return latencies of requests that find a slot or wait for one; without end where the queue grows."""
    drawn = LengthSample(service.requests, _DRAWN)
    # Who finds n in flight makes it n + 1; who finds all slots taken waits, and starts with all of them taken.
    free, chance = queue.probabilities[:-1], float(queue.waiting)
    below = np.cumsum(free) * ((1.0 - chance) / max(float(free.sum()), 1e-300))
    place = np.searchsorted(below, levels(_DRAWN))
    states = state.among(np.minimum(place, state.batch.size - 1))
    patience = np.where(place < below.size, 0.0, -np.log1p(-drawn.shares("patience")))
    # The own prompt, as long as it is, the prompts ahead, and the rest of the running step: independent of each other.
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
