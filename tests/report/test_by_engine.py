"""Errors by engine and generation of chips, and the pages with their series."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest

from inference_econ.calibration import Servers, by_chance, runs_of
from inference_econ.inputs import UnseenErrors, catalog
from inference_econ.report import by_engine, document
from tests.shipped import shipped_servers

#: Predictions of all shipped servers take most of a minute.
pytestmark = pytest.mark.long


def _few() -> Servers:
    rows = [row for row in shipped_servers().rows if row.dataset == "inferencemax_aggregated"]
    return Servers("by hardware", tuple(rows), ())


def test_rows_of_engines_and_generations_have_a_line_each() -> None:
    table = by_engine.overview(_few())
    assert table.columns[3:] == (
        "TPOT, fitted", "TPOT, unseen", "TTFT under load, fitted", "TTFT under load, unseen",
    )  # fmt: skip
    assert ("vLLM", "Hopper") in {row[:2] for row in table.rows}
    assert sum(int(row[2]) for row in table.rows) <= len(_few().counted())
    # Without rows that were fitted there is nothing to say of them.
    unseen = [replace(row, fitted=False) for row in _few().rows]
    assert all(row[3] == row[5] == "" for row in by_engine.overview(replace(_few(), rows=tuple(unseen))).rows)


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
    values = [(row.measured(by_engine._TPOT), row.interval("tpot_seconds")) for row in rows]
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


def test_errors_of_fits_without_a_subject_are_those_of_the_profile_of_all() -> None:
    errors = UnseenErrors(engine="vllm", generation="hopper", rows=9, medians={"tpot": 0.1}, p90s={"tpot": 0.3})
    assert by_engine._left_out(errors, "tpot") == "11 %, 35 %"
    assert by_engine._left_out(errors, "ttft") == by_engine._left_out(None, "tpot") == ""


def test_the_worst_series_comes_first_and_says_in_what_it_is_unlike() -> None:
    rows = by_engine.slices(_few())[("vllm", "hopper")]
    table = by_engine.series(rows)
    shares = [float(row[6].split(" %")[0]) for row in table.rows]
    assert shares == sorted(shares, reverse=True)
    assert all(row[-1] for row in table.rows)
    assert {row[0] for row in table.rows} <= {row.measurement.model for row in rows if row.measurement is not None}


def test_every_line_has_a_page_that_the_document_leads_to() -> None:
    names = [name for name, _ in by_engine.pages(_few())]
    assert len(names) == len(by_engine.slices(_few()))
    text = document.document(_few(), [], [], "validation.png", "say it again")
    for name, page in by_engine.pages(_few()):
        assert f"(validation/{name}.md)" in text
        assert page.startswith("# ")
        assert page.endswith("|\n")


def test_what_others_publish_of_the_same_kind_of_runs_stands_beside() -> None:
    table = document.published(_few())
    assert table.rows[0][0] == "here"
    assert table.rows[0][1].startswith("TPOT ")
    assert [row[0] for row in table.rows[1:3]] == ["AIConfigurator", "AISimulate 0.12.0"]
