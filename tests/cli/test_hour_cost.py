"""The command that builds up the cost of an hour."""

from __future__ import annotations

import csv

import pytest

from tests.cli.conftest import Command, record

BOUGHT = ("hour-cost", "h100_sxm", "--purchase", 30000)


def test_parts_add_up(command: Command) -> None:
    cost = record(command, *BOUGHT)
    assert cost["hardware"] == "NVIDIA H100 SXM5 80GB"
    assert list(cost["parts"]) == ["depreciation", "capital", "operations", "accelerator_energy", "host_energy"]
    assert sum(cost["parts"].values()) == pytest.approx(cost["dollars_per_accelerator_hour"])
    *parts, total = csv.reader(command(*BOUGHT, "--format", "csv").out.splitlines()[1:])
    assert [name for name, *_ in parts][-1] == "energy of host and network"
    assert total == ["hour in use", f"{cost['dollars_per_accelerator_hour']:.3f}", "100"]


def test_terms_are_told(command: Command) -> None:
    text = command(*BOUGHT, "--utilization", 0.5, "--board-watts", 350, "--host-watts", 100, "--why").out
    assert "0.5 of all hours in use; the chip draws 350 W at work, its host 100 W." in text


def test_bad_terms(refused: Command) -> None:
    assert "'--pue': 0.9 is not in the range x>=1" in refused(*BOUGHT, "--pue", 0.9).err
    assert "utilisation must be a number > 0 and <= 1, got 0" in refused(*BOUGHT, "--utilization", 0).err
    assert "Missing option '--purchase'" in refused("hour-cost", "h100_sxm").err
