"""A service under a stream of requests: how full it is, what users wait, and how many see what was promised."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from inference_econ._types import Array
from inference_econ.errors import InputError
from inference_econ.formulas import queueing
from inference_econ.serving.drawn import Drawn, in_shared_steps, in_turn, per_token
from inference_econ.serving.lengths import levels
from inference_econ.serving.prompts import several_fit
from inference_econ.serving.services import Service
from inference_econ.serving.simulation.arrivals import POISSON, Arrivals
from inference_econ.serving.statistics import of_sample
from inference_econ.serving.steady import Steady

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
        "E2E normalized interactivity" of InferenceX. Of pools that prefill and decode apart the means alone are known.
    played : bool
        It is what requests saw in the simulation; otherwise it follows from closed forms.
    arrivals : Arrivals
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
    arrivals: Arrivals = POISSON


def loaded(service: Service, requests_per_second: float, *, arrivals: Arrivals = POISSON) -> Loaded:
    """A service under a steady stream of requests.

    Parameters
    ----------
    service : Service
        One instance.
    requests_per_second : float
        Arrivals at this instance [1/s].
    arrivals : Arrivals
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


def kept_share(
    service: Service,
    requests_per_second: float,
    *,
    ttft_seconds: float = math.inf,
    tpot_seconds: float = math.inf,
    e2e_seconds: float = math.inf,
    arrivals: Arrivals = POISSON,
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
    arrivals : Arrivals
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


def occupancy(service: Service, requests_per_second: float, arrivals: Arrivals) -> tuple[queueing.Load, Steady]:
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


def _seen(service: Service, queue: queueing.Load, state: Steady, arrivals: Arrivals) -> _Seen:
    """Return latencies of requests that find a slot or wait for one; without end where the queue grows."""
    drawn = Drawn(service.requests, _DRAWN)
    # Who finds n in flight makes it n + 1; who finds all slots taken waits, and starts with all of them taken.
    free, chance = queue.probabilities[:-1], float(queue.waiting)
    below = np.cumsum(free) * ((1.0 - chance) / max(float(free.sum()), 1e-300))
    place = np.searchsorted(below, levels(_DRAWN))
    states = state.among(np.minimum(place, state.batch.size - 1))
    patience = np.where(place < below.size, 0.0, -np.log1p(-drawn.shares("patience")))
    ttft = _first_tokens(service, states, drawn, arrivals)
    ttft = ttft + np.where(patience > 0.0, float(queue.wait_scale) * np.maximum(patience, _SOONEST), 0.0)
    answers = drawn.answers()
    tpot = per_token(states, drawn)
    return _Seen(ttft, tpot, ttft + np.maximum(answers - 1.0, 0.0) * tpot, answers)


def _first_tokens(service: Service, states: Steady, drawn: Drawn, arrivals: Arrivals) -> Array:
    """TTFT of requests, each of which finds a state, without waits for slots, shape (n,) [s].

    The own prompt, as long as it is, the prompts ahead, and the rest of the running step: independent of each other.
    """
    scv, setup = service.requests.isl.scv, service.setup
    bursts = (arrivals.scv + scv) / (1.0 + scv)
    if several_fit(setup, service.requests):
        waits = in_shared_steps(states, drawn, bursts, setup.assumptions.host.steps_ahead)
    else:
        waits = in_turn(states, drawn, bursts)
    return states.fixed_seconds + states.prompts.beyond_mean(drawn.prompts(), states.beside_seconds) + waits
