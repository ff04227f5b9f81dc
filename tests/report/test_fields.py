"""The glossary of fields: every name, heading and format, and the values built from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inference_econ.inputs import catalog
from inference_econ.records.texts import Amount
from inference_econ.report.fields import GIGABYTES, column, field, glossary, view
from inference_econ.report.schema import FieldsPage, definitions, entries, json_schema, questions
from tests.reading import tables

SHOWN = [known for known in glossary().values() if known.heading]
LAYOUT = {"tp": 4.0, "dp": 1.0, "pp": 2.0, "stage": 4.0, "cut": "1d"}
RECORDS: list[dict[str, Any]] = tables(Path(__file__))["RECORDS"]


def test_every_field_says_what_it_is() -> None:
    for known in glossary().values():
        assert known.meaning[0].isupper() or known.meaning[0].isdigit(), known.name
        assert known.meaning.endswith("."), known.name
        assert bool(known.heading) is bool(known.writing), known.name
        if known.name.rpartition(".")[-1].endswith(("seconds", "bytes")):
            assert known.unit in {"s", "B"}, known.name
        if "null" in known.meaning:
            assert "?" in known.type or "null" in known.type, known.name


def test_what_is_shown_is_written_as_text() -> None:
    typical = {"layout": LAYOUT, "text": "text"}
    for known in SHOWN:
        value = "launches" if known.writing == "part" else typical.get(known.type.strip("?"), 3)
        text = known.text(value)
        assert text and isinstance(text, str), known.name
        assert known.text(None) == known.missing, known.name


def test_amounts_in_a_table_keep_the_value_that_reports_rescale() -> None:
    name = "dollars_per_million_output_tokens"
    _, (cell,) = column([{name: 1.23456}], name)
    assert isinstance(cell, Amount) and (cell, cell.value) == ("1.23", 1.23456)


def test_numbers_too_large_for_their_digits_are_written_whole() -> None:
    assert [field("request_rate").text(rate) for rate in (1.2345, 1234.6, 3172345.2)] == ["1.234", "1235", "3,172,345"]
    assert [field("e2e_seconds").text(seconds) for seconds in (9.7, 1082.3)] == ["9.7", "1,082"]


def test_a_heading_has_one_unit() -> None:
    said: dict[str, set[str]] = {}
    for known in SHOWN:
        said.setdefault(known.heading, set()).add(known.unit)
    assert {heading: units for heading, units in said.items() if len(units) > 1} == {}


def test_the_page_of_the_documents_is_that_of_the_glossary() -> None:
    """The page has headings, units and a formatted number, so a change of one of them changes the page."""
    kept = Path(__file__).parents[2] / "docs" / "reference" / "fields.md"
    command = "inference-econ list fields --format markdown -o docs/reference/fields.md"
    assert kept.read_text(encoding="utf-8") == FieldsPage().markdown(), command


def test_a_table_is_a_view_of_records() -> None:
    shown = view(
        "Two", RECORDS, ("accelerators", "layout", ("mine", ("a", "b")), "utilization", "ttft_seconds.p90"),
        notes=["note"], least=("utilization", "ttft_seconds.p90", "mine"),
    )  # fmt: skip
    assert shown.columns == ("GPUs", "layout", "mine", "util. %", "TTFT p90 ms")
    assert shown.rows == (("8", "tp4pp2", "a", "46", "123"), ("2", "tp4pp2", "b", "0", "grows"))
    assert (shown.notes, shown.least) == (("note",), ("util. %", "TTFT p90 ms", "mine"))


def test_a_kind_of_record_may_say_something_else() -> None:
    assert field("utilization", "tier").meaning != field("utilization").meaning
    assert column([{"utilization": 0.12345}], "utilization", "tier") == ("util. %", ["12"])
    with pytest.raises(KeyError):
        field("utilisation_of_nobody")


def test_no_field_is_without_a_record_that_has_it() -> None:
    kinds = (*questions(), *definitions())
    used = {entry.field.name for kind in kinds for entry in entries(kind)}
    assert {known.name for known in glossary().values() if not known.tables_alone} - used == set()


def test_columns_that_tables_alone_have_are_called_by_their_headings() -> None:
    alone = [known for known in glossary().values() if known.tables_alone]
    assert len(alone) > 180
    assert [known.name for known in alone] == [f"column.{known.heading}" for known in alone]
    fields, columns = FieldsPage().tables()
    assert (len(fields.rows), len(columns.rows)) == (len(glossary()) - len(alone), len(alone))
    assert [row[3] for row in FieldsPage("P(SLO)").tables()[0].rows] == ["P(SLO) %"]
    # ``..`` represents the variable part of a heading.
    (row,) = FieldsPage("$ at 0.5").tables()[0].rows
    assert row[:4] == ("-", "text", "USD/1e6", "$ at ..")
    for heading in ("TTFT p50 ms", "TTFT p99.9", "TTFT mean ms"):
        assert FieldsPage(heading).tables()[0].rows[0][0] in ("ttft_seconds", "-"), heading


def test_types_of_the_glossary_are_schemas() -> None:
    choice = json_schema("choice")["properties"]
    assert choice["ttft_seconds"]["$ref"] == "#/$defs/statistics"
    assert choice["ttft_seconds_low"]["anyOf"] == [{"$ref": "#/$defs/statistics"}, {"type": "null"}]
    assert choice["accelerators_rented"]["type"] == "integer"
    assert (choice["ttft_seconds"]["unit"], choice["limiting_constraint"].get("unit")) == ("s", None)
    cost = json_schema("what_if_input")["properties"]["dollars"]
    number = {"anyOf": [{"type": "number"}, {"type": "null"}]}
    assert (cost["type"], cost["items"]) == ("array", {"type": "array", "items": number})
    assert json_schema("recommend")["required"] == ["targets", "choices"]
    calibration = json_schema("load")["properties"]["calibration"]["anyOf"]
    of_profile = {"type": "object", "additionalProperties": {"$ref": "#/$defs/calibration"}}
    assert calibration == [{"$ref": "#/$defs/calibration"}, of_profile, {"type": "null"}]


def test_sizes_are_decimal_and_said_to_be_so() -> None:
    shown = (field for field in glossary().values() if not field.tables_alone)
    sizes = [field for field in shown if "GB" in field.heading.split()]
    assert sizes and all(field.unit == "B" and field.writing.startswith("1e-9 ") for field in sizes)
    assert GIGABYTES in FieldsPage("weight_bytes").tables()[0].notes
    assert GIGABYTES not in FieldsPage("layout").tables()[0].notes
    assert f"{catalog.hardware('h100_sxm').hbm_bytes / 1e9:.1f} GB here" in GIGABYTES
