"""Frontiers side by side: which series is the cheapest at which speed, and how surely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from inference_econ.answers.heading import frontiers_title
from inference_econ.answers.likely import chance_below
from inference_econ.answers.serving_frontier import ServiceFrontier
from inference_econ.answers.startable import is_bound
from inference_econ.engine import bounds
from inference_econ.records.plain import Frame, frame_of
from inference_econ.records.sources import source_records
from inference_econ.records.texts import chance_percent
from inference_econ.studies.results import AnyFrontier, Curve, Result, common_speeds

#: That the first is cheaper than the second: with less it is no winner [1].
_ALIKE = 0.55
#: From which probability on a series may well be the cheapest [1].
_MAY_BE = 0.2


@dataclass(frozen=True)
class Winner:
    """Cheapest series at a speed, and how probably it is that.

    Attributes
    ----------
    speed : float
        Of a user [tokens/s].
    label, second : str
        The series that is the cheapest, and the next one.
    chance : float or None
        That the first is cheaper than the second [1]; None where nobody knows.
    rivals : tuple of str
        Series that may well be the cheapest too: that are so with :data:`_MAY_BE` at least.
    """

    speed: float
    label: str
    second: str
    chance: float | None
    rivals: tuple[str, ...]

    @property
    def text(self) -> str:
        """Words for the cheapest series."""
        if self.chance is not None and self.chance < _ALIKE:
            return f"at {self.speed:g} {self.label} or {self.second}, alike within errors"
        probability = "" if self.chance is None else f" with {chance_percent(self.chance)} %"
        return f"at {self.speed:g} {self.label} before {self.second}{probability}"


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Result):
    """Frontiers of several series side by side: a :class:`.results.Result` that names the cheapest."""

    page = "report.compare:ComparisonPage"

    @property
    def about(self) -> str:
        """Labels of the series."""
        return ", ".join(self.labels)

    @property
    def labels(self) -> list[str]:
        """Series in the order in which they were asked for."""
        return [series.label for series in getattr(self.scenario.ask, "series", ())]

    @property
    def bounds(self) -> list[str]:
        """Labels of the series of services that were fitted to no server, or that no known engine can start."""
        fronts = {curve.label: curve.frontier for curve in self.curves if isinstance(curve.frontier, ServiceFrontier)}
        return [label for label, front in fronts.items() if is_bound(front.setup)]

    @property
    def speeds(self) -> list[float]:
        """Round speeds that somebody sells, from the slowest to the fastest point [tokens/s per user]."""
        return common_speeds([curve.tokens_per_second for curve in self.curves])

    def winners(self, speeds: Sequence[float]) -> list[Winner]:
        """Return the cheapest series at each speed that several series reach; none where requests differ.

        Bounds do not compete with what was fitted and can be started.

        Parameters
        ----------
        speeds : sequence of float
            [tokens/s per user]
        """
        fronts = (curve.frontier for curve in self.curves)
        if len({front.requests for front in fronts if isinstance(front, ServiceFrontier)}) > 1:
            return []
        bound = self.bounds
        competing = [curve for curve in self.curves if curve.label not in bound] or self.curves
        best = []
        for speed in speeds:
            costs = {curve.label: likely for curve in competing if (likely := curve.likely_at(speed)) is not None}
            if len(costs) < 2:
                continue
            first, second, *_ = sorted(costs, key=lambda label: costs[label].dollars)
            beaten = {label: chance_below(costs[first], costs[label]) for label in costs if label != first}
            rivals = [label for label, chance in beaten.items() if chance is not None and chance <= 1.0 - _MAY_BE]
            best.append(Winner(speed, first, second, beaten[second], tuple(rivals)))
        return best

    def record(self, speeds: Sequence[float] | None = None, costs: Sequence[float] = ()) -> dict[str, Any]:
        """Return every series with its points, those at some speeds and costs, the preferred one, or why none fits.

        Parameters
        ----------
        speeds : sequence of float, optional
            By default :attr:`speeds` [tokens/s per user].
        costs : sequence of float
            [USD per 1e6 output tokens]
        """
        by_label, shown = {curve.label: curve for curve in self.curves}, self.speeds if speeds is None else speeds
        series: list[dict[str, object]] = []
        for label in self.labels:
            if label not in by_label:
                series.append({"label": label, "points": [], "reason": self.missing[label]})
                continue
            front = by_label[label].front
            record = front.record()
            record.pop("sources")
            record["costs"] = [_cost_record(by_label[label], speed) for speed in shown]
            record["at_costs"] = [_speed_record(front, cost) for cost in costs]
            best = bounds.bounded(front.preferred().record(), front.ends_at(front.preferred_index()))
            series.append({"label": label, **record, "preferred": best})
        return {
            "title": frontiers_title([curve.front for curve in self.curves]),
            "series": series,
            "cheapest": [asdict(winner) for winner in self.winners(shown)],
            "sources": source_records(self.sources),
        }

    def records(self) -> list[dict[str, Any]]:
        """Return every point of every series, and one row with the reason for a series that fits nowhere."""
        points = [{**row, "reason": ""} for curve in self.curves for row in curve.records()]
        if not self.missing:
            return points
        return [*points, *({"series": label, "reason": reason} for label, reason in self.missing.items())]

    def to_frame(self) -> Frame:
        """All points of all series, one row each, unrounded; the reason of a series that fits nowhere."""
        return frame_of(self.records())


def _cost_record(curve: Curve, speed: float) -> dict[str, object]:
    """The cost of a series at a speed, and where it probably is; nulls where nothing is as fast."""
    record: dict[str, object] = {"tokens_per_second_per_user": speed, "dollars": curve.dollars_at(speed)}
    if isinstance(curve.frontier, ServiceFrontier):
        likely = curve.likely_at(speed)
        low, high = (None, None) if likely is None else (likely.low, likely.high)
        return {**record, "dollars_low": low, "dollars_high": high}
    return bounds.bounded(record, {"dollars": curve.front.ends()["dollars_per_million_output_tokens"]})


def _speed_record(front: AnyFrontier, cost: float) -> dict[str, object]:
    """The fastest point of a series at a cost; null where nothing is as cheap."""
    point = front.fastest_at(cost)
    return {"dollars": cost, "point": None if point is None else point.record()}
