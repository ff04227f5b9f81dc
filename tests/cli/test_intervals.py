"""Every command says how far off its numbers may be: low and high in data, misfits and unlike layouts in words."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.reading import tables

#: Commands that predict, and what of their rows is uncertain.
COMMANDS: dict[str, list[Any]] = tables(Path(__file__))["COMMANDS"]


def _names(record: Any) -> Iterator[str]:
    if isinstance(record, dict):
        yield from record
    for part in record.values() if isinstance(record, dict) else record if isinstance(record, list) else ():
        yield from _names(part)


@pytest.mark.long
@pytest.mark.parametrize("name", COMMANDS)
def test_data_have_low_and_high(command: Command, name: str) -> None:
    words, column = COMMANDS[name]
    outcome = command(*words, "--format", "csv")
    assert outcome.code == 0, outcome
    rows = list(csv.DictReader(io.StringIO(outcome.out)))
    base, _, which = column.partition(":")
    heads = [f"{base}{end}{which and f'_{which}'}" for end in ("_low", "", "_high")]
    known = [tuple(float(row[head]) for head in heads) for row in rows if all(row[head] for head in heads)]
    assert any(low < value < high for low, value, high in known)
    assert all(low <= value <= high for low, value, high in known)
    names = set(_names(json.loads(command(*words, "--format", "json").out)))
    assert any(each.endswith("_low") for each in names)
    assert {each.removesuffix("_low") for each in names if each.endswith("_low")} <= names


#: Questions that choose among all engines unless assumptions or an engine are given.
MARKET: list[Any] = tables(Path(__file__))["MARKET"]


@pytest.mark.rows
def test_a_series_that_is_known_to_misfit_says_so(command: Command, words: tuple[object, ...]) -> None:
    outcome = command(*words)
    assert outcome.code == 0, outcome
    said = " ".join(outcome.out.split())
    assert "Measured servers of vllm with Qwen3 235B-A22B on NVIDIA H200 SXM5 141GB took 2.02 times" in said


@pytest.mark.parametrize("words", MARKET, ids=lambda words: f"{words[0]} {words[-1]}")
def test_a_misfit_that_is_counted_says_so(command: Command, words: tuple[object, ...]) -> None:
    """Under its own engine what was measured moves the answer, and is no misfit any more."""
    outcome = command(*words, "--engine", "vllm", "--no-speculation")
    assert outcome.code == 0, outcome
    said = " ".join(outcome.out.split())
    assert "Measured: 51 rows of vllm in other versions with Qwen3 235B-A22B on NVIDIA H200 SXM5 141GB" in said
    assert "for prompts are counted of them for this one." in said
    assert "2.02 times" not in said


@pytest.mark.rows
def test_layouts_that_no_measured_instance_had_are_said_in_words(
    command: Command, words: list[object], said: str
) -> None:
    outcome = command(*words, "--why")
    assert outcome.code == 0, outcome
    assert said in " ".join(outcome.out.split())
