"""The command that plans and plays the fleet of a day."""

from __future__ import annotations

import csv
from pathlib import Path

from tests.cli.conftest import Command, record

ASKED = ("fleet", "llama_3_8b", "h100_sxm", "--tp", 1, "--ttft", 500, "--target", 0.8)
RATES = ("--rates", "20,60,100,40")


def test_the_same_day_from_a_file_and_from_the_line(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "day.yaml"
    where = "{ref: user, where: ours, kind: assumed}"
    path.write_text(
        f"name: ours\nlengths: {{isl: 1000, osl: 500}}\narrivals: {{rates: [20, 60, 100, 40]}}\n"
        f"sources: {{lengths: {where}, arrivals: {where}}}\n"
    )
    typed = record(command, *ASKED, *RATES, "--isl", 1000, "--osl", 500)
    read = record(command, *ASKED, "--traffic", path)
    assert typed["hours"] == read["hours"]
    assert [run["run"] for run in typed["runs"]] == ["constant", "autoscaled", "planned"]
    rows = list(csv.DictReader(command(*ASKED, *RATES, "--csv").out.splitlines()))
    assert [float(row["request_rate"]) for row in rows] == [20, 60, 100, 40]


def test_a_table_says_the_mixture_the_runs_and_the_hours(command: Command) -> None:
    text = command(*ASKED, *RATES, "--pay", "on_demand", "--start-up", "10 min", "--why").out
    assert "The cheapest mixture if the day is known, proven to within" in text
    assert "To know the day before would save" in text
    assert "A replica starts in 600 s; the autoscaler looks every 30 s" in text
    assert "reserved  " not in text


def test_a_stock_is_kept(command: Command) -> None:
    answer = record(command, *ASKED, *RATES, "--on", "h200_sxm", "--stock", "h100_sxm=1", "--stock", "h200_sxm=64")
    scarce = [lot["lots_by_hour"] for lot in answer["lots"] if "H100" in lot["hardware"]]
    assert all(sum(counts) <= 1 for counts in zip(*scarce, strict=True))
    assert any("H200" in lot["hardware"] for lot in answer["lots"])
