"""Tables of cost errors at a speed, compared with the best measured servers.

``python -m benchmarks.validation.cost_tables`` prints them as Markdown, for the shipped or the named files.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.components.report import Report
from benchmarks.validation.costs import CostPoint, CostScore, Stage, cost_score, report, stages
from inference_econ.records.texts import ENGINE_NAMES
from inference_econ.report.page import Table

#: Fewest points of a listed combination [1].
_ENOUGH = 3
#: Number of listed combinations [1].
_WORST = 10
#: Keys to group points by.
_KEYS: Mapping[str, Callable[[CostPoint], str]] = {
    "servers": lambda point: point.series,
    "model and chip": lambda point: point.combination.partition(",")[0],
    "engine and chips": lambda point: (
        f"{ENGINE_NAMES.get(point.engine, point.engine)}, {point.chips.capitalize() or 'other chips'}"
    ),
}
#: Column headings of a score.
HEADS = (
    *("servers", "compared", "answered/measured", "median error", "p90", "> 25 % too high", "> 25 % too low"),
    *("out of reach", "in 80 % band", "its width", "median error, measured layouts", "own layouts"),
)
#: Explanation of the columns.
LEGEND = (
    "'answered' is the predicted cost, and 'measured' is the cost of the best measured server at the same speed. "
    "Errors are |ln(answered / measured)|: 0.1 is about 10 %, and 0.69 is a factor of two. Shares are percentages of "
    "all measured servers that are compared or out of reach."
)


_STAGES = ("servers", "answered/measured", "median error", "mean error, same servers", "adds", "in 80 % band")
_STAGED = (
    "From row to row, the program chooses one more property of the deployment. 'The server itself' is the measured "
    "deployment with its engine version. In the row 'its load', the concurrency is the measured one, so the error is "
    "that of the prediction. In the row 'its speed', the concurrency is chosen to reach the measured speed. An error "
    "of speed is then an error of cost, several times as large where the speed hardly depends on the concurrency. "
    "'The answer' has the newest engine version, default settings, and the best numbers of instances. Means include "
    "only servers with a cost in every row. 'adds': increase of the mean error from row to row."
)


def tables(report: Report) -> tuple[Table, ...]:
    """Tables of errors in total and by groups, of error stages, and of the worst combinations, by assumptions."""
    return tuple(table for name in report.assumptions for table in _of(report, name))


def _of(report: Report, name: str) -> tuple[Table, Table, Table]:
    points = points_of(report, name)
    several = f" ({name})" if len(report.assumptions) > 1 else ""
    return (
        Table(
            f"{report.title}{several}",
            ("of", *HEADS),
            overview(points),
            (_reading(points, name if name != report.assumptions[0] else ""),),
            (LEGEND,),
            HEADS[1:2],
        ),
        made_of(points, f"What errors of costs are made of{several}"),
        worst(points, f"Combinations whose costs are farthest off{several}"),
    )


def points_of(report: Report, name: str) -> list[CostPoint]:
    """Points of a report under one preset."""
    return [point for point in report.points if isinstance(point, CostPoint) and point.assumptions == name]


def _grouped(points: Sequence[CostPoint], key: Callable[[CostPoint], str]) -> dict[str, list[CostPoint]]:
    """Group points by a text."""
    groups: dict[str, list[CostPoint]] = {}
    for point in points:
        groups.setdefault(key(point), []).append(point)
    return groups


def made_of(points: Sequence[CostPoint], title: str) -> Table:
    """Table of errors in stages, from the prediction of the measured server to the unrestricted selection."""
    lines = tuple((name, *_stage_cells(stage)) for name, stage in stages(points).items())
    return Table(title, ("left to choose", *_STAGES), lines, (), (_STAGED,))


def _stage_cells(stage: Stage) -> tuple[str, ...]:
    adds = "" if stage.adds is None else f"{stage.adds:+.2f}"
    inside = "" if stage.inside is None else _percent(stage.inside)
    return str(stage.servers), _number(stage.ratio), _number(stage.median), _number(stage.mean), adds, inside


def overview(points: Sequence[CostPoint], keys: Sequence[str] = tuple(_KEYS)) -> tuple[tuple[str, ...], ...]:
    """Rows for all points, and by groups."""
    lines = [("all", *_cells(cost_score(points)))]
    for key in keys:
        groups = _grouped(points, _KEYS[key])
        lines += [(label, *_cells(cost_score(groups[label]))) for label in sorted(groups)]
    return tuple(lines)


def worst(points: Sequence[CostPoint], title: str) -> Table:
    """Table of the combinations with the largest median errors, each with its worst point.

    A point that is out of reach counts as worse than any other.
    """
    groups = _grouped(points, lambda point: f"{point.combination}, {point.series}")
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
    """Median error, in which points out of reach count as largest."""
    errors = sorted(_off(point) for point in points if point.predicted is not None or point.out_of_reach)
    return errors[(len(errors) - 1) // 2] if errors else 0.0


def _off(point: CostPoint) -> float:
    if point.log_error is not None:
        return abs(point.log_error)
    return math.inf if point.out_of_reach else 0.0


def _reading(points: Sequence[CostPoint], assumptions: str = "") -> str:
    score = cost_score(points)
    if score.median is None or score.dearer is None or score.out_of_reach is None:
        return "There is no prediction at the speed of a measured server."
    tried = (
        "" if score.tried_median is None else f" The factor is {math.exp(score.tried_median):.2f} for measured layouts."
    )
    alike = (
        ""
        if score.own_ratio is None or score.own_median is None
        else f" With the engine and layout of the measured server, the median ratio of predicted to measured cost is "
        f"{score.own_ratio:.2f}. Half of these ratios are within a factor of {math.exp(score.own_median):.2f} of 1."
    )
    half = f"Under {assumptions!r}, half" if assumptions else "Half"
    return (
        f"{half} of the predicted costs are within a factor of {math.exp(score.median):.2f} of the best measured cost "
        f"at the same speed.{tried} {_percent(score.dearer)} are more than a quarter too high. No candidate is as fast "
        f"as {_percent(score.out_of_reach)} of the servers.{alike}"
    )


def _cells(score: CostScore) -> tuple[str, ...]:
    tried = "" if score.tried_median is None else f"{score.tried}: {score.tried_median:.2f}"
    alike = "" if score.own_median is None else f"{score.own}: {score.own_ratio:.2f}, {score.own_median:.2f}"
    return (
        str(score.servers), str(score.compared), _number(score.ratio), _number(score.median), _number(score.p90),
        _percent(score.dearer), _percent(score.cheaper), _percent(score.out_of_reach), _percent(score.inside),
        _number(score.width), tried, alike,
    )  # fmt: skip


def _ratio(point: CostPoint) -> str:
    return "" if point.log_error is None else f"{math.exp(point.log_error):.2f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


if __name__ == "__main__":
    for shown in tables(report([Path(name) for name in sys.argv[1:]])):
        sys.stdout.write("\n\n".join([f"## {shown.title}", shown.markdown(), *shown.every_note, ""]))
