"""``compare``: several frontiers side by side."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Command, record

SUBJECT = ("compare", "llama_3_8b", "--on", "h100_sxm", "--max-instance-gpus", 2)


@pytest.mark.rows
def test_what_is_repeated_is_compared(command: Command, options: list[str], labels: list[str]) -> None:
    outcome = command(*SUBJECT, *options, "--format", "json")
    assert outcome.code == 0, outcome.err
    series = json.loads(outcome.out)["series"]
    assert [one["label"] for one in series] == labels
    assert all(one["points"] for one in series)


def test_lengths_that_are_repeated_are_compared(command: Command) -> None:
    contexts = command(*SUBJECT, "--decode-only", "--context", 1000, "--context", 4000, "--format", "json")
    lengths = command(*SUBJECT, "--isl", 500, "--isl", 1000, "--osl", 100)
    series = json.loads(contexts.out)["series"]
    assert [(one["label"], one["context"]) for one in series] == [("context 1000", 1000), ("context 4000", 4000)]
    assert "isl 500 " in lengths.out and "isl 1000 " in lengths.out
    # Nobody is the cheapest where requests differ.
    assert "The cheapest" not in lengths.out


def test_a_chip_with_more_of_everything_at_its_price_is_surely_cheaper(command: Command) -> None:
    faster = ("--series", "faster: hardware.hbm_bytes_per_second=9.6 TB/s", "--speed", 60)
    (winner,) = record(command, *SUBJECT, *faster)["cheapest"]
    assert (winner["label"], winner["chance"], winner["rivals"]) == ("faster", 0.95, [])
    said = command(*SUBJECT, *faster).out
    assert "at 60 faster before llama_3_8b on h100_sxm with >95 %" in " ".join(said.split())


def test_what_was_fitted_to_no_server_is_a_bound_and_no_winner(command: Command, tmp_path: Path) -> None:
    bound = ("--on", "tpu_v7", "--speed", 60, "--plot", "bound.svg")
    alone, both = command(*SUBJECT, *bound).out, command(*SUBJECT, "--on", "h200_sxm", *bound).out
    assert "tpu_v7 (bound)" in alone and "The cheapest" not in alone
    said = " ".join(both.split())
    assert re.search(r"The cheapest, at 60 \S+ (before|or) \S+ .*\. tpu_v7 is a bound: fitted to no server", said)
    assert "(bound)" in (tmp_path / "bound.svg").read_text(encoding="utf-8")
    # Bounds alone are held against each other.
    bounds = command("compare", "llama_3_8b", "--on", "tpu_v7", "--on", "tpu_v6e", *bound[2:4]).out
    assert "The cheapest, at 60" in bounds


def test_chips_without_watts_are_not_drawn_against_power(command: Command, tmp_path: Path) -> None:
    both = (*SUBJECT, "--on", "tpu_v7", "--y", "power", "--plot", "power.svg")
    assert "Not drawn: Google TPU7x (Ironwood) lists no watts" in command(*both).said
    assert "Ironwood" not in (tmp_path / "power.svg").read_text(encoding="utf-8")


def test_speeds_and_sizes_at_a_cost(command: Command) -> None:
    asked = (*SUBJECT, "--on", "a100_sxm_80", "--decode-only", "--cost", 0.3, "--cost", 0.001)
    table, series = command(*asked, "--y", "gpus", "--plot", "a.svg"), record(command, *asked)["series"]
    assert table.code == 0, table.err
    for words in ("tok/s at", "GPUs at", "$0.3", "of the fastest instance that costs no more"):
        assert words in table.said
    for one in series:
        never, now = one["at_costs"]
        assert never == {"dollars": 0.001, "point": None}
        assert now["point"]["dollars_per_million_output_tokens"] <= 0.3
        faster = [p for p in one["points"] if p["dollars_per_million_output_tokens"] <= 0.3]
        assert now["point"]["tokens_per_second_per_user"] == faster[-1]["tokens_per_second_per_user"]
        assert one["costs"] == []


def test_columns_are_speeds_that_are_sold(command: Command) -> None:
    costs = record(command, *SUBJECT, "--decode-only", "--context", 0)["series"][0]["costs"]
    assert min(cost["tokens_per_second_per_user"] for cost in costs) >= 10


def test_proposers_side_by_side(command: Command) -> None:
    outcome = command(*SUBJECT, "--eagle", "--series", "n-grams: ngram=true, acceptance=0.2", "--format", "json")
    assert outcome.code == 0, outcome.err
    head, grams = json.loads(outcome.out)["series"]
    fastest = [max(point["tokens_per_second_per_user"] for point in one["points"]) for one in (head, grams)]
    assert fastest[0] > 1.2 * fastest[1]


def test_prices_speeds_pins_and_what_ifs(command: Command) -> None:
    prices = ("--on", "h200_sxm", "--price", "h100_sxm=2", "--price", "h200_sxm=3", "--speed", 50, "--speed", 20)
    pins = ("--tp", 2, "--batch", 100, "--domain", 2, "--set", "assumptions.host.launch=0 us")
    outcome = command(*SUBJECT, "--decode-only", *prices, *pins, "--format", "json")
    assert outcome.code == 0, outcome.err
    for one, price in zip(json.loads(outcome.out)["series"], (2.0, 3.0), strict=True):
        assert one["dollars_per_accelerator_hour"] == price
        assert [cost["tokens_per_second_per_user"] for cost in one["costs"]] == [20.0, 50.0]
        assert {(point["layout"]["tp"], point["batch"]) for point in one["points"]} == {(2.0, 100.0)}
    both = command(*SUBJECT, "--price", "2.5", "--format", "json")
    assert json.loads(both.out)["series"][0]["dollars_per_accelerator_hour"] == 2.5


def test_services_are_asked_for_as_in_frontier(command: Command) -> None:
    asked = ("--cached", 1000, "--slots", 16, "--token-budget", 512, "--tpot", 9)
    outcome = command(*SUBJECT, *asked, "--format", "json")
    assert outcome.code == 0, outcome.err
    (series,) = json.loads(outcome.out)["series"]
    (again,) = (record(command, "frontier", "llama_3_8b", "h100_sxm", "--max-instance-gpus", 2, *asked),)
    assert series["points"] == again["points"]
    assert series["promises"] == again["promises"]
    assert max(point["concurrency"] for point in series["points"]) <= 16 * (1 + 1e-6)
    assert (series["cached"], series["promises"]["tpot_seconds"]) == (1000.0, pytest.approx(0.009))
