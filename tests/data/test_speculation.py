"""Runs of a collection with speculation: runs with only one mode, the faster of two, and unknown ones."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from data.measurements.facts import SpeculationOfRuns, speculation_of_runs
from data.measurements.speculation import resolved
from inference_econ.errors import SpecError
from inference_econ.extras.servers import Measurement, measurements
from inference_econ.inputs import _yaml, catalog
from tests.reading import only, tables

#: DeepSeek-R1 on eight B200s, SGLang 0.5.9: 1,024 and 1,024 tokens, of which both kinds ran up to 64 requests.
ROW: dict[str, Any] = tables(Path(__file__))["ROW"]


@cache
def _shipped() -> tuple[Measurement, ...]:
    return tuple(row for row in measurements.shipped() if isinstance(row, Measurement))


def _named(*changes: dict[str, Any]) -> list[str]:
    rows = resolved([Measurement(**ROW | change) for change in changes])
    return [row.speculation for row in rows if isinstance(row, Measurement)]


@pytest.mark.rows
def test_speculation_of_runs(changes: list[dict[str, Any]], speculation: list[str]) -> None:
    assert _named(*changes) == speculation


def test_a_single_one_that_fits_both_is_not_known() -> None:
    assert _named({}, {"id": "again"}) == ["suspected", "suspected"]
    row = only(Measurement, resolved([Measurement(**ROW)]))
    assert row.remarks == ("runs with MTP2 and without had this description",)
    assert row.tokens_per_round is None


def test_tokens_of_a_round_are_those_of_prompts_like_the_row_s() -> None:
    mine = {"concurrency": 128.0, "engine_version": "0.5.8"}
    rows = resolved([Measurement(**ROW | mine | change) for change in ({}, {"source": "a report"})])
    assert [row.tokens_per_round for row in rows if isinstance(row, Measurement)] == [2.30, 2.58]
    # The wait for ten rounds becomes the wait for their tokens.
    waiting = only(Measurement, resolved([Measurement(**ROW | mine | {"wait_steps": 10.0})]))
    assert waiting.wait_steps == pytest.approx(23.0)
    unknown = only(Measurement, resolved([Measurement(**ROW | {"speculation": "MTP7"})]))
    assert (unknown.speculates, unknown.tokens_per_round) == (True, None)


def test_shipped_rows_of_versions_that_only_speculated_all_say_how() -> None:
    version = "1.2.0rc6.post3"
    named = Counter(row.speculation for row in _shipped() if row.engine_version == version)
    assert set(named) == {"MTP1", "MTP3"}
    collected = [row for row in _shipped() if row.dataset != "fresh_2026q4"]
    assert all(row.tokens_per_round for row in collected if row.speculation in named)


def test_few_shipped_rows_stay_suspected() -> None:
    suspected = [row for row in _shipped() if row.speculation == "suspected"]
    assert len(suspected) <= 9


# Facts of runs.


def test_every_fact_names_models_chips_and_references_that_exist() -> None:
    facts = speculation_of_runs()
    models, chips = catalog.names("models"), catalog.names("hardware")
    cited = {entry.source.ref for entry in facts.drafts} | {runs.source.ref for runs in facts.runs}
    assert cited <= set(catalog.references())
    assert {model for entry in facts.drafts for model in entry.models} <= set(models)
    assert {chip for entry in facts.drafts for chip in entry.hardware} <= set(chips)
    assert {runs.model for runs in facts.runs} <= set(models)
    assert {runs.hardware for runs in facts.runs} <= set(chips)


def test_draft_lengths_follow_the_engine_the_chip_and_the_attention() -> None:
    facts = speculation_of_runs()
    asked = [("trtllm", "b200", False), ("trtllm", "b200", True), ("sglang", "b200", True), ("sglang", "mi355x", False)]
    lengths = [facts.draft_length("deepseek_v3", engine, chip, "MTP", attention_dp=dp) for engine, chip, dp in asked]
    assert lengths == [3, 1, 2, 3]
    assert facts.draft_length("deepseek_v3", "vllm", "b200", "MTP", attention_dp=False) is None
    assert facts.draft_length("deepseek_v3", "trtllm", "b200", "EAGLE3", attention_dp=False) is None


RUNS: str = tables(Path(__file__))["RUNS"]


@pytest.mark.rows
def test_mistakes_in_the_file_are_told(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in RUNS
    path = tmp_path / "mine.yaml"
    path.write_text(RUNS.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(SpecError, match=message):
        SpeculationOfRuns.from_document(_yaml.read_yaml(path))
