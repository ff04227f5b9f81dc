"""Comparison of points of frontiers over user speed, total demand, or the exponent of a buyer."""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from inference_econ._types import Progress
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.papers.study_kinds import PointsAsk
from inference_econ.formulas import money
from inference_econ.report.speed_cost import measured_lines
from inference_econ.studies.exhibits import CellRow, CellTable, Chart, ChartLine, Compared
from inference_econ.studies.results import AnyFrontier
from inference_econ.studies.settings import shared_frontier

if TYPE_CHECKING:
    from inference_econ.studies.results import Result
    from inference_econ.studies.scenario import ScenarioRun

_SPEED, _COST = "tokens per second per user", "US dollars per million output tokens"
#: Range of speeds in a chart, over the smallest and largest speed of the table [1].
_DRAWN = (0.5, 1.25)
#: Largest cost over the cost at the largest demand that counts as equal [1].
_EQUAL = 1.1


def compare_points(ask: PointsAsk, progress: Progress | None = None) -> Compared:
    """Compute the points of a scenario.

    Parameters
    ----------
    ask : PointsAsk
        Frontiers, and the values of the quantity that varies.
    progress : callable, optional
        Receives the completed share and the current series.

    Raises
    ------
    InputError
        If a setting is invalid.
    NothingFitsError
        If a frontier has no point.
    """
    compared = {"speed": _over_speed, "max_tokens_per_second": _over_demand, "exponent": _over_exponent}
    return compared[ask.over](ask, progress)


def _frontiers(ask: PointsAsk, progress: Progress | None, demand: float | None = None) -> list[AnyFrontier]:
    """Frontier of each series, with a limited demand if one is given [tokens/s]."""
    fronts, before = [], ask.common
    for index, series in enumerate(ask.series):
        settings = series.settings.over(before)
        before = settings if ask.cumulative else ask.common
        if progress is not None:
            progress(index / len(ask.series), series.label)
        try:
            fronts.append(
                shared_frontier(settings if demand is None else settings.replace(max_tokens_per_second=demand))
            )
        except (InputError, NothingFitsError) as error:
            raise type(error)(f"{series.label}: {error}") from error
    return fronts


def _dollars_at(front: AnyFrontier, speed: float) -> float:
    """Lowest cost at a speed [tokens/s] or above [USD per 1e6 tokens]; infinite if no point is as fast."""
    if isinstance(front, ServiceFrontier):
        return float(front.dollars_at(speed))
    speeds, dollars = front.axes()
    return float(np.min(dollars[speeds >= speed], initial=math.inf))


def _cells(numbers: Iterable[float]) -> tuple[float | str, ...]:
    return tuple(number if math.isfinite(number) else "too fast" for number in numbers)


def _over_demand(ask: PointsAsk, progress: Progress | None) -> Compared:
    """Cost at a speed over the total demand."""
    by_demand = [_frontiers(ask, progress, demand) for demand in ask.values]
    costs = np.array(
        [[_dollars_at(front, at.speed or 0.0) for front, at in zip(row, ask.series, strict=True)] for row in by_demand]
    )
    notes, lines, axis = [], [], "demand (output tokens/s)"
    for series, line in zip(ask.series, costs.T, strict=True):
        enough = ask.values[int(np.argmax(line <= _EQUAL * line[-1]))]
        times = line[0] / line[-1]
        notes.append(
            f"{series.label}: from {enough:,g} tokens/s, the cost is within 10% of the lowest; at {ask.values[0]:,g} "
            f"tokens/s, it is {times:.3g}x the lowest."
        )
        lines.append(ChartLine(series.label, ask.values, line.tolist()))
    rows = tuple(CellRow((f"{demand:,g}",), _cells(line)) for demand, line in zip(ask.values, costs, strict=True))
    labels = tuple(f"{series.label}, $/M" for series in ask.series)
    table = CellTable("Cost at a speed by demand", (axis,), labels, rows, (*notes, *ask.notes))
    return Compared((table,), (Chart("", axis, _COST, tuple(lines)),), tuple(by_demand[-1]))


def _over_exponent(ask: PointsAsk, progress: Progress | None) -> Compared:
    """Speed and cost that a buyer chooses, over the buyer's exponent."""
    fronts, columns, lines, notes = _frontiers(ask, progress), [], [], []
    for series, front in zip(ask.series, fronts, strict=True):
        speeds, dollars = front.axes()
        chosen = [front.preferred_index(exponent) for exponent in ask.values]
        columns += [speeds[chosen], dollars[chosen]]
        # Each point is the choice of an interval of exponents, so a line has steps.
        low, high = money.revealed_exponents(speeds, dollars)
        sold = (low < high) & (high >= ask.values[0]) & (low <= ask.values[-1])
        intervals = np.clip(np.column_stack([low[sold], high[sold]]), ask.values[0], ask.values[-1])
        lines.append(ChartLine(series.label, intervals.ravel().tolist(), np.repeat(speeds[sold], 2).tolist()))
        if sold.sum() > 1:
            gap = int(np.argmax(np.diff(np.log(speeds[sold]))))
            slow, fast = speeds[sold][gap : gap + 2]
            notes.append(
                f"{series.label}: no buyer chooses a speed between {slow:.3g} and {fast:.3g} tokens/s (widest gap)."
            )
    heads = tuple(f"{series.label} {unit}" for series in ask.series for unit in ("tokens/s", "$/M"))
    rows = tuple(
        CellRow((f"{at:g}",), _cells(line)) for at, line in zip(ask.values, np.transpose(columns), strict=True)
    )
    table = CellTable("Choice of a buyer", ("exponent",), heads, rows, (*notes, *ask.notes))
    return Compared((table,), (Chart("", "exponent of a buyer", _SPEED, tuple(lines), "y"),), tuple(fronts))


def _over_speed(ask: PointsAsk, progress: Progress | None) -> Compared:
    """Cost at each speed, and the factors of series and of their parts."""
    fronts, labels, lines = _frontiers(ask, progress), [series.label for series in ask.series], []
    costs = [[_dollars_at(front, speed) for speed in ask.values] for front in fronts]
    for label, front in zip(labels, fronts, strict=True):
        speeds, dollars = front.axes()
        drawn = (speeds >= _DRAWN[0] * ask.values[0]) & (speeds <= _DRAWN[1] * ask.values[-1])
        lines.append(ChartLine(label, speeds[drawn].tolist(), dollars[drawn].tolist()))
    if ask.measured:
        servers = measured_lines({labels[-1]: fronts[-1]}, "cost")
        if not servers:
            raise InputError(f"{labels[-1]}: no measured server is similar; measured needs lengths and no speculation")
        points = [point for line in servers for point in zip(line.x, line.y, strict=True)]
        costs.append([min((cost for fast, cost in points if fast >= speed), default=math.inf) for speed in ask.values])
        labels, lines = [*labels, "measured servers"], [*lines, *servers]
    with np.errstate(invalid="ignore"):
        factors = np.divide(costs, [costs[0], *costs[:-1]])
    rows = [CellRow((label,), _cells([*cost, *by])) for label, cost, by in zip(labels, costs, factors, strict=True)]
    rows.append(CellRow(("all",), (*("" for _ in ask.values), *_cells(factors.prod(axis=0)))))
    speeds_named = [f"at {speed:g}" for speed in ask.values]
    heads = tuple(f"{unit} {at}" for unit in ("$/M", "factor") for at in speeds_named)
    tables = [CellTable("Cost at a speed (tokens/s)", ("settings",), heads, tuple(rows), ask.notes)]
    if parts := dict.fromkeys(series.part for series in ask.series if series.part):
        by_part = {part: [index for index, series in enumerate(ask.series) if series.part == part] for part in parts}
        rows = [CellRow((part,), _cells(factors[indices].prod(axis=0))) for part, indices in by_part.items()]
        tables.append(CellTable("Factor of each part", ("part",), tuple(speeds_named), tuple(rows)))
    charts = [Chart("", _SPEED, _COST, tuple(lines), "y")]
    years = [series.year for series in ask.series if series.year is not None]
    if len(years) == len(fronts):
        paid, since = np.transpose(costs[: len(fronts)]).tolist(), [year - years[0] for year in years]
        over_time = (ChartLine(f"{at} tokens/s", since, line) for at, line in zip(speeds_named, paid, strict=True))
        charts.append(Chart("", f"years after {years[0]:g}", _COST, tuple(over_time), "y"))
    return Compared(tuple(tables), tuple(charts), tuple(fronts))


def answer_points(run: ScenarioRun, ask: PointsAsk) -> Result:
    """Run a scenario of this kind."""
    return run.compared(compare_points(ask, run.progress), attrgetter("sources"))
