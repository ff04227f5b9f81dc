"""Which fleet of prefill and decode instances, xPyD: for a traffic, or of some chips."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np

from inference_econ._types import Array
from inference_econ.answers import capacity
from inference_econ.answers.capacity import fewest
from inference_econ.answers.disaggregated.load import (
    MOST_RATIO,
    Decoder,
    DisaggregationTerms,
    PooledFleet,
    PrefillPools,
    bill,
    check_instances,
    decoder,
    fewest_beside,
    pools_under_load,
    prefill_costs,
    prefill_queue,
    prefill_rates,
    rented,
    together,
    unreachable,
)
from inference_econ.answers.disaggregated.pools import PoolLayouts, Pools
from inference_econ.answers.resource_limit import Means
from inference_econ.answers.slo import Targets
from inference_econ.errors import NothingFitsError, TooLittleError
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
    terms: DisaggregationTerms,
    *,
    limit: float = math.inf,
    layouts: tuple[int, int] | None = None,
) -> PooledFleet | None:
    """The cheapest fleet that keeps its promises at a traffic.

    Parameters
    ----------
    pools : Pools
        The layouts to choose from.
    requests_per_second : float
        The whole traffic [1/s].
    terms : Terms
        Promises, arrivals, ratios, and how full prefill instances are at most. The traffic is all there is, so that
        decode instances may be as full as those of :func:`inference_econ.answers.deployments.recommend.recommend`.
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
    if "e2e" in terms.targets.given:
        sized = partial(smallest, pools, requests_per_second, limit=limit, layouts=layouts)
        return _best_of(sized, terms.by_token(pools.requests), _rank)
    search = _Search(pools, requests_per_second, terms.predicted(pools))
    readers = search.fewest_readers
    seconds = _SECONDS * readers if math.isfinite(terms.targets.ttft_seconds) else 0.0
    check_instances(readers, seconds, "requests_per_second")
    best: PooledFleet | None = None
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


def _best_of(
    sized: Callable[..., PooledFleet | None],
    several: Sequence[DisaggregationTerms],
    rank: Callable[[PooledFleet], tuple[float, ...]],
) -> PooledFleet | None:
    """The best fleet of several terms, one of which must be kept; raises what the last one does if none is."""
    fleets: list[PooledFleet | None] = []
    failure: NothingFitsError | None = None
    for terms in several:
        try:
            fleets.append(sized(terms=terms))
        except NothingFitsError as error:
            failure = error
    if failure is not None and not fleets:
        raise failure
    return min((fleet for fleet in fleets if fleet is not None), key=rank, default=None)


def _rank(fleet: PooledFleet) -> tuple[float, int, int]:
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

    def __init__(self, pools: Pools, rate: float, terms: DisaggregationTerms) -> None:
        self.pools, self.rate = pools, rate
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

    def fleets(self, reader: int, writer: int, limit: float) -> Iterator[PooledFleet]:
        """Fleets of a pair that keep the promises, each cheaper than the limit [USD/h]."""
        least = fewest(partial(self._enough, reader, writer), int(self.least[reader, writer]), _MOST)
        receiving = float(self.pools.transfer.receiving_seconds[reader, writer])
        groups = self.alone(writer, receiving, math.ceil(self.rate * float(self.working[reader, writer])))
        if groups is None or least is None:
            return
        # Beyond a few more decode instances than needed nobody waits for a place.
        groups = max(groups, fewest_beside(least))
        for count in range(groups, 2 * groups + 16):
            low, room = max(fewest_beside(count), least), limit - count * self.decoding[writer]
            if low * self.reading[reader] >= room:
                return
            paid = math.ceil(room / self.reading[reader]) if math.isfinite(room) else _MOST
            most = min(MOST_RATIO * count, _MOST, paid)
            kept = fewest(partial(self._kept, reader, writer, count), low, most) if low <= most else None
            if kept is not None:
                yield self._fleet(reader, writer, count, kept)
                if kept == low:
                    return

    def _enough(self, reader: int, writer: int, count: int) -> bool:
        most = self.fullest * float(prefill_rates(self.pools, reader, writer, count)[-1])
        return self.rate <= most * (1.0 + 1e-9)

    def _kept(self, reader: int, writer: int, groups: int, count: int) -> bool:
        return self.targets.first_violated(self._fleet(reader, writer, groups, count).load) is None

    def _fleet(self, reader: int, writer: int, groups: int, count: int) -> PooledFleet:
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
        return fewest(
            lambda count: promised.first_violated(self.answers(writer, receiving, count)[1]) is None, least, _MOST
        )


#: Halvings of the range of rates in which promises are kept up to a rate [1].
_HALVINGS = 24
#: What is left of a rate whose waits, added up, break the promise, and how often that is taken [1].
_LESS, _ATTEMPTS = 0.98, 60
#: What the search takes for each prefill instance that there may be: 1 to 5 ms [s].
_BUDGET_SECONDS = 5e-3


def largest(pools: Pools, means: Means, terms: DisaggregationTerms, *, least: float = 0.0) -> PooledFleet | None:
    """The fleet of some chips, of a budget or of some power, that keeps its promises for the most requests.

    Parameters
    ----------
    pools : Pools
        The layouts to choose from.
    means : Means
        Of both pools together; chips of machines that are not full count.
    terms : Terms
        Promises, arrivals, loads and ratios.
    least : float
        Fleets that carry no more are not looked at [1/s].

    Returns
    -------
    Fleet or None
        None if there is one, but none that carries more than the least; else the best of all pairs of layouts and whole
        numbers of instances, of equal ones that with fewer instances; its load is the largest that keeps the promises
        and fills neither pool beyond the share of the terms.

    Raises
    ------
    NothingFitsError
        If no two instances that keep the promises fit.
    TooMuchError
        If a fleet may have too many instances to be looked at.

    Notes
    -----
    Pairs are tried in the order of a bound on what they complete, that of instances that are never idle, until the
    bound is below the best found. More prefill instances take more prompts and leave fewer chips to decode: the best
    number is where the two meet.
    """
    if "e2e" in terms.targets.given:
        sized = partial(largest, pools, means, least=least)
        return _best_of(sized, terms.by_token(pools.requests), _budget_rank)
    bounds = _bounds(pools, means, terms)
    size = float(_sizes(pools.prefill, means).min())
    check_instances(means.amount / size, _BUDGET_SECONDS, "means")
    search, best = _Budget(pools, means, terms.predicted(pools)), None
    for index in np.argsort(-bounds, axis=None, kind="stable"):
        reader, writer = (int(place) for place in np.unravel_index(index, bounds.shape))
        if bounds[reader, writer] <= (least if best is None else best.load.requests_per_second):
            break
        fleet = search.fleet(reader, writer)
        if fleet is not None and (best is None or _budget_rank(fleet) < _budget_rank(best)):
            best = fleet
    if best is None and least > 0.0:
        return None
    if best is None:
        _check_machines(pools, means, bounds)
        raise NothingFitsError(unreachable(pools, terms))
    return best


def _budget_rank(fleet: PooledFleet) -> tuple[float, float]:
    return -fleet.load.requests_per_second, fleet.dollars_per_hour


def _sizes(pool: PoolLayouts, means: Means) -> Array:
    """Means that an instance of each layout takes: chips [1], money [USD/h] or power [W]."""
    return np.asarray(means.taken(pool.setup) * pool.accelerators)


def _rented(pools: Pools, means: Means, chips: tuple[int, ...]) -> float:
    """Means that chips of both pools, or of each, take; see :func:`rented`."""
    sides = (pools.prefill.setup, pools.decode.setup)
    return sum(number * means.taken(setup) for number, setup in zip(chips, sides, strict=False))


def _check_machines(pools: Pools, means: Means, bounds: Array) -> None:
    """Refuse means that are enough for the chips of two instances, but not for their machines.

    Raises
    ------
    NothingFitsError
        With the fewest chips that are rented for two instances.
    """
    chips = [rented(pools, (int(reader), int(writer)), (1, 1)) for reader, writer in np.argwhere(bounds > 0.0)]
    if not any(_rented(pools, means, pair) <= means.amount for pair in chips):
        least = min(chips, key=lambda pair: (bill(pools, pair), sum(pair)))
        raise NothingFitsError(
            f"a prefill and a decode instance that meet the SLOs are rented as {sum(least)} accelerators together "
            f"(${bill(pools, least):,.2f} per hour), given: {means.text}"
        )


def _bounds(pools: Pools, means: Means, terms: DisaggregationTerms) -> Array:
    """Rate that no fleet of each pair of layouts exceeds, shape (n, m) [1/s].

    Raises
    ------
    NothingFitsError
        If no two instances that keep the promises fit.
    """
    planned = terms.predicted(pools)
    busy, working = per_request(pools, planned.targets)
    busy, working = busy / planned.fullest_reading, working / planned.fullest
    size_p, size_d = _sizes(pools.prefill, means)[:, None], _sizes(pools.decode, means)[None, :]
    amount = means.amount
    kept = np.isfinite(busy) & np.isfinite(working)
    if not kept.any():
        raise NothingFitsError(unreachable(pools, terms))
    least = np.where(kept, size_p + size_d, np.inf).min()
    if least > amount:
        raise TooLittleError(
            "a prefill and a decode instance that meet the SLOs take at least "
            f"{means.in_words(float(least))} together, given: {means.text}",
            float(least),
        )
    # Chips in the shares in which both pools are as full as they may be, and at least one instance of each.
    rates = amount / (busy * size_p + working * size_d)
    rates = np.minimum(rates, np.minimum((amount - size_d) / size_p / busy, (amount - size_p) / size_d / working))
    return np.where(kept & (size_p + size_d <= amount), rates, 0.0)


class _Budget:
    """Fleets of some chips, some money, or some power."""

    def __init__(self, pools: Pools, means: Means, terms: DisaggregationTerms) -> None:
        self.pools, self.means, self.terms = pools, means, terms
        self.given = means.amount
        self.before, self.decoder = PrefillPools(pools, terms), cache(partial(decoder, pools))
        self.answers = cache(self._answers)

    def fleet(self, reader: int, writer: int) -> PooledFleet | None:
        """The best numbers of instances of a pair of layouts; None if none keep the promises."""
        receiving = float(self.pools.transfer.receiving_seconds[reader, writer])
        answers = self.answers(writer, receiving)
        size = tuple(
            float(_sizes(pool, self.means)[index])
            for pool, index in ((self.pools.prefill, reader), (self.pools.decode, writer))
        )
        if answers <= 0.0:
            return None

        @cache
        def room(count: int) -> int:
            counts = range(1, int((self.given - count * size[0]) // size[1]) + 1)
            return bisect_left(counts, True, key=lambda most: not self._affordable((reader, writer), (count, most)))

        @cache
        def fed(count: int) -> float:
            patience = self.terms.targets.ttft_seconds
            return min(self.before.most(reader, writer, count, patience), MOST_RATIO * count * answers)

        counts = range(1, int((self.given - size[1]) // size[0]) + 1)
        # Up to where those that decode are fewer than the ratios allow.
        counts = counts[: bisect_left(counts, True, key=lambda count: room(count) < fewest_beside(count))]
        meeting = bisect_left(counts, True, key=lambda count: fed(count) >= room(count) * answers)
        rates = {count: min(fed(count), room(count) * answers) for count in counts[max(meeting - 1, 0) : meeting + 1]}
        if not rates or max(rates.values()) <= 0.0:
            return None
        count = max(rates, key=lambda count: (rates[count], -count))
        rate = rates[count]
        # No more instances than the rate needs; those that it was found for are enough.
        enough = range(1, count + 1)
        fewer = enough[bisect_left(enough, True, key=lambda count: fed(count) >= rate * (1.0 - 1e-12))]
        needed = max(math.ceil(rate / answers * (1.0 - 1e-12)), fewest_beside(fewer))
        count, groups = (fewer, needed) if needed <= MOST_RATIO * fewer else (count, room(count))
        return self._kept((reader, writer), (count, groups), rate)

    def _affordable(self, layouts: tuple[int, int], instances: tuple[int, int]) -> bool:
        chips = rented(self.pools, layouts, instances)
        return _rented(self.pools, self.means, chips) <= self.given

    def _kept(self, layouts: tuple[int, int], instances: tuple[int, int], rate: float) -> PooledFleet | None:
        """Under the rate, or the next smaller at which both waits together keep the promise."""
        for _ in range(_ATTEMPTS):
            terms = self.terms
            fleet = pools_under_load(
                self.pools, layouts, instances, rate, arrival_scv=terms.arrival_scv, targets=terms.targets
            )
            if terms.targets.first_violated(fleet.load) is None:
                return fleet
            rate *= _LESS
        return None

    def _answers(self, writer: int, receiving: float) -> float:
        """Requests per second for which a decode instance keeps the TPOT; 0 if for none [1/s]."""
        decode, targets, scv = self.decoder(writer, receiving), self.terms.targets, self.terms.arrival_scv
        most = self.terms.fullest * float(decode.requests_per_second[-1])
        # As many as share the traffic at most: what is a little too much is corrected with the fleet.
        count = max(int(self.given // _sizes(self.pools.decode, self.means)[writer]), 1)

        def kept(rate: float) -> bool:
            return targets.statistic("tpot", decode.load(rate, scv, count)) <= targets.tpot_seconds

        rate, _ = capacity.most(kept, 0.0, most, _HALVINGS)
        if rate == most:
            return most
        # With fewer slots it is kept at any load.
        fewer = decode.slots_within(targets.tpot_seconds)
        return max(rate, self.terms.fullest * float(decode.requests_per_second[fewer - 1])) if fewer else rate
