"""Predictors on the same rows: calls of other tools, scoring, and rejected inputs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.scoreboard import Answer, asked_of_theirs, asked_rows, main, page, reason_of
from inference_econ.extras.servers import Measurement


@pytest.fixture(scope="module")
def rows() -> list[Measurement]:
    """Return all rows that the predictors predict."""
    return asked_rows()


def test_rows_are_closed_loops_of_instances_that_do_both(rows: list[Measurement]) -> None:
    assert len(rows) > 1000
    assert {row.load for row in rows} == {"concurrency"}
    assert not any(row.decode or row.speculates or row.spoilt for row in rows)


def test_others_are_asked_per_rank_of_attention_in_their_words(rows: list[Measurement]) -> None:
    row = replace(
        next(row for row in rows if row.model == "deepseek_v3" and row.hardware == "b200"),
        tp=1, dp=4, ep=4, accelerators=8, concurrency=64, weights="nvfp4", kv="fp8",
    )  # fmt: skip
    asked = asked_of_theirs(row)
    # Two replicas of four ranks share 64 requests.
    assert (asked["batch_size"], asked["moe_tp_size"], asked["moe_ep_size"]) == (8, 1, 4)
    assert (asked["system_name"], asked["kvcache_quant_mode"], asked["moe_quant_mode"]) == ("b200_sxm", "fp8", "nvfp4")
    assert "gemm_quant_mode" not in asked_of_theirs(replace(row, weights=None))


def test_refusals_are_counted_and_are_no_errors(rows: list[Measurement]) -> None:
    (row,) = (replace(next(row for row in rows if row.engine == "vllm"), tpot_seconds=0.01, hardware="h200_sxm"),)
    answers = {"near": [Answer({"tpot_seconds": 0.011})] * 2, "careful": [Answer({}, "no data"), Answer({})]}
    text = page([row, row], answers, "1.0", "2026-11-24")
    assert "| all | all | near | 2 | 0 | 2: 0.095, 0.095 |" in text
    assert "| vLLM | Hopper | careful | 2 | 1 |  |" in text
    assert "| careful | 1 | `no data` |" in text
    # Rows that all predictors accept.
    assert text.count("| near | 1 | 0 | 1: 0.095, 0.095 |") == 2


def test_reasons_are_those_of_many_rows() -> None:
    reasons = {
        reason_of(ValueError(f"missing for Key {{ tp: {tp} }} at /a/{tp}.parquet: h100 = {tp}.5")) for tp in (1, 2)
    }
    assert reasons == {"ValueError: missing for Key h100"}


def test_without_the_other_predictor_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 2
    assert "aiconfigurator is not installed; 'sh run.sh validate scoreboard' does it" in capsys.readouterr().err
