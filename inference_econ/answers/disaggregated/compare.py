"""Disaggregated serving beside aggregated: cost against speed, and where which is cheaper."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array, Indices
from inference_econ.answers.disaggregated.pools import Pool, Pools
from inference_econ.engine.uncertainty import Instances
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import pareto
from inference_econ.formulas.money import dollars_per_million_tokens

_MILLION = 1e6
#: Disaggregated serving is said to be cheaper where it is by more than this share [1].
NOTICED = 0.05
#: Ranges of speed with a smaller quotient between them are one [1].
_STEPS = 1.05


@dataclass(frozen=True, slots=True)
class PoolFrontier:
    """Cost against speed, the quickest first; arrays of shape (n,).

    Attributes
    ----------
    seconds : ndarray
        Time per output token [s].
    dollars : ndarray
        The whole bill over output tokens [USD per 1e6 tokens].
    ttft_seconds : ndarray
        Time to first token [s].
    layout : ndarray of int
        Index of the layout that decodes.
    batch : ndarray
        Its batch [1].
    prefill : ndarray of int
        Index of the layout that reads prompts; the same as ``layout`` if aggregated.
    ratio : ndarray
        Prefill instances per decode instance whose rates match [1]; 0 if aggregated.
    """

    seconds: Array
    dollars: Array
    ttft_seconds: Array
    layout: Indices
    batch: Array
    prefill: Indices
    ratio: Array

    def __len__(self) -> int:
        return self.seconds.size

    @property
    def tokens_per_second(self) -> Array:
        """Speed of one user [tokens/s]."""
        return np.asarray(1.0 / self.seconds)

    def cheapest(self, tokens_per_second: npt.ArrayLike) -> Indices:
        """Where the cheapest point at or above some speeds is; -1 where none is that quick."""
        limit = 1.0 / np.asarray(tokens_per_second, dtype=float)
        return np.asarray(np.searchsorted(self.seconds, limit * (1.0 + 1e-12), side="right") - 1)

    def dollars_at(self, tokens_per_second: npt.ArrayLike) -> Array:
        """Cost at or above some speeds [USD per 1e6 tokens]; ``inf`` where nothing is that quick."""
        return np.concatenate([self.dollars, [np.inf]])[self.cheapest(tokens_per_second)]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both ways of serving, side by side.

    Attributes
    ----------
    pools : Pools
        The choices.
    ttft_seconds : float
        Longest time to first token allowed [s].
    disaggregated : PoolFrontier
        With the best prefill layout and ratio at every speed.
    aggregated : tuple of PoolFrontier
        One per kind of chip, as in ``pools.aggregated``; empty arrays if none keeps the time to first token.
    """

    pools: Pools
    ttft_seconds: float
    disaggregated: PoolFrontier
    aggregated: tuple[PoolFrontier, ...]

    def subjects(self) -> tuple[Instances, ...]:
        """The points of the frontiers by kind of chip; of disaggregated serving the instances that decode."""
        pools, apart = self.pools, self.disaggregated
        shown, several = [], len(pools.aggregated) > 1
        for pool, front in zip(pools.aggregated, self.aggregated, strict=True):
            sizes, batches = pool.accelerators[front.layout].tolist(), front.batch.tolist()
            if pool is pools.decode:
                sizes, batches = sizes + pool.accelerators[apart.layout].tolist(), batches + apart.batch.tolist()
            shown.append(pool.instances(sizes, batches, pool.setup.hardware.name if several else ""))
        return tuple(shown)

    def aggregated_dollars(self, tokens_per_second: npt.ArrayLike) -> Array:
        """Cost of the cheapest aggregated serving of any chip at or above some speeds [USD per 1e6 tokens]."""
        costs: Array = np.minimum.reduce([front.dollars_at(tokens_per_second) for front in self.aggregated])
        return costs

    def factor(self, tokens_per_second: npt.ArrayLike) -> Array:
        """Aggregated over disaggregated cost at some speeds [1]; ``inf`` where only disaggregated is that quick."""
        return self.aggregated_dollars(tokens_per_second) / self.disaggregated.dollars_at(tokens_per_second)

    def speeds(self) -> Array:
        """Every speed at which a cost changes, ascending [tokens/s]."""
        every = [front.tokens_per_second for front in (self.disaggregated, *self.aggregated)]
        return np.unique(np.concatenate(every))

    def cheaper(self) -> list[tuple[float, float]]:
        """Ranges of speed in which disaggregated serving is cheaper by more than :data:`NOTICED` [tokens/s].

        Between two speeds the cost is that of the next quicker point. Ranges closer than a twentieth of the speed are
        one: frontiers of whole numbers have steps.
        """
        speeds = self.speeds()
        speeds = speeds[speeds <= self.disaggregated.tokens_per_second.max()]
        lower = np.concatenate([[0.0], speeds])
        ranges: list[tuple[float, float]] = []
        for index in np.flatnonzero(self.factor(speeds) > 1.0 + NOTICED):
            low, high = float(lower[index]), float(speeds[index])
            if ranges and low <= ranges[-1][1] * _STEPS:
                low = ranges.pop()[0]
            ranges.append((low, high))
        return ranges

    def best(self) -> tuple[float, float]:
        """The largest finite factor, and the speed at which it is reached [1] and [tokens/s]; (0, 0) if none is."""
        speeds = self.speeds()
        factors = self.factor(speeds)
        factors = np.where(np.isfinite(factors), factors, 0.0)
        index = int(np.argmax(factors))
        return (float(factors[index]), float(speeds[index])) if factors[index] > 0.0 else (0.0, 0.0)


def compare(pools: Pools, ttft_seconds: float = math.inf) -> Comparison:
    """The frontiers of disaggregated and of aggregated serving, both of instances that are full.

    Parameters
    ----------
    pools : Pools
        The choices.
    ttft_seconds : float
        Longest time to first token allowed, in the steady state [s].

    Returns
    -------
    Comparison
        Exact for the layouts and batches of ``pools``, any ratio of prefill to decode instances allowed.

    Raises
    ------
    InputError
        If the time to first token is not positive.
    NothingFitsError
        If no pair of layouts keeps it.

    Notes
    -----
    Per request a prefill instance is taken up for P seconds, prompts that fit a step read together, and one that
    decodes with batch B for steps x T(B) / B seconds; both at least for what their links need. Rates match at the
    quotient of the two, a real number of prefill instances for each one that decodes; for whole numbers see
    :mod:`inference_econ.answers.disaggregated.fleets`. TPOT is T(B), TTFT the request's overhead, the prefill of a
    prompt by itself and what is left of the transfer then. Neglected is the rest of the step during which a cache
    arrives, half a step per answer. Splitting the phases in this way is due to Patel et al. (2024) and Zhong et al.
    (2024).

    Such pairs are never worse than aggregated serving if the transfer is free, the chips are the same and each
    pool may use the same layouts. Proof: an aggregated instance of batch B has a time per request of at least
    P + steps x T(B) / B (no instance is more than busy, :func:`inference_econ.serving.steady.steady`, and no prompt is
    read together with more others than a step has room for), a TPOT of T(B) + (B - 1) / steps x P, and a TTFT of the
    prefill with what is ahead of it. Give both pools its layout and the decode pool its batch, for which it has memory:
    time per request, TPOT and TTFT are the same or less. The best pair is no worse.
    """
    if not ttft_seconds > 0:
        raise InputError(f"a promised ttft must be positive, got {ttft_seconds:g} s")
    together = tuple(_aggregated(pool, ttft_seconds) for pool in pools.aggregated)
    return Comparison(pools, ttft_seconds, _disaggregated(pools, ttft_seconds), together)


def _aggregated(pool: Pool, ttft_seconds: float) -> PoolFrontier:
    """Instances that do both."""
    states, services = pool.states, pool.services
    fits = states.concurrency <= services.slots[:, None] * (1.0 + 1e-9)
    fits[:, -1] = True
    seconds_per_token = 1.0 / (states.requests_per_second * services.requests.osl.mean)
    dollars = dollars_per_million_tokens(
        pool.accelerators[:, None], seconds_per_token, 1.0, pool.setup.dollars_per_accelerator_hour
    )
    row, column = np.nonzero(fits & (states.ttft_seconds <= ttft_seconds))
    seconds = states.tpot_seconds
    best = pareto.undominated(seconds[row, column], dollars[row, column])
    at = row[best], column[best]
    return PoolFrontier(
        seconds[at], dollars[at], states.ttft_seconds[at], row[best], states.batch[at], row[best], np.zeros(best.size)
    )


def prefill_costs(pools: Pools, ttft_seconds: float) -> tuple[Array, Array]:
    """Time and dollars of a prefill instance per prompt, for every pair of layouts.

    Parameters
    ----------
    pools : Pools
        The choices.
    ttft_seconds : float
        Longest time to first token allowed [s].

    Returns
    -------
    (ndarray, ndarray), both of shape (n, m)
        [s] and [USD]; the dollars are ``inf`` where the time to first token is longer.
    """
    reading, moved = pools.prefill, pools.transfer
    busy = np.maximum(reading.prefill_busy_seconds[:, None], moved.sending_seconds)
    in_time = (pools.first_token_seconds <= ttft_seconds) & np.isfinite(moved.seconds)
    with np.errstate(invalid="ignore"):
        return busy, np.where(in_time, busy * reading.dollars_per_second[:, None], np.inf)


def _disaggregated(pools: Pools, ttft_seconds: float) -> PoolFrontier:
    """The best prefill layout for every decode layout, over either kind of link; then the best of all states."""
    decoding, moved, requests = pools.decode, pools.transfer, pools.requests
    busy, cost = prefill_costs(pools, ttft_seconds)
    if not np.isfinite(cost).any():
        soonest = float(pools.first_token_seconds.min())
        raise NothingFitsError(
            f"no pair of layouts keeps a TTFT of {1e3 * ttft_seconds:g} ms; best reachable: {1e3 * soonest:.4g} ms"
        )
    every = np.arange(len(decoding.services))
    working = requests.decode_steps * decoding.step_seconds / decoding.batch
    total, chosen, taken = np.full(working.shape, np.inf), np.zeros(working.shape, np.intp), working
    for fast in (True, False):
        priced = np.where(moved.fast == fast, cost, np.inf)
        best = np.argmin(priced, axis=0)
        needed = np.maximum(working, moved.receiving_seconds[best, every][:, None])
        with np.errstate(invalid="ignore"):
            sum_ = priced[best, every][:, None] + needed * decoding.dollars_per_second[:, None]
        better = sum_ < total
        total, taken = np.where(better, sum_, total), np.where(better, needed, taken)
        chosen = np.where(better, best[:, None], chosen)
    seconds = decoding.step_seconds
    row, column = np.nonzero(np.isfinite(total))
    kept = pareto.undominated(seconds[row, column], total[row, column])
    at, row = (row[kept], column[kept]), row[kept]
    partner = chosen[at]
    return PoolFrontier(
        seconds[at],
        total[at] * (_MILLION / requests.osl.mean),
        pools.first_token_seconds[partner, row],
        row,
        decoding.batch[at],
        partner,
        busy[partner, row] / taken[at],
    )
