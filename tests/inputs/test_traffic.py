"""Files of workloads and their sessions: content, and messages about mistakes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import inference_econ as ie
from inference_econ.inputs import Lengths, SessionSpec, Step
from tests.reading import present, tables

_FILE: str = tables(Path(__file__))["_FILE"]


def test_a_file_of_a_traffic_is_read_by_its_path(write: Callable[[str], str]) -> None:
    traffic = ie.traffic(write(_FILE))
    assert traffic.arrivals.rate == 1.75
    assert present(traffic.lengths).rows == ((100, 80, 0, 0.75), (900, 20, 512, 0.25))


@pytest.mark.rows
def test_a_mistake_in_a_traffic_is_told_with_its_line(
    write: Callable[[str], str], right: str, wrong: str, message: str
) -> None:
    with pytest.raises(ie.SpecError, match=message):
        ie.traffic(write(_FILE.replace(right, wrong)))


def test_a_trace_is_no_traffic(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n", encoding="utf-8")
    with pytest.raises(ie.InputError, match=r"trace\.csv is a trace, .*; 'recommend', 'load' and 'fleet' read it with"):
        ie.traffic(str(path))


def test_a_traffic_needs_lengths(write: Callable[[str], str]) -> None:
    with pytest.raises(ie.SpecError, match="lengths are missing; write for example"):
        ie.traffic(write("name: none\nsources: {}\n"))


@pytest.mark.parametrize("field", ["cached", "shared_prefix"])
def test_cached_tokens_are_a_number(field: str) -> None:
    with pytest.raises(ie.SpecError, match=f"{field}: Input should be a valid number, got None"):
        ie.Requests(2000, 500, **{field: None})


def test_the_longest_request_is_that_of_the_lengths_of_a_table_or_of_a_session() -> None:
    assert ie.Requests(isl=2000, osl="uniform:400:600").longest == 2600
    table = Lengths(isl=(100.0, 900.0), osl=(80.0, 20.0), shares=(0.5, 0.5))
    assert ie.Requests(isl="100@0.5,900@0.5", osl="80@0.5,20@0.5", table=table).longest == 920
    assert ie.Requests(isl=1300, osl=60, cached=1000, longest_turn=2060).longest == 2060


# Sessions: their waits, and rejected values by line.


def _step(name: str, **fields: object) -> dict[str, object]:
    return {"name": name, "new_tokens": 100, "answer_tokens": 50, **fields}


@pytest.mark.rows
def test_what_cannot_be_played_is_refused_where_it_stands(steps: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ie.SpecError, match=message):
        SessionSpec.build({"steps": [_step(**step) for step in steps]}, origin="sessions")


def test_the_longest_context_is_that_of_the_last_turn() -> None:
    work = Step(name="work", turns=3, new_tokens=100, first_tokens=1000, answer_tokens=50)
    search = Step(name="search", after=["work"], new_tokens=9000, answer_tokens=10, agents=4)
    report = Step(name="report", after=["work", "search"], continues="work", new_tokens=10, answer_tokens=500)
    assert SessionSpec(shared_tokens=5000, steps=[work, search, report]).longest_context == 5000 + 9000 + 10
    assert SessionSpec(steps=[work]).longest_context == 1000 + 2 * 100 + 3 * 50
