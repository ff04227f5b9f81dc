"""Disaggregated serving beside aggregated: cost against speed, where which is cheaper, and the best fleet of both."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.answers.disaggregated.frontiers import PoolFrontier, aggregated, disaggregated
from inference_econ.answers.disaggregated.pools import Pools, check_pairs
from inference_econ.answers.disaggregated.terms import NOTICED, Terms, unreachable
from inference_econ.engine import Instances
from inference_econ.errors import NothingFitsError

#: Ranges of speed with a smaller quotient between them are one [1].
_STEPS = 1.05
#: The largest factor is looked for up to this share of the speed that both reach [1]: beyond it a quotient of costs
#: says where one of them ends, on chips that are idle most of the time, and not what serving costs.
_WITHIN = 0.9


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both ways of serving, side by side.

    Attributes
    ----------
    pools : Pools
        The choices.
    terms : Terms
        Promises, arrivals, loads and ratios, the same for both as far as they apply.
    disaggregated : PoolFrontier
        With the best prefill layout and whole numbers of instances at every speed.
    aggregated : tuple of PoolFrontier
        One per kind of chip, as in ``pools.aggregated``; empty arrays if none keeps the time to first token.
    """

    pools: Pools
    terms: Terms
    disaggregated: PoolFrontier
    aggregated: tuple[PoolFrontier, ...]

    def subjects(self) -> tuple[Instances, ...]:
        """The points of the frontiers by kind of chip; of disaggregated serving the instances that decode."""
        pools, apart = self.pools, self.disaggregated
        shown, several = [], len(pools.aggregated) > 1
        for pool, front in zip(pools.aggregated, self.aggregated, strict=True):
            layouts, batches = front.layout.tolist(), front.batch.tolist()
            if pool is pools.decode:
                layouts, batches = layouts + apart.layout.tolist(), batches + apart.batch.tolist()
            shown.append(pool.instances(layouts, batches, pool.setup.hardware.name if several else ""))
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

        Of speeds that aggregated serving reaches. Between two the cost is that of the next quicker point. Ranges closer
        than a twentieth of the speed are one: frontiers of whole numbers have steps.
        """
        speeds = self.speeds()
        reached = [front.tokens_per_second.max() for front in self.aggregated if len(front)]
        speeds = speeds[speeds <= min(self.disaggregated.tokens_per_second.max(), max(reached, default=0.0))]
        lower = np.concatenate([[0.0], speeds])
        ranges: list[tuple[float, float]] = []
        for index in np.flatnonzero(self.factor(speeds) > 1.0 + NOTICED):
            low, high = float(lower[index]), float(speeds[index])
            if ranges and low <= ranges[-1][1] * _STEPS:
                low = ranges.pop()[0]
            ranges.append((low, high))
        return ranges

    def at(self, tokens_per_second: float) -> tuple[int, tuple[int, int] | None]:
        """Points of the cheapest at or above a speed: of disaggregated serving, -1 if there is none; kind and point."""
        costs = [float(front.dollars_at(tokens_per_second)) for front in self.aggregated]
        kind = int(np.argmin(costs))
        both = (kind, int(self.aggregated[kind].cheapest(tokens_per_second))) if math.isfinite(costs[kind]) else None
        return int(self.disaggregated.cheapest(tokens_per_second)), both

    def best(self) -> tuple[float, float]:
        """The largest factor up to most of the speed that both reach [1], and where it is [tokens/s]; else zeros."""
        reached = [front.tokens_per_second.max() for front in (self.disaggregated, *self.aggregated) if len(front)]
        speeds = self.speeds()
        speeds = speeds[speeds <= _WITHIN * min(reached[0], max(reached[1:], default=0.0))]
        if not speeds.size:
            return 0.0, 0.0
        factors = self.factor(speeds)
        index = int(np.argmax(factors))
        return float(factors[index]), float(speeds[index])


def compare(pools: Pools, terms: Terms | None = None) -> Comparison:
    """The frontiers of disaggregated and of aggregated serving on the same terms.

    Parameters
    ----------
    pools : Pools
        The choices.
    terms : Terms, optional
        Promises, arrivals, loads and ratios; by default nothing is promised, and both are filled to
        :data:`inference_econ.answers.promises.FILLED` of what they complete.

    Returns
    -------
    Comparison
        Over the layouts of ``pools``, and of disaggregated serving over whole numbers of instances.

    Raises
    ------
    NothingFitsError
        If no pair of layouts keeps the promises.
    TooMuchError
        If there are too many pairs to be looked at.

    Notes
    -----
    Both ways get a stream of requests of the same variation, are filled to the same share of what they complete, and
    must keep the same TTFT; speeds are one over the TPOT that the same share of the requests sees. An aggregated
    instance is the service of :func:`inference_econ.serving.load.loaded`, x prefill and y decode instances are the
    fleet of :func:`inference_econ.answers.disaggregated.load.under_load`. Dollars are those of all instances over the
    tokens of the requests that come: the idle share is paid for on both sides. Splitting the phases in this way is due
    to Patel et al. (2024) and Zhong et al. (2024).

    Nothing says that disaggregated serving is never worse, even if transfers are free: of prefill instances without a
    queue that would hold, but a pool in which nobody waits for long is idle for the more of its time the fewer
    instances it has, and whole numbers of them seldom match.
    """
    check_pairs(pools)
    terms = Terms() if terms is None else terms
    kept = terms.predicted(pools)
    apart = disaggregated(pools, kept)
    if not len(apart) or apart.seconds[0] > kept.targets.tpot_seconds:
        raise NothingFitsError(unreachable(pools, terms))
    return Comparison(pools, terms, apart, tuple(aggregated(pool, kept) for pool in pools.aggregated))
