"""Errors of the least cost that is answered for a speed, against the best measured servers: tables and data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from inference_econ.calibration import CostPoint, CostScore, Report, cost_score
from inference_econ.report.by_engine import ENGINES
from inference_econ.report.table import Table

#: Combinations of fewer points have no line among the worst [1].
_ENOUGH = 3
#: Combinations that are listed [1].
_WORST = 10
_HEADS = (
    *("servers", "compared", "answered/measured", "median error", "> 25 % dearer", "> 25 % cheaper", "out of reach"),
    *("in 80 % band", "median error, measured layouts", "own layouts"),
)
#: What points are grouped by, beside all of them.
_KEYS: Mapping[str, Callable[[CostPoint], str]] = {
    "servers": lambda point: point.series,
    "model and chip": lambda point: point.combination.partition(",")[0],
    "engine and chips": lambda point: f"{ENGINES.get(point.engine, point.engine)}, {point.chips.capitalize()}",
}
_LEGEND = (
    "Error: |ln(answered / measured)| of the cost at the same speed; 0.1 is about 10 %, 0.69 a factor of two. Shares "
    "are of points that are compared or out of reach."
)


def points_of(report: Report, name: str) -> list[CostPoint]:
    """The points of a report under some assumptions."""
    return [point for point in report.points if isinstance(point, CostPoint) and point.assumptions == name]


def tables(report: Report) -> tuple[Table, ...]:
    """Errors of all points and by groups, and the worst combinations, under each of the assumptions."""
    return tuple(table for name in report.assumptions for table in _of(report, name))


def _of(report: Report, name: str) -> tuple[Table, Table]:
    points = points_of(report, name)
    several = f" ({name})" if len(report.assumptions) > 1 else ""
    return (
        Table(
            f"{report.title}{several}", ("of", *_HEADS), overview(points), (_reading(points),), (_LEGEND,), _HEADS[1:2]
        ),
        worst(points, f"Combinations whose costs are farthest off{several}"),
    )


def overview(points: Sequence[CostPoint]) -> tuple[tuple[str, ...], ...]:
    """Lines of all points, and by what they are of."""
    lines = [("all", *_cells(cost_score(points)))]
    for key in _KEYS.values():
        groups = grouped(points, key)
        lines += [(label, *_cells(cost_score(groups[label]))) for label in sorted(groups)]
    return tuple(lines)


def grouped(points: Sequence[CostPoint], key: Callable[[CostPoint], str]) -> dict[str, list[CostPoint]]:
    """Points by a text of theirs."""
    groups: dict[str, list[CostPoint]] = {}
    for point in points:
        groups.setdefault(key(point), []).append(point)
    return groups


def worst(points: Sequence[CostPoint], title: str) -> Table:
    """Kinds of servers of combinations with the largest median errors, and the farthest point of each.

    A point that is out of reach is farther off than any that is compared.
    """
    groups = grouped(points, lambda point: f"{point.combination}, {point.series}")
    judged = {label: part for label, part in groups.items() if len(part) >= _ENOUGH}
    order = sorted(judged, key=lambda label: -_distance(judged[label]))[:_WORST]
    lines = []
    for label in order:
        part = judged[label]
        score, far = cost_score(part), max(part, key=_off)
        lines.append(
            (label, str(score.servers), _number(score.ratio), _number(score.median), _percent(score.out_of_reach),
             far.subject.partition(": ")[2], far.answer or far.note, _ratio(far))
        )  # fmt: skip
    columns = (
        *("combination", "servers", "answered/measured", "median error", "out of reach"),
        *("farthest server", "answer", "its answered/measured"),
    )
    return Table(title, columns, tuple(lines), least=("its answered/measured", "answer"))


def _distance(points: Sequence[CostPoint]) -> float:
    """The median of how far points are off, those that are out of reach farther than all others."""
    errors = sorted(_off(point) for point in points if point.predicted is not None or point.out_of_reach)
    return errors[(len(errors) - 1) // 2] if errors else 0.0


def _off(point: CostPoint) -> float:
    if point.log_error is not None:
        return abs(point.log_error)
    return math.inf if point.out_of_reach else 0.0


def _reading(points: Sequence[CostPoint]) -> str:
    score = cost_score(points)
    if score.median is None or score.dearer is None or score.out_of_reach is None:
        return "No measured server has an answer at its speed."
    tried = (
        "" if score.tried_median is None else f" ({math.exp(score.tried_median):.2f} where their layout was measured)"
    )
    alike = (
        ""
        if score.own_ratio is None or score.own_median is None
        else f" In the engine and layout of the measured server itself the median of answered over measured is "
        f"{score.own_ratio:.2f}, and half are within a factor of {math.exp(score.own_median):.2f}."
    )
    return (
        f"Half of the answers are within a factor of {math.exp(score.median):.2f} of what the best measured servers "
        f"cost at their speed{tried}; {_percent(score.dearer)} are dearer by more than a quarter, "
        f"{_percent(score.out_of_reach)} of the servers are out of reach.{alike}"
    )


def record(report: Report) -> dict[str, object]:
    """The errors as plain data, by assumptions: of all points, and by groups."""
    return {
        name: {
            "all": cost_score(points)._asdict(),
            **{
                which: {label: cost_score(part)._asdict() for label, part in grouped(points, key).items()}
                for which, key in _KEYS.items()
            },
        }
        for name in report.assumptions
        for points in [points_of(report, name)]
    }


def _cells(score: CostScore) -> tuple[str, ...]:
    tried = "" if score.tried_median is None else f"{score.tried}: {score.tried_median:.2f}"
    alike = "" if score.own_median is None else f"{score.own}: {score.own_ratio:.2f}, {score.own_median:.2f}"
    return (
        str(score.servers), str(score.compared), _number(score.ratio), _number(score.median), _percent(score.dearer),
        _percent(score.cheaper), _percent(score.out_of_reach), _percent(score.inside), tried, alike,
    )  # fmt: skip


def _ratio(point: CostPoint) -> str:
    return "" if point.log_error is None else f"{math.exp(point.log_error):.2f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"
