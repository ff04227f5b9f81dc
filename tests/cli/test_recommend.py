"""The command that says which deployment to take."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command, record

SMALL = ("llama_3_8b", "h100_sxm", "--max-instance-gpus", 2)


def test_chips_that_no_link_joins_serve_together_only(command: Command) -> None:
    alone = ("--set", "hardware.nic_bytes_per_second_one_way=null", "--max-instance-gpus", 1, "--quiet")
    found = record(command, "recommend", "llama_3_8b", "l40s", "--weights", "fp8", "--gpus", 2, *alone)
    assert {choice["serving"] for choice in found["choices"]} == {"together"}
    assert found["choices"][0]["replicas"] == 2


@pytest.mark.long
def test_prices_that_can_be_doubted_are_named_and_in_the_record(command: Command) -> None:
    asked = ("recommend", *SMALL, "--on", "tpu_v6e", "--request-rate", 10, "--choices", 4)
    text = command(*asked).said
    assert "Prices that can be doubted: Google TPU v6e (Trillium) ($2.7, undated). Give today's with --price." in text
    prices = {choice["hardware"]: choice["price"] for choice in record(command, *asked)["choices"]}
    assert prices["NVIDIA H100 SXM5 80GB"] == {
        "usd_per_gpu_hour": 6.88,
        "usd_per_node_hour": pytest.approx(55.04),
        "gpus_per_node": 8,
        "kind": "on_demand",
        "seller": "hyperscaler",
        "years": None,
        "date": "2026-11-09",
        "verified": True,
        "source": "datareceipts2026gpu: AWS p5.48xlarge in us-east-1, 55.04 USD/h for eight",
    }
    own = record(command, *asked, "--price", "h100=2", "--price", "tpu_v6e=1")["choices"][0]["price"]
    assert (own["kind"], own["date"], own["verified"], own["source"]) == ("given", None, None, "given")


@pytest.mark.parametrize("given", ["80", "80 %", "80%", "0.8"])
def test_promises_are_kept_with_the_confidence_that_is_asked_for(command: Command, given: str) -> None:
    asked = ("recommend", *SMALL, "--request-rate", 100, "--ttft", 200, "--tpot", 20, "--confidence", given)
    found = record(command, *asked)
    assert found["targets"]["confidence"] == 0.8
    for choice in found["choices"]:
        for name in ("probability_ttft", "probability_tpot", "probability_capacity"):
            assert 0.8 <= choice[name] <= 0.95


def test_a_plan_without_a_margin_says_how_probable_it_is(command: Command) -> None:
    asked = ("recommend", *SMALL, "--request-rate", 100, "--ttft", 200, "--tpot", 20)
    plans = record(command, *asked)["choices"]
    assert 0.05 <= min(min(plan["probability_ttft"], plan["probability_tpot"]) for plan in plans) < 0.8
    shown = command(*asked).said
    assert "P(SLO) %: probability" in shown
    assert "P(SLO) %: probability that a measured server meets the SLO of p90 TTFT / p90 TPOT, each by itself" in shown
    assert "--confidence 80 plans with a margin" in shown
    nobody = command(*asked, "--assumptions", "deployable").said
    assert "Nobody knows how probable it is that the SLO of TTFT or TPOT is met" in nobody
    assert "P(SLO) %" not in nobody
    unknown = record(command, *asked, "--assumptions", "deployable")["choices"][0]
    assert [unknown[f"probability_{name}"] for name in ("ttft", "tpot", "capacity")] == [None, None, None]


def test_a_picture_of_deployments_at_a_rate(command: Command, tmp_path: Path) -> None:
    picture = tmp_path / "fleet.svg"
    command("recommend", *SMALL, "--request-rate", 40, "--tpot", "20 ms", "--plot", picture)
    text = picture.read_text(encoding="utf-8")
    assert "What do deployments that meet the SLOs cost?" in text
    assert "TPOT SLO p90: 20 ms" in text


@pytest.mark.long
def test_emissions_stand_beside_money(command: Command) -> None:
    """Of a row of 'recommend' and of a load, at 100 g per kWh; without a grid nothing is said of them."""
    name = "grams_co2e_per_million_output_tokens"
    asked = ("llama_3_8b", "h100_sxm", "--tp", 1, "--isl", 1000, "--osl", 200)
    for question, rows in (
        (("recommend", *asked, "--request-rate", 2), "choices"),
        (("load", *asked, "--rates", 2), "points"),
    ):
        row = record(command, *question, "--carbon", 100)[rows][0]
        assert row[name] == pytest.approx(100 / 3.6 * row["facility_joules_per_output_token"])
        assert "gCO2e/M" in command(*question, "--carbon", "japan").out
        assert name not in record(command, *question)[rows][0]


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
