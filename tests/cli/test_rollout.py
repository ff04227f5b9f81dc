"""Rollouts as a user asks for them."""

from __future__ import annotations

from tests.commands import Command, record

SMALL = ("rollout", "llama_3_8b", "h100_sxm", "--tp", 1, "--gpus", 2, "--no-speculation", "--prompts", 16)


def test_options_reach_the_answer(command: Command) -> None:
    words = (*SMALL, "--samples", 4, "--isl", 300, "--osl", "lognormal:300:1", "--finished", 0.8)
    answer = record(command, *words, "--learner", "--mfu", 0.3)
    assert (answer["prompts"], answer["samples"], answer["finished_share"]) == (16, 4, 0.8)
    assert len(answer["curve"]) == 200
    assert answer["runs"][0]["layout"]["tp"] == 1
    assert answer["learner"]["mfu"] == 0.3


def test_lengths_of_a_traffic(command: Command) -> None:
    answer = record(command, *SMALL, "--traffic", "azure_code")
    assert answer["isl"] > 1000 > answer["osl"]
