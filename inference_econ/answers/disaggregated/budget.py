"""The fleet of prefill and decode instances that does the most with some chips, some money, or some power."""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import cache, partial

import numpy as np

from inference_econ._types import Array
from inference_econ.answers import capacity
from inference_econ.answers.disaggregated.fleets import per_request
from inference_econ.answers.disaggregated.load import Fleet, bill, decoder, rented, under_load
from inference_econ.answers.disaggregated.pool import Pool
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.disaggregated.prefill_pools import PrefillPools, check_instances
from inference_econ.answers.disaggregated.terms import MOST_RATIO, Terms, fewest_beside, unreachable
from inference_econ.answers.means import Means
from inference_econ.errors import NothingFitsError, TooLittleError

#: Halvings of the range of rates in which promises are kept up to a rate [1].
_HALVINGS = 24
#: What is left of a rate whose waits, added up, break the promise, and how often that is taken [1].
_LESS, _ATTEMPTS = 0.98, 60
#: What the search takes for each prefill instance that there may be: 1 to 5 ms [s].
_SECONDS = 5e-3


def largest(pools: Pools, means: Means, terms: Terms, *, least: float = 0.0) -> Fleet | None:
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
    bounds = _bounds(pools, means, terms)
    size = float(_sizes(pools.prefill, means).min())
    check_instances(means.amount / size, _SECONDS, "means")
    search, best = _Budget(pools, means, terms.predicted(pools)), None
    for index in np.argsort(-bounds, axis=None, kind="stable"):
        reader, writer = (int(place) for place in np.unravel_index(index, bounds.shape))
        if bounds[reader, writer] <= (least if best is None else best.load.requests_per_second):
            break
        fleet = search.fleet(reader, writer)
        if fleet is not None and (best is None or _rank(fleet) < _rank(best)):
            best = fleet
    if best is None and least > 0.0:
        return None
    if best is None:
        _check_machines(pools, means, bounds)
        raise NothingFitsError(unreachable(pools, terms))
    return best


def _rank(fleet: Fleet) -> tuple[float, float]:
    return -fleet.load.requests_per_second, fleet.dollars_per_hour


def _sizes(pool: Pool, means: Means) -> Array:
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


def _bounds(pools: Pools, means: Means, terms: Terms) -> Array:
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

    def __init__(self, pools: Pools, means: Means, terms: Terms) -> None:
        self.pools, self.means, self.terms = pools, means, terms
        self.given = means.amount
        self.before, self.decoder = PrefillPools(pools, terms), cache(partial(decoder, pools))
        self.answers = cache(self._answers)

    def fleet(self, reader: int, writer: int) -> Fleet | None:
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

    def _kept(self, layouts: tuple[int, int], instances: tuple[int, int], rate: float) -> Fleet | None:
        """Under the rate, or the next smaller at which both waits together keep the promise."""
        for _ in range(_ATTEMPTS):
            terms = self.terms
            fleet = under_load(
                self.pools, layouts, instances, rate, arrival_scv=terms.arrival_scv, targets=terms.targets
            )
            if terms.targets.broken(fleet.load) is None:
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
            return targets.seen("tpot", decode.load(rate, scv, count)) <= targets.tpot_seconds

        rate, _ = capacity.most(kept, 0.0, most, _HALVINGS)
        if rate == most:
            return most
        # With fewer slots it is kept at any load.
        fewer = decode.slots_within(targets.tpot_seconds)
        return max(rate, self.terms.fullest * float(decode.requests_per_second[fewer - 1])) if fewer else rate
