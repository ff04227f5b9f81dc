"""Cost of instances at every speed of decode steps alone, between the batches that were calculated as well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from inference_econ._types import Array
from inference_econ.engine import ContinuousLayouts
from inference_econ.formulas import money, pareto
from inference_econ.search import Frontier
from inference_econ.search.fastest import token_seconds
from inference_econ.studies.layout_curves import Best, Held, LayoutKey, fastest_between


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
        """Whether sizes are no whole numbers, so that every other value of an input has an instance of its own."""
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

    def cheapest(self, speed: float, layout: LayoutKey | None = None) -> Best:
        """The least cost of a speed of a user, at least [tokens/s]; of all instances, or of one size."""
        states = self._all if layout is None else self._of(np.array(layout))
        least = pareto.least_from(states.speeds, states.dollars, speed)
        if least is None:
            return Best()
        dollars, row, column = least
        size, batch = (
            float(np.hstack([values, pareto.crossed(states.speeds, values, speed)])[row, column])
            for values in (states.accelerators, states.batch)
        )
        # In whole numbers a row is of one size, which logarithms would not leave whole.
        return Best(dollars, (size if self.continuous else float(states.accelerators[row, 0]),), batch)

    def fastest(self, dollars: float) -> float:
        """The highest speed of a user at a cost [USD per 1e6 tokens], [tokens/s]; NaN if nothing is so cheap."""
        return fastest_between(self._all.speeds, self._all.dollars, dollars)

    def held(self, layout: LayoutKey, concurrency: float) -> Held:
        """Speed and cost of an instance with so many sequences in a batch [1]."""
        states = self._of(np.array(layout))
        fits = np.isfinite(states.speeds[0])
        if not fits.any() or concurrency > states.batch[0, fits].max() * (1.0 + 1e-9):
            return Held()
        at, batches = np.log(concurrency), np.log(states.batch[0, fits])
        return Held(
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
