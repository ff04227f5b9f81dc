"""Intervals by engine and GPU generation."""

from __future__ import annotations

import statistics

import pytest

from inference_econ.extras.servers import by_chance, runs_of
from inference_econ.extras.servers.pages import servers as by_engine
from inference_econ.extras.servers.validation.servers import BY_NAME, interval_record, slices
from inference_econ.inputs import catalog
from inference_econ.records.texts import ENGINE_NAMES
from tests.reading import present
from tests.shipped import some_shipped_servers

#: Predictions of all shipped servers take most of a minute.
pytestmark = pytest.mark.long


def test_shares_inside_of_intervals_and_their_widths_by_engine_and_generation() -> None:
    table = by_engine.interval_table(some_shipped_servers())
    assert table.columns[:3] == ("engine", "chips", "which")
    record = interval_record(some_shipped_servers())
    assert len(record) == len(table.rows)
    assert [row[0] for row in table.rows] == [ENGINE_NAMES[line["engine"]] for line in record]
    assert (by_engine.of_chance(0.8, (0.7, 0.9)), by_engine.of_chance(0.6, (0.7, 0.9))) == (
        " (70 to 90)",
        " (70 to 90: off)",
    )
    of_vllm = {line["which"]: line["tpot"] for line in record if (line["engine"], line["chips"]) == ("vllm", "hopper")}
    rows = [row for row in slices(some_shipped_servers())["vllm", "hopper"] if row.fitted]
    values = [(row.measured(BY_NAME["tpot"]), row.interval("tpot_seconds")) for row in rows]
    known = [(value, where) for value, where in values if value is not None and where is not None]
    fitted = of_vllm["fitted"]
    assert fitted["rows"] == len(known)
    assert fitted["inside"] == sum(where.low <= value <= where.high for value, where in known) / len(known)
    assert fitted["width"] == statistics.median(where.high / where.low for _, where in known)
    # The profile of engine and chips states the left-out rows.
    calibration = present(catalog.assumptions("profiles/vllm_hopper").calibration)
    spread = calibration.errors["traffic"]["tpot"]
    assert of_vllm["left out"] == {
        "rows": spread.own or spread.rows,
        "inside": spread.covered,
        "width": spread.width,
        "by_chance": by_chance(runs_of(rows)),
    }
    # Unexplained series are excluded: none of them is among these rows.
    assert "no fact explains" not in {line["which"] for line in record}
