"""Search for the best numbers of prefill and decode instances (xPyD), for a request rate or within a resource limit."""

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
from inference_econ.answers.disaggregated import load
from inference_econ.answers.disaggregated.pools import PoolLayouts, Pools
from inference_econ.answers.resource_limit import Means
from inference_econ.answers.slo import Targets
from inference_econ.errors import NothingFitsError, TooLittleError
from inference_econ.formulas import pareto
from inference_econ.serving import Loaded, check_rate

#: Maximum number of prefill instances, and of decode instances, in a search [1].
_MOST = 10**7
#: Relative amount by which a rate may exceed a capacity [1], so that a rounding error adds no instance.
_LAST_DIGIT = 1e-9
#: Search time per pair of layouts and required prefill instance, with a TTFT SLO [s]: 3 s for 5,700 instances.
_SECONDS = 1e-7


def smallest(
    pools: Pools,
    requests_per_second: float,
    terms: load.DisaggregationTerms,
    *,
    limit: float = math.inf,
    layouts: tuple[int, int] | None = None,
) -> load.PooledFleet | None:
    """Find the cheapest disaggregated deployment that meets the SLOs at a request rate.

    Parameters
    ----------
    pools : Pools
        Layouts of prefill and decode instances to choose from.
    requests_per_second : float
        Request rate [1/s].
    terms : DisaggregationTerms
        SLOs, arrivals, and largest load of prefill instances. Decode instances have the load limit of
        :func:`inference_econ.answers.deployments.recommend.recommend`, because the rate is the peak load.
    limit : float
        Upper limit on the cost, exclusive [USD/h].
    layouts : (int, int), optional
        Prefill layout and decode layout; by default any pair.

    Returns
    -------
    PooledFleet or None
        Cheapest pair of layouts with numbers of instances; None if no pair that meets the SLOs costs less than the
        limit.

    Raises
    ------
    InputError
        If the rate is not positive.
    NothingFitsError
        If no pair of layouts meets the SLOs.
    TooMuchError
        If too many instances are needed.

    Notes
    -----
    Pairs of layouts are evaluated in ascending order of a lower bound on their cost. For each pair, the search starts
    from the fewest instances that sustain the rate. It ends when the lower bound on the cost exceeds the lowest cost
    found so far.
    """
    check_rate(requests_per_second)
    if "e2e" in terms.targets.given:
        sized = partial(smallest, pools, requests_per_second, limit=limit, layouts=layouts)
        return _best_of(sized, terms.by_token(pools.requests), _rank)
    search = _Search(pools, requests_per_second, terms.predicted(pools))
    finite = search.least[np.isfinite(search.least)]
    # Fewest prefill instances that sustain the rate, over all layout pairs; 0 if no pair meets the SLOs.
    readers = float(finite.min()) if finite.size else 0.0
    seconds = _SECONDS * readers if math.isfinite(terms.targets.ttft_seconds) else 0.0
    load.check_instances(readers, seconds, "requests_per_second")
    best: load.PooledFleet | None = None
    for bound, reader, writer in search.pairs():
        room = limit if best is None else best.dollars_per_hour
        if bound >= room:
            break
        if layouts not in (None, (reader, writer)):
            continue
        for fleet in search.fleets(reader, writer, room):
            # Machines that are only partly used are paid in full, so the cost may exceed the bound.
            if fleet.dollars_per_hour < limit and (best is None or _rank(fleet) < _rank(best)):
                best = fleet
    if best is None and math.isinf(limit):
        raise NothingFitsError(load.unreachable(pools, terms))
    return best


def _best_of(
    sized: Callable[..., load.PooledFleet | None],
    several: Sequence[load.DisaggregationTerms],
    rank: Callable[[load.PooledFleet], tuple[float, ...]],
) -> load.PooledFleet | None:
    """Best deployment over alternative sets of SLOs. If no set can be met, the error of the last set is raised."""
    fleets: list[load.PooledFleet | None] = []
    failure: NothingFitsError | None = None
    for terms in several:
        try:
            fleets.append(sized(terms=terms))
        except NothingFitsError as error:
            failure = error
    if failure is not None and not fleets:
        raise failure
    return min((fleet for fleet in fleets if fleet is not None), key=rank, default=None)


def _rank(fleet: load.PooledFleet) -> tuple[float, int, int]:
    return fleet.dollars_per_hour, sum(fleet.accelerators), fleet.prefill_instances + fleet.decode_instances


def per_request(pools: Pools, targets: Targets) -> tuple[Array, Array]:
    """Lower bounds on the time per request of a prefill instance and of a decode instance, shape (n, m) each [s].

    Parameters
    ----------
    pools : Pools
        Prefill and decode layouts.
    targets : Targets
        SLOs.

    Returns
    -------
    (ndarray, ndarray)
        Instance time per request without idle time. The time of a prefill instance is ``inf`` if a single prompt misses
        the TTFT SLO. The time of a decode instance is ``inf`` if every batch misses the TPOT SLO.
    """
    busy = pools.busy_seconds
    in_time = (pools.first_token_seconds <= targets.ttft_seconds) & np.isfinite(pools.transfer.seconds)
    decoding = pools.decode
    working = pools.requests.decode_steps * decoding.step_seconds / decoding.batch
    least = decoding.step_seconds
    if targets.finds_few("tpot"):
        least = least.min(axis=1, keepdims=True)
    # The largest batch within the SLO is between two of the states.
    between = pareto.crossed(decoding.step_seconds, working, targets.tpot_seconds)
    whole = np.where(least <= targets.tpot_seconds, working, np.inf)
    best = np.fmin.reduce(np.hstack([whole, between]), axis=1)
    return np.where(in_time & np.isfinite(busy), busy, np.inf), np.maximum(
        best[None, :], pools.transfer.receiving_seconds
    )


class _Search:
    """Search for the cheapest disaggregated deployment at one request rate and one set of SLOs."""

    def __init__(self, pools: Pools, rate: float, terms: load.DisaggregationTerms) -> None:
        self.pools, self.rate = pools, rate
        self.targets, self.scv, self.fullest = terms.kept, terms.arrival_scv, terms.fullest_reading
        # Numbers of instances are rounded up from these times.
        self.busy, self.working = (seconds * (1.0 - _LAST_DIGIT) for seconds in per_request(pools, terms.targets))
        self.reading = pools.prefill.dollars_per_second * 3600.0
        self.decoding = pools.decode.dollars_per_second * 3600.0
        self.least = np.ceil(rate * self.busy / self.fullest)
        self.alone, self.answers = cache(self._alone), cache(self._answers)
        self.queue = cache(partial(load.prefill_queue, pools, rate=rate, arrival_scv=self.scv))
        self.decoder = cache(partial(load.decoder, pools))

    def pairs(self) -> Iterator[tuple[float, int, int]]:
        """Yield a lower bound on the cost of each layout pair [USD/h] and the pair, in ascending order of the bound."""
        reading, writing = self.least, np.ceil(self.rate * self.working)
        used = reading * self.reading[:, None] + writing * self.decoding[None, :]
        possible = np.isfinite(used)
        prompts, answers = self.pools.prefill, self.pools.decode
        first = np.where(possible, reading, 0.0) * prompts.accelerators[:, None]
        second = np.where(possible, writing, 0.0) * answers.accelerators[None, :]
        # Instances of one kind of GPU share machines.
        if prompts.setup.hardware == answers.setup.hardware:
            least = prompts.setup.dollars_per_hour(np.ceil(first + second), 1.0)
        else:
            least = prompts.setup.dollars_per_hour(first, 1.0) + answers.setup.dollars_per_hour(second, 1.0)
        bound = np.where(possible, least, np.inf)
        for index in np.lexsort((used.ravel(), bound.ravel())):
            reader, writer = np.unravel_index(index, bound.shape)
            if not np.isfinite(bound[reader, writer]):
                return
            yield float(bound[reader, writer]), int(reader), int(writer)

    def fleets(self, reader: int, writer: int, limit: float) -> Iterator[load.PooledFleet]:
        """Yield deployments of a pair of layouts that meet the SLOs and cost less than the limit [USD/h]."""
        sustained = self.fullest * (1.0 + _LAST_DIGIT)
        least = fewest(
            lambda count: (
                self.rate <= sustained * float(load.prefill_states(self.pools, reader, writer, count).rates[-1])
            ),
            int(self.least[reader, writer]),
            _MOST,
        )
        receiving = float(self.pools.transfer.receiving_seconds[reader, writer])
        groups = self.alone(writer, receiving, math.ceil(self.rate * float(self.working[reader, writer])))
        if groups is None or least is None:
            return
        # A few more decode instances than needed remove the wait for a decode slot, so larger numbers are tried too.
        groups = max(groups, load.fewest_beside(least))
        for count in range(groups, 2 * groups + 16):
            low, room = max(load.fewest_beside(count), least), limit - count * self.decoding[writer]
            if low * self.reading[reader] >= room:
                return
            paid = math.ceil(room / self.reading[reader]) if math.isfinite(room) else _MOST
            most = min(load.MOST_RATIO * count, _MOST, paid)
            kept = fewest(partial(self._kept, reader, writer, count), low, most) if low <= most else None
            if kept is not None:
                yield self._fleet(reader, writer, count, kept)
                if kept == low:
                    return

    def _kept(self, reader: int, writer: int, groups: int, count: int) -> bool:
        return self.targets.first_violated(self._fleet(reader, writer, groups, count).load) is None

    def _fleet(self, reader: int, writer: int, groups: int, count: int) -> load.PooledFleet:
        receiving = float(self.pools.transfer.receiving_seconds[reader, writer])
        queue, decoding = self.queue(reader, writer, count), self.answers(writer, receiving, groups)
        return load.together(self.pools, (reader, writer), (count, groups), queue, *decoding)

    def _answers(self, writer: int, receiving: float, count: int) -> tuple[load.Decoder, Loaded]:
        return self.decoder(writer, receiving).keeping(self.targets, self.rate / count, self.scv, count)

    def _alone(self, writer: int, receiving: float, least: int) -> int | None:
        """Fewest decode instances of a layout that meet the TPOT SLO; None if no number does."""
        promised = replace(self.targets, ttft_seconds=math.inf)
        return fewest(
            lambda count: promised.first_violated(self.answers(writer, receiving, count)[1]) is None, least, _MOST
        )


#: Number of bisections in the search for a request rate [1].
_HALVINGS = 24
#: Factor by which the rate is reduced if prefill and decode waits together miss the SLO, maximum number of reductions,
#: and number of bisections after the last reduction [1].
_LESS, _ATTEMPTS, _FINER = 0.98, 60, 3
#: Search time per possible prefill instance [s]; 1 to 5 ms were measured.
_BUDGET_SECONDS = 5e-3


def largest(
    pools: Pools, means: Means, terms: load.DisaggregationTerms, *, least: float = 0.0
) -> load.PooledFleet | None:
    """Find the disaggregated deployment that serves the largest request rate within a limit on GPUs, cost or power.

    Parameters
    ----------
    pools : Pools
        Layouts of prefill and decode instances to choose from.
    means : Means
        Limit on GPUs, cost or power of the whole deployment, including idle GPUs of rented machines.
    terms : DisaggregationTerms
        SLOs, arrivals and maximum loads.
    least : float
        Lower limit on the rate, exclusive [1/s].

    Returns
    -------
    PooledFleet or None
        Best pair of layouts with numbers of instances; at equal rates, the pair with fewer instances. The load is the
        largest that meets the SLOs and keeps prefill and decode instances below their maximum load. The result is None
        if the largest load does not exceed ``least``.

    Raises
    ------
    NothingFitsError
        If one prefill and one decode instance already exceed the limit.
    TooMuchError
        If the search would try too many instances.

    Notes
    -----
    Pairs of layouts are evaluated in descending order of an upper bound on their rate. The bound assumes that instances
    are never idle. The search ends when the bound is below the best result. Additional prefill instances increase the
    prefill rate, but leave fewer GPUs for decoding. The best number is where the prefill and decode rates are equal.
    """
    if "e2e" in terms.targets.given:
        sized = partial(largest, pools, means, least=least)
        return _best_of(sized, terms.by_token(pools.requests), _budget_rank)
    bounds = _bounds(pools, means, terms)
    size = float(_sizes(pools.prefill, means).min())
    load.check_instances(means.amount / size, _BUDGET_SECONDS, "means")
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
        chips = [load.rented(pools, (int(reader), int(writer)), (1, 1)) for reader, writer in np.argwhere(bounds > 0.0)]
        if not any(_rented(pools, means, pair) <= means.amount for pair in chips):
            cheapest = min(chips, key=lambda pair: (load.bill(pools, pair), sum(pair)))
            raise NothingFitsError(
                f"a prefill and a decode instance that meet the SLOs are rented as {sum(cheapest)} accelerators "
                f"together (${load.bill(pools, cheapest):,.2f} per hour), given: {means.text}"
            )
        raise NothingFitsError(load.unreachable(pools, terms))
    return best


def _budget_rank(fleet: load.PooledFleet) -> tuple[float, float]:
    return -fleet.load.requests_per_second, fleet.dollars_per_hour


def _sizes(pool: PoolLayouts, means: Means) -> Array:
    """Resources that an instance of each layout uses, in the unit of the limit: GPUs [1], cost [USD/h] or power [W]."""
    return np.asarray(means.taken(pool.setup) * pool.accelerators)


def _rented(pools: Pools, means: Means, chips: tuple[int, ...]) -> float:
    """Resources that rented prefill and decode GPUs use, in the unit of the limit; see :func:`rented`."""
    sides = (pools.prefill.setup, pools.decode.setup)
    return sum(number * means.taken(setup) for number, setup in zip(chips, sides, strict=False))


def _bounds(pools: Pools, means: Means, terms: load.DisaggregationTerms) -> Array:
    """Upper bound on the request rate of each pair of layouts, shape (n, m) [1/s].

    Raises
    ------
    NothingFitsError
        If one prefill and one decode instance that meet the SLOs already exceed the limit.
    """
    planned = terms.predicted(pools)
    busy, working = per_request(pools, planned.targets)
    busy, working = busy / planned.fullest_reading, working / planned.fullest
    size_p, size_d = _sizes(pools.prefill, means)[:, None], _sizes(pools.decode, means)[None, :]
    amount = means.amount
    kept = np.isfinite(busy) & np.isfinite(working)
    if not kept.any():
        raise NothingFitsError(load.unreachable(pools, terms))
    least = np.where(kept, size_p + size_d, np.inf).min()
    if least > amount:
        raise TooLittleError(
            "a prefill and a decode instance that meet the SLOs take at least "
            f"{means.in_words(float(least))} together, given: {means.text}",
            float(least),
        )
    # The GPUs are divided so that both pools reach their maximum load. Each pool has at least one instance.
    rates = amount / (busy * size_p + working * size_d)
    rates = np.minimum(rates, np.minimum((amount - size_d) / size_p / busy, (amount - size_p) / size_d / working))
    return np.where(kept & (size_p + size_d <= amount), rates, 0.0)


class _Budget:
    """Search for the largest request rate of a disaggregated deployment within one resource limit."""

    def __init__(self, pools: Pools, means: Means, terms: load.DisaggregationTerms) -> None:
        self.pools, self.means, self.terms = pools, means, terms
        self.given = means.amount
        self.before, self.decoder = load.PrefillPools(pools, terms), cache(partial(load.decoder, pools))
        self.answers = cache(self._answers)

    def fleet(self, reader: int, writer: int) -> load.PooledFleet | None:
        """Deployment of a pair of layouts with the largest rate within the limit; None if no rate meets the SLOs."""
        receiving = float(self.pools.transfer.receiving_seconds[reader, writer])
        answers = self.answers(writer, receiving)
        size = tuple(
            float(_sizes(pool, self.means)[index])
            for pool, index in ((self.pools.prefill, reader), (self.pools.decode, writer))
        )
        if answers <= 0.0:
            return None

        def taken(count: int, groups: int) -> float:
            return _rented(self.pools, self.means, load.rented(self.pools, (reader, writer), (count, groups)))

        @cache
        def room(count: int) -> int:
            counts = range(1, int((self.given - count * size[0]) // size[1]) + 1)
            return bisect_left(counts, True, key=lambda most: taken(count, most) > self.given)

        @cache
        def fed(count: int) -> float:
            patience = self.terms.targets.ttft_seconds
            return min(self.before.most(reader, writer, count, patience), load.MOST_RATIO * count * answers)

        counts = range(1, int((self.given - size[1]) // size[0]) + 1)
        # More prefill instances would violate the maximum ratio to decode instances.
        counts = counts[: bisect_left(counts, True, key=lambda count: room(count) < load.fewest_beside(count))]
        meeting = bisect_left(counts, True, key=lambda count: fed(count) >= room(count) * answers)
        rates = {count: min(fed(count), room(count) * answers) for count in counts[max(meeting - 1, 0) : meeting + 1]}
        if not rates or max(rates.values()) <= 0.0:
            return None
        count = max(rates, key=lambda count: (rates[count], -count))
        rate = rates[count]
        # Fewer instances may sustain the same rate.
        enough = range(1, count + 1)
        fewer = enough[bisect_left(enough, True, key=lambda count: fed(count) >= rate * (1.0 - 1e-12))]
        needed = max(math.ceil(rate / answers * (1.0 - 1e-12)), load.fewest_beside(fewer))
        count, groups = (fewer, needed) if needed <= load.MOST_RATIO * fewer else (count, room(count))
        return self._kept((reader, writer), (count, groups), rate)

    def _kept(self, layouts: tuple[int, int], instances: tuple[int, int], rate: float) -> load.PooledFleet | None:
        """Deployment at the rate, or at a lower rate if the rate misses the SLOs; None if all tried rates miss them."""
        scv, targets = self.terms.arrival_scv, self.terms.targets

        @cache
        def fleet(rate: float) -> load.PooledFleet:
            return load.pools_under_load(self.pools, layouts, instances, rate, arrival_scv=scv, targets=targets)

        def is_met(rate: float) -> bool:
            return targets.first_violated(fleet(rate).load) is None

        met = next((lower for attempt in range(_ATTEMPTS) if is_met(lower := rate * _LESS**attempt)), None)
        if met is None:
            return None
        return fleet(capacity.most(is_met, met, min(met / _LESS, rate), _FINER)[0])

    def _answers(self, writer: int, receiving: float) -> float:
        """Largest request rate of a decode instance within the TPOT SLO and its maximum load [1/s]; may be 0."""
        decode, targets, scv = self.decoder(writer, receiving), self.terms.targets, self.terms.arrival_scv
        most = self.terms.fullest * float(decode.requests_per_second[-1])
        # This estimate assumes the largest possible number of instances. A later evaluation with the actual number
        # corrects it.
        count = max(int(self.given // _sizes(self.pools.decode, self.means)[writer]), 1)

        def kept(rate: float) -> bool:
            return targets.statistic("tpot", decode.load(rate, scv, count)) <= targets.tpot_seconds

        rate, _ = capacity.most(kept, 0.0, most, _HALVINGS)
        if rate == most:
            return most
        # A lower concurrency limit meets the SLO at any load.
        fewer = decode.slots_within(targets.tpot_seconds)
        return max(rate, self.terms.fullest * float(decode.requests_per_second[fewer - 1])) if fewer else rate
