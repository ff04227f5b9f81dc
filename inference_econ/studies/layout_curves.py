"""Curves of cost against user speed for every layout; the cost between two batches is interpolated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier, step_parts
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.engine import ContinuousLayouts
from inference_econ.formulas import money, pareto
from inference_econ.search import Frontier
from inference_econ.search.fastest import token_seconds

#: Key of a layout: numbers of GPUs, pipeline stages, GPUs that share attention, and expert-parallel ranks [1].
LayoutKey = tuple[float, ...]


class CheapestLayouts(NamedTuple):
    """Cheapest deployment at a user speed; the fields are NaN or None if every deployment is slower."""

    dollars: float = np.nan
    """Cost [USD per 1e6 output tokens]."""
    layout: LayoutKey | None = None
    """Key of the layout."""
    concurrency: float = np.nan
    """Number of concurrent requests of an instance, or of a decode instance [1]."""


class FixedLayout(NamedTuple):
    """Speed, cost and TTFT of a fixed layout at a fixed concurrency; NaN if the concurrency is not feasible."""

    tokens_per_second: float = np.nan
    """Speed of one user [tokens/s]."""
    dollars: float = np.nan
    """Cost [USD per 1e6 output tokens]."""
    ttft_seconds: float = np.nan
    """Mean TTFT [s]."""

    def seconds(self, promise: str, decode_steps: float) -> float:
        """Latency ``ttft``, ``tpot`` or ``e2e`` [s]; ``decode_steps`` is the number of tokens after the first [1]."""
        tpot = 1.0 / self.tokens_per_second
        return {"ttft": self.ttft_seconds, "tpot": tpot, "e2e": self.ttft_seconds + decode_steps * tpot}[promise]


class _States(NamedTuple):
    """Points (operating states) of n layouts at k batches each, in arrays of shape (n, k).

    Each row has the points of one layout in interpolation order. Values are NaN where a point is not feasible.
    """

    keys: Sequence[LayoutKey]
    """Key of the layout in each row.

    No keys exist on the published study's grid, because its instance sizes are continuous.
    """
    speeds: Array
    """Speed of one user [tokens/s]."""
    dollars: Array
    """Cost [USD per 1e6 output tokens]."""
    flights: Array
    """Number of concurrent requests of a decode instance [1]."""
    accelerators: Array
    """Number of GPUs in the instance or prefill/decode group [1]."""


class CostCurves(ABC):
    """Curves of cost as a function of user speed, for all layouts.

    Between two adjacent points of a layout, the cost is a power function of speed.
    """

    @abstractmethod
    def states(self, layout: LayoutKey | None = None) -> _States:
        """Points (operating states) of all layouts, or of one layout."""

    @abstractmethod
    def seen(self, layout: LayoutKey) -> tuple[Array, Sequence[Array]]:
        """Concurrency at each feasible point of a layout, and the fields of :class:`FixedLayout`, shape (k,) each."""

    def cheapest(self, speed: float, layout: LayoutKey | None = None) -> CheapestLayouts:
        """Find the lowest cost with at least a user speed [tokens/s], among all layouts or for one layout.

        If all points of a layout are faster than ``speed``, the cheapest point is used. Costs between two points are
        interpolated.
        """
        states = self.states(layout)
        cheapest = pareto.least_from(states.speeds, states.dollars, speed)
        if cheapest is None:
            return CheapestLayouts()
        dollars, row, column = cheapest
        size, flight = (
            float(np.hstack([values, pareto.crossed(states.speeds, values, speed)])[row, column])
            for values in (states.accelerators, states.flights)
        )
        return CheapestLayouts(dollars, states.keys[row] if states.keys else (size,), flight)

    def fastest(self, dollars: float) -> float:
        """Highest user speed [tokens/s] up to a cost [USD per 1e6 output tokens]; NaN if all deployments cost more."""
        speeds, costs = self.states().speeds, self.states().dollars
        whole, between = np.where(costs <= dollars, speeds, np.nan), pareto.crossed(costs, speeds, dollars)
        best = max(float(values[np.isfinite(values)].max(initial=-np.inf)) for values in (whole, between))
        return best if best > 0.0 else np.nan

    def held(self, layout: LayoutKey, concurrency: float) -> FixedLayout:
        """Speed, cost and TTFT of a layout at a given concurrency of a decode instance [1]."""
        flights, values = self.seen(layout)
        # The tolerance keeps the last state if rounding makes the concurrency slightly larger.
        if not flights.size or concurrency > flights.max() * (1.0 + 1e-9):
            return FixedLayout()
        at, across = np.log(concurrency), np.log(flights)
        return FixedLayout(*(float(np.exp(np.interp(at, across, np.log(column)))) for column in values))


@dataclass(frozen=True)
class LayoutCurves(CostCurves):
    """Cost of a service as a function of speed, for all layouts of one engine, recipe and arrangement.

    Points are computed for batches in equal ratios. Between two batches, cost is a power function of speed; this is
    possible because the mean concurrency is continuous. Steady states of the serving model are also interpolated by
    power functions (:meth:`inference_econ.serving.steady.Steady.at`). Costs of different layouts are not interpolated.
    """

    front: ServiceFrontier
    """Frontier of services; the curves are for its first candidate."""

    @property
    def candidate(self) -> Candidate:
        """Candidate deployment (engine, recipe, arrangement) of the curves."""
        return self.front.candidates[0]

    @cached_property
    def _all(self) -> _States:
        candidate, plans = self.candidate, self.candidate.plans
        columns = (plans.accelerators, plans.pp, plans.attention_ranks, np.ones(1) if plans.ep is None else plans.ep)
        keys = list(zip(*(np.broadcast_to(column, plans.shape).tolist() for column in columns), strict=True))
        speeds, flights = np.asarray(1.0 / candidate.metrics.tpot_seconds), candidate.metrics.concurrency
        # If a prefill or decode pool is not feasible, its concurrency is NaN.
        flights = np.where(np.isfinite(speeds), flights / candidate.all_decoders, np.nan)
        chips = np.broadcast_to(candidate.metrics.accelerators, speeds.shape)
        return _States(keys, speeds, candidate.kept_dollars(self.front.promises), flights, chips)

    def states(self, layout: LayoutKey | None = None) -> _States:
        """Points (operating states) of all layouts, or of one layout."""
        if layout is None:
            return self._all
        rows = self._rows(layout)
        return _States([layout] * rows.size, *(values[rows] for values in self._all[1:]))

    def seen(self, layout: LayoutKey) -> tuple[Array, Sequence[Array]]:
        """Concurrency, speed, cost and mean TTFT at each feasible point of a layout."""
        row = self._rows(layout)[:1]
        flights = self._all.flights[row].ravel()
        columns = np.flatnonzero(np.isfinite(flights))
        if not columns.size:
            return np.empty(0), ()
        waits = self.candidate.ttft_seconds(np.repeat(row, columns.size), columns)
        return flights[columns], (self._all.speeds[row[0], columns], self.candidate.dollars[row[0], columns], waits)

    def parts(self, layout: LayoutKey, concurrency: float) -> Mapping[str, float]:
        """Parts of the time per output token, by name [s]; empty with speculation or at an infeasible concurrency."""
        held, row = self.held(layout, concurrency), self._rows(layout)[:1]
        if not np.isfinite(held.tokens_per_second) or self.candidate.speculation is not None:
            return {}
        flights, batches = self._all.flights[row[0]], self.candidate.metrics.batch[row[0]]
        batch = np.exp(np.interp(np.log(concurrency), np.log(flights), np.log(batches)))
        tpot = np.array([1.0 / held.tokens_per_second])
        return {name: float(part[0]) for name, part in step_parts(self.candidate, row, np.array([batch]), tpot).items()}

    def record(self, layout: LayoutKey, concurrency: float) -> Mapping[str, float | str]:
        """Parallelism degrees of a layout, and the engines that can start the layout.

        A disaggregated deployment has the prefill layout of the batch that is nearest to ``concurrency``.
        """
        row, column = self._nearest(layout, concurrency)
        return self.candidate.layouts(np.array([row]), np.array([column]))[0]

    def accelerators(self, layout: LayoutKey, concurrency: float) -> float:
        """Number of GPUs in the instance, or in the prefill/decode group of the nearest batch [1]."""
        return float(self.candidate.metrics.accelerators[self._nearest(layout, concurrency)])

    def _nearest(self, layout: LayoutKey, concurrency: float) -> tuple[int, int]:
        """Index of the layout, and index of the batch with the nearest concurrency per decode instance."""
        row = int(self._rows(layout)[0])
        with np.errstate(invalid="ignore"):
            return row, int(np.nanargmin(np.abs(np.log(self._all.flights[row] / concurrency))))

    def _rows(self, layout: LayoutKey) -> npt.NDArray[np.intp]:
        return np.array([row for row, key in enumerate(self._all.keys) if key == layout], dtype=np.intp)


@dataclass(frozen=True)
class InstanceCurves(CostCurves):
    """Cost of decode steps as a function of speed, for instances with the fastest layout of their size at each batch.

    Between two batches of an instance, cost is a power function of speed. On the published study's grid, instance sizes
    are continuous, so adjacent points of the frontier are interpolated too. The key of an instance is its number of
    GPUs.
    """

    front: Frontier
    """Frontier of decode steps."""

    @property
    def continuous(self) -> bool:
        """True if instance sizes are continuous; each value of an input then has a different best size."""
        return isinstance(self.front.grid.layouts, ContinuousLayouts)

    @cached_property
    def _all(self) -> _States:
        front = self.front
        if self.continuous:
            line = (front.tokens_per_second, front.dollars, front.batch, front.accelerators)
            return _States((), *(column[None, :] for column in line))
        return self._of(front.grid.accelerators)

    def _of(self, sizes: Array) -> _States:
        """Points of instances: one row per given size, one column per batch of the grid."""
        front, setup = self.front, self.front.setup
        batch, chips = front.grid.batch[None, :], sizes[:, None]
        times = token_seconds(setup, chips, batch, front.grid.layouts, speculation=front.speculation).seconds
        sold = np.inf if front.max_tokens_per_second is None else front.max_tokens_per_second
        seconds = np.where(np.isfinite(times) & (batch <= sold * times), times, np.nan)
        dollars = money.dollars_per_million_tokens(chips, seconds, batch, setup.dollars_per_accelerator_hour)
        keys = [(float(size),) for size in sizes]
        return _States(keys, 1.0 / seconds, dollars, *np.broadcast_arrays(batch, chips))

    def states(self, layout: LayoutKey | None = None) -> _States:
        """Points of instances of all sizes, or of one size."""
        return self._all if layout is None else self._of(np.array(layout))

    def seen(self, layout: LayoutKey) -> tuple[Array, Sequence[Array]]:
        """Feasible batches of an instance size, with speed and cost at each batch."""
        states = self._of(np.array(layout))
        fits = np.isfinite(states.speeds[0])
        return states.flights[0, fits], (states.speeds[0, fits], states.dollars[0, fits])

    def record(self, layout: LayoutKey, concurrency: float) -> Mapping[str, float | str]:
        """Parallelism degrees of an instance at the batch nearest to ``concurrency``, by option [1]."""
        states = self._of(np.array(layout))
        off = np.abs(np.log(states.flights[0] / concurrency))
        column = int(np.nanargmin(np.where(np.isfinite(states.speeds[0]), off, np.nan)))
        speeds, dollars, batch, chips = (values[0, [column]] for values in states[1:])
        alone = replace(self.front, seconds=1.0 / speeds, dollars=dollars, accelerators=chips, batch=batch)
        return alone.point(0).layout

    def accelerators(self, layout: LayoutKey, concurrency: float) -> float:
        """Number of GPUs in the instance [1]."""
        del concurrency
        return layout[0]
