"""Candidate deployments: engines, prefill and decode pools, chains, and power budgets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import Command, record

SMALL = ("llama_3_8b", "h100_sxm", "--max-instance-gpus", 1, "--isl", 1000, "--osl", 200)


@pytest.mark.parametrize("question", ["frontier", "recommend", "price"])
def test_an_engine_that_cannot_serve_is_named_and_the_others_answer(command: Command, question: str) -> None:
    words = (question, "llama_3_8b", "mi300x", "--engine", "trtllm", "--engine", "vllm", "--max-instance-gpus", 1)
    reason = "trtllm 1.3.0rc20 is not known to run on AMD Instinct MI300X 192GB"
    found = record(command, *words)
    answer = found["choices"][0] if question == "recommend" else found
    assert answer["left_out"] == [reason]
    assert answer["assumptions"] == "profiles/vllm_cdna3"
    assert f"Left out: {reason}." in command(*words, "--why").said


def test_an_engine_that_nothing_fits_is_named_and_the_others_answer(command: Command) -> None:
    """Engines reserve different shares of the memory; at this size the weights fit under only one of the two."""
    chip = ("--set", "hardware.hbm_bytes=22 GB")
    words = ("frontier", *SMALL, "--aggregated", "--engine", "sglang", "--engine", "vllm", *chip)
    alone = command(*words[:-4], *chip, "--engine", "sglang")
    found = record(command, *words)
    assert alone.code == 1
    assert {point["layout"]["engine"] for point in found["points"]} == {"vllm"}
    (reason,) = found["left_out"]
    assert reason.startswith("sglang 0.5.23: ")


APART = (
    *("recommend", "llama_3_8b", "h100_sxm", "--max-instance-gpus", 2, "--isl", 2000, "--osl", 200, "--disaggregated"),
    *("--any-group", "--engine", "vllm", "--no-speculation"),
)


def test_a_frontier_of_pools_of_two_chips(command: Command, tmp_path: Path) -> None:
    saved = tmp_path / "front.json"
    saved.write_text(command("frontier", *APART[1:], "--decode-on", "h200_sxm", "--json").out)
    layout = json.loads(saved.read_text())["points"][0]["layout"]
    assert layout["prefill_hardware"].startswith("NVIDIA H100")
    assert "H100" in command("launch", saved, "--choice", 1).said


def test_power_of_the_facility_buys_a_fleet(command: Command) -> None:
    """Four chips of 1.68 kW: their power draw and its emissions."""
    asked = (*APART, "--ttft", 500, "--tpot", 20)
    by_chips, by_power = (
        record(command, *asked, *means)["choices"][0]
        for means in (("--gpus", 4), ("--power-budget", "7kW", "--carbon", 50))
    )
    assert by_power["completed_requests_per_second"] == by_chips["completed_requests_per_second"]
    assert by_power["board_watts"] < by_power["facility_watts"] < by_power["provisioned_watts"] <= 7e3
    kwh = by_power["facility_joules_per_output_token"] * 1e6 / 3.6e6
    assert by_power["grams_co2e_per_million_output_tokens"] == pytest.approx(50 * kwh)


CHAINS = (
    *(
        "llama_3_8b",
        "l40s",
        "--max-instance-gpus",
        4,
        "--isl",
        16000,
        "--osl",
        300,
        "--engine",
        "sglang",
        "--disaggregated",
        "--any-group",
    ),
    *("--ttft", 800, "--tpot", 50),
)


def test_chains_keep_what_single_instances_do_not(command: Command, refused: Command, tmp_path: Path) -> None:
    asked = ("recommend", *CHAINS, "--request-rate", 2)
    assert "no pair of layouts keeps TTFT 800 ms" in refused(*asked, code=1).err
    for words in (asked, ("frontier", *CHAINS)):
        saved = tmp_path / "chain.json"
        saved.write_text(command(*words, "--prefill-chain", "4", "--json").out)
        assert "chain of 4 x tp1 + " in command(*words, "--prefill-chain", "4").said
        assert "no known engine prefills prompts in a chain" in refused("launch", saved, "--choice", 1).err
    (fleet,) = record(command, *asked, "--prefill-chain", "4")["choices"]
    assert fleet["prefill_layout"]["chain"] == 4
    assert fleet["prefill_accelerators_per_instance"] == 4
    assert fleet["ttft_seconds"]["p90"] <= 0.8


def test_a_command_that_is_gone_says_what_to_type(refused: Command) -> None:
    assert "there is no disaggregate any more: write 'recommend ... --disaggregated'" in refused("disaggregate").err
