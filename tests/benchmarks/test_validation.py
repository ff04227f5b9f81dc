"""The page on measured servers: errors by engine and GPU generation, and pages with their series."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.validation import by_engine, document
from inference_econ.extras.servers import Servers
from inference_econ.extras.servers.validation.servers import slices
from inference_econ.inputs import UnseenErrors
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
    # Without fitted rows there is no statement about them.
    unseen = [replace(row, fitted=False) for row in _few().rows]
    assert all(row[3] == row[5] == "" for row in by_engine.overview(replace(_few(), rows=tuple(unseen))).rows)


def test_errors_of_fits_without_a_subject_are_those_of_the_profile_of_all() -> None:
    errors = UnseenErrors(engine="vllm", generation="hopper", rows=9, medians={"tpot": 0.1}, p90s={"tpot": 0.3})
    assert by_engine.left_out(errors, "tpot") == "11 %, 35 %"
    assert by_engine.left_out(errors, "ttft") == by_engine.left_out(None, "tpot") == ""


def test_the_worst_series_comes_first_and_says_in_what_it_is_unlike() -> None:
    rows = slices(_few())[("vllm", "hopper")]
    table = by_engine.series(rows)
    shares = [float(row[6].split(" %")[0]) for row in table.rows]
    assert shares == sorted(shares, reverse=True)
    assert all(row[-1] for row in table.rows)
    assert {row[0] for row in table.rows} <= {row.measurement.model for row in rows if row.measurement is not None}


def test_every_line_has_a_page_that_the_document_leads_to() -> None:
    names = [name for name, _ in by_engine.pages(_few())]
    assert len(names) == len(slices(_few()))
    text = document.document(_few(), [], [], "validation.png", "say it again")
    for name, page in by_engine.pages(_few()):
        assert f"(validation/{name}.md)" in text
        assert page.startswith("# ")
        assert page.endswith("|\n")
