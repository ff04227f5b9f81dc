"""A service under a stream of requests: how full it is, what users wait, and how many see what was promised."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from inference_econ._types import Array, Indices
from inference_econ.errors import InputError
from inference_econ.formulas import queueing
from inference_econ.serving.services import Service
from inference_econ.serving.steady import Steady

#: Percentiles that are reported, as shares [1].
SHARES: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
#: A time that varies as so many equally likely values, and the states that stand for all.
_ATOMS, _STATES = 200, 64
_LEVELS = (np.arange(_ATOMS) + 0.5) / _ATOMS
#: The same levels in an order that has nothing to do with theirs (multiples of the golden ratio).
_SHUFFLED = (np.arange(_ATOMS) * 0.6180339887498949) % 1.0


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
    ttft_seconds, tpot_seconds : dict of str to float
        ``mean``, ``p50``, ``p90``, ``p99`` [s].
    played : bool
        It is what requests saw in the simulation; otherwise it follows from closed forms.
    """

    requests_per_second: float
    saturated: bool
    utilization: float
    completed_per_second: float
    in_flight: float
    waiting: float
    ttft_seconds: Mapping[str, float]
    tpot_seconds: Mapping[str, float]
    played: bool = False


def loaded(service: Service, requests_per_second: float, *, arrival_scv: float = 1.0) -> Loaded:
    """A service under a steady stream of requests.

    Parameters
    ----------
    service : Service
        One instance.
    requests_per_second : float
        Arrivals at this instance [1/s].
    arrival_scv : float
        Squared coefficient of variation of the times between arrivals [1]: 1 if Poisson, more if bursty.

    Returns
    -------
    Loaded
        Shares and latencies; the TPOT of a request is that of the steady state its tokens see.

    Raises
    ------
    InputError
        If the rate is not positive or the variation negative.

    Notes
    -----
    See :func:`occupancy`. The TTFT of a request is that of the steady state which it finds; with bursty arrivals the
    prompts before it take (ca2 + cs2) / (1 + cs2) times as long: Allen and Cunneen in Allen (1990).
    """
    queue, state = occupancy(service, requests_per_second, arrival_scv)
    saturated = bool(queue.saturated)
    first = dict.fromkeys(("mean", *SHARES), np.inf)
    if not saturated:
        first = summary(*_first_tokens(service, queue, state, arrival_scv))
    return Loaded(
        requests_per_second,
        saturated,
        float(queue.offered),
        min(requests_per_second, service.most_requests_per_second),
        float(queue.in_flight),
        float(queue.waiting),
        first,
        summary(state.tpot_seconds, queue.work),
    )


def kept_share(
    service: Service,
    requests_per_second: float,
    *,
    ttft_seconds: float = math.inf,
    tpot_seconds: float = math.inf,
    arrival_scv: float = 1.0,
) -> float:
    """Share of the requests whose TTFT and TPOT both keep their promises [1].

    Parameters
    ----------
    service : Service
        One instance.
    requests_per_second : float
        Arrivals at this instance [1/s].
    ttft_seconds, tpot_seconds : float
        Promises [s]; ``inf`` if there is none.
    arrival_scv : float
        See :func:`loaded` [1].

    Returns
    -------
    float
        Of what the instance completes. Of a saturated one no request keeps a promised TTFT.

    Raises
    ------
    InputError
        If a rate or promise is not positive.

    Notes
    -----
    A request has the TPOT of the steady state that it finds, so that promises of both kinds are broken by the same
    requests: those that come when many are in flight.
    """
    for name, value in (("ttft", ttft_seconds), ("tpot", tpot_seconds)):
        if not value > 0:
            raise InputError(f"a promised {name} must be positive, got {value:g} s")
    queue, state = occupancy(service, requests_per_second, arrival_scv)
    quick = np.where(state.tpot_seconds <= tpot_seconds, 1.0, 0.0)
    by_tokens = float(quick @ queue.work)
    if queue.saturated:
        return by_tokens if math.isinf(ttft_seconds) else 0.0
    times, shares = _first_tokens(service, queue, state, arrival_scv, quick)
    return min(float(shares[times <= ttft_seconds].sum()), by_tokens, 1.0)


def check_rate(requests_per_second: float) -> None:
    """Refuse a rate of requests that is not positive and finite [1/s].

    Raises
    ------
    InputError
        With the rate.
    """
    if not 0 < requests_per_second < math.inf:
        raise InputError(f"the request rate must be positive, got {requests_per_second:g}")


def occupancy(service: Service, requests_per_second: float, arrival_scv: float) -> tuple[queueing.Load, Steady]:
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
    state = service.at(np.arange(1.0, service.slots + 1.0))
    # A server with more in flight completes no less; interpolation may say so by a rounding.
    rates = np.minimum(np.maximum.accumulate(state.requests_per_second), state.requests_per_second[-1])
    share = float(np.interp(requests_per_second, [0.0, *rates], [0.0, *state.follow_share]))
    decoding = service.requests.decode_steps * float(state.tpot_seconds[0])
    bunching = share / max(1.0 - share, 1e-9) * decoding / (float(state.ttft_seconds[0]) + decoding)
    scv = service.requests.osl.scv
    queue = queueing.load(requests_per_second, rates, arrival_scv=arrival_scv, service_scv=scv, bunching=bunching)
    return queue, state


def _first_tokens(
    service: Service, queue: queueing.Load, state: Steady, arrival_scv: float, counted: Array | float = 1.0
) -> tuple[Array, Array]:
    """Times to first token of requests that find a slot and of those that wait for one, with their shares [s], [1].

    ``counted`` is the share of requests that count, by the state that they meet.
    """
    scv = service.requests.isl.scv
    bursts = (arrival_scv + scv) / (1.0 + scv)
    # Who finds n in flight makes it n + 1; who finds all slots taken waits, and starts with all of them taken.
    free, chance = queue.probabilities[:-1], float(queue.waiting)
    seen = np.append(free * ((1.0 - chance) / max(float(free.sum()), 1e-300)), chance)
    seen[:-1] *= counted
    seen[-1] *= np.ravel(counted)[-1]
    chosen, weights = _representatives(seen[:-1])
    values = _spread(state, chosen, bursts)
    waits = float(queue.wait_scale) * -np.log1p(-_LEVELS)
    full = _spread(state, np.array([state.ttft_seconds.size - 1]), bursts)[0] + waits
    everything = np.concatenate([values.ravel(), full])
    return everything, np.concatenate([np.repeat(weights / _ATOMS, _ATOMS), np.full(_ATOMS, seen[-1] / _ATOMS)])


def _representatives(weights: Array) -> tuple[Indices, Array]:
    """At most so many states that stand for all, with the probability of their neighbourhoods."""
    total = np.cumsum(weights)
    edges = np.unique(np.searchsorted(total, np.linspace(0.0, total[-1], _STATES + 1)[1:-1]))
    starts = np.unique(np.concatenate([[0], edges]))
    grouped = np.add.reduceat(weights, starts)
    middle = np.add.reduceat(weights * np.arange(weights.size), starts) / np.maximum(grouped, 1e-300)
    return np.clip(np.rint(middle), 0, weights.size - 1).astype(np.intp), grouped


def _spread(state: Steady, chosen: Indices, bursts: float) -> Array:
    """TTFT over its variation in some states, shape (states, atoms) [s].

    Prompts ahead: none, or an exponential time, as often as prefill is busy. The rest of the running step: anything
    from none to the whole, independent of that. Bursts lengthen the former.
    """
    # What prompts add beside decoding is less than what they are for each other.
    ttft, share, prompts, running = (
        values[chosen][:, None]
        for values in (state.ttft_seconds, state.apart_share, state.queue_seconds, state.running_seconds)
    )
    busy = np.clip(share, 1e-9, 1.0)
    ahead = np.maximum(np.log(busy / (1.0 - _LEVELS)), 0.0) * bursts * prompts / busy
    return np.asarray(ttft - prompts - running + ahead + running * 2.0 * _SHUFFLED)


def summary(values: Array, weights: Array) -> dict[str, float]:
    """Mean and percentiles (:data:`SHARES`) of times [s] that occur with some weights [1]."""
    quantiles = queueing.mixture_quantiles(values, weights, list(SHARES.values()))
    mean = float(values @ weights / weights.sum())
    return {"mean": mean, **dict(zip(SHARES, (float(value) for value in quantiles), strict=True))}
