"""Prefill and decode instances, xPyD, under a stream of requests."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.errors import InputError
from inference_econ.formulas import queueing
from inference_econ.serving.load import SHARES, Loaded, loaded
from inference_econ.serving.services import Service


@dataclass(frozen=True, slots=True)
class Fleet:
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
    """

    pools: Pools
    prefill: int
    decode: int
    prefill_instances: int
    decode_instances: int
    load: Loaded
    prefill_utilization: float
    decode_utilization: float

    @property
    def accelerators(self) -> tuple[int, int]:
        """Chips of the prefill and of the decode pool [1]."""
        return (
            self.prefill_instances * int(self.pools.prefill.accelerators[self.prefill]),
            self.decode_instances * int(self.pools.decode.accelerators[self.decode]),
        )

    @property
    def dollars_per_hour(self) -> float:
        """The whole bill [USD/h]."""
        pools = self.pools
        return 3600.0 * float(
            self.prefill_instances * pools.prefill.dollars_per_second[self.prefill]
            + self.decode_instances * pools.decode.dollars_per_second[self.decode]
        )

    @property
    def dollars_per_million_output_tokens(self) -> float:
        """The whole bill over the output tokens completed [USD per 1e6 tokens]."""
        hourly = 3600.0 * self.load.completed_per_second * self.pools.requests.osl.mean
        return 1e6 * self.dollars_per_hour / hourly


def under_load(
    pools: Pools,
    layouts: tuple[int, int],
    instances: tuple[int, int],
    requests_per_second: float,
    *,
    arrival_scv: float = 1.0,
) -> Fleet:
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
        Squared coefficient of variation of the times between arrivals [1].

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
    Prompts wait in one line for the first free prefill instance: a queue with several servers whose work varies
    as the prompts do, :func:`inference_econ.formulas.queueing.load`. Decode instances get equal shares; each is
    :func:`inference_econ.serving.load.loaded` with no prefill. TTFT is the wait, the prefill, what is left of the
    transfer then, and the wait for a place; the two waits are taken to be independent. A wait is zero or exponential.
    """
    if not requests_per_second > 0:
        raise InputError(f"the request rate must be positive, got {requests_per_second:g}")
    (reader, decoder), (count, groups) = layouts, instances
    queue = prefill_queue(pools, reader, decoder, count, requests_per_second, arrival_scv)
    receiving = float(pools.transfer.receiving_seconds[reader, decoder])
    decoding = decode_load(pools, decoder, receiving, requests_per_second / groups, arrival_scv)
    return together(pools, layouts, instances, queue, decoding)


def together(
    pools: Pools, layouts: tuple[int, int], instances: tuple[int, int], queue: queueing.Load, decoding: Loaded
) -> Fleet:
    """A fleet from the line before its prefill instances and the load of one that decodes."""
    (reader, decoder), (count, groups) = layouts, instances
    rate = decoding.requests_per_second * groups
    saturated = decoding.saturated or bool(queue.saturated)
    fixed = float(pools.first_token_seconds[reader, decoder])
    waits = _Waits.of(queue, decoding)
    ttft = {"mean": fixed + waits.mean} | {name: fixed + waits.quantile(share) for name, share in SHARES.items()}
    # With more than they can take, the slower pool sets the pace.
    busiest = max(float(queue.offered), decoding.utilization)
    load = Loaded(
        rate,
        saturated,
        busiest,
        rate / max(busiest, 1.0),
        float(queue.in_flight) + groups * decoding.in_flight,
        waits.some,
        dict.fromkeys(ttft, math.inf) if saturated else ttft,
        decoding.tpot_seconds,
    )
    return Fleet(pools, reader, decoder, count, groups, load, float(queue.offered), decoding.utilization)


def prefill_queue(
    pools: Pools, reader: int, decoder: int, count: int, rate: float, arrival_scv: float
) -> queueing.Load:
    """The line of prompts before a number of prefill instances."""
    busy = max(pools.prefill.prefill_busy_seconds[reader], pools.transfer.sending_seconds[reader, decoder])
    alone = max(float(pools.prefill.prefill_seconds[reader]), float(busy))
    servers = np.arange(1.0, count * math.ceil(alone / busy * (1.0 - 1e-12)) + 1.0)
    rates = np.minimum(servers / alone, count / busy)
    return queueing.load(rate, rates, arrival_scv=arrival_scv, service_scv=pools.requests.isl.scv)


def decode_load(pools: Pools, index: int, receiving: float, rate: float, arrival_scv: float) -> Loaded:
    """One decode instance at its share of the requests; its TTFT is the wait for a place."""
    return loaded(_decoder(pools, index, receiving), rate, arrival_scv=arrival_scv)


def _decoder(pools: Pools, index: int, receiving: float) -> Service:
    """A decode instance as a service that no prompt delays."""
    found = pools.decode.found
    one, step = found.service(index), found.states.decode_seconds[index]
    nothing = np.zeros_like(step)
    working = np.maximum(pools.requests.decode_steps * step / one.batch, receiving)
    return replace(
        one,
        concurrency=one.batch,
        ttft_seconds=nothing,
        tpot_seconds=step,
        requests_per_second=1.0 / working,
        prefill_share=nothing,
        queue_seconds=nothing,
        running_seconds=nothing,
        prefill_seconds=0.0,
        prefill_busy_seconds=0.0,
    )


@dataclass(frozen=True, slots=True)
class _Waits:
    """Two waits in a row, each zero or exponential: probabilities [1] and means of those that are not zero [s]."""

    first: float
    first_seconds: float
    second: float
    second_seconds: float

    @classmethod
    def of(cls, queue: queueing.Load, decoding: Loaded) -> _Waits:
        chance = decoding.waiting
        # The mean over all requests is that of those who wait, times how many do.
        scale = decoding.ttft_seconds["mean"] / chance if chance > 0.0 else 0.0
        return cls(float(queue.waiting), float(queue.wait_scale), chance, scale)

    @property
    def mean(self) -> float:
        """Of all requests [s]."""
        return self.first * self.first_seconds + self.second * self.second_seconds

    @property
    def some(self) -> float:
        """Probability of waiting at all [1]."""
        return 1.0 - (1.0 - self.first) * (1.0 - self.second)

    def longer(self, seconds: float) -> float:
        """Probability of waiting longer [1]."""
        one, two = self.first_seconds, self.second_seconds
        first, second = _tail(seconds, one), _tail(seconds, two)
        if abs(one - two) <= 1e-9 * max(one, two):
            both = first * (1.0 + (seconds / one if one > 0.0 else 0.0))
        else:
            both = (one * first - two * second) / (one - two)
        return (
            self.first * (1.0 - self.second) * first
            + self.second * (1.0 - self.first) * second
            + self.first * self.second * both
        )

    def quantile(self, share: float) -> float:
        """A wait that this share of the requests stays below [s]."""
        if not math.isfinite(self.mean):
            return math.inf
        if self.longer(0.0) <= 1.0 - share:
            return 0.0
        low, high = 0.0, self.first_seconds + self.second_seconds
        while self.longer(high) > 1.0 - share:
            high *= 2.0
        for _ in range(60):
            middle = (low + high) / 2.0
            low, high = (middle, high) if self.longer(middle) > 1.0 - share else (low, middle)
        return high


def _tail(seconds: float, mean: float) -> float:
    return math.exp(-seconds / mean) if mean > 0.0 else 0.0
