"""The command that checks the rule of speculation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from inference_econ.report.sampling_rule import check_table
from inference_econ.studies import sampling_rule
from tests.cli.conftest import Command


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
    record = json.loads(command("speculate-check", path, "--draft-length", 2, "--format", "json").out)
    assert (record["vocabulary"], record["draft_length"], record["rounds"]) == (2, 2, 1_000_000)
    assert record["p_value"] > 0.001 and record["exact"]
    assert record["expected_tokens_per_round"] == pytest.approx(1 + 0.7 + 0.49)
    difference = record["drawn_tokens_per_round"] - record["expected_tokens_per_round"]
    assert abs(difference) < 2 * record["half_width_95"]
    assert [one["position"] for one in record["positions"]] == [1, 2, 3]
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
