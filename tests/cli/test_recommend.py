"""The command that says which deployment to take."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import Command, record

SMALL = ("llama_3_8b", "h100_sxm", "--max-instance-gpus", 2)


@pytest.mark.parametrize("given", ["80", "80 %", "80%", "0.8"])
def test_promises_are_kept_with_the_confidence_that_is_asked_for(command: Command, given: str) -> None:
    asked = ("recommend", *SMALL, "--request-rate", 100, "--ttft", 200, "--tpot", 20, "--confidence", given)
    found = record(command, *asked)
    assert found["targets"]["confidence"] == 0.8
    for choice in found["choices"]:
        for name in ("probability_ttft", "probability_tpot", "probability_capacity"):
            assert 0.8 <= choice[name] <= 0.95


def test_a_picture_of_deployments_at_a_rate(command: Command, tmp_path: Path) -> None:
    picture = tmp_path / "fleet.svg"
    command("recommend", *SMALL, "--request-rate", 40, "--tpot", "20 ms", "--plot", picture)
    text = picture.read_text(encoding="utf-8")
    assert "What do deployments that meet the SLOs cost?" in text
    assert "TPOT SLO p90: 20 ms" in text


def test_a_power_cap_makes_a_step_longer(command: Command) -> None:
    step = ("explain", "llama_3_8b", "h100_sxm", "--tp", 1, "--prefill", 4000)
    found = record(command, *step, "--power-cap", "400W")
    assert found["board_watts"] == pytest.approx(400.0)
    assert found["step_seconds"] > 1.2 * found["step_seconds_uncapped"]
    assert record(command, *step)["step_seconds_uncapped"] is None
    text = command(*step, "--power-cap", "400W").said
    assert "capped at 400 W: the step takes" in text


def test_bare_latencies_are_milliseconds(command: Command) -> None:
    promised = ("recommend", *SMALL, "--request-rate", 5)
    options = record(command, *promised, "--ttft", 500, "--tpot", "25.5")["asked"]["options"]
    assert (options["ttft"], options["tpot"]) == (0.5, 0.0255)
    bare = command(*promised, "--ttft", 2000, "--tpot", 20).out
    assert bare == command(*promised, "--ttft", "2 s", "--tpot", "20 ms").out
