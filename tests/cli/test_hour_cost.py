"""The command that builds up the cost of an hour."""

from __future__ import annotations

import csv

import pytest

from inference_econ.inputs import catalog
from tests.cli.conftest import Command, record

BOUGHT = ("hour-cost", "h100_sxm", "--purchase", 30000)


def test_parts_add_up(command: Command) -> None:
    cost = record(command, *BOUGHT)
    assert cost["hardware"] == "NVIDIA H100 SXM5 80GB"
    assert list(cost["parts"]) == ["depreciation", "capital", "operations", "accelerator_energy", "host_energy"]
    assert sum(cost["parts"].values()) == pytest.approx(cost["dollars_per_accelerator_hour"])
    *parts, total = csv.reader(command(*BOUGHT, "--format", "csv").out.splitlines()[1:])
    assert {name: float(dollars) for name, dollars, _ in parts} == pytest.approx(cost["parts"])
    assert sum(float(share) for *_, share in parts) == pytest.approx(1.0)
    assert total == ["total", str(cost["dollars_per_accelerator_hour"]), "1.0"]


def test_a_node_and_the_terms_are_told(command: Command) -> None:
    cost = record(command, *BOUGHT, "--lifetime", 4)
    assert cost["usd_per_node_hour"] == pytest.approx(8 * cost["dollars_per_accelerator_hour"])
    assert (cost["gpus_per_node"], cost["purchase_dollars"], cost["terms"]["lifetime_years"]) == (8, 30000.0, 4.0)
    text = command(*BOUGHT).out
    assert f"A node of 8 costs ${8 * record(command, *BOUGHT)['dollars_per_accelerator_hour']:.4g} per hour." in text
    assert "Bought for $30,000, over 5 years at 8 % interest; --price" in text


def test_the_purchase_of_the_file_is_the_default_and_the_price_of_owned_chips(command: Command) -> None:
    cost = record(command, "hour-cost", "h100_sxm")
    assert cost["purchase_dollars"] == 38750.0
    assert "Bought for $38,750 (quote, 2024-08)" in command("hour-cost", "h100_sxm").out
    price = record(command, "explain", "llama_3_8b", "h100_sxm", "--batch", 1, "--price", "owned")["price"]
    assert price["usd_per_gpu_hour"] == pytest.approx(cost["dollars_per_accelerator_hour"])
    assert (price["kind"], price["date"], price["verified"]) == ("owned", "2024-08", True)


def test_the_help_names_the_usual_terms(command: Command) -> None:
    text, terms = command("hour-cost", "--help").out, catalog.ownership()
    for value in (
        terms.lifetime_years,
        terms.utilisation,
        terms.host_watts,
        terms.pue,
        terms.dollars_per_kwh,
        terms.yearly_operations,
        terms.cost_of_capital,
    ):
        assert f"[{value:g}]" in text


def test_the_power_of_an_hour_and_its_emissions(command: Command) -> None:
    cost = record(command, *BOUGHT, "--carbon", 100)
    assert (cost["board_watts"], cost["server_watts"]) == (700.0, 1000.0)
    assert cost["facility_watts"] == pytest.approx(1200.0)
    assert cost["grams_co2e_per_accelerator_hour"] == pytest.approx(120.0)
    text = command(*BOUGHT, "--carbon", "france").said
    assert "the facility 1200 W, 52.8 g per hour at 44 gCO2e/kWh, france in 2024 (ember2024)." in text
    assert "g per hour" not in command(*BOUGHT).out
