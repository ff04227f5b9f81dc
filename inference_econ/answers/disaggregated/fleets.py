"""Which fleet of prefill and decode instances, xPyD: for a traffic, or of some chips."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial

import numpy as np

from inference_econ._types import Array
from inference_econ.answers.capacity import fewest
from inference_econ.answers.disaggregated.load import (
    Decoder,
    Fleet,
    decoder,
    prefill_queue,
    prefill_rates,
    together,
)
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.disaggregated.prefill_pools import check_instances, prefill_costs
from inference_econ.answers.disaggregated.terms import Terms, unreachable
from inference_econ.answers.promises import Targets
from inference_econ.errors import NothingFitsError
from inference_econ.formulas import queueing
from inference_econ.serving import Loaded, check_rate

#: No fleet has more instances of one kind [1].
_MOST = 10**7
#: What the search takes for each pair of prefill instances that there must be, if prompts have a promise: 3 s for 5,700
#: instances [s].
_SECONDS = 1e-7


def smallest(
    pools: Pools,
    requests_per_second: float,
    terms: Terms,
    *,
    limit: float = math.inf,
    layouts: tuple[int, int] | None = None,
) -> Fleet | None:
    """The cheapest fleet that keeps its promises at a traffic.

    Parameters
    ----------
    pools : Pools
        The layouts to choose from.
    requests_per_second : float
        The whole traffic [1/s].
    terms : Terms
        Promises, arrivals, ratios, and how full prefill instances are at most. The traffic is all there is, so that
        decode instances may be as full as those of :func:`inference_econ.answers.recommend.recommend`.
    limit : float
        Fleets that cost as much or more are not looked at [USD/h].
    layouts : (int, int), optional
        Which layout prefill and decode instances have; any by default.

    Returns
    -------
    Fleet or None
        The best of these pairs and of whole numbers of instances; None if there is one, but none below the limit.

    Raises
    ------
    InputError
        If the rate is not positive.
    NothingFitsError
        If no pair of layouts keeps the promises.
    TooMuchError
        If a fleet must have too many instances to be looked at.

    Notes
    -----
    Pairs are tried in the order of a bound on their cost, until the bound exceeds the best found: as many instances as
    complete the traffic, then as many as each pool needs by itself.
    """
    check_rate(requests_per_second)
    search = _Search(pools, requests_per_second, terms.predicted(pools))
    readers = search.fewest_readers
    seconds = _SECONDS * readers if math.isfinite(terms.targets.ttft_seconds) else 0.0
    check_instances(readers, seconds, "requests_per_second")
    best: Fleet | None = None
    for bound, reader, writer in search.pairs():
        room = limit if best is None else best.dollars_per_hour
        if bound >= room:
            break
        if layouts not in (None, (reader, writer)):
            continue
        for fleet in search.fleets(reader, writer, room):
            # Machines that are not full are paid for as well, which may be more than its chips have room for.
            if fleet.dollars_per_hour < limit and (best is None or _rank(fleet) < _rank(best)):
                best = fleet
    if best is None and math.isinf(limit):
        raise NothingFitsError(unreachable(pools, terms))
    return best


def _rank(fleet: Fleet) -> tuple[float, int, int]:
    return fleet.dollars_per_hour, sum(fleet.accelerators), fleet.prefill_instances + fleet.decode_instances


def per_request(pools: Pools, targets: Targets) -> tuple[Array, Array]:
    """Time of a prefill and of a decode instance that are never idle per request, shape (n, m) [s].

    Parameters
    ----------
    pools : Pools
        The layouts.
    targets : Targets
        Promises.

    Returns
    -------
    (ndarray, ndarray)
        Bounds from below; ``inf`` where even one request, or full batches that vary not, break a promise.
    """
    busy, cost = prefill_costs(pools, targets.ttft_seconds)
    decoding = pools.decode
    working = pools.requests.decode_steps * decoding.step_seconds / decoding.batch
    least = decoding.step_seconds
    if targets.finds_few("tpot"):
        least = least.min(axis=1, keepdims=True)
    best = np.where(least <= targets.tpot_seconds, working, np.inf).min(axis=1)
    return np.where(np.isfinite(cost), busy, np.inf), np.maximum(best[None, :], pools.transfer.receiving_seconds)


class _Search:
    """Fleets for one traffic and one set of promises."""

    def __init__(self, pools: Pools, rate: float, terms: Terms) -> None:
        self.pools, self.rate, self.ratios = pools, rate, terms.ratios
        self.targets, self.scv, self.fullest = terms.kept, terms.arrival_scv, terms.fullest_reading
        self.busy, self.working = per_request(pools, terms.targets)
        self.reading = pools.prefill.dollars_per_second * 3600.0
        self.decoding = pools.decode.dollars_per_second * 3600.0
        self.least = np.ceil(rate * self.busy / self.fullest)
        self.alone, self.queue, self.answers = cache(self._alone), cache(self._queue), cache(self._answers)
        self.decoder = cache(partial(decoder, pools))

    @property
    def fewest_readers(self) -> float:
        """Prefill instances of the layout that needs the fewest; none where no layout keeps the promises [1]."""
        finite = self.least[np.isfinite(self.least)]
        return float(finite.min()) if finite.size else 0.0

    def pairs(self) -> Iterator[tuple[float, int, int]]:
        """Bounds on the cost of pairs of layouts, ascending, and the pairs [USD/h]."""
        reading, writing = self.least, np.ceil(self.rate * self.working)
        used = reading * self.reading[:, None] + writing * self.decoding[None, :]
        possible = np.isfinite(used)
        least = self._least_bill(np.where(possible, reading, 0.0), np.where(possible, writing, 0.0))
        bound = np.where(possible, least, np.inf)
        for index in np.lexsort((used.ravel(), bound.ravel())):
            reader, writer = np.unravel_index(index, bound.shape)
            if not np.isfinite(bound[reader, writer]):
                return
            yield float(bound[reader, writer]), int(reader), int(writer)

    def _least_bill(self, reading: Array, writing: Array) -> Array:
        """Least cost of so many instances of every pair, as no part of a machine is rented [USD/h]."""
        pools = self.pools
        prompts, answers = (pool.setup for pool in (pools.prefill, pools.decode))
        first, second = reading * pools.prefill.accelerators[:, None], writing * pools.decode.accelerators[None, :]
        if prompts.hardware == answers.hardware:
            return prompts.dollars_per_hour(np.ceil(first + second), 1.0)
        return prompts.dollars_per_hour(first, 1.0) + answers.dollars_per_hour(second, 1.0)

    def fleets(self, reader: int, writer: int, limit: float) -> Iterator[Fleet]:
        """Fleets of a pair that keep the promises, each cheaper than the limit [USD/h]."""
        least = fewest(partial(self._enough, reader, writer), int(self.least[reader, writer]), _MOST)
        receiving = float(self.pools.transfer.receiving_seconds[reader, writer])
        groups = self.alone(writer, receiving, math.ceil(self.rate * float(self.working[reader, writer])))
        if groups is None or least is None:
            return
        # Beyond a few more decode instances than needed nobody waits for a place.
        groups = max(groups, self.ratios.fewest_decoders(least))
        for count in range(groups, 2 * groups + 16):
            low, high = self.ratios.readers(count)
            low, room = max(low, least), limit - count * self.decoding[writer]
            if low * self.reading[reader] >= room:
                return
            most = min(high, _MOST, math.ceil(room / self.reading[reader]) if math.isfinite(room) else _MOST)
            kept = fewest(partial(self._kept, reader, writer, count), low, most) if low <= most else None
            if kept is not None:
                yield self._fleet(reader, writer, count, kept)
                if kept == low:
                    return

    def _enough(self, reader: int, writer: int, count: int) -> bool:
        most = self.fullest * float(prefill_rates(self.pools, reader, writer, count)[-1])
        return self.rate <= most * (1.0 + 1e-9)

    def _kept(self, reader: int, writer: int, groups: int, count: int) -> bool:
        return self.targets.broken(self._fleet(reader, writer, groups, count).load) is None

    def _fleet(self, reader: int, writer: int, groups: int, count: int) -> Fleet:
        receiving = float(self.pools.transfer.receiving_seconds[reader, writer])
        queue, decoding = self.queue(reader, writer, count), self.answers(writer, receiving, groups)
        return together(self.pools, (reader, writer), (count, groups), queue, *decoding)

    def _queue(self, reader: int, writer: int, count: int) -> queueing.Load:
        return prefill_queue(self.pools, reader, writer, count, self.rate, self.scv)

    def _answers(self, writer: int, receiving: float, count: int) -> tuple[Decoder, Loaded]:
        return self.decoder(writer, receiving).keeping(self.targets, self.rate / count, self.scv, count)

    def _alone(self, writer: int, receiving: float, least: int) -> int | None:
        """Fewest decode instances that keep the promise about them."""
        promised = replace(self.targets, ttft_seconds=math.inf)
        return fewest(lambda count: promised.broken(self.answers(writer, receiving, count)[1]) is None, least, _MOST)
