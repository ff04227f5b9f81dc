"""Measurements, results of load generators, saved results and log-probabilities, changed cell by cell."""

from __future__ import annotations

import csv
import io
import json
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from data.measurements.__main__ import TABLES
from inference_econ.inputs import catalog
from tests.extras.servers.measurements.test_reports import AIPERF, BENCH
from tests.fuzz import mutations
from tests.fuzz.judged import Case, run
from tests.reading import tables

#: Measurements that ``validate`` reads from a file, with the arguments before the file.
MEASURED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(TABLES, ()),
    **{f"servers/{name}": () for name in catalog.server_files()},
}
#: Rows of a shipped file.
ROWS = 6
DEPLOYMENT = ("--hardware", "h100_sxm", "--tp", "2", "--model", "llama_3_8b", "--engine", "vllm")
LOG_PROBABILITIES = "target_logprob,draft_logprob,position\n-1.0,-0.5,1\n-0.4,-0.5,2\n-0.1,-0.7,1\n"
#: Commands whose results are saved for later commands.
ANSWERS: tuple[tuple[str, ...], ...] = tuple(map(tuple, tables(Path(__file__))["ANSWERS"]))
FORMS = ("json", "csv", "table", "markdown")


@cache
def _table(name: str) -> list[list[str]]:
    """Return the header and the rows of a published or shipped table."""
    ours = {f"servers/{server}": path for server, path in catalog.server_files().items()}
    path = (catalog.measured_files() | TABLES | ours)[name]
    return list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))


@cache
def _answer(line: tuple[str, ...]) -> Any:
    """Return the record of a result."""
    code, out, err = run((*line, "--json"))
    assert code == 0, err
    return json.loads(out)


@st.composite
def _changed_table(draw: st.DrawFn, rows: list[list[str]]) -> str:
    """Draw a table after some changes of cells, of rows, or of its text."""
    if draw(st.booleans()):
        return draw(mutations.texts(_text(rows)))
    changed = draw(mutations.data(rows))
    return _text(changed) if isinstance(changed, list) else str(changed)


def _text(rows: list[Any]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(row if isinstance(row, list) else [row] for row in rows)
    return stream.getvalue()


@st.composite
def _measurements(draw: st.DrawFn) -> Case:
    name = draw(st.sampled_from(sorted(MEASURED)))
    head, *rows = _table(name)
    first = draw(st.integers(0, len(rows) - ROWS))
    table = draw(_changed_table([head, *rows[first : first + ROWS]]))
    line = ("validate", *MEASURED[name], "mine.csv", "--format", draw(st.sampled_from(FORMS)))
    return Case("data", line, {"mine.csv": table})


@st.composite
def _results(draw: st.DrawFn) -> Case:
    result = draw(mutations.data(draw(st.sampled_from((BENCH, AIPERF)))))
    text = json.dumps(result)
    name = draw(st.sampled_from(("result.json", "result.jsonl")))
    return Case("data", ("validate", name, *DEPLOYMENT, "--format", draw(st.sampled_from(FORMS))), {name: text})


@st.composite
def _saved(draw: st.DrawFn) -> Case:
    answer = json.dumps(draw(mutations.data(_answer(draw(st.sampled_from(ANSWERS))))))
    held = ("validate", "result.json", "--against", "answer.json")
    manifests = ("launch", "answer.json", "--to", "vllm", "--as", "kubernetes")
    result = {**BENCH, "max_concurrency": None, "request_rate": 5.0}
    line = draw(st.sampled_from((("launch", "answer.json", "--to", "sglang"), manifests, held)))
    return Case("data", line, {"answer.json": answer, "result.json": json.dumps(result)})


@st.composite
def _probabilities(draw: st.DrawFn) -> Case:
    drafted = ("speculate", "llama_3_8b", "h100_sxm", "--eagle", "--acceptance-file", "mine.csv")
    table = draw(_changed_table(list(csv.reader(io.StringIO(LOG_PROBABILITIES)))))
    return Case("data", (*drafted, "--format", draw(st.sampled_from(FORMS))), {"mine.csv": table})


def cases() -> st.SearchStrategy[Case]:
    """Draw a changed input file of some command."""
    return st.one_of(_measurements(), _results(), _saved(), _probabilities())
