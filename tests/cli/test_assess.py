"""``assess``: a measured deployment against what could be."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command

SUBJECT = ("assess", "llama_3_70b", "h100_sxm", "--gpus", 8)
QUESTION = (*SUBJECT, "--context", 500, "--tokens-per-second", 70, "--utilization", 0.15)


def test_the_question_that_the_study_opens_with(command: Command) -> None:
    outcome = command(*QUESTION, "--why")
    assert outcome.code == 0, outcome.err
    for words in (
        "Llama 3.1 70B on NVIDIA H100",
        "measured",
        "predicted for it",
        "any size, equal cost",
        "8 GPUs, equal speed",
        "ideal, 8 GPUs, equal cost",
        "a batch of 121 on 8 GPUs",
        "15.0 % of the peak",
        "The ideal bound for 8 GPUs",
        "weight reads",
        "unexplained",
        "% of the gap to the ideal",
    ):
        assert words in outcome.out, words


def test_under_the_study_s_own_assumptions_the_answer_is_hardly_better(command: Command) -> None:
    setup = (*SUBJECT, "--context", 0, "--tokens-per-second", 70, "--utilization", 0.15)
    outcome = command(*setup, "--assumptions", "paper", "--format", "json")
    found = json.loads(outcome.out)
    assert found["assumptions"] == "paper"
    gap = found["frontiers"]["any_size"]
    assert gap["verdict"] == "behind"
    assert 1.05 < gap["speed_factor"] < 1.12
    assert 1.15 < gap["cost_factor"] < 1.30
    assert found["frontiers"]["ideal"]["speed_factor"] > 2.5


@pytest.mark.parametrize("given", [("--batch", 64), ("--throughput", 2560)])
def test_batch_and_throughput_are_two_ways_to_say_the_same(command: Command, given: tuple[object, ...]) -> None:
    outcome = command(*SUBJECT, "--tokens-per-second", 40, *given, "--format", "json")
    found = json.loads(outcome.out)
    assert (found["measured"]["batch"], found["measured"]["throughput"]) == (64, 2560)
    assert found["context"] == 2250
    assert found["prompt_seconds"] > 0


def test_layout_price_formats_and_what_ifs(command: Command) -> None:
    outcome = command(
        *(*SUBJECT, "--tokens-per-second", 40, "--batch", 64, "--tp", 4, "--pp", 2, "--weights", "fp8", "--price", 2),
        *("--isl", 1000, "--osl", 200, "--set", "hardware.hbm_bytes_per_second=6.7 TB/s", "--domain", 4),
        *("--assumptions", "deployable", "--format", "json"),
    )
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert (found["weights"], found["context"], found["dollars_per_accelerator_hour"]) == ("fp8", 1100, 2)
    layout = found["predicted"]["layout"]
    assert (layout["tp"], layout["dp"], layout["pp"]) == (4, 1, 2)
    assert any("6.7 TB/s" in source["where"] for source in found["sources"])


def test_csv_has_a_row_per_deployment(command: Command) -> None:
    outcome = command(*QUESTION, "--format", "csv")
    rows = {row["deployment"]: row for row in csv.DictReader(io.StringIO(outcome.out))}
    assert list(rows)[:2] == ["measured", "predicted"]
    assert {"any_size_equal_cost", "same_size_equal_speed", "ideal_equal_cost", "ideal_equal_speed"} <= set(rows)
    assert float(rows["measured"]["mfu"]) == pytest.approx(0.15)
    assert float(rows["measured"]["unexplained_seconds"]) < 0
    assert float(rows["predicted"]["weights_seconds"]) > 0


def test_markdown_has_both_tables(command: Command) -> None:
    outcome = command(*QUESTION, "--format", "markdown")
    assert outcome.out.startswith("| deployment | tokens/s |")
    assert "| part | ms | ideal ms |" in outcome.out


def test_a_picture_shows_frontiers_and_the_point(command: Command, tmp_path: Path) -> None:
    outcome = command(*QUESTION, "--plot", "assess.svg", "--quiet")
    assert outcome.code == 0
    picture = (tmp_path / "assess.svg").read_text(encoding="utf-8")
    for words in ("any size", "ideal, 8 GPUs", "measured: 70 tokens/s"):
        assert words in picture
    assert command(*QUESTION, "--plot", "assess.svg").err == "wrote assess.svg\n"


def test_a_batch_that_does_not_fit_is_an_answer(command: Command) -> None:
    outcome = command(*SUBJECT, "--context", 8000, "--tokens-per-second", 30, "--batch", 512)
    assert outcome.code == 0
    assert "A batch of 512 needs 1483 GB, and 8 GPUs have 608 GB: 178 sequences fit" in outcome.out
    assert "none is as cheap" in outcome.out
    assert "uncertain by" not in outcome.out
    assert "80 % of servers" not in outcome.out
    for form in ("csv", "json", "markdown"):
        again = command(*SUBJECT, "--context", 8000, "--tokens-per-second", 30, "--batch", 512, "--format", form)
        assert again.code == 0, again.err
        if form == "json":
            gap = json.loads(again.out)["frontiers"]["any_size"]
            assert {gap[name] for name in ("on_it_seconds_low", "on_it_seconds_high", "beyond_uncertainty")} == {None}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["assess", "llama_3_70b", "h100_sxm", "--tokens-per-second", 70, "--batch", 8], "Missing option '--gpus'"),
        ([*SUBJECT, "--batch", 8], "Missing option '--tokens-per-second'"),
        ([*SUBJECT, "--tokens-per-second", 70], "give one of utilization, batch and throughput"),
        ([*SUBJECT, "--tokens-per-second", 70, "--batch", 8, "--utilization", 0.1], "got utilization and batch"),
        ([*SUBJECT, "--tokens-per-second", 70, "--utilization", 15], "at most 1 (0.15 is 15 %), got 15"),
        ([*SUBJECT, "--tokens-per-second", 0, "--batch", 8], "tokens_per_second must be positive"),
        ([*SUBJECT, "--tokens-per-second", 70, "--utilization", 1e-4], "less than one sequence"),
        ([*SUBJECT, "--tokens-per-second", 70, "--batch", 8, "--tp", 16], "accelerators=8 contradicts tp=16"),
        ([*SUBJECT, "--tokens-per-second", 70, "--batch", 8, "--context", 1, "--osl", 1], "give either --context, or"),
        ([*SUBJECT, "--tokens-per-second", 70, "--batch", 8, "--plot", "a.gif"], "a picture's name must end in"),
        ([*SUBJECT, "--tokens-per-second", 70, "--batch", 8, "--set", "chip.x=1"], "write hardware.FIELD=VALUE"),
    ],
)
def test_bad_input_is_refused(refused: Command, arguments: list[object], message: str) -> None:
    assert message in " ".join(refused(*arguments).err.split())


def test_a_model_that_does_not_fit_exits_with_one(refused: Command) -> None:
    outcome = refused("assess", "llama_3_70b", "h100_sxm", "--gpus", 1, "--tokens-per-second", 70, "--batch", 8, code=1)
    assert "at least 2 accelerators are needed" in outcome.err
