"""The gain of pools over aggregated serving, as published and as predicted by the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import components
from benchmarks.compared_point import ComparedPoint
from inference_econ.errors import InputError
from inference_econ.inputs import catalog
from tests.reading import csv_rows, write_csv

ROWS = {row["id"]: row for row in csv_rows(catalog.measured_files()["pool_pairs"].read_text(encoding="utf-8"))}


def _compare(tmp_path: Path, *rows: dict[str, str]) -> list[ComparedPoint]:
    return list(components.validate("pool_pairs", file=write_csv(tmp_path / "mine.csv", rows)).points)


def test_every_pair_has_its_publication_in_the_bibliography() -> None:
    assert {row["source_id"] for row in ROWS.values()} <= set(catalog.references())


@pytest.mark.long
def test_every_published_pair_is_answered_within_a_factor_of_two() -> None:
    points = list(components.validate("pool_pairs").points)
    assert [point.id for point in points] == list(ROWS)
    errors = [point.log_error for point in points]
    assert all(error is not None and abs(error) < 0.7 for error in errors)
    # These engines delay prefill in groups; without the delay, predictions were 4.1 and 2.8 for 1.6 and 1.4. The first
    # publication states a range along a frontier, and its speed is a guess. P07 gains too little, because prefill
    # instances of two machines send caches too slowly (docs/model/disaggregation.md).
    limits = {"P01": 0.35, "P02": 0.3, "P03": 0.4, "P06": 0.3}
    assert all(abs(point.log_error or 0.0) < limits.get(point.id, 0.7) for point in points)


def test_what_cannot_be_answered_says_why(tmp_path: Path) -> None:
    unknown, chip = ROWS["P06"] | {"model": "deepseek_v9"}, ROWS["P06"] | {"hardware": "l4"}
    quick = ROWS["P06"] | {"tokens_per_second": "100000"}
    blank = ROWS["P06"] | {"isl": ""}
    notes = [point.note for point in _compare(tmp_path, unknown, chip, quick, blank)]
    assert "deepseek_v9" in notes[0]
    assert notes[1]
    assert notes[2:] == ["neither is so quick", "isl is blank"]


def test_a_length_that_is_no_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="isl"):
        _compare(tmp_path, ROWS["P06"] | {"isl": "long"})
