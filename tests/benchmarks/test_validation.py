"""The page on measured servers: errors by engine and GPU generation, and pages with their series."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.validation import by_engine, document
from inference_econ.extras.servers.validation.servers import slices
from inference_econ.inputs import UnseenErrors
from tests.shipped import some_shipped_servers

#: Predictions of all shipped servers take most of a minute.
pytestmark = pytest.mark.long


def test_rows_of_engines_and_generations_have_a_line_each() -> None:
    table = by_engine.overview(few := some_shipped_servers())
    assert table.columns[3:] == (
        "TPOT, fitted", "TPOT, unseen", "TTFT under load, fitted", "TTFT under load, unseen",
    )  # fmt: skip
    assert ("vLLM", "Hopper") in {row[:2] for row in table.rows}
    assert sum(int(row[2]) for row in table.rows) <= len(few.counted())
    # Without fitted rows there is no statement about them.
    unseen = replace(few, rows=tuple(replace(row, fitted=False) for row in few.rows))
    assert all(row[3] == row[5] == "" for row in by_engine.overview(unseen).rows)


def test_errors_of_fits_without_a_subject_are_those_of_the_profile_of_all() -> None:
    errors = UnseenErrors(engine="vllm", generation="hopper", rows=9, medians={"tpot": 0.1}, p90s={"tpot": 0.3})
    assert by_engine.left_out(errors, "tpot") == "11 %, 35 %"
    assert by_engine.left_out(errors, "ttft") == by_engine.left_out(None, "tpot") == ""


def test_the_worst_series_comes_first_and_says_in_what_it_is_unlike() -> None:
    rows = slices(some_shipped_servers())[("vllm", "hopper")]
    table = by_engine.series(rows)
    shares = [float(row[6].split(" %")[0]) for row in table.rows]
    assert shares == sorted(shares, reverse=True)
    assert all(row[-1] for row in table.rows)
    assert {row[0] for row in table.rows} <= {row.measurement.model for row in rows if row.measurement is not None}


def test_every_line_has_a_page_that_the_document_leads_to() -> None:
    names = [name for name, _ in by_engine.pages(some_shipped_servers())]
    assert len(names) == len(slices(some_shipped_servers()))
    text = document.document(some_shipped_servers(), [], [], "validation.png", "say it again")
    for name, page in by_engine.pages(some_shipped_servers()):
        assert f"(validation/{name}.md)" in text
        assert page.startswith("# ")
        assert page.endswith("|\n")
