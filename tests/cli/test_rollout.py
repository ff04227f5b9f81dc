"""Rollouts as a user asks for them."""

from __future__ import annotations

from tests.cli.conftest import Command, record

SMALL = ("rollout", "llama_3_8b", "h100_sxm", "--tp", 1, "--gpus", 2, "--no-speculation", "--prompts", 16)


def test_a_table_of_deployments(command: Command) -> None:
    words = (*SMALL, "--samples", 4, "--isl", 300, "--osl", "lognormal:300:1", "--finished", 0.8)
    out = command(*words).out
    assert "16 prompts x 4 on 2 GPUs" in out
    assert "A batch ends when 80 % of its trajectories have" in out
    answer = record(command, *words)
    assert (answer["prompts"], answer["samples"], answer["finished_share"]) == (16, 4, 0.8)
    assert len(answer["curve"]) == 200
    assert answer["runs"][0]["layout"]["tp"] == 1


def test_a_learner_in_turns_and_beside(command: Command) -> None:
    words = ("rollout", "llama_3_8b", "h100_sxm", "--tp", 1, "--gpus", 4, "--prompts", 16, "--no-speculation")
    out = command(*words, "--learner").out
    assert "6 FLOP per active parameter and token at 12 % of the 16-bit peak" in out
    assert all(way in out for way in ("synchronous", "one_step_off", "asynchronous"))
    assert record(command, *words, "--learner", "--mfu", 0.3)["learner"]["mfu"] == 0.3
    alone = command(*words[:6], 2, *words[7:], "--learner").out
    assert "No learner GPUs are left beside an instance: the learner needs 2 of its own" in alone


def test_lengths_of_a_traffic(command: Command) -> None:
    answer = record(command, *SMALL, "--traffic", "azure_code")
    assert answer["isl"] > 1000 > answer["osl"]
