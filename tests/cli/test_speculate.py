"""The command about speculation: where it pays, and who proposes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import Command, record

DRAFTED = ("speculate", "llama_3_70b", "h100_sxm", "--weights", "fp8", "--tp", "8", "--draft", "llama_3_8b")


def test_multi_token_prediction_is_as_quick_as_published(command: Command) -> None:
    """SGLang's documents (basic_usage/deepseek_v3, H200 TP8): 1.8 times as quick alone, 1.5 times at 32."""
    rows = record(command, "speculate", "deepseek_v3", "h200_sxm", "--tp", 8, "--mtp")["rows"]
    speedup = {row["concurrency"]: row["speedup"] for row in rows}
    assert speedup[1] == pytest.approx(1.8, rel=0.15)
    assert speedup[32] == pytest.approx(1.5, rel=0.15)
    assert {row["draft_tokens"] for row in rows} <= {1, 2, 3}


def test_an_engine_s_recipe_says_how_many_tokens_are_proposed(command: Command) -> None:
    """vLLM's recipes propose 1 token for GLM-4.5, SGLang's 3; a length that is named counts before them."""

    def longest(*options: object) -> int:
        subject = ("speculate", "glm_4_5", "h200_sxm", "--tp", 8, "--weights", "fp8", "--mtp", "--format", "json")
        return len(json.loads(command(*subject, *options).out)["speculation"]["acceptance"])

    assert [longest(), longest("--engine", "vllm"), longest("--engine", "sglang")] == [3, 1, 3]
    assert longest("--engine", "vllm", "--max-draft", 2) == 2
    assert longest("--engine", "vllm", "--acceptance", "0.9,0.8,0.7") == 3


def test_acceptance_from_a_file(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("target_logprob,draft_logprob,position\n-1.0,-0.5,1\n-0.4,-0.5,2\n", encoding="utf-8")
    answer = record(command, *DRAFTED, "--acceptance-file", path)
    assert answer["speculation"]["acceptance"] == pytest.approx([0.6065306597, 1.0])
    one = record(command, *DRAFTED, "--acceptance-file", path, "--max-draft", 1)
    assert one["speculation"]["acceptance"] == pytest.approx([0.6065306597])
