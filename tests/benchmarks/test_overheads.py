"""Overheads derived from measurements: selected rows, remaining errors, and the table."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from benchmarks.validation.document import overhead_table
from benchmarks.validation.overheads import Overhead, overheads
from inference_econ.extras.servers import InputRow, Measurement
from inference_econ.extras.servers.prediction.predict import predict
from inference_econ.inputs import Assumptions, catalog
from tests.measured import measurement

#: Llama 3 70B in FP8 on eight H200s.
ONE = measurement(source="", engine_version="", dp=1, pp=1, ep=1, concurrency=4.0, tpot_seconds=8e-3)


@cache
def _assumed(launch: str = "4 us") -> Assumptions:
    return catalog.assumptions("deployable", changes=[f"host.graph_launch={launch}"])


def _row(measured: Measurement, assumptions: Assumptions) -> InputRow:
    (prediction,) = predict([measured], lambda _: assumptions)
    return InputRow("mine", 1, measured.id, measured, prediction, prediction.skipped, "", assumptions)


def test_a_prediction_of_kernels_that_take_twice_as_long_is_mended_by_half() -> None:
    """The measurement is the prediction with another kernel time. The derived overhead is that under the other time."""
    true, twice = _row(ONE, _assumed()), _row(ONE, _assumed("8 us"))
    assert true.prediction is not None
    measured = replace(ONE, tpot_seconds=true.prediction.tpot_seconds)
    (right,), (wrong,) = (overheads([replace(row, measurement=measured)]) for row in (true, twice))
    assert right.ratio == pytest.approx(1.0)
    assert wrong.implied == pytest.approx(right.predicted, rel=0.01)
    assert wrong.predicted > 1.5 * right.predicted
    assert right.layers == 80


def test_the_fewest_requests_of_a_layout_count() -> None:
    many, few, other = replace(ONE, concurrency=8.0), ONE, replace(ONE, tp=4, accelerators=4)
    rows = [_row(one, _assumed()) for one in (many, few, other)]
    assert [one.row for one in overheads(rows)] == [few, other]


@pytest.mark.parametrize("changes", [{"concurrency": 64.0}, {"tpot_seconds": None}, {"load": "batch"}, {"engine": ""}])
def test_rows_that_say_little_of_overheads(changes: dict[str, object]) -> None:
    assert not overheads([_row(replace(ONE, **changes), _assumed())])  # type: ignore[arg-type]


def test_the_table_names_what_is_off() -> None:
    def one(model: str, implied: float) -> Overhead:
        return Overhead(replace(ONE, model=model), 50, implied, 2e-3)

    table = overhead_table([one("b", 2.2e-3), one("a", 4e-3), one("b", 1.8e-3), one("qwen3_235b_a22b", 8e-3)])
    assert [(row[1], *row[3:]) for row in table.rows] == [
        ("a", "1", "2.00", "80 / 40", "not explained"),
        ("b", "2", "1.00 (0.90 to 1.10)", "40 / 40", ""),
        ("qwen3_235b_a22b", "1", "4.00", "160 / 40", "a series that says something else than its name"),
    ]
