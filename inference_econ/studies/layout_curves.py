"""Cost of every layout of an answer at every speed, between the batches that were calculated as well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.answers.deployments.candidates import Candidate
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier, step_parts
from inference_econ.engine import ContinuousLayouts
from inference_econ.formulas import money, pareto
from inference_econ.search import Frontier
from inference_econ.search.fastest import token_seconds

#: Chips, pipeline stages, chips that share attention, expert-parallel ranks [1]: what tells layouts apart.
LayoutKey = tuple[float, ...]


class CheapestLayouts(NamedTuple):
    """The cheapest deployment of a speed; NaN and None where nothing is as fast."""

    dollars: float = np.nan
    """[USD per 1e6 output tokens]"""
    layout: LayoutKey | None = None
    """Which layout."""
    concurrency: float = np.nan
    """Requests in flight of an instance [1]."""


@dataclass(frozen=True, slots=True)
class FixedLayout:
    """One deployment, whatever happens around it; numbers are NaN where it cannot be.

    Attributes
    ----------
    tokens_per_second, dollars, ttft_seconds : float
        Of a user [tokens/s], cost [USD per 1e6 output tokens], and mean time to the first token [s].
    """

    tokens_per_second: float = np.nan
    dollars: float = np.nan
    ttft_seconds: float = np.nan

    def seconds(self, promise: str, decode_steps: float) -> float:
        """Seconds that users wait, of ``ttft``, ``tpot`` and ``e2e``, with so many tokens after the first [1], [s]."""
        tpot = 1.0 / self.tokens_per_second
        return {"ttft": self.ttft_seconds, "tpot": tpot, "e2e": self.ttft_seconds + decode_steps * tpot}[promise]


def fastest_between(speeds: Array, costs: Array, dollars: float) -> float:
    """The highest speed at a cost of states, shape (n, k), and of what is between two of a row; NaN if there is none.

    Parameters
    ----------
    speeds, costs : ndarray, shape (n, k)
        Of a user [tokens/s], [USD per 1e6 output tokens].
    dollars : float
        [USD per 1e6 output tokens]
    """
    whole, between = np.where(costs <= dollars, speeds, np.nan), pareto.crossed(costs, speeds, dollars)
    best = [values[np.isfinite(values)].max(initial=-np.inf) for values in (whole, between)]
    return float(max(best)) if max(best) > 0.0 else np.nan


@dataclass(frozen=True)
class LayoutCurves:
    """Cost over speed of all layouts of one practice: an engine with a recipe, together or apart.

    States are calculated for some batches of each layout, in equal ratios. Between two of them, cost is taken as a
    power of speed: the mean number of requests in flight can be any, and steady states are read between batches in the
    same way (:meth:`inference_econ.serving.steady.Steady.at`). Between layouts nothing is interpolated.

    Attributes
    ----------
    front : ServiceFrontier
        A frontier of which one candidate is looked at.
    number : int
        Which one.
    """

    front: ServiceFrontier
    number: int = 0

    @property
    def candidate(self) -> Candidate:
        """The practice."""
        return self.front.candidates[self.number]

    @cached_property
    def _dollars(self) -> Array:
        return self.candidate.kept_dollars(self.front.promises)

    @cached_property
    def keys(self) -> list[LayoutKey]:
        """Keys that tell the layouts apart."""
        plans = self.candidate.plans
        columns = (plans.accelerators, plans.pp, plans.attention_ranks, np.ones(1) if plans.ep is None else plans.ep)
        return list(zip(*(np.broadcast_to(column, plans.shape).tolist() for column in columns), strict=True))

    @cached_property
    def _speeds(self) -> Array:
        return np.asarray(1.0 / self.candidate.seen.tpot_seconds)

    @cached_property
    def _flights(self) -> Array:
        """Requests in flight for each instance that decodes, shape (n, k) [1]; NaN where pools cannot be."""
        flights = self.candidate.seen.concurrency / self.candidate.all_decoders
        return np.where(np.isfinite(self._speeds), flights, np.nan)

    def cheapest(self, speed: float, layout: LayoutKey | None = None) -> CheapestLayouts:
        """The least cost of a speed of a user, at least [tokens/s]; of all layouts, or of one.

        Where all states of a layout are faster, its cheapest one counts; between two states, what is between them.
        """
        rows = self._rows(layout)
        speeds, flights, costs = self._speeds[rows], self._flights[rows], self._dollars[rows]
        cheapest = pareto.least_from(speeds, costs, speed)
        if cheapest is None:
            return CheapestLayouts()
        dollars, row, column = cheapest
        flight = np.hstack([flights, pareto.crossed(speeds, flights, speed)])[row, column]
        return CheapestLayouts(dollars, self.keys[rows[row]], float(flight))

    def fastest(self, dollars: float) -> float:
        """The highest speed of a user at a cost [USD per 1e6 output tokens], [tokens/s]; NaN if nothing is so cheap."""
        return fastest_between(self._speeds, self._dollars, dollars)

    def held(self, layout: LayoutKey, concurrency: float) -> FixedLayout:
        """Speed and cost of a layout with so many requests in flight of an instance that decodes."""
        rows = self._rows(layout)
        if not rows.size:
            return FixedLayout()
        row, flights = rows[:1], self._flights[rows[0]]
        finite = np.isfinite(flights)
        # A batch of the last state is the last one by definition, not by its last digit.
        if not finite.any() or concurrency > flights[finite].max() * (1.0 + 1e-9):
            return FixedLayout()
        columns = np.flatnonzero(finite)
        waits = self.candidate.ttft_seconds(np.repeat(row, columns.size), columns)
        seen = (self._speeds[row[0], columns], self.candidate.dollars[row[0], columns], waits)
        flight, flights_of = np.log(concurrency), np.log(flights[columns])
        return FixedLayout(*(float(np.exp(np.interp(flight, flights_of, np.log(values)))) for values in seen))

    def parts(self, layout: LayoutKey, concurrency: float) -> Mapping[str, float]:
        """The time per output token of such a deployment by part [s]; nothing where it is not possible."""
        held, row = self.held(layout, concurrency), self._rows(layout)[:1]
        if not np.isfinite(held.tokens_per_second) or self.candidate.speculation is not None:
            return {}
        flights, batches = self._flights[row[0]], self.candidate.seen.batch[row[0]]
        batch = np.exp(np.interp(np.log(concurrency), np.log(flights), np.log(batches)))
        tpot = np.array([1.0 / held.tokens_per_second])
        return {name: float(part[0]) for name, part in step_parts(self.candidate, row, np.array([batch]), tpot).items()}

    def record(self, layout: LayoutKey, concurrency: float) -> Mapping[str, float | str]:
        """The degrees of a layout under the names that people use, and the engines that can start it.

        Of pools those of the batch that is nearest to so many requests in flight of an instance that decodes [1].
        """
        row, column = self._nearest(layout, concurrency)
        return self.candidate.layouts(np.array([row]), np.array([column]))[0]

    def accelerators(self, layout: LayoutKey, concurrency: float) -> float:
        """Chips of what is deployed together: an instance, or of pools the group of the same batch [1]."""
        return float(self.candidate.seen.accelerators[self._nearest(layout, concurrency)])

    def _nearest(self, layout: LayoutKey, concurrency: float) -> tuple[int, int]:
        """The layout, and its batch that is nearest to so many requests in flight of an instance that decodes [1]."""
        row = int(self._rows(layout)[0])
        with np.errstate(invalid="ignore"):
            return row, int(np.nanargmin(np.abs(np.log(self._flights[row] / concurrency))))

    def _rows(self, layout: LayoutKey | None) -> npt.NDArray[np.intp]:
        return np.array([row for row, key in enumerate(self.keys) if layout in (None, key)], dtype=np.intp)


class _States(NamedTuple):
    """Instances with their batches, in the order in which they are joined, shape (n, k) each; NaN where none fits."""

    speeds: Array
    """Of a user [tokens/s]."""
    dollars: Array
    """[USD per 1e6 tokens]"""
    accelerators: Array
    """Size of the instance [1]."""
    batch: Array
    """Sequences decoded together [1]."""


@dataclass(frozen=True)
class InstanceCurves:
    """Cost over speed of decode steps, of instances of every size, each in its fastest layout at every batch.

    Between two batches of an instance cost is taken as a power of speed, and between two points of a frontier on the
    study's grid, whose sizes are no whole numbers. What :class:`inference_econ.studies.layout_curves.LayoutCurves`
    tells apart by layout is told apart by size here: the key of an instance is its number of chips.

    Attributes
    ----------
    front : Frontier
        The frontier.
    """

    front: Frontier

    @property
    def continuous(self) -> bool:
        """True if sizes are no whole numbers, so that every other value of an input has an instance of its own."""
        return isinstance(self.front.grid.layouts, ContinuousLayouts)

    @cached_property
    def _all(self) -> _States:
        front = self.front
        if self.continuous:
            line = (front.tokens_per_second, front.dollars, front.accelerators, front.batch)
            return _States(*(column[None, :] for column in line))
        return self._of(front.grid.accelerators)

    def _of(self, sizes: Array) -> _States:
        """Instances of some sizes, a row each, with all batches of the grid."""
        front, setup = self.front, self.front.setup
        batch, chips = front.grid.batch[None, :], sizes[:, None]
        times = token_seconds(setup, chips, batch, front.grid.layouts, speculation=front.speculation).seconds
        sold = np.inf if front.max_tokens_per_second is None else front.max_tokens_per_second
        seconds = np.where(np.isfinite(times) & (batch <= sold * times), times, np.nan)
        dollars = money.dollars_per_million_tokens(chips, seconds, batch, setup.dollars_per_accelerator_hour)
        return _States(1.0 / seconds, dollars, *np.broadcast_arrays(chips, batch))

    def cheapest(self, speed: float, layout: LayoutKey | None = None) -> CheapestLayouts:
        """The least cost of a speed of a user, at least [tokens/s]; of all instances, or of one size."""
        states = self._all if layout is None else self._of(np.array(layout))
        least = pareto.least_from(states.speeds, states.dollars, speed)
        if least is None:
            return CheapestLayouts()
        dollars, row, column = least
        size, batch = (
            float(np.hstack([values, pareto.crossed(states.speeds, values, speed)])[row, column])
            for values in (states.accelerators, states.batch)
        )
        # In whole numbers a row is of one size, which logarithms would not leave whole.
        return CheapestLayouts(dollars, (size if self.continuous else float(states.accelerators[row, 0]),), batch)

    def fastest(self, dollars: float) -> float:
        """The highest speed of a user at a cost [USD per 1e6 tokens], [tokens/s]; NaN if nothing is so cheap."""
        return fastest_between(self._all.speeds, self._all.dollars, dollars)

    def held(self, layout: LayoutKey, concurrency: float) -> FixedLayout:
        """Speed and cost of an instance with so many sequences in a batch [1]."""
        states = self._of(np.array(layout))
        fits = np.isfinite(states.speeds[0])
        if not fits.any() or concurrency > states.batch[0, fits].max() * (1.0 + 1e-9):
            return FixedLayout()
        at, batches = np.log(concurrency), np.log(states.batch[0, fits])
        return FixedLayout(
            *(float(np.exp(np.interp(at, batches, np.log(v[0, fits])))) for v in (states.speeds, states.dollars))
        )

    def record(self, layout: LayoutKey, concurrency: float) -> Mapping[str, float | str]:
        """The degrees of an instance under the names that people use, at the batch nearest to one [1]."""
        states = self._of(np.array(layout))
        off = np.abs(np.log(states.batch[0] / concurrency))
        column = int(np.nanargmin(np.where(np.isfinite(states.speeds[0]), off, np.nan)))
        speeds, dollars, chips, batch = (values[0, [column]] for values in states)
        alone = replace(self.front, seconds=1.0 / speeds, dollars=dollars, accelerators=chips, batch=batch)
        return alone.point(0).layout

    def accelerators(self, layout: LayoutKey, concurrency: float) -> float:
        """Chips of the instance [1]."""
        del concurrency
        return layout[0]
