"""Cost against speed of pools and of instances that do both, under load."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array, Indices
from inference_econ.answers.disaggregated.load import Fleet, decoder, prefill_queue, together
from inference_econ.answers.disaggregated.pool import Pool
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.disaggregated.prefill_pools import PrefillPools, Readers, prefill_costs
from inference_econ.answers.disaggregated.terms import Terms
from inference_econ.answers.promises import Targets
from inference_econ.formulas import pareto
from inference_econ.serving import Gamma, Loaded, Steady, loaded

_MILLION = 1e6
#: Rates at which a layout is looked at, from that of one request without a pause, or from so small a part of the most,
#: as services with few places need it [1].
_RATES, _SPAN = 32, 8.0
#: Attempts to give waits for a place in a decode batch their part of a promised TTFT, the first a little more than was
#: missing, and each twice as far as that, at most halfway to what was too little: percentiles have steps, a prompt
#: long, at whose edge little is missing [1].
_ATTEMPTS, _MORE = 8, 1.1


@dataclass(frozen=True, slots=True)
class PoolFrontier:
    """Cost against speed, the quickest first; arrays of shape (n,).

    Attributes
    ----------
    seconds : ndarray
        Time per output token that the share of the requests of the terms sees at most [s].
    dollars : ndarray
        The whole bill over output tokens [USD per 1e6 tokens].
    ttft_seconds : ndarray
        Time to first token, waits included, of the same share [s].
    layout : ndarray of int
        Index of the layout that decodes.
    batch : ndarray
        Requests in flight in one of its instances, on average [1].
    prefill : ndarray of int
        Index of the layout that reads prompts; the same as ``layout`` if aggregated.
    prefill_instances, decode_instances : ndarray of int
        Of the smallest group that is deployed together [1]; 0 and 1 if aggregated.
    requests_per_second : ndarray
        That come to such a group [1/s].
    prefill_utilization, utilization : ndarray
        Requests over what the prefill instances, and the others, complete [1].
    """

    seconds: Array
    dollars: Array
    ttft_seconds: Array
    layout: Indices
    batch: Array
    prefill: Indices
    prefill_instances: Indices
    decode_instances: Indices
    requests_per_second: Array
    prefill_utilization: Array
    utilization: Array

    def __len__(self) -> int:
        return self.seconds.size

    @property
    def tokens_per_second(self) -> Array:
        """Speed of one user [tokens/s]."""
        return np.asarray(1.0 / self.seconds)

    @property
    def ratio(self) -> Array:
        """Prefill instances for each that decodes [1]."""
        return np.asarray(self.prefill_instances / self.decode_instances)

    def cheapest(self, tokens_per_second: npt.ArrayLike) -> Indices:
        """Where the cheapest point at or above some speeds is; -1 where none is that quick."""
        limit = 1.0 / np.asarray(tokens_per_second, dtype=float)
        return np.asarray(np.searchsorted(self.seconds, limit * (1.0 + 1e-12), side="right") - 1)

    def dollars_at(self, tokens_per_second: npt.ArrayLike) -> Array:
        """Cost at or above some speeds [USD per 1e6 tokens]; ``inf`` where nothing is that quick."""
        return np.concatenate([self.dollars, [np.inf]])[self.cheapest(tokens_per_second)]


def aggregated(pool: Pool, terms: Terms) -> PoolFrontier:
    """Instances that read prompts and decode, of one kind of chip.

    Parameters
    ----------
    pool : Pool
        Their layouts.
    terms : Terms
        Promises, arrivals and loads.

    Returns
    -------
    PoolFrontier
        Empty if no layout keeps the promised TTFT.
    """
    services, targets = pool.services, terms.targets
    service = cache(services.service)
    most = np.array([service(row).most_requests_per_second for row in range(len(services))])
    rates, seconds = _bounds(services.states, most * terms.fullest, targets)
    bill = np.asarray(pool.accelerators * pool.setup.dollars_per_accelerator_hour / 3600.0)
    dollars = bill[:, None] * _MILLION / (rates * services.requests.osl.mean)
    # Whoever finds nobody waits for nobody.
    soonest = services.states.ttft_seconds - services.states.queue_seconds - services.states.running_seconds
    dollars[soonest.min(axis=1) > targets.ttft_seconds] = np.inf

    @cache
    def load(row: int, rate: float) -> Loaded:
        return loaded(service(row), rate, arrivals=Gamma(terms.arrival_scv))

    def judge(row: int, rate: float) -> tuple[float, float] | None:
        seen = load(row, rate)
        if seen.saturated or targets.seen("ttft", seen) > targets.ttft_seconds:
            return None
        return targets.seen("tpot", seen), bill[row] * _MILLION / (rate * services.requests.osl.mean)

    rows, columns = undominated(rates, seconds, dollars, judge)
    at = rows, columns
    loads = [load(row, rate) for row, rate in zip(rows.tolist(), rates[at].tolist(), strict=True)]
    ones = np.ones(rows.size, dtype=np.intp)
    return PoolFrontier(
        seconds[at],
        dollars[at],
        np.array([targets.seen("ttft", seen) for seen in loads]),
        rows,
        np.array([seen.in_flight for seen in loads]),
        rows,
        0 * ones,
        ones,
        rates[at],
        np.zeros(rows.size),
        np.array([seen.utilization for seen in loads]),
    )


def _bounds(states: Steady, most: Array, targets: Targets) -> tuple[Array, Array]:
    """Rates of every layout up to some, shape (n, k) [1/s], and the TPOT of a constant number of requests there [s].

    Lighter loads are left out: nobody rents chips that are idle most of the time.
    A stream of requests has a number in flight that varies, and so a longer TPOT at the same rate: what is completed
    grows ever more slowly with the number in flight.
    """
    completed = np.maximum.accumulate(states.requests_per_second, axis=1)
    share = np.arange(_RATES) / (_RATES - 1.0)
    least = np.minimum(completed[:, 0], most / _SPAN)[:, None]
    rates = least * (most[:, None] / least) ** share
    seconds = [
        np.exp(np.interp(np.log(rate), np.log(at), np.log(tpot)))
        for rate, at, tpot in zip(rates, completed, np.maximum.accumulate(states.tpot_seconds, axis=1), strict=True)
    ]
    least = np.array(seconds)
    return rates, np.repeat(least[:, :1], _RATES, axis=1) if targets.finds_few("tpot") else least


def disaggregated(pools: Pools, terms: Terms) -> PoolFrontier:
    """Whole numbers of prefill and of decode instances, as few as have the cheapest ratio.

    Parameters
    ----------
    pools : Pools
        The layouts.
    terms : Terms
        Promises, arrivals, loads and ratios.

    Returns
    -------
    PoolFrontier
        Empty if no pair of layouts keeps the promised TTFT.
    """
    fleets = _Fleets(pools, terms)
    decoding, targets = pools.decode, terms.targets
    states = decoding.services.states.without_prompts(pools.requests.decode_steps)
    # No more than can be received, and be read by as many instances as there may be for each that decodes.
    busy = prefill_costs(pools, terms.targets.ttft_seconds)[0]
    fed = (float(terms.ratios.most) / busy).max(axis=0)
    with np.errstate(divide="ignore"):
        received = (1.0 / pools.transfer.receiving_seconds).max(axis=0)
    most = terms.fullest * np.minimum(states.requests_per_second.max(axis=1), np.minimum(fed, received))
    rates, seconds = _bounds(states, most, targets)
    reading = fleets.reading.min(axis=0)[:, None]
    least = float(terms.ratios.least) * float(pools.prefill.dollars_per_second.min()) / rates
    with np.errstate(invalid="ignore"):
        writing = decoding.dollars_per_second[:, None] / rates
    dollars = (np.maximum(reading, least) + writing) * (_MILLION / pools.requests.osl.mean)

    def judge(row: int, rate: float) -> tuple[float, float] | None:
        fleet = fleets.cheapest(row, rate)
        return None if fleet is None else (targets.seen("tpot", fleet.load), fleet.dollars_per_million_output_tokens)

    rows, columns = undominated(rates, seconds, dollars, judge)
    at = rows, columns
    chosen = [fleets.cheapest(row, rate) for row, rate in zip(rows.tolist(), rates[at].tolist(), strict=True)]
    best = [fleet for fleet in chosen if fleet is not None]
    return PoolFrontier(
        seconds[at],
        dollars[at],
        np.array([targets.seen("ttft", fleet.load) for fleet in best]),
        rows,
        np.array([fleets.decoding(fleet).in_flight for fleet in best]),
        np.array([fleet.prefill for fleet in best], dtype=np.intp),
        np.array([fleet.prefill_instances for fleet in best], dtype=np.intp),
        np.array([fleet.decode_instances for fleet in best], dtype=np.intp),
        np.array([fleet.load.requests_per_second for fleet in best]),
        np.array([fleet.prefill_utilization for fleet in best]),
        np.array([fleet.decode_utilization for fleet in best]),
    )


class _Fleets:
    """The cheapest fleets by what decodes, and how many requests come to each instance of it."""

    def __init__(self, pools: Pools, terms: Terms) -> None:
        self.pools, self.terms = pools, terms
        self.before = PrefillPools(pools, terms)
        #: Dollars of prefill per request from below, shape (n, m) [USD].
        self.reading = prefill_costs(pools, terms.targets.ttft_seconds)[1] / terms.fullest_reading
        self.cheapest, self.answers = cache(self._cheapest), cache(self._answers)
        self.decoder = cache(partial(decoder, pools))

    def decoding(self, fleet: Fleet) -> Loaded:
        """A decode instance of a fleet."""
        receiving = float(self.pools.transfer.receiving_seconds[fleet.prefill, fleet.decode])
        count = fleet.decode_instances
        return self.answers(fleet.decode, receiving, fleet.load.requests_per_second / count, count)

    def _cheapest(self, writer: int, rate: float) -> Fleet | None:
        limit = self.terms.targets.ttft_seconds
        # Waits for a place in a batch take their part of the promise; what they leave prompts is between what was too
        # little for any readers and what was too much.
        left, too_little, too_much = limit, 0.0, limit
        for attempt in range(_ATTEMPTS):
            readers = self.before.cheapest(writer, rate, self.reading[:, writer], left)
            if readers is None and left == limit:
                return None
            if readers is None:
                too_little, less = left, math.inf
            else:
                fleet = self._fleet(writer, rate, readers)
                if fleet is None:
                    return None
                missing = self.terms.targets.seen("ttft", fleet.load) - limit
                if math.isinf(limit) or missing <= 0.0:
                    return fleet
                too_much, less = left, _MORE * missing * 2.0**attempt
            left = max(too_much - less, (too_little + too_much) / 2.0)
        return None

    def _fleet(self, writer: int, rate: float, readers: Readers) -> Fleet | None:
        """Those instances under load; None if those that decode are too full."""
        pair = readers.layout, writer
        receiving = float(self.pools.transfer.receiving_seconds[pair])
        decoding = self.answers(writer, receiving, rate, readers.decode_instances)
        if decoding.saturated or decoding.utilization > self.terms.fullest * (1.0 + 1e-9):
            return None
        instances = readers.prefill_instances, readers.decode_instances
        total = rate * readers.decode_instances
        queue = prefill_queue(self.pools, *pair, readers.prefill_instances, total, self.terms.arrival_scv)
        return together(self.pools, pair, instances, queue, self.decoder(writer, receiving), decoding)

    def _answers(self, writer: int, receiving: float, rate: float, count: int) -> Loaded:
        return self.decoder(writer, receiving).load(rate, self.terms.arrival_scv, count)


#: Halvings of the step between a rate that keeps the promises and one that does not [1].
_HALVINGS = 5
#: Time per token over that of a lighter load of the layout, at least [1]: 1 but for chance in what was drawn.
_RISING = 0.99
#: A state by its layout and its requests per second: time per token [s] and dollars, or None if it breaks a promise.
Judge = Callable[[int, float], "tuple[float, float] | None"]


def undominated(rates: Array, seconds: Array, dollars: Array, judge: Judge) -> tuple[Indices, Indices]:
    """States of which nothing is both quicker and cheaper, once they have been looked at.

    Parameters
    ----------
    rates : ndarray, shape (n, k)
        Requests per second by layout, ascending [1/s]. The last that keeps the promises is moved up to the promise.
    seconds, dollars : ndarray, shape (n, k)
        Bounds from below [s] and [USD]; ``inf`` where there is no state. Those looked at get their true values.
    judge : callable
        The true values. What breaks a promise at a rate does so at higher ones.

    Returns
    -------
    (ndarray of int, ndarray of int)
        Layouts and columns, ascending in seconds.

    Notes
    -----
    The frontier of what is known is looked at until all of it is true: a state whose bound is beaten by a true value
    cannot be on the frontier. Exact if the bounds are, and no load of a layout is quicker by a percent than a lighter
    one.
    """
    looked_at = np.zeros(rates.shape, dtype=bool)
    while True:
        rows, columns = np.unravel_index(pareto.undominated(seconds.ravel(), dollars.ravel()), rates.shape)
        unknown = np.flatnonzero(~looked_at[rows, columns])
        if not unknown.size:
            return rows, columns
        # Of each layout the lightest load: it is a bound of those that are heavier.
        places = sorted(zip(rows[unknown].tolist(), columns[unknown].tolist(), strict=True), reverse=True)
        for row, column in dict(places).items():
            if np.isfinite(dollars[row, column]) and not looked_at[row, column]:
                _look(rates[row], seconds[row], dollars[row], looked_at[row], column, partial(judge, row))


def _look(
    rates: Array,
    seconds: Array,
    dollars: Array,
    looked_at: Array,
    column: int,
    judge: Callable[[float], tuple[float, float] | None],
) -> None:
    """Look at a state of a layout; if it breaks a promise, find the last one that does not."""

    def kept(at: int, rate: float) -> bool:
        true = judge(rate)
        if true is not None:
            rates[at], looked_at[at] = rate, True
            seconds[at], dollars[at] = true
            heavier = np.flatnonzero(np.logical_not(looked_at[at:])) + at
            seconds[heavier] = np.maximum(seconds[heavier], _RISING * true[0])
        return true is not None

    if kept(column, float(rates[column])):
        return
    low, high = -1, column
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if looked_at[middle] or kept(middle, float(rates[middle])) else (low, middle)
    dollars[high:] = np.inf
    looked_at[high:] = True
    if low >= 0:
        first, last = float(rates[low]), float(rates[high])
        for _ in range(_HALVINGS):
            between = (first * last) ** 0.5
            first, last = (between, last) if kept(high, between) else (first, between)
