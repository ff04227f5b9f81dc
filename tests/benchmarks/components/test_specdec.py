"""Measured speculation: predictions of the shipped rows, their errors, and reasons for rows without a prediction."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import components
from benchmarks.compared_point import ComparedPoint
from benchmarks.components.report import Report
from inference_econ.inputs import catalog
from tests.reading import csv_rows, write_csv

ROWS = csv_rows(catalog.measured_files()["specdec"].read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def report() -> Report:
    return components.validate("specdec")


def _points(report: Report, series: str) -> dict[str, ComparedPoint]:
    return {point.id: point for point in report.points if point.series == series}


def test_every_row_is_predicted_or_has_a_reason(report: Report) -> None:
    assert len({point.id for point in report.points}) == 52
    assert all((point.predicted is None) == bool(point.note) for point in report.points)
    predicted = {point.id for point in report.points if point.predicted is not None}
    assert len(predicted) == 26
    reasons = Counter(point.note for point in report.points if point.note)
    assert reasons["an acceptance rate is measured on two models and a text, not predicted"] == 14
    assert reasons["not recorded: hardware, draft length, size of the tree"] == 5
    assert reasons["not recorded: hardware, draft length, tokens per round, size of the tree"] == 2
    assert reasons["not recorded: draft length, tokens per round"] == 3
    assert reasons["not recorded: hardware, batch, tokens per round"] == 1


def test_the_published_theory_is_ours_to_its_digits(report: Report) -> None:
    points = _points(report, "speed-up by formula")
    assert len(points) == 6
    for point in points.values():
        assert point.predicted == pytest.approx(point.measured, abs=0.005)


def test_speed_ups_of_leviathan_are_met_as_well_as_by_their_theory(report: Report) -> None:
    """Table 2 of the paper states theorem 3.8.

    Our predictions equal it, and so does the error against the measurements.
    """
    points = _points(report, "speed-up from acceptance and cost")
    assert len(points) == 12
    theory = {row["id"]: row["notes"] for row in ROWS if "paper theory" in row["notes"]}
    for point in points.values():
        stated = float(theory[point.id].partition("(Thm 3.8) ")[2].partition("x")[0])
        # Acceptance and cost are printed with two digits.
        assert point.predicted == pytest.approx(stated, abs=0.07)


def test_a_deployment_with_multi_token_prediction(report: Report) -> None:
    speedups = _points(report, "speed-up of a deployment")
    assert list(speedups) == ["S0051", "S0052", "S0053", "S0054", "S0055"]
    assert [round(point.measured or 0.0, 2) for point in speedups.values()] == [1.78, 2.25, 2.28, 2.21, 2.15]
    for point in speedups.values():
        # The largest is 12.1 % since products have their kernels' shares of memory bandwidth.
        assert abs(point.log_error or math.inf) < 0.125
    speeds = _points(report, "speed of a deployment")
    for point in speeds.values():
        assert abs(point.log_error or math.inf) < 0.3
        assert point.unit == "tok/s/user"
    # Acceptance falls with the position, so an equal rate for all positions overestimates later draft tokens.
    alike = list(_points(report, "tokens per round, all alike").values())
    errors = [point.log_error or 0.0 for point in alike]
    assert errors == sorted(errors)
    assert errors[0] < 0.1 < 0.4 < errors[-1]


def test_relaxed_acceptance_changes_the_tokens_alone(report: Report) -> None:
    points = _points(report, "speed-up of relaxed acceptance")
    assert list(points) == ["S0057", "S0058", "S0059"]
    for point in points.values():
        assert point.predicted == pytest.approx(point.measured, rel=0.01)


def _own(tmp_path: Path, **cells: str) -> list[ComparedPoint]:
    """Write one row like the first measured row of a deployment, with some cells changed."""
    row = next(row for row in ROWS if row["id"] == "S0051")
    return list(components.validate("specdec", file=write_csv(tmp_path / "own.csv", [row | cells])).points)


@pytest.mark.rows
def test_reasons_of_own_rows(tmp_path: Path, cells: dict[str, str], reason: str) -> None:
    points = _own(tmp_path, **cells)
    assert [point.predicted for point in points] == [None]
    assert points[0].note.startswith(reason)


def test_own_rows_without_a_baseline_give_a_speed_alone(tmp_path: Path) -> None:
    points = _own(tmp_path, baseline_value="")
    assert [point.series for point in points] == ["speed of a deployment"]
    points = _own(tmp_path, metric="walltime speedup", value="1.8", unit="x", baseline_value="")
    assert [(point.series, point.unit) for point in points] == [("speed-up of a deployment", "x")]
