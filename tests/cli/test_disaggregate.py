"""The command that holds disaggregated serving against aggregated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command, record
from tests.reading import tables

APART = ("disaggregate", "llama_3_8b", "h100_sxm", "--max-instance-gpus", 2, "--isl", 2000, "--osl", 200)


def test_promises_have_percentiles_of_their_own(command: Command) -> None:
    promised = ("--max-instance-gpus", 1, "--ttft", "p95:1000", "--tpot", "mean:20", "--request-rate", 10)
    found = record(command, *APART[:3], *promised)
    assert (found["ttft_percentile"], found["tpot_percentile"]) == ("p95", "mean")
    assert found["fleet"]["ttft_seconds"]["p95"] <= 1.0
    assert found["fleet"]["tpot_seconds"]["mean"] <= 0.02


def test_power_of_the_facility_buys_a_fleet(command: Command) -> None:
    """4 chips of 1.68 kW: what they draw, and what that emits."""
    asked = (*APART, "--ttft", 500, "--tpot", 20)
    by_chips, by_power = (
        record(command, *asked, *means)["fleet"] for means in (("--gpus", 4), ("--power-budget", "7kW", "--carbon", 50))
    )
    assert by_power["completed_requests_per_second"] == by_chips["completed_requests_per_second"]
    assert by_power["board_watts"] < by_power["facility_watts"] < by_power["provisioned_watts"] <= 7e3
    kwh = by_power["facility_joules_per_output_token"] * 1e6 / 3.6e6
    assert by_power["grams_co2e_per_million_output_tokens"] == pytest.approx(50 * kwh)
    text = command(*asked, "--power-budget", "7kW", "--carbon", "united kingdom").said
    assert "kW of 6.72 kW provisioned" in text
    assert "at 216 gCO2e/kWh, united_kingdom in 2024 (ember2024)" in text


CHAINS: list[Any] = tables(Path(__file__))["CHAINS"]


def test_chains_keep_what_single_instances_do_not(command: Command, refused: Command, tmp_path: Path) -> None:
    promised = ("--ttft", 800, "--tpot", 50, "--request-rate", 2)
    assert "no pair of layouts keeps TTFT 800 ms" in refused(*CHAINS, *promised, code=1).err
    saved = tmp_path / "chain.json"
    saved.write_text(command(*CHAINS, *promised, "--prefill-chain", "4", "--json").out)
    fleet = json.loads(saved.read_text())["fleet"]
    assert fleet["prefill_layout"]["chain"] == 4 and fleet["prefill_accelerators_per_instance"] == 4
    assert fleet["ttft_seconds"]["p90"] <= 0.8
    shown = command(*CHAINS, *promised, "--prefill-chain", "4").said
    assert "(chain of 4 x tp1) for prompts" in shown
    assert "A chain reads each prompt in parts, whose cache is handed on (KV-Runahead); no engine" in shown
    assert "no engine that is known reads prompts in a chain" in refused("launch", saved).err
