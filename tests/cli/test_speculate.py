"""Commands about speculation: where it pays, who proposes, and whether its rule keeps the distribution."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from inference_econ.report.sampling_rule import check_table
from inference_econ.studies import sampling_rule
from tests.cli.conftest import Command, record

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


def test_the_check_of_the_rule(command: Command, tmp_path: Path) -> None:
    outcome = command("speculate-check", "--rounds", 20000, "--seed", 3)
    assert outcome.code == 0
    for words in (
        "20,000 rounds",
        "EXACT: the tokens have the target's distribution, as far as",
        "below 0.1 %: not exact",
        "by formula",
        "inside the interval",
    ):
        assert words in outcome.out.replace("\n", " "), words
    path = tmp_path / "d.csv"
    path.write_text("target,draft\n0.6,0.3\n0.4,0.7\n", encoding="utf-8")
    answer = record(command, "speculate-check", path, "--draft-length", 2)
    assert (answer["vocabulary"], answer["draft_length"], answer["rounds"]) == (2, 2, 1_000_000)
    assert answer["p_value"] > 0.001 and answer["exact"]
    assert answer["expected_tokens_per_round"] == pytest.approx(1 + 0.7 + 0.49)
    difference = answer["drawn_tokens_per_round"] - answer["expected_tokens_per_round"]
    assert abs(difference) < 2 * answer["half_width_95"]
    assert [one["position"] for one in answer["positions"]] == [1, 2, 3]
    text = command("speculate-check", path, "--rounds", 100, "--format", "csv").out
    assert text.splitlines()[0].startswith("position,tokens,chi-square")
    markdown = command("speculate-check", "--vocabulary", 5, "--rounds", 100, "--format", "markdown").out
    assert markdown.startswith("| position | tokens |")


def test_another_distribution_is_not_exact() -> None:
    drawn = sampling_rule.check([0.5, 0.5], [0.5, 0.5], 1, rounds=1000)
    odd = replace(drawn, fits=(sampling_rule.Fit(1000, 50.0, 1), *drawn.fits[1:]))
    assert drawn.exact and not odd.exact
    assert check_table(odd).notes[0].startswith("NOT EXACT: the tokens do not have the target's distribution")


@pytest.mark.rows
def test_bad_input_is_refused(refused: Command, tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "sum.csv").write_text("target,draft\n0.5,0.5\n0.4,0.5\n", encoding="utf-8")
    (tmp_path / "large.csv").write_bytes(11_000_000 * b"x")
    assert message in refused(*arguments).err
