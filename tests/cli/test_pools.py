"""``disaggregate`` and ``cache``: what they print, in every form, and what they refuse."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Command

APART = ("disaggregate", "llama_3_8b", "h100_sxm", "--max-accelerators", 2, "--isl", 2000, "--osl", 200)
CACHE = ("cache", "llama_3_8b", "h100_sxm", "--tp", 1, "--accelerators", 1)


def test_disaggregate_prints_both_frontiers_and_the_best_fleet(command: Command) -> None:
    found = command(*APART, "--request-rate", 20, "--ttft", "200 ms", "--tpot", "20 ms")
    assert found.code == 0, found
    for words in (
        "$/M aggregated",
        "Disaggregated serving is more than 5 % cheaper",
        "The cache of a prompt is 262 MB; it moves over the fast link",
        "TTFT at most 200 ms",
        "Best fleet, ",
        "% busy",
        "Aggregated, the same traffic takes",
    ):
        assert words in " ".join(found.out.split()), words


def test_disaggregate_as_data(command: Command) -> None:
    found = command(*APART, "--accelerators", 8, "--decode-on", "h200_sxm", "--transfer", "whole", "--format", "json")
    record = json.loads(found.out)
    assert record["decode_hardware"].startswith("NVIDIA H200")
    assert [one["hardware"][:11] for one in record["aggregated"]] == ["NVIDIA H100", "NVIDIA H200"]
    speeds = [point["tokens_per_second_per_user"] for point in record["disaggregated"]]
    assert speeds == sorted(speeds)
    point = record["disaggregated"][0]
    assert point["link"] == "network"
    assert point["transfer_exposed_seconds"] == point["transfer_seconds"] > 0
    fleet = record["fleet"]
    assert fleet["accelerators"] <= 8
    assert fleet["prefill_instances"] >= 1 <= fleet["decode_instances"]
    assert fleet["ttft_seconds"]["p50"] <= fleet["ttft_seconds"]["p99"]
    assert record["aggregated_fleet"] is None


@pytest.mark.parametrize("form", ["csv", "markdown"])
def test_tables_in_other_forms(command: Command, form: str) -> None:
    for arguments, head in ((APART, "tokens/s per user"), (CACHE, "prefix from")):
        out = command(*arguments, "--format", form).out
        if form == "csv":
            assert next(iter(csv.reader(io.StringIO(out))))[0] == head
        else:
            assert out.startswith(f"| {head} |")


def test_pictures(command: Command, tmp_path: Path) -> None:
    command(*APART, "--plot", "apart.svg", "--quiet")
    command(*CACHE, "--plot", "cache.svg", "--quiet")
    words = {
        "apart.svg": ("disaggregated", "aggregated, NVIDIA H100", "tokens per second per user", "Llama 3.1 8B"),
        "cache.svg": ("computed again", "read from host memory", "read from local SSD", "tokens of the prefix"),
    }
    for name, wanted in words.items():
        text = (tmp_path / name).read_text(encoding="utf-8")
        for one in wanted:
            assert one in text, (name, one)


def test_cache_prints_every_tier(command: Command) -> None:
    found = command(*CACHE, "--turns", 6, "--system-tokens", 500, "--lifetime", "5 min")
    assert found.code == 0, found
    for words in (
        "computing",
        "HBM",
        "host memory",
        "local SSD",
        "quicker from",
        "needs GB",
        "hit %",
        "6 turns of 300",
    ):
        assert words in found.out, words
    only = command(*CACHE, "--tier", "ssd", "--isl", 8000, "--hit-rate", 0.9, "--format", "json")
    record = json.loads(only.out)
    assert [one["tier"] for one in record["tiers"]] == ["HBM", "local SSD"]
    assert (record["prefix_tokens"], record["new_tokens"]) == (7200, 800)
    assert record["conversation"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*APART, "--request-rate", 5, "--throughput", 9), "give only one of --request-rate, --throughput"),
        ((*APART, "--request-rate", 5, "--accelerators", 9), "give only one of --request-rate, --accelerators"),
        ((*APART, "--decode-on", "h200_sxm", "--price", 3), "--price is for one kind of hardware; with --decode-on"),
        ((*APART, "--plot", "a.txt"), "a.txt: a picture's name must end in .svg, .png, .pdf"),
        ((*APART, "--cached", 2000), "cached must leave at least one new token"),
        (("disaggregate", "llama_3_8b", "h100_sxm", "--osl", 1), "an answer of 1 token needs no decode pool"),
        ((*CACHE, "--turns", 4, "--isl", 300), "give either --turns, or --isl and --hit-rate, not both"),
        ((*CACHE, "--turns", 0.2), "turns must be a number >= 1, got 0.2"),
        ((*CACHE, "--turns", 0), "0 is not in the range"),
        ((*CACHE, "--hit-rate", 1), "a hit rate of 1 leaves less than one new token"),
        ((*CACHE, "--hit-rate", 1.2), "1.2 is not in the range"),
        ((*CACHE, "--tier", "tape"), "unknown tier 'tape'; known: dram, ssd"),
        (
            (*APART[:2], "l40s", "--set", "hardware.nic_bytes_per_second_one_way=null"),
            "no link joins the pools: NVIDIA L40S",
        ),
        (("cache", "llama_3_8b", "tpu_v5e"), "Google TPU v5e lists no link to its host"),
    ],
)
def test_bad_input(refused: Command, arguments: tuple[object, ...], message: str) -> None:
    assert message in refused(*arguments).err


def test_what_cannot_be_kept(refused: Command) -> None:
    assert "best reachable" in refused(*APART, "--ttft", "1 us", code=1).err
    large = ("disaggregate", "llama_3_70b", "h100_sxm", "--accelerators", 2)
    assert "take at least 4 accelerators together, 2 are given" in refused(*large, code=1).err
