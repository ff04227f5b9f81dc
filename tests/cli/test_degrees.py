"""One vocabulary for the size and the degrees of an instance, in every command."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Command, record

#: One deployment of a dense model, of a mixture of experts, and of latent attention with experts.
DEPLOYMENTS = [
    ("llama_3_70b", "h100_sxm", ("--weights", "fp8", "--tp", 4), 64),
    ("qwen3_32b", "h200_sxm", ("--tp", 2), 17),
    ("mixtral_8x22b", "h100_sxm", ("--tp", 8), 32),
    ("qwen3_30b_a3b", "h100_sxm", ("--tp", 2), 128),
    ("deepseek_v3", "h200_sxm", ("--tp", 8), 48),
    ("deepseek_v3", "h200_sxm", ("--dp", 16), 256),
]


@pytest.mark.parametrize(("model", "chip", "degrees", "batch"), DEPLOYMENTS)
def test_a_frontier_and_an_explanation_have_the_same_step(
    command: Command, model: str, chip: str, degrees: tuple[object, ...], batch: int
) -> None:
    asked = (model, chip, *degrees, "--batch", batch)
    (point,) = record(command, "frontier", "--decode-only", *asked)["points"]
    step = record(command, "explain", *asked)
    assert step["layout"] == point["layout"]
    assert step["context"] == 2250
    assert f"{step['step_seconds']:.12g}" == f"{1 / point['tokens_per_second_per_user']:.12g}"
    assert step["dollars_per_million_output_tokens"] == pytest.approx(point["dollars_per_million_output_tokens"])


def test_lengths_mean_the_same_context_in_both(command: Command) -> None:
    asked = ("llama_3_8b", "h100_sxm", "--tp", 1, "--batch", 16, "--isl", 1000, "--osl", 3000)
    (point,) = record(command, "frontier", "--decode-only", *asked)["points"]
    step = record(command, "explain", *asked)
    assert step["context"] == 2500
    assert step["step_seconds"] == pytest.approx(1 / point["tokens_per_second_per_user"], rel=1e-12)
    shorter = record(command, "explain", *asked[:6], "--context", 1000)
    assert shorter["step_seconds"] < step["step_seconds"]


def test_a_degree_alone_is_an_instance_of_that_size(command: Command) -> None:
    found = record(command, "load", "llama_3_8b", "h100_sxm", "--tp", 2, "--rates", 2)
    assert (found["accelerators_per_instance"], found["layout"]["dp"]) == (2, 1)
    opened = record(command, "frontier", "gpt_oss_20b", "h100_sxm", "--tp", 2, "--dp", "any", "--max-instance-gpus", 8)
    assert {point["layout"]["dp"] for point in opened["points"]} > {1.0}
    assert {point["layout"]["tp"] for point in opened["points"]} == {2.0}
    sized = record(command, "frontier", "llama_3_8b", "h100_sxm", "--instance-gpus", 2)
    assert {point["accelerators"] for point in sized["points"]} == {2.0}


@pytest.mark.parametrize("value", ["0", "-2", "1.5", "all"])
def test_a_degree_is_a_number_or_any(refused: Command, value: str) -> None:
    message = " ".join(refused("frontier", "llama_3_8b", "h100_sxm", "--tp", value).err.split())
    assert "Invalid value for '--tp':" in message
    assert "or write 'any' to try all" in message


#: One engine that runs instances that do both, without proposals: layouts are all that is left open.
ONE_PRACTICE = ("--engine", "vllm", "--together", "--no-speculation")


def test_which_layout_was_picked_is_said_with_the_rule(command: Command) -> None:
    subject = ("llama_3_8b", "h100_sxm", "--max-instance-gpus", 4)
    for name, asked, rule in (
        ("load", ("--rates", 2), "tp1: the cheapest per token when full, of 3 layouts; --tp, --pp, --dp and --ep take"),
        ("load", ("--rates", 2, "--tpot", 5), "when full that meets the SLOs, of 3 layouts"),
        ("load", ("--rates", 2, "--tpot", 1), "when full, as none meets the SLOs, of 3 layouts"),
        ("load", ("--rates", 2, "--tp", 2), "tp2: the only layout that is left open and fits."),
        ("price", ("--request-rate", 2, *ONE_PRACTICE), "cheapest fleet that serves this rate at this speed, of 3"),
        (
            "price",
            ("--replicas", 2, "--tpot", 50),
            "group of pools, of the cheapest tokens has within the SLOs",
        ),
        (
            "recommend",
            ("--request-rate", 2, *ONE_PRACTICE),
            "Of 3 layouts, each with the fewest instances that serve this rate and",
        ),
        (
            "launch",
            ("--request-rate", 2, "--to", "vllm", *ONE_PRACTICE),
            "picked: the cheapest fleet of 'recommend', of 3 layouts;",
        ),
    ):
        outcome = command(name, *subject, *asked)
        assert rule in " ".join(outcome.out.split()), outcome
    found = record(command, "load", *subject, "--rates", 2)
    assert found["picked"] == {"rule": "the cheapest per token when full", "layouts": 3}


def test_a_fleet_of_two_pools_says_by_which_rule_it_is_the_best(command: Command) -> None:
    asked = ("disaggregate", "llama_3_8b", "h100_sxm", "--max-instance-gpus", 1)
    cheapest = " ".join(command(*asked, "--request-rate", 4).out.split())
    assert "It is the cheapest at this rate within the SLOs, of 1 pair of layouts in all ratios." in cheapest
    most = " ".join(command(*asked, "--gpus", 4).out.split())
    assert "It serves the most requests within the SLOs, of 1 pair " in most


@pytest.mark.parametrize(
    ("asked", "chips"),
    [
        (("explain", "llama_3_70b", "h100_sxm"), 2),
        (("explain", "llama_3_70b", "h100_sxm", "--pp", 4, "--batch", 4), 4),
        (("intensity", "llama_3_70b", "h100_sxm"), 2),
        (("speculate", "deepseek_v3", "h200_sxm", "--mtp"), 8),
    ],
)
def test_without_a_degree_the_fewest_accelerators_that_hold_the_model(
    command: Command, asked: tuple[object, ...], chips: int
) -> None:
    layout = record(command, *asked)["layout"]
    assert layout["tp"] * layout["dp"] * layout["pp"] == chips


def test_what_no_link_domain_holds_says_how_many_would(command: Command) -> None:
    outcome = command("explain", "llama_3_405b", "l4")
    assert outcome.code == 1
    assert "at least 43 accelerators would do" in outcome.err
