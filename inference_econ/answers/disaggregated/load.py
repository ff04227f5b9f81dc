"""Prefill and decode instances, xPyD, under a stream of requests or with a constant number of them."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial

import numpy as np

from inference_econ import _work
from inference_econ._types import Array
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.slo import FILLED, FULLEST, Chances, Margins, Targets, chances_of, instances_of, margins
from inference_econ.errors import InputError
from inference_econ.formulas import money, queueing, renting, special
from inference_econ.inputs import Requests
from inference_econ.inputs.workload import percentiles
from inference_econ.serving import (
    Gamma,
    LengthSample,
    Loaded,
    Statistics,
    check_rate,
    levels,
    of_constant,
    of_mixture,
    of_sample,
)

#: Numbers of prompts in all prefill instances that are told apart [1].
_MOST_STATES = 2**16
#: Requests that stand for all [1].
_DRAWN = 4_000


@dataclass(frozen=True, slots=True)
class PooledFleet:
    """Some prefill instances and some decode instances under load.

    Attributes
    ----------
    pools : Pools
        Where the layouts come from.
    prefill, decode : int
        Indices of the layouts.
    prefill_instances, decode_instances : int
        The x and the y of xPyD [1].
    load : Loaded
        Of the whole fleet; a request waits for a prefill instance, and then perhaps for a place in a decode batch.
    prefill_utilization, decode_utilization : float
        Requests over what each pool completes [1].
    slots : int
        Requests in flight of a decode instance at most, as engines are told [1].
    """

    pools: Pools
    prefill: int
    decode: int
    prefill_instances: int
    decode_instances: int
    load: Loaded
    prefill_utilization: float
    decode_utilization: float
    slots: int

    @property
    def accelerators(self) -> tuple[int, int]:
        """Chips of the prefill and of the decode pool [1]."""
        return (
            self.prefill_instances * int(self.pools.prefill.accelerators[self.prefill]),
            self.decode_instances * int(self.pools.decode.accelerators[self.decode]),
        )

    @property
    def rented(self) -> tuple[int, ...]:
        """Chips of the machines that hold the instances: of each pool, or of both where their chips are alike [1]."""
        return rented(self.pools, (self.prefill, self.decode), (self.prefill_instances, self.decode_instances))

    @property
    def dollars_per_hour(self) -> float:
        """The whole bill [USD/h]."""
        return bill(self.pools, self.rented)

    @property
    def binding(self) -> str:
        """Which pool has less to spare."""
        return "prefill" if self.prefill_utilization > self.decode_utilization else "decode"

    @property
    def dollars_per_million_output_tokens(self) -> float:
        """The whole bill over the output tokens completed [USD per 1e6 tokens]."""
        tokens_per_second = self.load.completed_per_second * self.pools.requests.osl.mean
        return float(money.dollars_per_million(self.dollars_per_hour / 3600.0, tokens_per_second))

    def chances(self, targets: Targets) -> Chances:
        """Of TTFTs by the instances that read prompts, of TPOTs and traffic by those that decode."""
        sides = ((self.pools.prefill, self.prefill), (self.pools.decode, self.decode))
        reading, decoding = (instances_of(pool.services.service(index)) for pool, index in sides)
        return chances_of(reading, decoding, self.load, targets)


def rented(pools: Pools, layouts: tuple[int, int], instances: tuple[int, int]) -> tuple[int, ...]:
    """Chips of the machines that hold some prefill and decode instances [1].

    Parameters
    ----------
    pools : Pools
        The layouts to choose from.
    layouts, instances : (int, int)
        Which layout prefill and decode instances have, and how many there are [1].

    Returns
    -------
    tuple of int
        Of each pool; one number if both have chips of one kind, whose instances may share machines.
    """
    sides = [
        (pool.setup, (count, int(pool.accelerators[index])))
        for pool, index, count in zip((pools.prefill, pools.decode), layouts, instances, strict=True)
    ]
    (setup, first), (other, second) = sides
    if setup.hardware == other.hardware:
        return (int(renting.rented_together(first, second, setup.machines)),)
    return tuple(int(side.rented(*kind)) for side, kind in sides)


def bill(pools: Pools, chips: tuple[int, ...]) -> float:
    """Cost of chips of both pools, or of each [USD/h]; see :func:`rented`."""
    prices = (pool.setup.dollars_per_accelerator_hour for pool in (pools.prefill, pools.decode))
    return sum(number * price for number, price in zip(chips, prices, strict=False))


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decode instance, which no prompt delays, by the number of requests in it; arrays of shape (slots,).

    Attributes
    ----------
    requests_per_second : ndarray
        Completed with 1, 2, .. requests [1/s].
    tpot_seconds : ndarray
        Between two tokens of each [s].
    variation : float
        Squared coefficient of variation of the lengths of answers [1].
    """

    requests_per_second: Array
    tpot_seconds: Array
    variation: float

    @property
    def slots(self) -> int:
        """Requests in flight at most [1]."""
        return self.requests_per_second.size

    def limited(self, slots: int | None) -> Decoder:
        """Pools with no more requests in flight than are told, where any number is; others wait."""
        return replace(
            self, requests_per_second=self.requests_per_second[:slots], tpot_seconds=self.tpot_seconds[:slots]
        )

    def slots_within(self, tpot_seconds: float) -> int:
        """The most requests in flight with which each has a token in some time [1]; 0 if none."""
        longer = self.tpot_seconds > tpot_seconds
        return int(np.argmax(longer)) if longer.any() else self.slots

    def keeping(
        self, targets: Targets, requests_per_second: float, arrival_scv: float = 1.0, instances: int = 1
    ) -> tuple[Decoder, Loaded]:
        """Pools with the most slots that keep a promised TPOT under a stream, if any do, and their load.

        Where all slots of its memory break the promise, too many are in flight at times. Those that keep it at any load
        do, and of a mean some more; percentiles are never kept by a number between these and all.
        """

        def limited(slots: int) -> tuple[Decoder, Loaded]:
            fewer = self.limited(slots)
            return fewer, fewer.load(requests_per_second, arrival_scv, instances)

        def broken(slots: int) -> bool:
            return targets.statistic("tpot", limited(slots)[1]) > targets.tpot_seconds

        least = self.slots_within(targets.tpot_seconds)
        if not least or least == self.slots or not broken(self.slots):
            return limited(self.slots)
        return limited(least + bisect_right(range(least + 1, self.slots), False, key=broken))

    def queue(self, requests_per_second: float, arrival_scv: float = 1.0) -> queueing.Load:
        """The instance under a stream of requests."""
        rates = self.requests_per_second
        return queueing.load(requests_per_second, rates, arrival_scv=arrival_scv, service_scv=self.variation)

    def load(self, requests_per_second: float, arrival_scv: float = 1.0, instances: int = 1) -> Loaded:
        """Load in the form of a service's; its TTFT is the wait for a place.

        ``arrival_scv`` is that of the whole traffic, which as many instances share [1].
        """
        arrivals = Gamma(arrival_scv).among(instances)
        queue = self.queue(requests_per_second, arrivals.scv)
        return Loaded(
            requests_per_second,
            bool(queue.saturated),
            float(queue.offered),
            min(requests_per_second, float(self.requests_per_second[-1])),
            float(queue.in_flight),
            float(queue.waiting),
            Statistics(float(queue.wait_seconds), partial(_wait, queue)),
            of_mixture(self.tpot_seconds, queue.work),
            arrivals=arrivals,
        )


def pools_under_load(
    pools: Pools,
    layouts: tuple[int, int],
    instances: tuple[int, int],
    requests_per_second: float,
    *,
    arrival_scv: float = 1.0,
    targets: Targets | None = None,
) -> PooledFleet:
    """A fleet under a steady stream of requests.

    Parameters
    ----------
    pools : Pools
        The layouts to choose from.
    layouts, instances : (int, int)
        Which layout prefill and decode instances have, and how many there are [1].
    requests_per_second : float
        Arrivals at the fleet [1/s].
    arrival_scv : float
        Squared coefficient of variation of the times between arrivals at the fleet [1].
    targets : Targets, optional
        Promises, for whose TPOT decode instances have fewer requests in flight than memory holds where they must.

    Returns
    -------
    Fleet
        With its latencies.

    Raises
    ------
    InputError
        If the rate is not positive or the variation negative.

    Notes
    -----
    Prompts wait in one line, which has the whole burstiness, for the first free prefill instance: a queue with several
    servers whose work varies as the prompts do, :func:`inference_econ.formulas.queueing.load`. Prompts that are there
    at the same time share the steps of an instance, see :func:`prefill_rates`. Decode instances get equal random parts,
    less bursty than the whole (:func:`inference_econ.formulas.queueing.split_scv`); each is a queue of its own, see
    :func:`decoder`. TTFT is the wait, the time in a prefill instance, what is left of the transfer then, and the wait
    for a place; the two waits are taken to be independent. A wait is zero or exponential; the time in an instance is
    that of the prompts which are there together, :func:`seconds_inside`, and of how much longer than others the own
    prompt is, :func:`until_read`.
    """
    check_rate(requests_per_second)
    (reader, writer), (count, groups) = layouts, instances
    queue = prefill_queue(pools, reader, writer, count, requests_per_second, arrival_scv)
    receiving = float(pools.transfer.receiving_seconds[reader, writer])
    promised = Targets() if targets is None else targets
    decoding = decoder(pools, writer, receiving).keeping(promised, requests_per_second / groups, arrival_scv, groups)
    return together(pools, layouts, instances, queue, *decoding)


def closed_loop(pools: Pools, layouts: tuple[int, int], instances: tuple[int, int], concurrency: float) -> PooledFleet:
    """A fleet with a constant number of requests in it: a new one comes whenever one ends.

    Parameters
    ----------
    pools : Pools
        The layouts to choose from.
    layouts, instances : (int, int)
        Which layout prefill and decode instances have, and how many there are [1].
    concurrency : float
        Requests in the fleet, those that wait included, at least one [1].

    Returns
    -------
    Fleet
        Its load is that of the stream whose requests see the same.

    Raises
    ------
    InputError
        If there is less than one request.

    Notes
    -----
    A request of a closed loop finds the others as one that comes from outside would find a loop without it (Reiser and
    Lavenberg, 1980). So this is :func:`pools_under_load` at the rate at which an arriving request finds N - 1 others,
    who by Little's law are rate x (TTFT + steps x TPOT). That grows with the rate from none to without end at what the
    slower pool completes. The fleet completes N / (TTFT + steps x TPOT), no more than the slower pool does.
    """
    if not concurrency >= 1:
        raise InputError(f"a closed loop has at least one request, got {concurrency:g}")
    (reader, writer), (count, groups) = layouts, instances
    prompts, steps = prefill_rates(pools, reader, writer, count), pools.requests.decode_steps
    decoding = decoder(pools, writer, float(pools.transfer.receiving_seconds[reader, writer]))
    most = min(float(prompts[-1]), groups * float(decoding.requests_per_second[-1]))

    def cycle(rate: float) -> float:
        queue = _line(pools, count, rate, prompts)
        places = decoding.queue(rate / groups)
        first = float(seconds_without_waits(pools, layouts, queue) + queue.wait_seconds + places.wait_seconds)
        return first + steps * float(decoding.tpot_seconds @ places.work)

    others, highest = concurrency - 1.0, 1.0 - 1e-12
    share = special.root(lambda x: x * most * cycle(x * most) - others, 0.0, highest, 1e-15)
    fleet = together(
        pools, layouts, instances,
        _line(pools, count, share * most, prompts),
        decoding, decoding.load(share * most / groups, instances=groups),
    )  # fmt: skip
    completed = min(concurrency / cycle(share * most), most)
    return replace(fleet, load=replace(fleet.load, completed_per_second=completed))


def together(
    pools: Pools,
    layouts: tuple[int, int],
    instances: tuple[int, int],
    queue: queueing.Load,
    decode: Decoder,
    decoding: Loaded,
) -> PooledFleet:
    """A fleet from the line before its prefill instances, and from one that decodes and its load."""
    count, groups = instances
    rate = decoding.requests_per_second * groups
    saturated = decoding.saturated or bool(queue.saturated)
    waits = float(queue.wait_seconds), decoding.ttft_seconds["mean"]
    first = float(seconds_without_waits(pools, layouts, queue)) + sum(waits)
    drawn = _FirstTokens(pools, layouts, count, queue, decoding)
    ttft = of_constant(math.inf) if saturated else Statistics(first, drawn)
    tokens, steps = pools.requests.osl.mean, pools.requests.decode_steps
    last = math.inf if saturated else first + steps * decoding.tpot_seconds["mean"]
    e2e = Statistics(last, partial(_latest, ttft, decoding.tpot_seconds, steps))
    # With more than they can take, the slower pool sets the pace.
    busiest = max(float(queue.offered), decoding.utilization)
    load = Loaded(
        rate,
        saturated,
        busiest,
        rate / max(busiest, 1.0),
        float(queue.in_flight) + groups * decoding.in_flight,
        1.0 - (1.0 - float(queue.waiting)) * (1.0 - decoding.waiting),
        ttft,
        decoding.tpot_seconds,
        e2e,
        Statistics(last / tokens, lambda share: e2e.quantile(share) / tokens),
        arrivals=decoding.arrivals.among(1.0 / groups),
    )
    return PooledFleet(pools, *layouts, count, groups, load, float(queue.offered), decoding.utilization, decode.slots)


def _latest(ttft: Statistics, tpot: Mapping[str, float], steps: float, share: float) -> float:
    """Time that the last tokens of a share of the requests come before [s]: that of both latencies at that share.

    An upper bound, unless requests with a long TTFT are those with a long TPOT, where it is the time itself.
    """
    return ttft.quantile(share) + steps * tpot[f"p{100.0 * share:g}"]


def seconds_without_waits(pools: Pools, layouts: tuple[int, int], queue: queueing.Load) -> Array:
    """TTFT without waits: with the time in a prefill instance in the place of that of a prompt by itself [s]."""
    alone = float(pools.reading_seconds[layouts])
    return np.asarray(float(pools.first_token_seconds[layouts]) - alone + np.maximum(queue.service_seconds, alone))


def seconds_inside(pools: Pools, layouts: tuple[int, int], count: int) -> Array:
    """Time of a prompt in its prefill instance with 1, 2, .. prompts in all, ascending [s].

    Notes
    -----
    Little's law in every state: prompts over what is completed. A request makes the state in which its work is done, so
    that :attr:`inference_econ.formulas.queueing.Load.work` says how often each occurs; the mean is then that of all.
    """
    rates = prefill_rates(pools, *layouts, count)
    alone = float(pools.reading_seconds[layouts])
    return np.maximum.accumulate(np.maximum(np.arange(1.0, rates.size + 1.0) / rates, alone))


def prefill_queue(
    pools: Pools, reader: int, writer: int, count: int, rate: float | Array, arrival_scv: float
) -> queueing.Load:
    """The line of prompts before a number of prefill instances."""
    return _line(pools, count, rate, prefill_rates(pools, reader, writer, count), arrival_scv)


def _line(pools: Pools, count: int, rate: float | Array, rates: Array, arrival_scv: float = 1.0) -> queueing.Load:
    """The line of prompts before instances that complete some rates with 1, 2, .. prompts [1/s].

    Prompts that are in an instance together are read as they came: a long one makes those wait that follow. Slots that
    share an instance know nothing of that. By Pollaczek's and Khinchine's formula there are 1 + cs2 / 2 times as many
    prompts as if all were alike, of which each instance has one at the head.
    """
    scv = pools.requests.isl.scv
    crowd = (arrival_scv + scv) * scv / 2.0 * (1.0 - count / rates.size)
    return queueing.load(rate, rates, arrival_scv=arrival_scv, service_scv=scv, bunching=crowd)


def prefill_rates(pools: Pools, reader: int, writer: int, count: int) -> Array:
    """Rate that a number of prefill instances completes with 1, 2, .. prompts, which they share evenly [1/s].

    Notes
    -----
    Each instance begins with a prompt per group of attention ranks and stage, which take as long as by themselves. More
    of them share steps, as :func:`inference_econ.engine.prefill.shared_steps` has it, up to what a step allows.
    """
    pool, moved = pools.prefill, pools.transfer
    sending, handover = (float(seconds[reader, writer]) for seconds in (moved.sending_seconds, moved.handover_seconds))
    prompts = pool.waiting_prompts[reader]
    prompt_seconds = np.maximum(pool.shared_prefill_seconds[reader] + handover, sending)
    alone = max(float(pool.prefill_seconds[reader]) + handover, sending)
    beside = math.ceil(alone / float(prompt_seconds[0]) * (1.0 - 1e-12))
    # However many instances there are, so many numbers of prompts are enough.
    held = np.arange(1.0, count * max(min(math.ceil(prompts[-1]), _MOST_STATES // count), beside) + 1.0)
    rates = np.minimum(held / alone, count / np.interp(held / count, prompts, prompt_seconds))
    return np.asarray(np.maximum.accumulate(rates))


def decoder(pools: Pools, index: int, receiving: float) -> Decoder:
    """A decode instance whose links take some time for each cache that comes [s]."""
    service = pools.decode.services.service(index)
    states = service.states.without_prompts(pools.requests.decode_steps, receiving)
    state = states.at(np.arange(1.0, service.slots + 1.0))
    # A server with more in flight completes no less; interpolation may say so by a rounding.
    rates = np.maximum.accumulate(state.requests_per_second)
    return Decoder(rates, state.tpot_seconds, pools.requests.osl.scv)


@dataclass(frozen=True)
class _FirstTokens:
    """TTFT of requests that stand for all, drawn when somebody wants a percentile.

    Attributes
    ----------
    pools, layouts, count, queue
        See :func:`until_read`.
    decoding : Loaded
        Of an instance that decodes; its TTFT is the wait for a place.
    """

    pools: Pools
    layouts: tuple[int, int]
    count: int
    queue: queueing.Load
    decoding: Loaded

    @cached_property
    def _seen(self) -> Statistics:
        around = float(self.pools.first_token_seconds[self.layouts] - self.pools.reading_seconds[self.layouts])
        drawn = LengthSample(self.pools.requests, _DRAWN)
        read = until_read(self.pools, self.layouts, self.count, self.queue, drawn)
        return of_sample(around + read + second_waits(self.decoding, drawn))

    def __call__(self, share: float) -> float:
        return float(self._seen.quantile(share))


def until_read(pools: Pools, layouts: tuple[int, int], count: int, queue: queueing.Load, drawn: LengthSample) -> Array:
    """Time from the arrival of some prompts until each has been read, shape (..., drawn.count) [s].

    Parameters
    ----------
    pools : Pools
        The layouts to choose from.
    layouts : (int, int)
        Which layout prefill and decode instances have.
    count : int
        Prefill instances [1].
    queue : queueing.Load
        The line before them, of shape (...).
    drawn : LengthSample
        The prompts.

    Notes
    -----
    Those who wait are the ones that are in an instance longest. A prompt takes its own time in the place of that of the
    average one, as in :func:`inference_econ.serving.load.loaded`, and its length knows nothing of the line.
    """
    inside, pool, places = seconds_inside(pools, layouts, count), pools.prefill, levels(drawn.count)
    latency = float(np.broadcast_to(pool.latency, len(pool.services))[layouts[0]])
    of_prompt = pool.services.states.prompts.take(layouts[0]).beyond_mean(drawn.prompts(), np.zeros(drawn.count))
    below = np.cumsum(queue.work, axis=-1).reshape(-1, inside.size)
    states_found = np.stack([np.searchsorted(states / states[-1], places) for states in below])
    times = inside[states_found].reshape((*queue.waiting.shape, drawn.count))
    return np.asarray(times + queueing.wait_quantiles(queue, places) + latency * of_prompt)


def second_waits(decoding: Loaded, drawn: LengthSample) -> Array:
    """Waits of some requests for a place in a batch, each zero or exponential, shape (drawn.count,) [s]."""
    if decoding.waiting <= 0.0:
        return np.zeros(drawn.count)
    # The mean over all requests is that of those who wait, times how many do.
    longer = np.log(decoding.waiting / (1.0 - drawn.shares("place in a batch")))
    return np.asarray(decoding.ttft_seconds["mean"] / decoding.waiting * np.maximum(longer, 0.0))


def _wait(queue: queueing.Load, share: float) -> float:
    """Wait for a place that a share of the requests stays below [s]."""
    return float(queueing.wait_quantiles(queue, [share])[0])


#: Most instances of one kind for each of the other, so that ratios go from 1:16 to 16:1 [1]. Fleets of public
#: measurements have from 1:9 to 3:1 (servers/serving_points.csv); DeepSeek-V3's report (2024, section 3.4) has units of
#: 4 and of 40 nodes. Where one instance feeds or drains more than that, its loss stops them all.
MOST_RATIO = 16


def fewest_beside(instances: int) -> int:
    """Fewest instances of one pool beside some of the other [1]."""
    return math.ceil(instances / MOST_RATIO)


#: Parts of a promised E2E latency that the TTFT may take, of which the cheapest is answered [1].
_TTFT_SHARES = (0.02, 0.05, 0.1, 0.2, 0.4)


@dataclass(frozen=True, slots=True)
class DisaggregationTerms:
    """Promises, arrivals and loads of a fleet of prefill and decode instances.

    Attributes
    ----------
    targets : Targets
        Promised latencies, and which requests must see them.
    arrival_scv : float
        Squared coefficient of variation of the times between arrivals [1]: 1 if Poisson, more if bursty.
    fullest : float
        Share of what a pool completes beyond which it is not filled [1].

    Raises
    ------
    InputError
        If the share or the variation is impossible.
    """

    targets: Targets = field(default_factory=Targets)
    arrival_scv: float = 1.0
    fullest: float = FILLED

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        if not 0.0 < self.fullest <= FULLEST:
            raise InputError(
                f"the share of what is completed that pools are filled to must be above 0 and at most {FULLEST:g} "
                f"(beyond it queues hang on the last digit), got {self.fullest:g}"
            )
        if not 0.0 <= self.arrival_scv < math.inf:
            raise InputError(f"arrival_scv must be a number >= 0, got {self.arrival_scv:g}")

    def by_token(self, requests: Requests) -> list[DisaggregationTerms]:
        """Terms of a TTFT and a TPOT that keep an E2E latency, one for each part of it that the TTFT may take.

        The requests that count must see both, so that the sum of the TTFT and of as many TPOT as there are decode steps
        is an upper bound. The terms alone where no E2E latency is promised.
        """
        targets = self.targets
        if "e2e" not in targets.given:
            return [self]
        e2e, steps = targets.e2e_seconds, max(requests.decode_steps, 1.0)
        last = targets.percentile_of("e2e")

        def strictest(name: str) -> str:
            both = (targets.percentile_of(name), last) if name in targets.given else (last,)
            return max(both, key=lambda percentile: percentiles.share(percentile) or 0.5)

        return [
            replace(
                self,
                targets=replace(
                    targets,
                    ttft_seconds=min(targets.ttft_seconds, share * e2e),
                    tpot_seconds=min(targets.tpot_seconds, (1.0 - share) * e2e / steps),
                    e2e_seconds=math.inf,
                    ttft_percentile=strictest("ttft"),
                    tpot_percentile=strictest("tpot"),
                ),
            )
            for share in _TTFT_SHARES
        ]

    @property
    def kept(self) -> Targets:
        """The promises; where there is none of a TTFT, answers wait as little for a place in a batch as prompts do."""
        if "ttft" in self.targets.given:
            return self.targets
        return replace(self.targets, fullest=min(self.targets.fullest, self.fullest_reading))

    @property
    def fullest_reading(self) -> float:
        """Share of what prefill instances complete beyond which no question fills them, so that prompts wait little."""
        return min(self.fullest, FILLED)

    def predicted(self, pools: Pools) -> DisaggregationTerms:
        """Terms that predictions of any layouts of two pools must keep for measured ones to keep these."""
        if self.targets.confidence is None:
            return self
        by = self.margins(pools)
        return replace(self, targets=self.targets.less(by), fullest=self.fullest / float(by.throughput.max()))

    def margins(self, pools: Pools) -> Margins:
        """Divisors of promises before predictions for any layouts of two pools are held against them [1]."""
        confidence, promised = self.targets.confidence, set(self.targets.given)
        if confidence is None:
            return self.targets.margins(pools.decode.services)
        reading = margins(pools.prefill.services, confidence, promised & {"ttft"})
        decoding = margins(pools.decode.services, confidence, promised & {"tpot"})
        ones = np.ones_like(decoding.tpot)
        return Margins(reading.ttft, decoding.tpot, ones, np.append(reading.throughput, decoding.throughput))


def unreachable(pools: Pools, terms: DisaggregationTerms) -> str:
    """Promise that no pair of layouts keeps, the best that can be reached, and how far that is from it."""
    targets, by = terms.targets, terms.margins(pools)
    promised = {
        "TTFT": (targets.ttft_seconds, float(by.ttft.max() * pools.first_token_seconds.min())),
        "TPOT": (targets.tpot_seconds, float(by.tpot.max() * pools.decode.step_seconds.min())),
    }
    reached = ", ".join(
        f"{name} {1e3 * best:.4g} ms{_missed(best / limit)}" for name, (limit, best) in promised.items()
    )
    return (
        f"no pair of layouts keeps {targets.text or 'the SLOs'}. Best reachable with a single request: {reached}; that "
        f"is without queues, here at most {100 * terms.fullest:g} % busy, with 1:{MOST_RATIO} to {MOST_RATIO}:1 "
        "prefill to decode instances"
    )


def _missed(factor: float) -> str:
    return f" ({factor:.3g} times the SLO)" if factor > 1.0 else ""


#: Loads at which a line is looked at [1].
_LOADS = 24
#: Prompts that stand for all in a line [1].
_PREFILL_SAMPLE = 1_000
#: Arrays over prompts in a pool, for each of its instances [B].
_BYTES = 4e3


def prefill_costs(pools: Pools, ttft_seconds: float) -> tuple[Array, Array]:
    """Time and dollars of a prefill instance per prompt if it is never idle, for every pair of layouts.

    Parameters
    ----------
    pools : Pools
        The choices.
    ttft_seconds : float
        Longest time to first token allowed [s].

    Returns
    -------
    (ndarray, ndarray), both of shape (n, m)
        [s] and [USD], bounds from below of those under load; the dollars are ``inf`` where not even a prompt that finds
        nobody keeps the time to first token.
    """
    busy = pools.busy_seconds
    in_time = (pools.first_token_seconds <= ttft_seconds) & np.isfinite(pools.transfer.seconds)
    with np.errstate(invalid="ignore"):
        return busy, np.where(in_time, busy * pools.prefill.dollars_per_second[:, None], np.inf)


def check_instances(instances: float, seconds: float, smaller: str) -> None:
    """Refuse to look at more prefill instances than can be; see :mod:`inference_econ._work`.

    Parameters
    ----------
    instances : float
        That a fleet must or may have [1].
    seconds : float
        What a search takes for each [s].
    smaller : str
        The parameter that makes them fewer.

    Raises
    ------
    TooMuchError
        With how many there are.
    """
    work = f"fleets of {instances:,.0f} prefill instances"
    _work.check(work, seconds=seconds * instances, size=_BYTES * instances, smaller=smaller)


class PrefillPools:
    """Prefill instances in front of decode instances, on the terms of a comparison.

    Parameters
    ----------
    pools : Pools
        The layouts.
    terms : Terms
        Promises, arrivals and loads.
    """

    def __init__(self, pools: Pools, terms: DisaggregationTerms) -> None:
        self.pools, self.terms = pools, terms
        self.line = cache(self._line)

    def most(self, reader: int, writer: int, count: int, patience: float = math.inf) -> float:
        """Requests per second that some prefill instances take within the promise [1/s].

        Parameters
        ----------
        reader, writer : int
            Layouts of prefill and decode instances.
        count : int
            Prefill instances [1].
        patience : float
            Longest time until the prompt has been read and its cache has arrived, waits included [s].
        """
        rates, seconds = self.line(reader, bool(self.pools.transfer.fast[reader, writer]), count)
        if math.isinf(patience):
            return float(rates[-1])
        left = patience - float(self.pools.transfer.exposed_seconds[reader, writer])
        # Mostly convex in the rate, so that a straight line between two of them does not promise too much.
        return float(np.interp(left, seconds, rates, left=0.0))

    def _line(self, reader: int, fast: bool, count: int) -> tuple[Array, Array]:
        """Rates [1/s], and the TTFT at each without what is left of the transfer [s]; both ascend."""
        pools, terms = self.pools, self.terms
        reached = np.isfinite(pools.transfer.seconds[reader])
        writer = int(np.argmax((pools.transfer.fast[reader] == fast) & reached))
        most = terms.fullest_reading * float(prefill_rates(pools, reader, writer, count)[-1])
        if math.isinf(terms.targets.ttft_seconds):
            return np.array([most]), np.array([0.0])
        rates = most * np.arange(1.0, _LOADS + 1.0) / _LOADS
        queue = prefill_queue(pools, reader, writer, count, rates, terms.arrival_scv)
        around = float(pools.first_token_seconds[reader, writer] - pools.reading_seconds[reader, writer])
        exposed = float(pools.transfer.exposed_seconds[reader, writer])
        part = percentiles.share(terms.targets.percentile_of("ttft"))
        if part is None:
            seconds = seconds_without_waits(pools, (reader, writer), queue) + queue.wait_seconds
        else:
            drawn = LengthSample(pools.requests, _PREFILL_SAMPLE)
            read = until_read(pools, (reader, writer), count, queue, drawn)
            seconds = around + np.quantile(read, part, axis=-1)
        return rates, np.maximum.accumulate(seconds - exposed)


@dataclass(frozen=True, slots=True)
class PooledRun:
    """Latencies that the requests of a run saw, in the order in which they came.

    Attributes
    ----------
    ttft, tpot : ndarray, shape (n,)
        From arrival to the first token, and between two tokens of the answer [s].
    seconds : float
        From the first arrival to the last token [s].
    """

    ttft: Array
    tpot: Array
    seconds: float


def played(
    pools: Pools,
    layouts: tuple[int, int],
    instances: tuple[int, int],
    concurrency: int,
    decode_steps: Array,
    *,
    slots: int | None = None,
) -> PooledRun:
    """Play a closed loop: some requests at once, and a new one whenever one ends, until all have come.

    Parameters
    ----------
    pools : Pools
        The layouts to choose from.
    layouts, instances : (int, int)
        Which layout prefill and decode instances have, and how many there are [1].
    concurrency : int
        Requests in the fleet, those that wait included [1].
    decode_steps : ndarray, shape (n,)
        Of each request of the run, one less than its tokens [1].
    slots : int, optional
        Requests in flight of a decode instance at most [1]; by default as many as its memory holds.

    Returns
    -------
    Run
        Of n requests; prompts are of mean length.

    Raises
    ------
    InputError
        If there is less than one request at a time, or a request without a step.

    Notes
    -----
    Prompts wait in one line. An instance that is free reads those that have come, or its share of them where others
    are free as well, as many in a step as its tokens and its slots allow; the others wait until it is done. A cache
    then goes to a decode instance when that has a place; all of them decode equally many at a speed that depends on
    how many there are at that moment (processor sharing), so that the fleet decodes what prefill feeds it.
    """
    if concurrency < 1:
        raise InputError(f"a closed loop has at least one request, got {concurrency:g}")
    if decode_steps.size == 0 or not decode_steps.min() > 0:
        raise InputError("a run has requests, each with at least one decode step")
    writers = _Writers.of(pools, layouts, instances[1], slots)
    return _Loop(_Readers.of(pools, layouts, instances[0]), writers, decode_steps).play(concurrency)


@dataclass(slots=True)
class _Readers:
    """Prefill instances: how long a step takes that reads 1, 2, .. prompts [s], and what follows it [s]."""

    free: int
    steps: list[float]
    after: float

    @classmethod
    def of(cls, pools: Pools, layouts: tuple[int, int], count: int) -> _Readers:
        pool, reader = pools.prefill, layouts[0]
        alone, sending = float(pools.reading_seconds[layouts]), float(pools.transfer.sending_seconds[layouts])
        prompts = pool.waiting_prompts[reader]
        prompt_seconds = pool.shared_prefill_seconds[reader] + float(pools.transfer.handover_seconds[layouts])
        held = np.arange(1.0, math.floor(prompts[-1]) + 1.0)
        steps = np.maximum(held * np.interp(held, prompts, prompt_seconds), held * sending)
        after = float(pools.first_token_seconds[layouts]) - alone
        return cls(count, np.maximum.accumulate(np.maximum(steps, alone)).tolist(), after)

    def taken(self, waiting: int) -> int:
        """Prompts of the next step of an instance [1]."""
        return min(math.ceil(waiting / self.free), len(self.steps))


@dataclass(slots=True)
class _Writers:
    """Decode instances: the time between tokens with 1, 2, .. requests in all of them [s]."""

    tpot: list[float]
    places: int

    @classmethod
    def of(cls, pools: Pools, layouts: tuple[int, int], count: int, slots: int | None) -> _Writers:
        full = decoder(pools, layouts[1], float(pools.transfer.receiving_seconds[layouts]))
        tpot = full.limited(slots).tpot_seconds
        held = np.arange(1.0, count * tpot.size + 1.0)
        return cls(np.interp(held / count, np.arange(1.0, tpot.size + 1.0), tpot).tolist(), held.size)


@dataclass(slots=True)
class _Loop:
    """The state of a run; ``steps`` counts the tokens that a request which decodes from the beginning would have."""

    readers: _Readers
    writers: _Writers
    decode_steps: Array
    now: float = 0.0
    steps: float = 0.0
    come: int = 0
    waiting: deque[int] = field(default_factory=deque)
    reading: list[tuple[float, list[int]]] = field(default_factory=list)
    read: deque[int] = field(default_factory=deque)
    decoding: list[tuple[float, int]] = field(default_factory=list)

    def play(self, concurrency: int) -> PooledRun:
        count, reading, decoding, tpots = self.decode_steps.size, self.reading, self.decoding, self.writers.tpot
        # Plain numbers: each is written by itself.
        arrived, first, ended = [0.0] * count, [0.0] * count, [0.0] * count
        self._arrive(min(concurrency, count), arrived)
        while reading or decoding:
            tpot = ends = math.inf
            if decoding:
                tpot = tpots[len(decoding) - 1]
                ends = self.now + (decoding[0][0] - self.steps) * tpot
            if reading and reading[0][0] <= ends:
                time, prompts = heapq.heappop(reading)
                if decoding:
                    self.steps += (time - self.now) / tpot
                self.now = time
                self.readers.free += 1
                self.read.extend(prompts)
            else:
                self.now = ends
                self.steps, request = heapq.heappop(decoding)
                ended[request] = ends
                if self.come < count:
                    self._arrive(1, arrived)
            if self.read:
                self._begin(first)
            if self.waiting:
                self._read()
        began, after = np.array(first), self.readers.after
        return PooledRun(
            began - np.array(arrived) + after, (np.array(ended) - began) / self.decode_steps, self.now + after
        )

    def _arrive(self, number: int, arrived: list[float]) -> None:
        for request in range(self.come, self.come + number):
            arrived[request] = self.now
            self.waiting.append(request)
        self.come += number
        self._read()

    def _read(self) -> None:
        while self.waiting and self.readers.free:
            taken = self.readers.taken(len(self.waiting))
            prompts = [self.waiting.popleft() for _ in range(taken)]
            self.readers.free -= 1
            heapq.heappush(self.reading, (self.now + self.readers.steps[taken - 1], prompts))

    def _begin(self, first: list[float]) -> None:
        """Requests whose prompts have been read take free places."""
        while self.read and len(self.decoding) < self.writers.places:
            request = self.read.popleft()
            first[request] = self.now
            heapq.heappush(self.decoding, (self.steps + float(self.decode_steps[request]), request))
