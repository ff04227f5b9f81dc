"""Prefill and decode instances (xPyD) under a request stream or a constant concurrency."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from inference_econ import _work
from inference_econ._types import Array, Indices
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.simplest import SIMPLER
from inference_econ.answers.slo import FILLED, FULLEST, Chances, Margins, Targets, chances_of, instances_of, margins
from inference_econ.engine import node
from inference_econ.errors import InputError
from inference_econ.formulas import money, queueing, renting
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

#: Largest number of states of a prefill queue [1]. With more prompts, each state is for several of them.
_MOST_STATES = 2**16
#: Number of requests in the sample that represents the workload [1].
_DRAWN = 4_000


@dataclass(frozen=True, slots=True)
class PooledFleet:
    """Prefill and decode instances under load.

    Attributes
    ----------
    pools : Pools
        Layouts of prefill and decode instances that the indices ``prefill`` and ``decode`` refer to.
    prefill, decode : int
        Index of the selected prefill layout, and of the selected decode layout.
    prefill_instances, decode_instances : int
        Number of prefill instances (x) and of decode instances (y) [1].
    load : Loaded
        Total load. A request may queue for a prefill instance, and then for a decode slot.
    prefill_utilization, decode_utilization : float
        Load of all prefill instances, and of all decode instances, each as a share of its capacity [1].
    slots : int
        Maximum concurrent requests of a decode instance, as configured in the engine [1].
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
        """Number of GPUs in all prefill and decode instances [1]."""
        return (
            self.prefill_instances * int(self.pools.prefill.accelerators[self.prefill]),
            self.decode_instances * int(self.pools.decode.accelerators[self.decode]),
        )

    @property
    def rented(self) -> tuple[int, ...]:
        """Numbers of rented GPUs for prefill and for decode [1]; a single total if both use the same kind of GPU."""
        return rented(self.pools, (self.prefill, self.decode), (self.prefill_instances, self.decode_instances))

    @property
    def dollars_per_hour(self) -> float:
        """Cost of all instances [USD/h]."""
        return bill(self.pools, self.rented)

    @property
    def binding(self) -> str:
        """``prefill`` or ``decode``: the kind of instances that is closer to its largest planned load."""
        return "prefill" if self.prefill_utilization / FILLED > self.decode_utilization / FULLEST else "decode"

    @property
    def dollars_per_million_output_tokens(self) -> float:
        """Cost divided by output tokens of completed requests [USD per 1e6 tokens]."""
        tokens_per_second = self.load.completed_per_second * self.pools.requests.osl.mean
        return float(money.dollars_per_million(self.dollars_per_hour / 3600.0, tokens_per_second))

    def chances(self, targets: Targets) -> Chances:
        """Probability that each SLO is met.

        P(TTFT SLO met) follows from the errors of prefill instances. The other probabilities follow from decode
        instances.
        """
        sides = ((self.pools.prefill, self.prefill), (self.pools.decode, self.decode))
        reading, decoding = (instances_of(pool.services.service(index)) for pool, index in sides)
        return chances_of(reading, decoding, self.load, targets)


def rented(pools: Pools, layouts: tuple[int, int], instances: tuple[int, int]) -> tuple[int, ...]:
    """Number of GPUs in the machines that the prefill and decode instances occupy [1].

    Parameters
    ----------
    pools : Pools
        Layouts of prefill and decode instances to choose from.
    layouts, instances : (int, int)
        Prefill layout and decode layout; numbers of prefill instances and of decode instances [1].

    Returns
    -------
    tuple of int
        Number of GPUs for prefill, and for decode. The tuple has a single number if prefill and decode use the same
        kind of GPU, because the instances may then share machines.
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
    """Cost of the rented GPUs of prefill and decode instances [USD/h]; see :func:`rented`."""
    prices = (pool.setup.dollars_per_accelerator_hour for pool in (pools.prefill, pools.decode))
    return sum(number * price for number, price in zip(chips, prices, strict=False))


@dataclass(frozen=True, slots=True, eq=False)
class Decoder:
    """Rate and TPOT of a decode instance with 1, 2, ... concurrent requests; arrays of shape (slots,).

    Attributes
    ----------
    requests_per_second : ndarray
        Requests that the instance completes at concurrency 1, 2, ... [1/s].
    tpot_seconds : ndarray
        Time per output token [s].
    variation : float
        Squared coefficient of variation of the output lengths [1].
    """

    requests_per_second: Array
    tpot_seconds: Array
    variation: float

    @property
    def slots(self) -> int:
        """Maximum concurrent requests [1]."""
        return self.requests_per_second.size

    def limited(self, slots: int | None) -> Decoder:
        """Copy of the decode instance with fewer slots; further requests queue."""
        return replace(
            self, requests_per_second=self.requests_per_second[:slots], tpot_seconds=self.tpot_seconds[:slots]
        )

    def slots_within(self, tpot_seconds: float) -> int:
        """Largest concurrency with a TPOT within a limit [1]; 0 if the TPOT of a single request exceeds the limit."""
        longer = self.tpot_seconds > tpot_seconds
        return int(np.argmax(longer)) if longer.any() else self.slots

    def keeping(
        self, targets: Targets, requests_per_second: float, arrival_scv: float = 1.0, instances: int = 1
    ) -> tuple[Decoder, Loaded]:
        """Limit the concurrency of a decode instance so that it meets the TPOT SLO under a request stream.

        Return the limited instance with its load.

        If the instance misses the SLO at the concurrency that fits in memory, the limit is reduced until the SLO is met
        at any load. The limit is the largest one for an SLO on a percentile. For an SLO on a mean, a slightly larger
        limit might also meet the SLO.
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
        """Queue in front of the decode instance under a request stream."""
        rates = self.requests_per_second
        return queueing.load(requests_per_second, rates, arrival_scv=arrival_scv, service_scv=self.variation)

    def load(self, requests_per_second: float, arrival_scv: float = 1.0, instances: int = 1) -> Loaded:
        """Load of the instance. The TTFT in the result is only the wait for a decode slot.

        ``arrival_scv`` is the squared coefficient of variation of all arrivals [1]. ``instances`` is the number of
        decode instances that share all arrivals [1].
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
            Statistics(float(queue.wait_seconds), lambda share: float(queueing.wait_quantiles(queue, [share])[0])),
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
    """Evaluate prefill and decode instances under a steady request stream.

    Parameters
    ----------
    pools : Pools
        Layouts of prefill and decode instances to choose from.
    layouts, instances : (int, int)
        Prefill layout and decode layout; numbers of prefill instances and of decode instances [1].
    requests_per_second : float
        Request rate [1/s].
    arrival_scv : float
        Squared coefficient of variation of the interarrival times [1].
    targets : Targets, optional
        SLOs. If necessary to meet the TPOT SLO, the concurrency limit of decode instances is below the memory limit.

    Returns
    -------
    PooledFleet
        Deployment with its latencies.

    Raises
    ------
    InputError
        If the rate is not positive, or ``arrival_scv`` is negative.

    Notes
    -----
    Prompts wait in one queue for the first free prefill instance, so the prefill queue sees the full burstiness of the
    arrivals. Service times vary with the prompt lengths (:func:`inference_econ.formulas.queueing.load`). Prompts that
    are in an instance at the same time share its steps (:func:`prefill_states`).

    Each decode instance has its own queue (:func:`decoder`). A decode instance gets an equal random part of the
    requests. Arrivals of this part are less bursty (:func:`inference_econ.formulas.queueing.split_scv`).

    TTFT is a sum of four times: wait for prefill, time in the prefill instance, remaining cache transfer, and wait for
    a decode slot. The waits for prefill and for a decode slot are assumed to be independent. Each wait is zero or
    exponentially distributed. The time in a prefill instance depends on the number of concurrent prompts
    (:func:`seconds_inside`) and on the prompt length (:func:`until_read`).
    """
    check_rate(requests_per_second)
    (reader, writer), (count, groups) = layouts, instances
    queue = prefill_queue(pools, reader, writer, count, requests_per_second, arrival_scv)
    receiving = float(pools.transfer.receiving_seconds[reader, writer])
    promised = Targets() if targets is None else targets
    decoding = decoder(pools, writer, receiving).keeping(promised, requests_per_second / groups, arrival_scv, groups)
    return together(pools, layouts, instances, queue, *decoding)


def together(
    pools: Pools,
    layouts: tuple[int, int],
    instances: tuple[int, int],
    queue: queueing.Load,
    decode: Decoder,
    decoding: Loaded,
) -> PooledFleet:
    """Combine a prefill queue and a loaded decode instance into the load of a disaggregated deployment."""
    count, groups = instances
    rate = decoding.requests_per_second * groups
    saturated = decoding.saturated or bool(queue.saturated)
    waits = float(queue.wait_seconds), decoding.ttft_seconds["mean"]
    first = float(seconds_without_waits(pools, layouts, queue)) + sum(waits)

    @cache
    def sample() -> Statistics:
        around = float(pools.first_token_seconds[layouts] - pools.reading_seconds[layouts])
        drawn = LengthSample(pools.requests, _DRAWN)
        return of_sample(around + until_read(pools, layouts, count, queue, drawn) + second_waits(decoding, drawn))

    ttft = of_constant(math.inf) if saturated else Statistics(first, lambda share: float(sample().quantile(share)))
    tokens, steps = pools.requests.osl.mean, pools.requests.decode_steps
    last = math.inf if saturated else first + steps * decoding.tpot_seconds["mean"]
    # The sum of the same quantiles of TTFT and decode time is an upper bound on a quantile of the E2E latency. It is
    # exact if requests with a long TTFT also have a long TPOT.
    tpot = decoding.tpot_seconds
    e2e = Statistics(last, lambda share: ttft.quantile(share) + steps * tpot[f"p{100.0 * share:g}"])
    # If the rate exceeds the capacity, the slower pool limits it.
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


def seconds_without_waits(pools: Pools, layouts: tuple[int, int], queue: queueing.Load) -> Array:
    """Mean TTFT without the waits for a prefill instance and for a decode slot [s].

    The prefill time includes the delay by concurrent prompts in the same instance.
    """
    alone = float(pools.reading_seconds[layouts])
    return np.asarray(float(pools.first_token_seconds[layouts]) - alone + np.maximum(queue.service_seconds, alone))


def prefill_queue(
    pools: Pools, reader: int, writer: int, count: int, rate: float | Array, arrival_scv: float
) -> queueing.Load:
    """Queue of prompts in front of ``count`` prefill instances."""
    return prompt_queue(pools, count, rate, prefill_states(pools, reader, writer, count), arrival_scv)


class PrefillStates(NamedTuple):
    """States of the prefill instances of a deployment, arrays of shape (k,)."""

    prompts: Array
    """Number of prompts in all instances [1]: 1, 2, ..., or multiples of a larger number."""
    rates: Array
    """Total throughput of the instances, which share the prompts evenly [1/s]."""


def prompt_queue(
    pools: Pools, count: int, rate: float | Array, states: PrefillStates, arrival_scv: float = 1.0
) -> queueing.Load:
    """Queue of prompts at ``count`` instances with given states.

    If a state is for several prompts, the instances are divided into as many equal parts, each with its own queue.

    An instance processes its prompts in order, so a long prompt delays the next prompts. The queue model with slots
    ignores this delay. By the Pollaczek-Khinchine formula, the number of waiting prompts is (1 + cs2) / 2 times the
    number for prompts of equal length. cs2 is the squared coefficient of variation of the service time.
    """
    scv, parts = pools.requests.isl.scv, states.prompts[0]
    crowd = (arrival_scv + scv) * scv / 2.0 * (1.0 - count / states.prompts[-1])
    queue = queueing.load(rate / parts, states.rates / parts, arrival_scv=arrival_scv, service_scv=scv, bunching=crowd)
    return queue._replace(in_flight=queue.in_flight * parts)


def prefill_states(pools: Pools, reader: int, writer: int, count: int) -> PrefillStates:
    """States of a number of prefill instances, from one prompt to full steps in all instances.

    Notes
    -----
    The first prompts of an instance go to separate attention-DP ranks and pipeline stages, and take as long as a single
    prompt. Further prompts share steps, up to the token budget of a step, as in
    :func:`inference_econ.engine.prefill.shared_steps`.
    """
    pool, moved = pools.prefill, pools.transfer
    sending, handover = (float(seconds[reader, writer]) for seconds in (moved.sending_seconds, moved.handover_seconds))
    prompts = pool.waiting_prompts[reader]
    prompt_seconds = np.maximum(pool.shared_prefill_seconds[reader] + handover, sending)
    alone = max(float(pool.prefill_seconds[reader]) + handover, sending)
    beside = math.ceil(alone / float(prompt_seconds[0]) * (1.0 - 1e-12))
    # The number of states is limited for any number of instances. In the last state, all steps are full.
    most = count * max(math.ceil(prompts[-1]), beside)
    each = math.ceil(most / _MOST_STATES)
    held = each * np.arange(1.0, math.ceil(most / each) + 1.0)
    rates = np.minimum(held / alone, count / np.interp(held / count, prompts, prompt_seconds))
    return PrefillStates(held, np.maximum.accumulate(rates))


def decoder(pools: Pools, index: int, receiving: float) -> Decoder:
    """Decode instance of one layout, if receiving a KV cache occupies the links for ``receiving`` seconds."""
    decode, steps = pools.decode, pools.requests.decode_steps
    batch, seconds = decode.batch[index], decode.step_seconds[index]
    known = 1.0 / np.maximum(steps * seconds / batch, receiving)
    asked, batches = np.log(np.arange(1.0, decode.services.slots[index] + 1.0)), np.log(batch)
    rates, tpot = (np.exp(np.interp(asked, batches, np.log(values))) for values in (known, seconds))
    # Throughput never falls with concurrency, so rounding errors of the interpolation are corrected.
    return Decoder(np.maximum.accumulate(rates), tpot, pools.requests.osl.scv)


def until_read(pools: Pools, layouts: tuple[int, int], count: int, queue: queueing.Load, drawn: LengthSample) -> Array:
    """Time from arrival to the end of prefill for sampled prompts, shape (..., drawn.count) [s].

    Parameters
    ----------
    pools : Pools
        Layouts of prefill and decode instances to choose from.
    layouts : (int, int)
        Prefill layout and decode layout.
    count : int
        Number of prefill instances [1].
    queue : queueing.Load
        Prefill queue, shape (...).
    drawn : LengthSample
        Sampled prompts.

    Notes
    -----
    Prompts with the longest wait are assumed to also have the longest time in an instance. The prefill time depends on
    the length of each prompt, as in :func:`inference_econ.serving.load.loaded`. Prompt lengths are independent of the
    queue.
    """
    pool, places, held = pools.prefill, levels(drawn.count), prefill_states(pools, *layouts, count)
    # Mean time of a prompt in its instance: the number of prompts divided by the throughput (Little's law).
    alone = float(pools.reading_seconds[layouts])
    inside = np.maximum.accumulate(np.maximum(held.prompts / held.rates, alone))
    latency = float(np.broadcast_to(pool.latency, len(pool.services))[layouts[0]])
    of_prompt = pool.services.prompts.take(layouts[0]).beyond_mean(drawn.prompts(), np.zeros(drawn.count))
    below = np.cumsum(queue.work, axis=-1).reshape(-1, inside.size)
    states_found = np.stack([np.searchsorted(states / states[-1], places) for states in below])
    times = inside[states_found].reshape((*queue.waiting.shape, drawn.count))
    return np.asarray(times + queueing.wait_quantiles(queue, places) + latency * of_prompt)


def second_waits(decoding: Loaded, drawn: LengthSample) -> Array:
    """Wait of each sampled request for a decode slot, shape (drawn.count,) [s]; zero or exponentially distributed."""
    if decoding.waiting <= 0.0:
        return np.zeros(drawn.count)
    # The mean over all requests is the mean over waiting requests, times the share of requests that wait.
    longer = np.log(decoding.waiting / (1.0 - drawn.shares("place in a batch")))
    return np.asarray(decoding.ttft_seconds["mean"] / decoding.waiting * np.maximum(longer, 0.0))


#: Maximum ratio of prefill to decode instances, and of decode to prefill instances [1]. A prefill/decode group also has
#: at most this number of prefill instances and of decode instances. Public measurements have ratios from 1:9 to 3:1
#: (servers/serving_points.csv). DeepSeek-V3's report (2024, section 3.4) has prefill units of 4 nodes and decode units
#: of 40 nodes. At higher ratios, the loss of one instance would stop all other instances.
MOST_RATIO = 16


def fewest_beside(instances: int) -> int:
    """Minimum number of prefill instances for a number of decode instances, or vice versa [1]."""
    return math.ceil(instances / MOST_RATIO)


#: Shares of an E2E SLO that are tried as TTFT SLO [1]; the share with the lowest cost is used.
_TTFT_SHARES = (0.02, 0.05, 0.1, 0.2, 0.4)


@dataclass(frozen=True, slots=True)
class DisaggregationTerms:
    """SLOs, arrivals and maximum load of a disaggregated deployment.

    Attributes
    ----------
    targets : Targets
        SLOs, each with its statistic.
    arrival_scv : float
        Squared coefficient of variation of the interarrival times [1]: 1 for Poisson, more for bursts.
    fullest : float
        Largest load of prefill or decode instances as a share of their capacity [1].

    Raises
    ------
    InputError
        If ``fullest`` or ``arrival_scv`` is out of range.
    """

    targets: Targets = field(default_factory=Targets)
    arrival_scv: float = 1.0
    fullest: float = FILLED

    def __post_init__(self) -> None:
        if not 0.0 < self.fullest <= FULLEST:
            raise InputError(
                f"the maximum load of pools, as a share of their capacity, must be above 0 and at most {FULLEST:g} "
                f"(above it, queues depend on the last digit), got {self.fullest:g}"
            )
        if not 0.0 <= self.arrival_scv < math.inf:
            raise InputError(f"arrival_scv must be a number >= 0, got {self.arrival_scv:g}")

    def by_token(self, requests: Requests) -> list[DisaggregationTerms]:
        """Replace the E2E SLO by SLOs on TTFT and TPOT that are sufficient for the E2E SLO.

        Each result uses another share of the E2E SLO as TTFT SLO. The new TTFT and TPOT SLOs have the statistic of the
        E2E SLO, so TTFT + steps x TPOT is an upper bound on the E2E latency. Without an E2E SLO, the list has only the
        unchanged terms.
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
        """SLOs that the deployment must meet.

        Without a TTFT SLO, the maximum load is lowered, so that requests rarely queue for prefill or for a decode slot.
        """
        if "ttft" in self.targets.given:
            return self.targets
        return replace(self.targets, fullest=min(self.targets.fullest, self.fullest_reading))

    @property
    def fullest_reading(self) -> float:
        """Largest planned load of prefill instances as a share of their capacity [1]; prompts then rarely queue."""
        return min(self.fullest, FILLED)

    def predicted(self, pools: Pools) -> DisaggregationTerms:
        """Terms with stricter SLOs that a prediction must meet for the required confidence.

        If a prediction meets the stricter SLOs, measured servers meet the original SLOs. These terms apply to all
        prefill and decode layouts.
        """
        if self.targets.confidence is None:
            return self
        by = self.margins(pools)
        return replace(self, targets=self.targets.less(by), fullest=self.fullest / float(by.throughput.max()))

    def margins(self, pools: Pools) -> Margins:
        """Safety margins [1]: divisors of the SLOs that give the required confidence for every pair of layouts."""
        confidence, promised = self.targets.confidence, set(self.targets.given)
        if confidence is None:
            return self.targets.margins(pools.decode.services)
        reading = margins(pools.prefill.services, confidence, promised & {"ttft"})
        decoding = margins(pools.decode.services, confidence, promised & {"tpot"})
        ones = np.ones_like(decoding.tpot)
        return Margins(reading.ttft, decoding.tpot, ones, np.append(reading.throughput, decoding.throughput))


def unreachable(pools: Pools, terms: DisaggregationTerms) -> str:
    """Message that no pair of layouts meets the SLOs, with the best reachable TTFT and TPOT."""
    targets, by = terms.targets, terms.margins(pools)
    promised = {
        "TTFT": (targets.ttft_seconds, float(by.ttft.max() * pools.first_token_seconds.min())),
        "TPOT": (targets.tpot_seconds, float(by.tpot.max() * pools.decode.step_seconds.min())),
    }
    reached = [
        f"{name} {1e3 * best:.4g} ms{f' ({best / limit:.3g} times the SLO)' if best > limit else ''}"
        for name, (limit, best) in promised.items()
    ]
    return (
        f"no pair of layouts keeps {targets.text or 'the SLOs'}. Best reachable with a single request: "
        f"{', '.join(reached)}; that is without queues, here at most {100 * terms.fullest:g} % busy, with "
        f"1:{MOST_RATIO} to {MOST_RATIO}:1 prefill to decode instances"
    )


#: Number of loads at which the latencies of a queue are calculated [1].
_LOADS = 24
#: Number of sampled prompts for a queue [1].
_PREFILL_SAMPLE = 1_000
#: Memory of arrays over the prompts in prefill instances, per instance [B].
_BYTES = 4e3


def check_instances(instances: float, seconds: float, smaller: str) -> None:
    """Reject a search over too many numbers of prefill instances; see :mod:`inference_econ._work`.

    Parameters
    ----------
    instances : float
        Number of instances that the deployment needs, or that it may have [1].
    seconds : float
        Search time per instance [s].
    smaller : str
        Name of the input that the user can reduce; the error message mentions it.

    Raises
    ------
    TooMuchError
        If the search would take too long; the message has the number of instances.
    """
    work = f"fleets of {instances:,.0f} prefill instances"
    _work.check(work, seconds=seconds * instances, size=_BYTES * instances, smaller=smaller)


class PrefillPools:
    """Largest request rates that prefill instances can process within the TTFT SLO.

    Parameters
    ----------
    pools : Pools
        Prefill and decode layouts.
    terms : DisaggregationTerms
        SLOs, arrivals and maximum load.
    """

    def __init__(self, pools: Pools, terms: DisaggregationTerms) -> None:
        self.pools, self.terms = pools, terms
        self.line = cache(self._line)

    def most(self, reader: int, writer: int, count: int, patience: float = math.inf) -> float:
        """Largest request rate at which a number of prefill instances meets the TTFT SLO [1/s].

        Parameters
        ----------
        reader, writer : int
            Prefill layout and decode layout.
        count : int
            Number of prefill instances [1].
        patience : float
            Longest time from arrival to the end of prefill and transfer, including waits [s].
        """
        rates, seconds = self.line(reader, bool(self.pools.transfer.fast[reader, writer]), count)
        if math.isinf(patience):
            return float(rates[-1])
        left = patience - float(self.pools.transfer.exposed_seconds[reader, writer])
        # The TTFT is mostly convex in the rate. Linear interpolation then does not overestimate the rate.
        return float(np.interp(left, seconds, rates, left=0.0))

    def _line(self, reader: int, fast: bool, count: int) -> tuple[Array, Array]:
        """Ascending request rates [1/s], and the latency until the end of prefill at each rate [s].

        The latency is a TTFT without the part of the KV-cache transfer that remains after prefill.
        """
        pools, terms = self.pools, self.terms
        reached = np.isfinite(pools.transfer.seconds[reader])
        writer = int(np.argmax((pools.transfer.fast[reader] == fast) & reached))
        most = terms.fullest_reading * float(prefill_states(pools, reader, writer, count).rates[-1])
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


#: Number of prefill layouts that are evaluated per decode layout; the cheapest ones are used [1].
_READERS = 6


@dataclass(frozen=True)
class SteadyPools:
    """Prefill/decode groups with the lowest cost at every decode layout and batch.

    Attributes
    ----------
    pools : Pools
        Prefill and decode layouts.
    longest_seconds : float
        Longest prefill time of a prompt that does not queue [s].

    Notes
    -----
    Decode instances run at a constant batch. The load of prefill instances is at most
    :data:`inference_econ.answers.slo.FILLED`, so prompts rarely queue. A group occupies one or more full nodes, or an
    even fraction of a node. The smallest group within 10% of the lowest cost is used, because groups of unusual size,
    such as 13 GPUs, are not deployed.

    In some groups, prefill instances cannot supply the full batch of the decode instances, which then run fewer
    requests. Such a group is used if its cost per request is lower and it has no more GPUs, or if it is 10% cheaper.
    Without this rule, faster decode GPUs could require a larger group and raise the cost. The cost includes idle GPUs.
    """

    pools: Pools
    longest_seconds: float = np.inf

    @cached_property
    def _chosen(self) -> tuple[Indices, Indices, Indices, Array]:
        """Best groups: prefill layout, numbers of prefill and decode instances, and used share of the decode batch.

        All arrays have one entry per decode layout and batch, shape (m, k). The share is below 1 if the prefill
        instances cannot supply the full batch. The numbers of instances are 0 where no group is possible.
        """
        pools = self.pools
        rate = pools.decode.rates
        busy = pools.busy_seconds
        with np.errstate(invalid="ignore"):
            cost = np.where(
                np.isfinite(pools.transfer.seconds) & (pools.first_token_seconds <= self.longest_seconds),
                busy * pools.prefill.accelerators[:, None],
                np.inf,
            )
        order = np.argsort(cost, axis=0, kind="stable")[:_READERS]
        writers = np.arange(rate.shape[0])
        best = np.full(rate.shape, np.inf)
        readers_of, prefilling, decoding = (np.zeros(rate.shape, dtype=np.intp) for _ in range(3))
        share = np.ones(rate.shape)
        kinds = [pools.prefill.setup.hardware, pools.decode.setup.hardware]
        whole = tuple(node(kind) for kind in (kinds[1:] if kinds[0] == kinds[1] else kinds))
        for reader in order:
            reader_chips = pools.prefill.accelerators[reader]
            possible = np.isfinite(cost[reader, writers])[:, None] & (
                rate * pools.transfer.receiving_seconds[reader, writers][:, None] <= 1.0
            )
            with np.errstate(invalid="ignore"):
                wanted = np.where(possible, rate * busy[reader, writers][:, None] / FILLED, np.inf)
            sizes = reader_chips, pools.decode.accelerators
            readers, decoders, fed = _instances(wanted, *sizes, whole, pools.groups.most, self._relative_price)
            with np.errstate(divide="ignore", invalid="ignore"):
                paid = self._relative_price * readers * reader_chips[:, None] / decoders
                paid = paid + pools.decode.accelerators[:, None]
                paid = np.where(readers > 0, paid / fed, np.inf)
            # An infinite cost is never better.
            better = paid < best
            best = np.where(better, paid, best)
            readers_of = np.where(better, reader[:, None], readers_of)
            prefilling, decoding = np.where(better, readers, prefilling), np.where(better, decoders, decoding)
            share = np.where(better, fed, share)
        return readers_of, prefilling, decoding, share

    @cached_property
    def _relative_price(self) -> float:
        """Price of a prefill GPU divided by the price of a decode GPU [1]."""
        reading, decoding = (pool.setup for pool in (self.pools.prefill, self.pools.decode))
        if reading.hardware == decoding.hardware:
            return 1.0
        return reading.dollars_per_accelerator_hour / decoding.dollars_per_accelerator_hour

    @cached_property
    def paid_chips(self) -> Array:
        """Number of decode GPUs with the same cost as all GPUs of each group, shape (n, k) [1].

        If prefill and decode use the same kind of GPU, this is the number of all GPUs. The number is NaN where no group
        is possible.
        """
        prefill, readers, *_ = self._chosen
        chips = readers * self.pools.prefill.accelerators[prefill]
        return np.asarray(self.seen[2] + (self._relative_price - 1.0) * chips)

    @cached_property
    def seen(self) -> tuple[Array, Array, Array, Array, Array]:
        """TPOT [s], request rate [1/s], GPUs [1], concurrent decode requests [1] and decode batch [1] of each group.

        The values are NaN where no group is possible.
        """
        pools, decode, (prefill, readers, decoders, fed) = self.pools, self.pools.decode, self._chosen
        possible = readers > 0
        rate = np.where(possible, fed * decode.rates, np.nan)
        chips = readers * pools.prefill.accelerators[prefill] + decoders * decode.accelerators[:, None]
        tpot = np.where(possible, decode.step_seconds, np.nan)
        for row in np.flatnonzero((fed < 1.0).any(axis=1)):
            less = fed[row] < 1.0
            # If the batch is smaller, requests may wait for a slot, but steps do not become longer.
            rates_of_batches = np.log(np.maximum.accumulate(decode.rates[row]))
            tpot[row, less] = np.exp(
                np.interp(np.log(rate[row, less]), rates_of_batches, np.log(decode.step_seconds[row]))
            )
        batch: Array = np.where(fed < 1.0, rate * pools.requests.decode_steps * tpot, decode.batch)
        rates: Array = np.asarray(decoders * rate, dtype=float)
        flight: Array = np.asarray(decoders * batch, dtype=float)
        return tpot, rates, np.where(possible, chips, np.nan), flight, batch

    def ttft_seconds(self, rows: Indices, columns: Indices) -> Array:
        """Mean TTFT at the given decode layouts (rows) and batches (columns), including queueing [s].

        The TTFT is NaN where no group is possible.
        """
        prefill, readers, *_ = (chosen[rows, columns] for chosen in self._chosen)
        rates = self.seen[1][rows, columns]
        seconds = np.full(rates.shape, np.nan)
        for group in set(zip(prefill.tolist(), rows.tolist(), readers.tolist(), strict=True)):
            reader, writer, count = group
            mine = (prefill == reader) & (rows == writer) & (readers == count)
            if count:
                queue = prefill_queue(self.pools, reader, writer, count, rates[mine], 1.0)
                seconds[mine] = seconds_without_waits(self.pools, (reader, writer), queue) + queue.wait_seconds
        return seconds

    def reading_rows(self, rows: Indices, columns: Indices) -> Indices:
        """Indices of the prefill layouts that are used at the given decode layouts (rows) and batches (columns)."""
        return self._chosen[0][rows, columns]

    def instances_at(self, rows: Indices, columns: Indices) -> list[tuple[int, int]]:
        """Numbers of prefill and decode instances at the given decode layouts (rows) and batches (columns) [1]."""
        _, readers, decoders, _ = self._chosen
        return list(zip(readers[rows, columns].tolist(), decoders[rows, columns].tolist(), strict=True))


def _instances(
    wanted: Array, reading: Array, decoding: Array, whole: tuple[int, ...], most: float, relative_price: float = 1.0
) -> tuple[Indices, Indices, Array]:
    """Numbers of prefill and decode instances for each wanted ratio, and the share of the wanted ratio that is reached.

    All arrays have shape (m, k). The wanted ratio is a number of prefill instances per decode instance. The share is
    below 1 if the group with the lowest cost per request has a smaller ratio. The numbers are 0 if there is no group.

    ``reading`` and ``decoding`` are the numbers of GPUs in a prefill instance and in a decode instance, shape (m,).
    ``whole`` has the number of GPUs in a node: one entry if prefill and decode instances share nodes, else one entry
    for prefill and one for decode. ``most`` is the maximum number of GPUs in a group. ``relative_price`` is the price
    of a prefill GPU divided by the price of a decode GPU.
    """
    counts, fed = np.zeros((*wanted.shape, 2), dtype=np.intp), np.ones(wanted.shape)
    for row, sizes in enumerate(zip(reading.tolist(), decoding.tolist(), strict=True)):
        groups = _groups(*sizes, whole, most, relative_price)
        at = np.searchsorted(groups.ratios, wanted[row] * (1.0 - 1e-9))
        enough = at < groups.ratios.size
        counts[row, enough] = groups.instances[at[enough]]
        fewer = np.flatnonzero(np.isfinite(wanted[row]))
        fewer = fewer[groups.filled[at[fewer]] < groups.chips[at[fewer]] / wanted[row, fewer] * (1.0 - 1e-9)]
        taken = groups.before[at[fewer]]
        counts[row, fewer] = groups.instances[taken]
        fed[row, fewer] = groups.ratios[taken] / wanted[row, fewer]
    return counts[..., 0], counts[..., 1], fed


class _Groups(NamedTuple):
    """Prefill/decode groups, one per ratio of prefill to decode instances.

    Arrays have shape (n,), or shape (n + 1,) with a last entry for wanted ratios above the largest ratio.
    """

    ratios: Array
    """Number of prefill instances per decode instance, ascending [1]."""
    instances: Indices
    """Numbers of prefill and decode instances in the group that is used for each ratio, shape (n, 2) [1].

    The group may have a larger ratio if it has fewer GPUs.
    """
    chips: Array
    """GPUs of the group in ``instances`` per decode instance, shape (n + 1,) [1]; infinite in the last entry.

    Prefill GPUs are converted to decode GPUs of equal cost.
    """
    before: Indices
    """Index of the smaller ratio that has the lowest cost per request at full prefill load, shape (n + 1,)."""
    filled: Array
    """GPUs of the group in ``before`` per prefill instance, shape (n + 1,) [1].

    Prefill GPUs are converted to decode GPUs of equal cost. For a group with more GPUs, the value is increased by the
    share of the cost that it must save to be used.
    """


@cache
def _groups(reading: float, decoding: float, whole: tuple[int, ...], most: float, relative_price: float) -> _Groups:
    """List the prefill/decode groups for given sizes of a prefill and a decode instance [GPUs].

    A group occupies one or more full nodes, or an even fraction of a node, and has at most ``most`` GPUs. If prefill
    and decode instances do not share nodes, this rule applies to the prefill GPUs and to the decode GPUs. A group has
    at most ``MOST_RATIO`` prefill instances, and at most ``MOST_RATIO`` decode instances. Among groups with a similar
    cost per decode instance, the group with the fewest GPUs is used.
    """
    numbers = np.array(list(product(range(1, MOST_RATIO + 1), repeat=2)), dtype=np.intp)
    sides = numbers * np.array([reading, decoding])
    chips, ratios = sides.sum(axis=1), numbers[:, 0] / numbers[:, 1]
    placed = (chips,) if len(whole) == 1 else sides.T
    filled = np.ones(chips.size, dtype=bool)
    for part, size in zip(placed, whole, strict=True):
        filled &= (part % size == 0) | (size % part == 0)
    possible = filled & (chips <= most)
    order = np.flatnonzero(possible)[np.argsort(ratios[possible], kind="stable")]
    ratios, chips, numbers = ratios[order], chips[order], numbers[order]
    # Costs per decode instance ascend with the ratio.
    costs = relative_price * reading * ratios + decoding
    dearer = np.searchsorted(costs, costs * (1.0 + SIMPLER), side="right")
    chosen = [start + int(np.argmin(chips[start:end])) for start, end in enumerate(dearer.tolist())]
    chips, costs = chips[chosen], costs[chosen]
    larger = chips > np.append(chips, np.inf)[:, None]
    filled = np.where(np.tri(chips.size + 1, chips.size, -1), costs / ratios * (1.0 + SIMPLER * larger), np.inf)
    before = filled.argmin(axis=1) if filled.size else np.zeros(1, dtype=np.intp)
    return _Groups(ratios, numbers[chosen], np.append(costs, np.inf), before, filled.min(axis=1, initial=np.inf))
