"""The command that plans and plays the fleet of a day."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.cli.conftest import Command, record

ASKED = ("fleet", "llama_3_8b", "h100_sxm", "--tp", 1, "--ttft", 500, "--target", 0.8)
RATES = ("--rates", "20,60,100,40")


def test_the_same_day_from_a_file_and_from_the_line(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "day.csv"
    path.write_text("hour,requests_per_second\n0,20\n1,60\n2,100\n3,40\n")
    typed, read = record(command, *ASKED, *RATES), record(command, *ASKED, "--day", path)
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give the traffic by hour as --day FILE.csv or --rates R,R,..."),
        ((*RATES, "--day", "day.csv"), "give only one of --day FILE.csv or --rates R,R,..."),
        (("--day", "none.csv"), "none.csv: cannot be read: No such file or directory"),
        ((*RATES, "--stock", "h100_sxm"), "--stock 'h100_sxm': write HARDWARE=N, for example h100_sxm=64"),
        ((*RATES, "--stock", "h100_sxm=4", "--stock", "h100_sxm=8"), "--stock h100_sxm is given twice; give it once"),
        ((*RATES, "--stock", "b200=4"), "is not among the hardware"),
        ((*RATES, "--start-up", "5"), "5 has no unit"),
        ((*RATES, "--spot-share", "0"), "spot_share must be > 0"),
        ((*RATES, "--target", "0"), "a share above 0 and at most 1 is needed, got 0"),
    ],
)
def test_bad_input(refused: Command, options: tuple[object, ...], message: str) -> None:
    asked = ASKED[:-2] if "--target" in options else ASKED
    assert message in refused(*asked, *options).err
