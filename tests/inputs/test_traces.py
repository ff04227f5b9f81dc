"""Recorded requests of every format, and messages about invalid lines and files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from inference_econ.errors import InputError
from inference_econ.inputs.workload import traces
from inference_econ.inputs.workload.traces import Broken, Event

_TRACES = Path(__file__).parents[1] / "fixtures" / "traces"


def _events(path: Path) -> list[Event]:
    return [line.event for line in traces.read_trace(path).lines if isinstance(line.event, Event)]


def _broken(path: Path) -> dict[int, str]:
    return {line.number: line.event.problem for line in traces.read_trace(path).lines if isinstance(line.event, Broken)}


@pytest.mark.rows
def test_a_trace_is_told_by_what_is_in_it(
    file: str, form: str, isl: list[int], osl: list[int], seconds: list[float] | None
) -> None:
    events = _events(_TRACES / file)
    assert traces.read_trace(_TRACES / file).form == form
    assert [event.isl for event in events] == isl
    assert [event.osl for event in events] == osl
    times = [event.seconds for event in events if event.seconds is not None]
    assert [time - times[0] for time in times] == pytest.approx(seconds or [], abs=1e-6)


def test_what_prompts_repeat_is_read() -> None:
    assert [event.blocks for event in _events(_TRACES / "mooncake.jsonl")][1] == (0, 1, 3)
    agents = _events(_TRACES / "weka.json")
    assert agents[3].blocks[:3] == agents[0].blocks == (("trace_1", 1), ("trace_1", 2), ("trace_1", 3))
    assert [event.cached for event in _events(_TRACES / "sharegpt.json")] == [0, 12, 0]
    assert [event.cached for event in _events(_TRACES / "opentelemetry.jsonl")] == [None, 640]
    assert [event.session for event in _events(_TRACES / "burstgpt.csv")] == ["a", "b", "a"]


@pytest.mark.rows
def test_a_broken_line_is_named(file: str, line: int, problem: str) -> None:
    assert problem in _broken(_TRACES / file)[line]


@pytest.mark.rows
def test_a_line_that_is_no_request_says_why(tmp_path: Path, line: str, problem: str) -> None:
    (tmp_path / "trace.jsonl").write_text(f'{{"timestamp": 0, "input_length": 5, "output_length": 1}}\n{line}\n')
    assert problem in _broken(tmp_path / "trace.jsonl")[2]


def test_a_number_beyond_all_floats_is_no_request(tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_text(f'{{"timestamp": 0, "input_length": 5, "output_length": 1{"0" * 400}}}')
    assert "too large" in _broken(tmp_path / "trace.jsonl")[1]


def test_a_line_without_cells_is_broken(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n1,100\n\n2,100,5\n")
    assert _broken(tmp_path / "trace.csv") == {2: "cells are missing"}


def test_a_list_is_read_a_part_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "_CHUNK", 7)
    entries = [{"input_length": 10 + place, "output_length": 2} for place in range(50)]
    (tmp_path / "list.json").write_text(json.dumps(entries, indent=1))
    assert [event.isl for event in _events(tmp_path / "list.json")] == list(range(10, 60))
    (tmp_path / "cut.json").write_text(json.dumps(entries)[:-40])
    assert len(_events(tmp_path / "cut.json")) == 49
    assert "what follows is not read" in _broken(tmp_path / "cut.json")[50]


def test_packed_files_are_unpacked(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "azure.csv.gz", "wb") as packed:
        packed.write((_TRACES / "azure.csv").read_bytes())
    assert _events(tmp_path / "azure.csv.gz") == _events(_TRACES / "azure.csv")
    (tmp_path / "cut.csv.gz").write_bytes((tmp_path / "azure.csv.gz").read_bytes()[:40])
    with pytest.raises(InputError, match=r"cut\.csv\.gz: cannot be read: Compressed file ended"):
        traces.read_trace(tmp_path / "cut.csv.gz")


@pytest.mark.rows
def test_a_file_of_another_form_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "trace.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        traces.read_trace(tmp_path / "trace.txt")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no regular file"):
        traces.read_trace(tmp_path)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        traces.read_trace(tmp_path / "nowhere.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x01" * 10)
    with pytest.raises(InputError, match="none of the forms"):
        traces.read_trace(tmp_path / "binary.csv")


def test_a_packed_file_that_ends_early_is_read_up_to_there(tmp_path: Path) -> None:
    whole = gzip.compress("\n".join(f"{second},{second + 1},5" for second in range(20_000)).encode())
    header = gzip.compress(b"TIMESTAMP,ContextTokens,GeneratedTokens\n")
    (tmp_path / "cut.csv.gz").write_bytes(header + whole[: len(whole) // 2])
    lines = list(traces.read_trace(tmp_path / "cut.csv.gz").lines)
    assert len(lines) > 1_000
    last = lines[-1].event
    assert isinstance(last, Broken)
    assert "what follows is not read" in last.problem


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Try a long line, a long list entry, and a file that unpacks to many times its size."""
    monkeypatch.setattr(traces, "_LONGEST_PART", 2_000)
    monkeypatch.setattr(traces, "_UNPACKED", 10_000)
    monkeypatch.setattr(traces, "_CHUNK", 100)
    path, header, row = tmp_path / "it.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n", "1,5,5\n"
    path.write_text(header + 5_000 * "1")
    with pytest.raises(InputError, match=r"it\.csv: cannot be read: a line of more than 2,000 characters"):
        traces.read_trace(path)
    path.write_text(header + 30 * row + 5_000 * "1")
    *good, last = traces.read_trace(path).lines
    assert (len(good), last.number) == (30, 32)
    assert "a line of more than 2,000 characters" in getattr(last.event, "problem", "")
    entry = '{"timestamp": 1, "input_length": 5, "output_length": 7, "hash_ids": []}'
    path.write_text("[" + 100 * f"{entry}," + '{"' + 5_000 * "a")  # one line, of more characters than a line may have
    *good, last = traces.read_trace(path).lines
    assert len(good) == 100
    assert "what follows is not read" in getattr(last.event, "problem", "")
    packed = tmp_path / "it.csv.gz"
    packed.write_bytes(gzip.compress((header + 10_000 * row).encode()))
    *good, last = traces.read_trace(packed).lines
    assert len(good) < 10_000
    assert "it unpacks to more than 50 times its size" in getattr(last.event, "problem", "")
