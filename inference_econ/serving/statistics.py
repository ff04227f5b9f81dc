"""Mean and percentiles of a latency; percentiles are computed when they are looked up."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from inference_econ._types import Array
from inference_econ.errors import InputError
from inference_econ.formulas import queueing
from inference_econ.inputs.workload import percentiles

#: Statistics of latencies that results show by default.
STATISTICS = (percentiles.MEAN, "p50", "p90", "p99")


@dataclass(frozen=True, slots=True, eq=False)
class Statistics(Mapping[str, float]):
    """Mean and percentiles of a time, by name [s].

    Valid names are ``mean`` and percentiles from ``p1`` to ``p99.9``. Iteration yields the names in :data:`STATISTICS`.

    Attributes
    ----------
    mean : float
        Mean [s].
    quantile : callable
        Function: probability [1] -> quantile of the time [s].
    """

    mean: float
    quantile: Callable[[float], float] = field(repr=False)
    _kept: dict[str, float] = field(default_factory=dict, repr=False)

    def __getitem__(self, name: str) -> float:
        if name not in self._kept:
            try:
                share = percentiles.share(name)
            except InputError as error:
                raise KeyError(name) from error
            self._kept[name] = self.mean if share is None else float(self.quantile(share))
        return self._kept[name]

    def __iter__(self) -> Iterator[str]:
        return iter(STATISTICS)

    def __len__(self) -> int:
        return len(STATISTICS)


@dataclass(frozen=True, eq=False)
class _Sample:
    values: Array

    @cached_property
    def ascending(self) -> Array:
        """Values in ascending order, cached because :func:`numpy.quantile` is three times slower per quantile."""
        return np.sort(self.values)

    def __call__(self, share: float) -> float:
        place = (self.ascending.size - 1) * share
        below = math.floor(place)
        low = float(self.ascending[below])
        high = float(self.ascending[min(below + 1, self.ascending.size - 1)])
        along = place - below
        return low + (high - low) * along if along < 0.5 else high - (high - low) * (1.0 - along)


def _of_mixture(values: Array, weights: Array, share: float) -> float:
    return float(queueing.mixture_quantiles(values, weights, [share])[0])


def _of_constant(seconds: float, _share: float) -> float:
    return seconds


def listed(times: Mapping[str, float], *further: str) -> dict[str, float]:
    """Times by name of the statistic, in display order: default statistics and additional percentiles [s]."""
    return {name: times[name] for name in percentiles.in_order({*times, *further})}


def of_sample(times: Array) -> Statistics:
    """Statistics of equally likely times, shape (n,) [s]; NaN if the sample is empty."""
    if not times.size:
        return of_constant(math.nan)
    return of_constant(math.inf) if np.isinf(times).any() else Statistics(float(times.mean()), _Sample(times))


def of_mixture(values: Array, weights: Array) -> Statistics:
    """Statistics of times [s] with weights [1], both of shape (n,)."""
    return Statistics(float(values @ weights / weights.sum()), partial(_of_mixture, values, weights))


def of_constant(seconds: float) -> Statistics:
    """Statistics of a constant time [s]."""
    return Statistics(seconds, partial(_of_constant, seconds))
