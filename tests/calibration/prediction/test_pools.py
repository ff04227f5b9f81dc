"""Pools of shipped measurements: what one passes on is what the other takes."""

from __future__ import annotations

import pytest

from inference_econ.calibration import measurements
from inference_econ.calibration.measurements import Measurement
from inference_econ.calibration.prediction import deployed, worker_counts
from inference_econ.calibration.prediction.predict import balanced_pools
from inference_econ.calibration.validation.servers import usual
from inference_econ.inputs import catalog


def disaggregated() -> list[Measurement]:
    """Every shipped row of two pools."""
    rows = [row for name in measurements.SHIPPED for row in measurements.read(catalog.measured_files()[name])]
    return [row for row in rows if isinstance(row, Measurement) and row.decode is not None]


def test_every_shipped_row_is_solved() -> None:
    rows = disaggregated()
    assert len(rows) > 160
    for row in rows:
        assert row.prefill is not None and row.decode is not None and row.concurrency is not None
        assumed = usual(row.hardware, row.engine)
        reader, writer = (deployed.worker([row], pool, assumed) for pool in (row.prefill, row.decode))
        ((readers, writers),) = worker_counts.assumed([row], assumed)
        ttft, tpot, rate = balanced_pools(row.concurrency, reader, writer, readers, writers)
        in_flight = rate * (ttft + writer.requests.decode_steps * tpot)
        assert in_flight == pytest.approx(row.concurrency, rel=1e-9), row.id
