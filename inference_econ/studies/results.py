"""Answers to scenarios: what there is to see, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from inference_econ._shown import Shown
from inference_econ._types import Array
from inference_econ.answers.gaps import Assessment
from inference_econ.answers.likely import Likely
from inference_econ.answers.serving_frontier import SLOWEST, ServiceFrontier, ServicePoint
from inference_econ.answers.sources import UsedSource
from inference_econ.formulas import money
from inference_econ.inputs import Scenario
from inference_econ.search import Frontier, Point
from inference_econ.studies.exhibits import CellTable, Chart
from inference_econ.studies.offered import BesideSeries

_Kind = TypeVar("_Kind")
#: A frontier of services, or of decode steps alone.
AnyFrontier = ServiceFrontier | Frontier


#: The name of a scenario that compares frontiers.
COMPARISON = "Comparison"


@dataclass(frozen=True, slots=True, repr=False)
class Curve:
    """One labelled frontier of points, slowest first.

    Attributes
    ----------
    label : str
        What the legend says.
    tokens_per_second, dollars, accelerators, batch : ndarray, shape (n,)
        Speed [tokens/s], cost [USD per 1e6 tokens], instance [1], sequences [1].
    frontier : ServiceFrontier, Frontier or None
        Where it comes from: services, or decode steps alone; None for the toy model.
    sources : tuple of UsedSource
        What its numbers rest on.
    """

    label: str
    tokens_per_second: Array
    dollars: Array
    accelerators: Array
    batch: Array
    frontier: AnyFrontier | None = None
    sources: tuple[UsedSource, ...] = ()

    def __repr__(self) -> str:
        """The label, how many points there are, and their ends: arrays and sources are long."""
        points = f"{self.dollars.size} {'point' if self.dollars.size == 1 else 'points'}"
        (slow, cheap), (fast, dear) = ((self.tokens_per_second[end], self.dollars[end]) for end in (0, -1))
        return f"Curve({self.label!r}: {points}, {slow:.4g} tokens/s at ${cheap:.3g} to {fast:.4g} at ${dear:.3g})"

    @property
    def front(self) -> AnyFrontier:
        """Frontier of a curve that has one: of all but those of the toy model."""
        assert self.frontier is not None
        return self.frontier

    def preferred_index(self, exponent: float) -> int:
        """The point that maximises speed^exponent / cost (eq. 45)."""
        return int(np.argmax(money.preference(self.tokens_per_second, self.dollars, exponent)))

    def dollars_at(self, tokens_per_second: float) -> float | None:
        """Least cost at a speed [tokens/s] or above [USD per 1e6 tokens]; None where no point is as fast."""
        likely = self.likely_at(tokens_per_second)
        if likely is not None or isinstance(self.frontier, ServiceFrontier):
            return None if likely is None else likely.dollars
        as_fast = self.dollars[self.tokens_per_second >= tokens_per_second]
        return float(as_fast.min()) if as_fast.size else None

    def fastest_at(self, dollars: float) -> ServicePoint | Point | None:
        """The fastest point at a cost or below [USD per 1e6 tokens]; None where no point is as cheap."""
        return None if self.frontier is None else self.frontier.fastest_at(dollars)

    def likely_at(self, tokens_per_second: float) -> Likely | None:
        """Cost of services at a speed, with its interval [USD per 1e6 tokens]; None where no point is as fast."""
        return self.frontier.at_speed(tokens_per_second) if isinstance(self.frontier, ServiceFrontier) else None


@dataclass(frozen=True, slots=True)
class SquareRootLaw:
    """Published latencies beside the square-root law.

    Attributes
    ----------
    labels : tuple of str
        Models.
    parameters, measured, predicted : ndarray, shape (n,)
        Parameters [1] and seconds per token [s].
    """

    labels: tuple[str, ...]
    parameters: Array
    measured: Array
    predicted: Array


class Study(Shown):
    """An answer to a scenario that is shown by a page of its own."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, repr=False)
class Result(Shown):
    """The answer to a scenario.

    Attributes
    ----------
    scenario : Scenario
        What was asked.
    exhibits : tuple
        What there is to see, in order. Of frontiers a :class:`Curve` per series and the offers beside them, of tables
        and their charts each by itself, of a measured deployment an :class:`Assessment` per preset, of a study its
        :class:`Study`, of figures side by side a :class:`Result` each.
    sources : tuple of UsedSource
        What the numbers rest on.
    missing : mapping of str to str
        Series that fit nowhere, with the reason.
    """

    scenario: Scenario
    exhibits: tuple[Exhibit, ...]
    sources: tuple[UsedSource, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def page(self) -> str:
        """Page that all scenarios have, or that of series side by side."""
        return "report.compare:ComparisonPage" if self.scenario.name == COMPARISON else "report.scenario:ScenarioPage"

    @property
    def displayed(self) -> Shown:
        """The study that the scenario asked for, if it asked for one."""
        return self.study or self

    @property
    def curves(self) -> tuple[Curve, ...]:
        """Frontiers, one per series."""
        return self._of(Curve)

    @property
    def tables(self) -> tuple[CellTable, ...]:
        """Numbers of answers that are no frontiers."""
        return self._of(CellTable)

    @property
    def charts(self) -> tuple[Chart, ...]:
        """Charts of the result."""
        return self._of(Chart)

    @property
    def offers(self) -> tuple[BesideSeries, ...]:
        """Offers of providers, beside the series that it is held against."""
        return self._of(BesideSeries)

    @property
    def panels(self) -> tuple[Result, ...]:
        """Other scenarios side by side."""
        return self._of(Result)

    @property
    def assessments(self) -> tuple[Assessment, ...]:
        """Of a measured deployment: under its own preset, and under the further ones."""
        return self._of(Assessment)

    @property
    def assessment(self) -> Assessment | None:
        """The first of them, if that was asked for."""
        return next(iter(self.assessments), None)

    @property
    def study(self) -> Study | None:
        """Answer of a study, if that was asked for."""
        return next(iter(self._of(Study)), None)

    @property
    def comparison(self) -> SquareRootLaw | None:
        """Latencies beside the square-root law, if that was asked for."""
        return next(iter(self._of(SquareRootLaw)), None)

    def _of(self, kind: type[_Kind]) -> tuple[_Kind, ...]:
        return tuple(exhibit for exhibit in self.exhibits if isinstance(exhibit, kind))


#: What a result can show.
Exhibit = Curve | BesideSeries | CellTable | Chart | SquareRootLaw | Assessment | Study | Result


#: Speeds that a table shows, times powers of ten [tokens/s].
_ROUND = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
_MOST = 5
#: Slower speeds are not sold, and shown only where nothing is faster [tokens/s].
_SOLD = 1.0 / SLOWEST


def common_speeds(frontiers: Sequence[Array]) -> list[float]:
    """Round speeds that somebody sells, from the slowest to the fastest point of some frontiers.

    Parameters
    ----------
    frontiers : sequence of ndarray
        Speeds of the points of each, ascending [tokens/s per user].

    Returns
    -------
    list of float
        A few, ascending; the fastest speed if no round one lies between [tokens/s per user].

    Examples
    --------
    >>> common_speeds([np.array([14.0, 90.0]), np.array([20.0, 160.0])])
    [15.0, 30.0, 50.0, 70.0, 150.0]
    """
    high = max(float(speeds[-1]) for speeds in frontiers)
    slowest = min(float(speeds[0]) for speeds in frontiers)
    low = max(slowest, _SOLD) if high > _SOLD else slowest
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    between = [speed for decade in decades for digit in _ROUND if low <= (speed := digit * 10.0**decade) <= high]
    if not between:
        return [high]
    chosen = np.linspace(0, len(between) - 1, min(_MOST, len(between))).round().astype(int)
    return [between[index] for index in np.unique(chosen)]
