"""How much a number of prefill instances takes if its line may not be longer than a promise allows."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from inference_econ import _work
from inference_econ._types import Array
from inference_econ.answers.disaggregated.load import (
    prefill_queue,
    prefill_rates,
    seconds_without_waits,
    until_read,
)
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.disaggregated.terms import Terms
from inference_econ.inputs import percentiles
from inference_econ.serving import Drawn

#: Loads at which a line is looked at [1].
_LOADS = 24
#: Prompts that stand for all in a line [1].
_DRAWN = 1_000
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

    def __init__(self, pools: Pools, terms: Terms) -> None:
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
        writer = int(np.argmax(pools.transfer.fast[reader] == fast))
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
            drawn = Drawn(pools.requests, _DRAWN)
            read = until_read(pools, (reader, writer), count, queue, drawn)
            seconds = around + np.quantile(read, part, axis=-1)
        return rates, np.maximum.accumulate(seconds - exposed)
