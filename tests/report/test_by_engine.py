"""Intervals by engine and generation of chips."""

from __future__ import annotations

import statistics

import pytest

from inference_econ.calibration import Servers, by_chance, runs_of
from inference_econ.inputs import catalog
from inference_econ.report import by_engine
from tests.shipped import shipped_servers

#: Predictions of all shipped servers take most of a minute.
pytestmark = pytest.mark.long


def _few() -> Servers:
    rows = [row for row in shipped_servers().rows if row.dataset == "inferencemax_aggregated"]
    return Servers("by hardware", tuple(rows), ())


def test_shares_inside_of_intervals_and_their_widths_by_engine_and_generation() -> None:
    table = by_engine.held(_few())
    assert table.columns[:3] == ("engine", "chips", "which")
    record = by_engine.held_record(_few())
    assert len(record) == len(table.rows)
    for line, row in zip(record, table.rows, strict=True):
        assert row[0] == by_engine.ENGINES[line["engine"]]
        tpot = line["tpot"]
        if tpot["by_chance"] is None:
            continue
        low, high = tpot["by_chance"]
        off = "" if low <= tpot["inside"] <= high else ": off"
        chance = f"({100 * low:.0f} to {100 * high:.0f}{off})"
        assert row[3] == f"{tpot['rows']}: {100 * tpot['inside']:.0f} % {chance}, {tpot['width']:.2f}"
    (fitted,) = (
        line for line in record if (line["engine"], line["chips"], line["which"]) == ("vllm", "hopper", "fitted")
    )
    rows = [row for row in by_engine.slices(_few())["vllm", "hopper"] if row.fitted]
    values = [(row.measured(by_engine.BY_NAME["tpot"]), row.interval("tpot_seconds")) for row in rows]
    known = [(value, where) for value, where in values if value is not None and where is not None]
    assert fitted["tpot"]["rows"] == len(known)
    assert fitted["tpot"]["inside"] == sum(where.low <= value <= where.high for value, where in known) / len(known)
    assert fitted["tpot"]["width"] == statistics.median(where.high / where.low for _, where in known)
    # What is left out is said by the profile of engine and chips.
    (left_out,) = (
        line for line in record if (line["engine"], line["chips"], line["which"]) == ("vllm", "hopper", "left out")
    )
    calibration = catalog.assumptions("profiles/vllm_hopper").calibration
    assert calibration is not None
    spread = calibration.errors["traffic"]["tpot"]
    runs = runs_of(rows)
    assert left_out["tpot"] == {
        "rows": spread.own or spread.rows, "inside": spread.covered, "width": spread.width, "by_chance": by_chance(runs)
    }  # fmt: skip
    # Series that no fact explains count apart: none of them is among these rows.
    assert "no fact explains" not in {line["which"] for line in record}
