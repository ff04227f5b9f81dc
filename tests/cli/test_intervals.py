"""Every command says how far off its numbers may be: low and high in data, misfits and unlike layouts in words."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.conftest import Command

LLAMA = ("llama_3_8b", "h100_sxm")
#: Commands that predict, and what of their rows is uncertain.
COMMANDS = {
    "frontier": (("frontier", *LLAMA, "--decode-only", "--max-instance-gpus", 2), "tokens_per_second_per_user"),
    "all plans": (
        ("frontier", *LLAMA, "--decode-only", "--max-instance-gpus", 2, "--all"),
        "dollars_per_million_output_tokens",
    ),
    "serving frontier": (("frontier", *LLAMA, "--max-instance-gpus", 2), "ttft_seconds"),
    "compare": (("compare", LLAMA[0], "--on", "h100_sxm", "--on", "h200_sxm"), "tokens_per_second_per_user"),
    "recommend": (("recommend", *LLAMA, "--max-instance-gpus", 2, "--ttft", 300), "ttft_seconds:p90"),
    "most traffic": (("recommend", *LLAMA, "--max-instance-gpus", 2, "--gpus", 2, "--tpot", 30), "tpot_seconds:p90"),
    "price": (("price", *LLAMA, "--max-instance-gpus", 2), "marginal_dollars_per_million"),
    "load": (("load", *LLAMA, "--tp", 1, "--rates", "1,5"), "tpot_seconds:p50"),
    "disaggregate": (("disaggregate", *LLAMA, "--max-instance-gpus", 2), "ttft_seconds"),
    "cache": (("cache", *LLAMA, "--tp", 1), "seconds"),
    "speculate": (("speculate", *LLAMA, "--tp", 1, "--ngram", "--acceptance", "0.7"), "tpot_seconds"),
    "explain": (("explain", *LLAMA, "--batch", 8), "ms"),
    "assess": (
        ("assess", *LLAMA, "--tokens-per-second", 50, "--batch", 16, "--gpus", 1),
        "dollars_per_million_output_tokens",
    ),
}


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


MISFIT = ("qwen3_235b_a22b", "h200_sxm")
WIDE = ("--tp", 8, "--weights", "fp8")
#: Questions that choose among all engines unless assumptions or an engine are given.
MARKET = (
    ("frontier", *MISFIT, "--weights", "fp8", "--max-instance-gpus", 8),
    ("compare", MISFIT[0], "--on", MISFIT[1], "--weights", "fp8"),
    ("price", *MISFIT, *WIDE),
    ("recommend", *MISFIT, *WIDE),
    ("recommend", *MISFIT, *WIDE, "--gpus", 8),
    ("disaggregate", *MISFIT, "--weights", "fp8", "--max-instance-gpus", 8),
)


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
