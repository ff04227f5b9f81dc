"""The command that prices tokens."""

from __future__ import annotations

import re

import pytest

from tests.cli.conftest import Command, record

SMALL = ("llama_3_8b", "h100_sxm", "--max-instance-gpus", 2)


def test_a_throughput_is_a_request_rate(command: Command) -> None:
    both = (record(command, "price", *SMALL, *how) for how in (("--request-rate", 4), ("--throughput", 2000)))
    one, other = ({**answer, "asked": None} for answer in both)
    assert one == other


def test_api_prices_are_compared(command: Command) -> None:
    prices = "input=0.5,output=1.5"
    found = record(command, "price", *SMALL, "--request-rate", 10, "--api-prices", prices)
    hourly = found["tokens_per_hour"]
    revenue = (0.5 * hourly["input"] + 1.5 * hourly["output"]) / 1e6
    assert found["revenue_dollars_per_hour"] == pytest.approx(revenue)
    assert found["margin_dollars_per_hour"] == pytest.approx(revenue - found["dollars_per_hour"])
    text = command("price", *SMALL, "--request-rate", 10, "--api-prices", prices).out
    assert re.search(r"Revenue \$[\d.,]+ per hour; this fleet breaks even at [\d.]+ requests/s", text)


def test_power_of_boards_servers_and_the_facility_are_three(command: Command) -> None:
    asked = ("price", *SMALL, "--request-rate", 5, "--together", "--no-speculation", "--any-speed")
    found = record(command, *asked, "--carbon", "germany")
    chips = found["accelerators"]
    assert 0.323 * 700 * chips <= found["board_watts"] <= 700 * chips
    assert found["server_watts"] == pytest.approx(found["board_watts"] + 300 * chips)
    assert found["facility_watts"] == pytest.approx(1.2 * found["server_watts"])
    assert found["provisioned_watts"] == pytest.approx(1.2 * 1400 * chips)
    tokens = 5.0 * 500
    assert found["joules_per_output_token"] == pytest.approx(found["board_watts"] / tokens)
    assert found["tokens_per_second_per_megawatt"] == pytest.approx(1e6 * tokens / found["provisioned_watts"])
    kwh = found["facility_joules_per_output_token"] * 1e6 / 3.6e6
    assert found["grams_co2e_per_million_output_tokens"] == pytest.approx(342 * kwh)
    text = command(*asked).said
    assert re.search(r"Power: boards [\d.]+ kW, with host and network [\d.]+ kW, facility [\d.]+ kW of", text)
    assert "(fitted to 73 measured rows, median error 8 %)" in text and "gCO2e" not in text
