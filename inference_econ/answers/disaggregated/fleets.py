"""Which fleet of prefill and decode instances, xPyD: for a traffic, or of some chips."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial

import numpy as np

from inference_econ._types import Array
from inference_econ.answers.disaggregated.compare import prefill_costs
from inference_econ.answers.disaggregated.load import Decoder, Fleet, decoder, prefill_queue, together, under_load
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.recommend import FILLED, Choice, Targets, recommend
from inference_econ.errors import NothingFitsError
from inference_econ.formulas import queueing
from inference_econ.serving import Loaded, check_rate

#: No fleet has more instances of one kind [1].
_MOST = 10**7


def smallest(pools: Pools, requests_per_second: float, targets: Targets, *, arrival_scv: float = 1.0) -> Fleet:
    """The cheapest fleet that keeps its promises at a traffic.

    Parameters
    ----------
    pools : Pools
        The layouts to choose from.
    requests_per_second : float
        The whole traffic [1/s].
    targets : Targets
        Promises.
    arrival_scv : float
        Squared coefficient of variation of the times between arrivals [1].

    Returns
    -------
    Fleet
        The best of all pairs of layouts and whole numbers of instances.

    Raises
    ------
    InputError
        If the rate is not positive.
    NothingFitsError
        If no pair of layouts keeps the promises.

    Notes
    -----
    Pairs are tried in the order of a bound on their cost, until the bound exceeds the best found: as many instances as
    complete the traffic, then as many as each pool needs by itself.
    """
    check_rate(requests_per_second)
    search = _Search(pools, requests_per_second, targets, arrival_scv)
    best: Fleet | None = None
    for bound, reader, writer in search.pairs():
        limit = math.inf if best is None else best.dollars_per_hour
        if bound >= limit:
            break
        for fleet in search.fleets(reader, writer, limit):
            if best is None or fleet.dollars_per_hour < best.dollars_per_hour:
                best = fleet
    if best is None:
        raise NothingFitsError(_unreachable(pools, targets))
    return best


def largest(pools: Pools, accelerators: int, targets: Targets, *, arrival_scv: float = 1.0) -> Fleet:
    """The fleet of some chips that completes the most requests when it is full.

    Parameters
    ----------
    pools : Pools
        The layouts to choose from.
    accelerators : int
        Chips of both pools together [1].
    targets : Targets
        Promises, which the steady state of full instances must keep on average.
    arrival_scv : float
        Squared coefficient of variation of the times between arrivals [1].

    Returns
    -------
    Fleet
        The best of all pairs of layouts and whole numbers of instances, the cheaper at equal rates; its load is
        :data:`inference_econ.answers.recommend.FILLED` of what it completes.

    Raises
    ------
    NothingFitsError
        If no two instances that keep the promises fit.
    """
    busy, working = _per_request(pools, targets)
    size_p, size_d = pools.prefill.accelerators[:, None], pools.decode.accelerators[None, :]
    most = np.floor((accelerators - size_d) / size_p)
    possible = np.isfinite(busy) & np.isfinite(working) & (most >= 1.0)
    if not possible.any():
        both = np.where(np.isfinite(busy) & np.isfinite(working), size_p + size_d, np.inf)
        if not np.isfinite(both).any():
            raise NothingFitsError(_unreachable(pools, targets))
        raise NothingFitsError(
            f"a prefill and a decode instance that keep the promises take at least {both.min():g} accelerators "
            f"together, {accelerators} are given"
        )
    pairs = np.nonzero(possible)
    busy, working, most = busy[pairs], working[pairs], most[pairs]
    size_p, size_d = (np.broadcast_to(size, possible.shape)[pairs] for size in (size_p, size_d))

    def decoders(count: Array) -> Array:
        return np.floor((accelerators - count * size_p) / size_d)

    # The smallest number of prefill instances that keep the others busy; the best is that or one less.
    low, high = np.ones_like(most), most
    for _ in range(int(most.max()).bit_length() + 1):
        middle = np.floor((low + high) / 2.0)
        enough = middle / busy >= decoders(middle) / working
        low, high = np.where(enough, low, np.minimum(middle + 1.0, most)), np.where(enough, middle, high)
    counts = np.stack([np.maximum(high - 1.0, 1.0), high])
    rates = np.minimum(counts / busy, decoders(counts) / working)
    # No more instances than the rate needs; of equal rates the cheaper.
    counts = np.ceil(rates * busy * (1.0 - 1e-12))
    groups = np.ceil(rates * working * (1.0 - 1e-12))
    cost = counts * pools.prefill.dollars_per_second[pairs[0]] + groups * pools.decode.dollars_per_second[pairs[1]]
    which, index = np.unravel_index(np.lexsort((cost.ravel(), -rates.ravel().round(12)))[0], rates.shape)
    return under_load(
        pools,
        (int(pairs[0][index]), int(pairs[1][index])),
        (int(counts[which, index]), int(groups[which, index])),
        FILLED * float(rates[which, index]),
        arrival_scv=arrival_scv,
    )


def aggregated(
    pools: Pools, requests_per_second: float, targets: Targets, *, arrival_scv: float = 1.0
) -> Choice | None:
    """The cheapest fleet of instances that read prompts and decode, for comparison.

    Parameters
    ----------
    pools : Pools
        With the aggregated layouts.
    requests_per_second : float
        The whole traffic [1/s].
    targets : Targets
        Promises.
    arrival_scv : float
        Squared coefficient of variation of the times between arrivals [1].

    Returns
    -------
    Choice or None
        None if no layout keeps the promises.
    """
    offers = [pool.services for pool in pools.aggregated]
    try:
        return recommend(offers, requests_per_second, targets, arrival_scv=arrival_scv, most=1)[0]
    except NothingFitsError:
        return None


def _per_request(pools: Pools, targets: Targets) -> tuple[Array, Array]:
    """Time of a prefill and of a decode instance per request, shape (n, m); ``inf`` where a promise is broken [s]."""
    busy, cost = prefill_costs(pools, targets.ttft_seconds)
    decoding = pools.decode
    working = pools.requests.decode_steps * decoding.step_seconds / decoding.batch
    best = np.where(decoding.step_seconds <= targets.tpot_seconds, working, np.inf).min(axis=1)
    return np.where(np.isfinite(cost), busy, np.inf), np.maximum(best[None, :], pools.transfer.receiving_seconds)


class _Search:
    """Fleets for one traffic and one set of promises."""

    def __init__(self, pools: Pools, rate: float, targets: Targets, arrival_scv: float) -> None:
        self.pools, self.rate, self.targets, self.scv = pools, rate, targets, arrival_scv
        self.busy, self.working = _per_request(pools, targets)
        self.reading = pools.prefill.dollars_per_second * 3600.0
        self.decoding = pools.decode.dollars_per_second * 3600.0
        self.least = np.floor(rate * self.busy) + 1.0
        self.alone, self.queue, self.answers = cache(self._alone), cache(self._queue), cache(self._answers)
        self.decoder = cache(self._decoder)

    def pairs(self) -> Iterator[tuple[float, int, int]]:
        """Bounds on the cost of pairs of layouts, ascending, and the pairs [USD/h]."""
        bound = self.least * self.reading[:, None] + np.ceil(self.rate * self.working) * self.decoding[None, :]
        for index in np.argsort(bound, axis=None, kind="stable"):
            reader, writer = np.unravel_index(index, bound.shape)
            if not np.isfinite(bound[reader, writer]):
                return
            yield float(bound[reader, writer]), int(reader), int(writer)

    def fleets(self, reader: int, writer: int, limit: float) -> Iterator[Fleet]:
        """Fleets of a pair that keep the promises, each cheaper than the limit [USD/h]."""
        least = int(self.least[reader, writer])
        receiving = float(self.pools.transfer.receiving_seconds[reader, writer])
        groups = self.alone(writer, receiving, math.ceil(self.rate * float(self.working[reader, writer])))
        if groups is None:
            return
        # Beyond a few more decode instances than needed nobody waits for a place.
        for count in range(groups, 2 * groups + 16):
            room = limit - count * self.decoding[writer]
            if least * self.reading[reader] >= room:
                return
            most = min(_MOST, math.ceil(room / self.reading[reader])) if math.isfinite(room) else _MOST
            kept = _least(least, most, partial(self._kept, reader, writer, count))
            if kept is not None:
                yield self._fleet(reader, writer, count, kept)
                if kept == least:
                    return

    def _kept(self, reader: int, writer: int, groups: int, count: int) -> bool:
        return self.targets.broken(self._fleet(reader, writer, groups, count).load) is None

    def _fleet(self, reader: int, writer: int, groups: int, count: int) -> Fleet:
        receiving = float(self.pools.transfer.receiving_seconds[reader, writer])
        queue, decoding = self.queue(reader, writer, count), self.answers(writer, receiving, groups)
        return together(self.pools, (reader, writer), (count, groups), queue, decoding)

    def _queue(self, reader: int, writer: int, count: int) -> queueing.Load:
        return prefill_queue(self.pools, reader, writer, count, self.rate, self.scv)

    def _answers(self, writer: int, receiving: float, count: int) -> Loaded:
        return self.decoder(writer, receiving).load(self.rate / count, self.scv)

    def _decoder(self, writer: int, receiving: float) -> Decoder:
        return decoder(self.pools, writer, receiving)

    def _alone(self, writer: int, receiving: float, least: int) -> int | None:
        """Fewest decode instances that keep the promise about them."""
        promised = replace(self.targets, ttft_seconds=math.inf)
        return _least(least, _MOST, lambda count: promised.broken(self.answers(writer, receiving, count)) is None)


def _least(low: int, most: int, good: Callable[[int], bool]) -> int | None:
    """The smallest number from ``low`` to ``most`` that is good, if all larger ones are too."""
    high = low
    while not good(high):
        if high >= most:
            return None
        low, high = high + 1, min(2 * high, most)
    return low + bisect_left(range(low, high), True, key=good)


def _unreachable(pools: Pools, targets: Targets) -> str:
    """What no pair of layouts keeps, and the best that can be reached."""
    soonest = float(pools.first_token_seconds.min())
    wanted = {"TTFT": targets.ttft_seconds, "TPOT": targets.tpot_seconds}
    said = ", ".join(f"{name} {1e3 * value:g} ms" for name, value in wanted.items() if value < math.inf)
    return (
        f"no pair of layouts keeps {said or 'the promises'} ({targets.percentile}). Best reachable with a single "
        f"request: TTFT {1e3 * soonest:.4g} ms, TPOT {1e3 * float(pools.decode.step_seconds.min()):.3g} ms"
    )
