"""The frontier of services."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Command, record

SMALL = ("llama_3_8b", "h100_sxm", "--max-instance-gpus", 2)


SERVING = ("frontier", *SMALL, "--serving")


@pytest.mark.parametrize("y", ["cost", "throughput", "power"])
def test_a_frontier_of_services(command: Command, tmp_path: Path, y: str) -> None:
    outcome = command(*SERVING, "--y", y, "--plot", "a.png")
    assert outcome.code == 0
    heads = {"cost": "$/M tokens", "throughput": "tok/s per GPU", "power": "tok/s per MW"}
    for head in ("tokens/s per user", heads[y], "TTFT ms", "in flight"):
        assert head in outcome.out
    assert outcome.out.count("⠤") + outcome.out.count("⠒") > 20
    assert (tmp_path / "a.png").stat().st_size > 10_000


def test_records_of_a_frontier_of_services(command: Command) -> None:
    found = record(command, *SERVING, "--isl", 4000, "--cached", 3000, "--osl", 100)
    assert (found["isl"], found["cached"], found["osl"]) == (4000.0, 3000.0, 100.0)
    speeds = [point["tokens_per_second_per_user"] for point in found["points"]]
    assert speeds == sorted(speeds)
    assert {"ttft_seconds", "dollars_per_million_tokens", "layout", "concurrency"} <= found["points"][0].keys()
    rows = list(csv.DictReader(io.StringIO(command(*SERVING, "--format", "csv").out)))
    assert float(rows[0]["tokens_per_second_per_user"]) < float(rows[-1]["tokens_per_second_per_user"])
    assert command(*SERVING, "--format", "markdown").out.startswith("| tokens/s per user |")


def test_prefill_makes_a_frontier_of_services_dearer(command: Command) -> None:
    """At the same speed and per output token, decode steps alone are cheaper."""
    steps = record(command, "frontier", *SMALL)["points"]
    services = record(command, *SERVING)["points"]
    for speed in (30.0, 60.0, 100.0):
        alone, whole = (
            min(
                point["dollars_per_million_output_tokens"]
                for point in points
                if point["tokens_per_second_per_user"] >= speed
            )
            for points in (steps, services)
        )
        assert whole > 1.2 * alone


def test_a_draft_model_speeds_services_up(command: Command) -> None:
    big = ("frontier", "llama_3_70b", "h100_sxm", "--serving", "--tp", 8, "--dp", 1, "--pp", 1)
    plain, drafted = (record(command, *big, *more)["points"][-1] for more in ((), ("--draft", "llama_3_8b")))
    assert drafted["tokens_per_second_per_user"] > 1.3 * plain["tokens_per_second_per_user"]


@pytest.mark.parametrize(("option", "value"), [("--y", "power"), ("--cached", "100")])
def test_choices_for_services_need_services(refused: Command, option: str, value: str) -> None:
    assert f"{option} goes with --serving only" in refused("frontier", *SMALL, option, value).err


def test_power_of_a_chip_without_watts(refused: Command) -> None:
    outcome = refused(*SERVING, "--y", "power", "--set", "hardware.watts=null")
    assert "lists no watts; give them, for example --set hardware.watts='700 W'" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--context", "100"], r"--context does not go with --serving"),
        (["--batch", "8"], r"--batch does not go with --serving"),
        (["--max-throughput", "8"], r"--max-throughput does not go with --serving"),
        (["--grid", "paper"], r"--grid paper does not go with --serving"),
        (["--all"], r"--all does not go with --serving"),
        (["--y", "carbon"], r"'carbon' is not one of 'cost', 'throughput', 'power'"),
        (["--osl", "1"], r"osl must be more than 1 token for a speed, got 1"),
        (["--isl", "0"], r"isl: 0.0 is no length: from 1 to 1e\+09 tokens are possible, got 0"),
        (["--plot", "a.txt"], r"a\.txt: a picture's name must end in"),
    ],
)
def test_bad_input_is_refused(refused: Command, arguments: list[str], message: str) -> None:
    assert re.search(message, refused(*SERVING, *arguments).err)
