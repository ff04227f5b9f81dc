"""Several frontiers in one table."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

from inference_econ.answers.likely import chance_below
from inference_econ.answers.serving_frontier import ServiceFrontier, ServicePoint
from inference_econ.answers.sources import UsedSource, source_records
from inference_econ.engine import Setup, bounds
from inference_econ.errors import InputError
from inference_econ.inputs import catalog
from inference_econ.report import bands, charts, curves
from inference_econ.report.charts.plot import Plot
from inference_econ.report.frontier import DECODED, PREFILL_TOO
from inference_econ.report.page import AnswerPage, Pieces
from inference_econ.report.scenario import curve_frame
from inference_econ.report.service import milliseconds
from inference_econ.report.serving_frontier import COUNTED, MEANS
from inference_econ.report.speed_cost import curve_line, frontiers_title, speed_cost_chart
from inference_econ.report.startable import is_bound, with_engines, with_notes
from inference_econ.report.table import Frame, Table, amount, chance_percent, dollars, frame_of, layout_label, size
from inference_econ.search import Metric, Point
from inference_econ.studies.results import AnyFrontier, Curve, Result, common_speeds

#: That the first is cheaper than the second: with less it is no winner [1].
_ALIKE = 0.55
#: From which probability on a series may well be the cheapest [1].
_MAY_BE = 0.2


@dataclass(frozen=True)
class ComparisonPage(AnswerPage[Result]):
    """Several frontiers, ready to be shown.

    Attributes
    ----------
    wanted_speeds : sequence of float
        Columns of the table, ascending [tokens/s per user]; round ones if neither speeds nor costs are given.
    costs : sequence of float
        Columns of speeds and sizes at these costs, ascending [USD per 1e6 output tokens].
    y : str
        What the picture holds against speed.
    """

    wanted_speeds: Sequence[float] = ()
    costs: Sequence[float] = ()
    y: Metric = "cost"

    @property
    def speeds(self) -> Sequence[float]:
        """Columns of the table [tokens/s per user]."""
        if self.wanted_speeds or self.costs:
            return self.wanted_speeds
        return common_speeds([curve.tokens_per_second for curve in self.answer.curves])

    def tables(self) -> Sequence[Table]:
        """One row per series."""
        table = comparison_table(self.answer, self.speeds, self.costs)
        return (with_notes(table, [f"Not drawn: {reason}." for reason in self.undrawn().values()]),)

    def undrawn(self) -> dict[str, str]:
        """Reasons for which series cannot be held against speed in the picture, by their labels."""
        return _undrawn(self.answer, self.y)

    def record(self) -> object:
        """Every series with its points."""
        return comparison_record(self.answer, self.speeds, self.costs)

    def frame(self) -> Frame:
        """Every point of every series."""
        return comparison_frame(self.answer)

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """The frontiers."""
        return {"frontiers": charts.line_chart(comparison_chart(self.answer, self.y))}

    def question(self) -> str:
        """Question about the cheapest series."""
        names = _listed([curve.label for curve in self.answer.curves], "or")
        return f"Which is the cheapest at which speed: {names}?"

    def conclusion(self) -> Pieces:
        """Sentence on the costs of the series at a speed in the middle, the cheapest first."""
        series = self.answer.curves
        speeds = self.speeds or common_speeds([curve.tokens_per_second for curve in series])
        speed = speeds[len(speeds) // 2]
        costs = {curve.label: cost for curve in series if (cost := curve.dollars_at(speed)) is not None}
        pieces = [f"At {speed:g} tokens/s per user "]
        for index, (label, cost) in enumerate(sorted(costs.items(), key=lambda item: item[1])):
            counted = " per million output tokens" * (not index)
            pieces += ["; " if index else "", f"{label} costs $", dollars(cost), counted]
        slow = [curve.label for curve in series if curve.label not in costs]
        return (*pieces, *([f"; {_listed(slow, 'and')} cannot be as fast"] if slow else []), ".")

    def setups(self) -> Sequence[Setup]:
        """Setups of all series."""
        return curves.setups_of(self.answer.curves)

    def sources(self) -> Sequence[UsedSource]:
        """Sources of all series."""
        return self.answer.sources


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


def winners(result: Result, speeds: Sequence[float]) -> list[Winner]:
    """Cheapest series at each speed that several series reach; none where they serve different requests.

    Bounds do not compete with what was fitted and can be started.
    """
    fronts = (curve.frontier for curve in result.curves)
    if len({front.requests for front in fronts if isinstance(front, ServiceFrontier)}) > 1:
        return []
    bound = _bounds(result)
    competing = [curve for curve in result.curves if curve.label not in bound] or result.curves
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


def comparison_table(result: Result, speeds: Sequence[float], costs: Sequence[float] = ()) -> Table:
    """One row per series: its cost at some speeds, its speed and size at some costs, and its preferred point.

    Parameters
    ----------
    result : Result
        From :func:`inference_econ.studies.compare.compare`.
    speeds : sequence of float
        [tokens/s per user]
    costs : sequence of float
        [USD per 1e6 output tokens]
    """
    by_label = {curve.label: curve for curve in result.curves}
    fronts = {label: curve.front for label, curve in by_label.items()}
    services = any(isinstance(front, ServiceFrontier) for front in fronts.values())
    last = ("in flight", "TTFT ms") if services else ("batch",)
    columns = (
        "series", *(f"$ at {speed:g}" for speed in speeds),
        *(f"{what} at ${cost:g}" for cost in costs for what in ("tok/s", "GPUs")),
        "fastest", "best", "$", "GPUs", "layout", *last,
    )  # fmt: skip
    rows, best, bound = [], winners(result, speeds), _bounds(result)
    for label in _labels(result):
        if label in by_label:
            rivals = {winner.speed for winner in best if label in winner.rivals}
            rows.append((_marked(label, label, bound), *_row(by_label[label], speeds, costs, rivals)))
        else:
            before, after = len(speeds) + 2 * len(costs), 4 + len(last)
            rows.append((label, *"-" * before, "nothing fits", *"-" * after))
    notes = [
        "$ per million output tokens at a speed in tokens/s per user; best: the point that maximises speed^3 / cost."
        + (" tok/s and GPUs at a cost: of the fastest instance that costs no more." if costs else "")
        + (f" {COUNTED}" if services else ""),
        *_winners_note(best, bound),
        *(f"{label}: {reason}" for label, reason in result.missing.items()),
        *curves.warned(fronts),
    ]
    why = [
        f"$ at a speed: of the cheapest deployment {'with that speed' if services else 'that is as fast or faster'}. "
        f"{MEANS if services else DECODED}",
        *curves.assumed(fronts),
    ]
    least = (*last, "engine", "fastest", "GPUs", *(f"$ at {speed:g}" for speed in (*speeds[3:], *speeds[1:2])))
    table = Table(frontiers_title([*fronts.values()]), columns, tuple(rows), tuple(notes), tuple(why), least)
    shown = {label: front.preferred().layout for label, front in fronts.items()}
    setups = [front.setup for front in fronts.values()]
    return with_engines(table, [shown.get(label, {}) for label in _labels(result)], setups)


def _winners_note(best: Sequence[Winner], bound: Sequence[str]) -> list[str]:
    """Sentence on the cheapest series, how probably they are that, and on those that do not compete."""
    marked = " How surely is not known where no share stands." if any(winner.chance is None for winner in best) else ""
    marked += " ~: may well be the cheapest too." if any(winner.rivals for winner in best) else ""
    note = [f"The cheapest, {'; '.join(winner.text for winner in best)}.{marked}"] if best else []
    if bound:
        verb = "is a bound" if len(bound) == 1 else "are bounds"
        note.append(f"{_listed(bound, 'and')} {verb}: fitted to no server, or started by no known engine.")
    return [" ".join(note)] if note else []


def _bounds(result: Result) -> list[str]:
    """Labels of the series of services that were fitted to no server, or that no known engine can start."""
    fronts = {curve.label: curve.frontier for curve in result.curves if isinstance(curve.frontier, ServiceFrontier)}
    return [label for label, front in fronts.items() if is_bound(front.setup)]


def _marked(label: str, shown: str, bound: Collection[str]) -> str:
    """Label of a series, which says so where the series is a bound."""
    return f"{shown} (bound)" if label in bound else shown


def _labels(result: Result) -> list[str]:
    """The series in the order in which they were asked for."""
    return [series.label for series in getattr(result.scenario.ask, "series", ())]


def _row(curve: Curve, speeds: Sequence[float], costs: Sequence[float], rivals: Collection[float]) -> tuple[str, ...]:
    """A series at some speeds, marked where it may well be the cheapest, at some costs, and at its preferred point."""
    dollars_at = {speed: curve.dollars_at(speed) for speed in speeds}
    best = curve.front.preferred()
    return (
        *("-" if cost is None else f"{dollars(cost)}{' ~' * (speed in rivals)}" for speed, cost in dollars_at.items()),
        *(cell for point in map(curve.fastest_at, costs) for cell in _speed_cells(point)),
        amount(float(curve.tokens_per_second[-1])),
        amount(best.tokens_per_second_per_user),
        dollars(best.dollars_per_million_output_tokens),
        size(best.accelerators),
        layout_label(best.layout),
        *_load_cells(best),
    )


def _speed_cells(point: ServicePoint | Point | None) -> tuple[str, str]:
    """Speed and size of the fastest instance at a cost; dashes where nothing is as cheap."""
    if point is None:
        return "-", "-"
    return amount(point.tokens_per_second_per_user), size(point.accelerators)


def _load_cells(best: ServicePoint | Point) -> tuple[str, ...]:
    """Cells on how full the preferred point is, and how long users of a service wait there."""
    if isinstance(best, ServicePoint):
        return (f"{best.concurrency:.1f}", milliseconds(best.ttft_seconds))
    return (size(best.batch),)


def comparison_chart(result: Result, y: Metric = "cost") -> Plot:
    """The frontiers to be drawn, where measured values lie, and of cost measured servers like them."""
    from inference_econ.report.measured_points import Drawn, measured_lines

    bound, undrawn = _bounds(result), _undrawn(result, y)
    fronts = {
        _marked(curve.label, "".join(map(_titled, re.split("(, | on )", curve.label))), bound): curve.front
        for curve in result.curves
        if curve.label not in undrawn
    }
    shown = bands.are_shown(len(fronts))
    lines = [
        curve_line(label, axes, front.ends() if shown else None, curves.curve_details(front), y)
        for label, front in fronts.items()
        for axes in [(front.tokens_per_second, front.metric(y))]
    ]
    drawn = [
        Drawn(label, front.setup, lengths)
        for label, front in fronts.items()
        if shown and y == "cost" and (lengths := curves.measured_lengths(front)) is not None
    ]
    services = any(isinstance(front, ServiceFrontier) for front in fronts.values())
    lines += measured_lines(drawn, Drawn.dollars_per_million_output_tokens, "" if services else PREFILL_TOO)
    title = curves.picture_title(list(fronts.values()), y)
    return speed_cost_chart(title, lines, [front.setup for front in fronts.values()], y)


def _undrawn(result: Result, y: Metric) -> dict[str, str]:
    """Reasons for which some series have nothing to be held against speed, by their labels."""
    reasons = {}
    for curve in result.curves:
        try:
            curve.front.metric(y)
        except InputError as error:
            reasons[curve.label] = str(error)
    return reasons


def _titled(part: str) -> str:
    if part in catalog.names("hardware"):
        return catalog.hardware(part).name
    return catalog.model(part).name if part in catalog.names("models") else part


def comparison_record(result: Result, speeds: Sequence[float], costs: Sequence[float] = ()) -> dict[str, object]:
    """All series as plain data: points, also those at some speeds and costs and the preferred one; why nothing fits."""
    by_label = {curve.label: curve for curve in result.curves}
    series: list[dict[str, object]] = []
    for label in _labels(result):
        if label not in by_label:
            series.append({"label": label, "points": [], "reason": result.missing[label]})
            continue
        front = by_label[label].front
        record = curves.curve_record(front)
        record.pop("sources")
        record["costs"] = [_cost_record(by_label[label], speed) for speed in speeds]
        record["at_costs"] = [_speed_record(front, cost) for cost in costs]
        best = bounds.bounded(front.preferred().record(), front.ends_at(front.preferred_index()))
        series.append({"label": label, **record, "preferred": best})
    return {
        "title": frontiers_title([curve.front for curve in result.curves]),
        "series": series,
        "cheapest": [asdict(winner) for winner in winners(result, speeds)],
        "sources": source_records(result.sources),
    }


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


def comparison_frame(result: Result) -> Frame:
    """All points of all series, one row each, and one row with the reason for a series that fits nowhere."""
    points = [_bounded(curve).assign(reason="") for curve in result.curves]
    if not result.missing:
        return curves.stacked(points)
    missing = frame_of({"series": list(result.missing), "reason": list(result.missing.values())})
    return curves.stacked([*points, missing])


def _bounded(curve: Curve) -> Frame:
    """Points of a curve, and how far off they may be."""
    return frame_of(bounds.bounded(dict(curve_frame(curve)), curve.front.ends()))


def _listed(names: Sequence[str], last: str) -> str:
    """Names in a sentence.

    Examples
    --------
    >>> _listed(["a", "b", "c"], "or")
    'a, b or c'
    """
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), names[-1])))
