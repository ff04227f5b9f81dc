"""Reports on datasets that are not of servers, as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inference_econ.extras.servers.accuracy import Accuracy, accuracy, by_group
from inference_econ.extras.servers.validation._report import ComparedPoint, Report
from inference_econ.records.plain import attributes

_COLUMNS = "id series subject assumptions fitted unit measured predicted log_error note"


def report_record(report: Report) -> dict[str, object]:
    """Return a report as plain data."""
    errors: dict[str, object] = {}
    for name in report.assumptions:
        points = [point for point in report.points if point.assumptions == name]
        by_series = {series: accuracy.record() for series, accuracy in accuracies_of(points).items()}
        of_parts = {which: accuracy_of(part).record() for which, part in parts_of(points)}
        errors[name] = {**of_parts, "series": by_series}
    return {
        "dataset": report.dataset,
        "title": report.title,
        "errors": errors,
        "points": point_records([report]),
        "notes": list(report.notes),
    }


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


def point_records(reports: Sequence[Report]) -> list[dict[str, object]]:
    """Return one record for every row of some reports."""
    return [{"dataset": report.dataset, **attributes(point, _COLUMNS)} for report in reports for point in report.points]
