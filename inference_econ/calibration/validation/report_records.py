"""Reports on datasets that are not of servers, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields

from inference_econ.calibration.accuracy import Accuracy, accuracy, by_group
from inference_econ.calibration.validation._costs import CostPoint, cost_score, stages
from inference_econ.calibration.validation._report import ComparedPoint, Report
from inference_econ.calibration.validation.intervals import ENGINES

_COLUMNS = (
    *("dataset", "id", "series", "subject", "assumptions", "fitted", "unit"),
    *("measured", "predicted", "log_error", "note"),
)
#: What points are grouped by, beside all of them.
COST_KEYS: Mapping[str, Callable[[CostPoint], str]] = {
    "servers": lambda point: point.series,
    "model and chip": lambda point: point.combination.partition(",")[0],
    "engine and chips": lambda point: f"{ENGINES.get(point.engine, point.engine)}, {point.chips.capitalize()}",
}


def report_record(report: Report) -> dict[str, object]:
    """Return a report as plain data."""
    columns = _columns(report.points)
    return {
        "dataset": report.dataset,
        "title": report.title,
        "errors": _costs_record(report) if report.form == "costs" else _errors_record(report),
        "points": [dict(zip(columns, _cells(report, point, columns), strict=True)) for point in report.points],
        "notes": list(report.notes),
    }


def _errors_record(report: Report) -> dict[str, object]:
    errors: dict[str, object] = {}
    for name in report.assumptions:
        points = [point for point in report.points if point.assumptions == name]
        by_series = {series: accuracy.record() for series, accuracy in accuracies_of(points).items()}
        of_parts = {which: accuracy_of(part).record() for which, part in parts_of(points)}
        errors[name] = {**of_parts, "series": by_series}
    return errors


def _costs_record(report: Report) -> dict[str, object]:
    """The errors as plain data, by assumptions: of all points, and by groups."""
    return {
        name: {
            "all": cost_score(points)._asdict(),
            "made_of": {label: stage._asdict() for label, stage in stages(points).items()},
            **{
                which: {label: cost_score(part)._asdict() for label, part in grouped(points, key).items()}
                for which, key in COST_KEYS.items()
            },
        }
        for name in report.assumptions
        for points in [points_of(report, name)]
    }


def points_of(report: Report, name: str) -> list[CostPoint]:
    """The points of a report under some assumptions."""
    return [point for point in report.points if isinstance(point, CostPoint) and point.assumptions == name]


def grouped(points: Sequence[CostPoint], key: Callable[[CostPoint], str]) -> dict[str, list[CostPoint]]:
    """Points by a text of theirs."""
    groups: dict[str, list[CostPoint]] = {}
    for point in points:
        groups.setdefault(key(point), []).append(point)
    return groups


def parts_of(points: Sequence[ComparedPoint]) -> Iterator[tuple[str, Sequence[ComparedPoint]]]:
    """All of them; and apart, where there are any, those that constants were fitted to."""
    yield "all rows", points
    fitted = [point for point in points if point.fitted]
    if fitted:
        yield "fitted to", fitted
    if fitted and len(fitted) < len(points):
        yield "others", [point for point in points if not point.fitted]


def _pairs(points: Sequence[ComparedPoint]) -> tuple[list[float], list[float]]:
    nothing = float("nan")
    measured = [nothing if point.measured is None else point.measured for point in points]
    return measured, [nothing if point.predicted is None else point.predicted for point in points]


def accuracy_of(points: Sequence[ComparedPoint]) -> Accuracy:
    """Return the errors of some points together."""
    return accuracy(*_pairs(points))


def accuracies_of(points: Sequence[ComparedPoint]) -> dict[str, Accuracy]:
    """Return the errors of some points by the kind of row."""
    return by_group([point.series for point in points], *_pairs(points))


def _columns(points: Iterable[ComparedPoint]) -> tuple[str, ...]:
    """Columns that all points have, and those that some kinds of them have beside these."""
    names = [field.name for kind in dict.fromkeys(map(type, points)) for field in fields(kind)]
    return tuple(dict.fromkeys((*_COLUMNS, *names)))


def _cells(report: Report, point: ComparedPoint, columns: Sequence[str]) -> tuple[object, ...]:
    """The cells of a point; None where its kind has no such column."""
    return tuple(report.dataset if name == "dataset" else getattr(point, name, None) for name in columns)


def point_records(reports: Sequence[Report]) -> list[dict[str, object]]:
    """Return one record for every row of some reports, all with the same columns."""
    columns = _columns([point for report in reports for point in report.points])
    return [
        dict(zip(columns, _cells(report, point, columns), strict=True)) for report in reports for point in report.points
    ]
