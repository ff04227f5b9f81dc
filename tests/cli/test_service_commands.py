"""``price``, ``recommend``, ``load`` and ``frontier --serving``: answers, what they refuse, and exit codes."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command

SMALL = ("llama_3_8b", "h100_sxm", "--max-accelerators", 2)
ONE = ("llama_3_8b", "h100_sxm", "--tp", 1, "--dp", 1, "--pp", 1)
COMMANDS = {
    "price": ("price", *SMALL),
    "recommend": ("recommend", *SMALL),
    "load": ("load", *ONE),
    "frontier": ("frontier", *SMALL, "--serving"),
}


def record(command: Command, *arguments: object) -> dict[str, Any]:
    outcome = command(*arguments, "--format", "json")
    assert (outcome.code, outcome.err) == (0, ""), outcome
    found = json.loads(outcome.out)
    assert isinstance(found, dict)
    return found


# Answers


def test_prices_add_up(command: Command) -> None:
    found = record(command, "price", *SMALL, "--isl", 3000, "--cached", 2000, "--request-rate", 5, "--price", 2)
    assert found["request_rate"] == pytest.approx(5.0)
    hourly = found["tokens_per_hour"]
    assert hourly == pytest.approx({"input": 18e6, "cached_input": 36e6, "output": 9e6})
    parts = sum(found[f"dollars_per_million_{kind}_tokens"] * hourly[kind] / 1e6 for kind in hourly)
    assert parts == pytest.approx(found["dollars_per_hour"])
    outcome = command("price", *SMALL, "--isl", 3000, "--cached", 2000, "--request-rate", 5, "--price", 2)
    assert "cached input" in outcome.out
    assert "A bill is shared by the time that prefill" in outcome.out


def test_a_throughput_is_a_request_rate(command: Command) -> None:
    both = (record(command, "price", *SMALL, *how) for how in (("--request-rate", 4), ("--throughput", 2000)))
    one, other = both
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


def test_more_than_the_given_instances_complete_is_a_finding(command: Command) -> None:
    outcome = command("price", *SMALL, "--request-rate", 1e4, "--replicas", 1)
    assert outcome.code == 0
    assert "SATURATED: 10000 requests/s are" in outcome.out
    found = record(command, "price", *SMALL, "--request-rate", 1e4, "--replicas", 1)
    assert found["saturated"] is True
    assert found["ttft_seconds"] == {"mean": None, "p50": None, "p90": None, "p99": None}
    assert found["completed_requests_per_second"] < 100


def test_recommendations_keep_their_promises(command: Command) -> None:
    found = record(command, "recommend", *SMALL, "--request-rate", 40, "--ttft", "1 s", "--tpot", "20 ms")
    assert found["targets"] == {"ttft_seconds": 1.0, "tpot_seconds": 0.02, "percentile": "p90"}
    choices = found["choices"]
    costs = [choice["dollars_per_hour"] for choice in choices]
    assert costs == sorted(costs)
    for choice in choices:
        assert choice["ttft_seconds"]["p90"] <= 1.0
        assert choice["tpot_seconds"]["p90"] <= 0.02
        assert choice["accelerators"] == choice["replicas"] * choice["accelerators_per_instance"]
    table = command("recommend", *SMALL, "--request-rate", 40, "--ttft", "1 s", "--tpot", "20 ms").out
    assert "Binding: what one instance less would break" in table


def test_several_kinds_of_hardware(command: Command) -> None:
    found = record(command, "recommend", *SMALL, "--on", "h200_sxm", "--request-rate", 10, "--choices", 4)
    assert [choice["hardware"][:11] for choice in found["choices"]].count("NVIDIA H200") == 2


def test_a_load_sweep(command: Command, tmp_path: Path) -> None:
    outcome = command("load", *ONE, "--ttft", "200 ms", "--tpot", "25 ms", "--plot", "load.svg")
    assert outcome.code == 0
    assert "SATURATED at" in outcome.out
    for head in ("busy %", "kept %", "good/s"):
        assert head in outcome.out
    assert (tmp_path / "load.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert outcome.err == "wrote load.svg\n"
    rows = list(csv.DictReader(io.StringIO(command("load", *ONE, "--rates", "1,2,5.5", "--format", "csv").out)))
    assert [float(row["request_rate"]) for row in rows] == [1.0, 2.0, 5.5]
    markdown = command("load", *ONE, "--rates", "1,2", "--format", "markdown").out
    assert markdown.startswith("| requests/s | busy % |")


def test_a_load_sweep_of_three_instances(command: Command) -> None:
    one, three = (
        record(command, "load", *ONE, "--rates", rate, "--replicas", replicas)["points"][0]
        for rate, replicas in ((4, 1), (12, 3))
    )
    assert three["request_rate"] == pytest.approx(12)
    for key in ("utilization", "ttft_seconds", "dollars_per_million_tokens"):
        assert three[key] == pytest.approx(one[key])


def test_a_load_is_simulated(command: Command) -> None:
    outcome = command("load", *ONE, "--osl", 100, "--rates", 5, "--simulate", "--arrival-scv", 2)
    assert outcome.code == 0
    assert "The same loads in the simulation (sim.)" in outcome.out
    (point,) = record(command, "load", *ONE, "--osl", 100, "--rates", 5, "--simulate")["points"]
    simulated = point["simulated"]
    assert simulated["tpot_seconds"]["mean"] == pytest.approx(point["tpot_seconds"]["mean"], rel=0.03)


@pytest.mark.parametrize("y", ["cost", "throughput", "power"])
def test_a_frontier_of_services(command: Command, tmp_path: Path, y: str) -> None:
    outcome = command(*COMMANDS["frontier"], "--y", y, "--plot", "a.png")
    assert outcome.code == 0
    heads = {"cost": "$/M tokens", "throughput": "tok/s per GPU", "power": "tok/s per MW"}
    for head in ("tokens/s per user", heads[y], "TTFT ms", "in flight"):
        assert head in outcome.out
    assert outcome.out.count("⠤") + outcome.out.count("⠒") > 20
    assert (tmp_path / "a.png").stat().st_size > 10_000


def test_records_of_a_frontier_of_services(command: Command) -> None:
    found = record(command, *COMMANDS["frontier"], "--isl", 4000, "--cached", 3000, "--osl", 100)
    assert (found["isl"], found["cached"], found["osl"]) == (4000.0, 3000.0, 100.0)
    speeds = [point["tokens_per_second_per_user"] for point in found["points"]]
    assert speeds == sorted(speeds)
    assert {"ttft_seconds", "dollars_per_million_tokens", "layout", "concurrency"} <= found["points"][0].keys()
    rows = list(csv.DictReader(io.StringIO(command(*COMMANDS["frontier"], "--format", "csv").out)))
    assert float(rows[0]["tokens_per_second_per_user"]) < float(rows[-1]["tokens_per_second_per_user"])
    assert command(*COMMANDS["frontier"], "--format", "markdown").out.startswith("| tokens/s per user |")


def test_prefill_makes_a_frontier_of_services_dearer(command: Command) -> None:
    """At the same speed and per output token, decode steps alone are cheaper."""
    steps = record(command, "frontier", *SMALL)["points"]
    services = record(command, *COMMANDS["frontier"])["points"]
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


# Refused


LENGTHS = [
    (["--isl", "0"], r"isl: '0' is no length: from 1 to 1e\+09 tokens are possible, got 0"),
    (["--osl", "-3"], r"osl: '-3' is no length: from 1 to 1e\+09 tokens are possible, got -3"),
    (["--isl", "nan"], r"isl: 'nan' is no length: .*got nan"),
    (["--isl", "long"], r"isl: 'long' is no length; write for example 2000, uniform:1600:2400"),
    (["--isl", "uniform:800"], r"isl: 'uniform:800' is no length; write for example"),
    (["--isl", "uniform:900:800"], r"'uniform:900:800' is no length: a uniform length needs its least and its largest"),
    (["--osl", "lognormal:500:-1"], r"a coefficient of variation is from 0 to 100, got -1"),
    (["--osl", "lognormal:500:x"], r"osl: 'lognormal:500:x' is no length; write for example"),
    (["--isl", "500@0.5,100@0.4"], r"each listed length needs a probability, and they must add up to 1, got 0.9"),
    (["--isl", "500@1.5,100@-0.5"], r"probabilities.0 must be <= 1, got 1.5; probabilities.1 must be >= 0, got -0.5"),
    (["--isl", "500@0.5,100"], r"'500@0.5,100' is no length; write for example"),
    (["--cached", "2000"], r"cached must leave at least one new token of the mean prompt \(2000\), got 2000"),
    (["--cached", "-1"], r"'--cached': -1.0 is not in the range x>=0"),
]
PROMISES = [
    (["--ttft", "0"], r"'--ttft': 0 is not a positive time; write for example '30 ms'"),
    (["--tpot", "5 GB"], r"'--tpot': '5 GB' has the dimension \[data\], but s"),
    (["--tpot", "soon"], r"'--tpot': 'soon' is not a quantity"),
    (["--arrival-scv", "-1"], r"'--arrival-scv': -1.0 is not in the range x>=0"),
]
DEMAND = [
    (["--request-rate", "0"], r"'--request-rate': 0.0 is not in the range x>0"),
    (["--throughput", "inf"], r"'--throughput': inf is not a finite number"),
    (["--request-rate", "5", "--throughput", "100"], r"give either --request-rate or --throughput, not both"),
    (["--percentile", "p95"], r"'p95' is not one of 'mean', 'p50', 'p90', 'p99'"),
]


@pytest.mark.parametrize("name", ["price", "recommend", "load"])
@pytest.mark.parametrize(("arguments", "message"), LENGTHS + PROMISES)
def test_bad_lengths_and_promises(refused: Command, name: str, arguments: list[str], message: str) -> None:
    assert re.search(message, refused(*COMMANDS[name], *arguments).err)


@pytest.mark.parametrize("name", ["price", "recommend"])
@pytest.mark.parametrize(("arguments", "message"), DEMAND)
def test_bad_demands(refused: Command, name: str, arguments: list[str], message: str) -> None:
    assert re.search(message, refused(*COMMANDS[name], *arguments).err)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["price", "--replicas", "0"], r"'--replicas': 0 is not in the range x>=1"),
        (["price", "--replicas", "1.5"], r"'--replicas': '1.5' is not a valid integer"),
        (["price", "--api-prices", "output"], r"--api-prices: 'output' is no price of a kind of token; write for"),
        (["price", "--api-prices", "output=-1"], r"--api-prices: 'output=-1' is no price of a kind of token"),
        (["price", "--api-prices", "image=1"], r"--api-prices: 'image=1' is no price of a kind of token"),
        (["recommend", "--choices", "0"], r"'--choices': 0 is not in the range 1<=x<=50"),
        (["recommend", "--on", "h300"], r"unknown hardware 'h300'"),
        (["recommend", "--on", "h200_sxm", "--price", "2"], r"--price is for one kind of hardware; with --on each"),
        (["load", "--rates", "1,x"], r"'--rates': '1,x' is no list of positive request rates; write for example 1,2,5"),
        (["load", "--rates", ""], r"'--rates': '' is no list of positive request rates"),
        (["load", "--rates", "1,0"], r"'--rates': '1,0' is no list of positive request rates"),
        (["load", "--rates", "1,inf"], r"'--rates': '1,inf' is no list of positive request rates"),
        (["load", "--plot", "load.txt"], r"load\.txt: a picture's name must end in \.svg, \.png, \.pdf"),
        (["frontier", "--context", "100"], r"--context does not go with --serving"),
        (["frontier", "--batch", "8"], r"--batch does not go with --serving"),
        (["frontier", "--max-throughput", "8"], r"--max-throughput does not go with --serving"),
        (["frontier", "--grid", "paper"], r"--grid paper does not go with --serving"),
        (["frontier", "--all"], r"--all does not go with --serving"),
        (["frontier", "--y", "carbon"], r"'carbon' is not one of 'cost', 'throughput', 'power'"),
        (["frontier", "--osl", "1"], r"osl must be more than 1 token for a speed, got 1"),
        (["frontier", "--isl", "0"], r"isl: 0.0 is no length: from 1 to 1e\+09 tokens are possible, got 0"),
        (["frontier", "--plot", "a.txt"], r"a\.txt: a picture's name must end in"),
    ],
)
def test_bad_input_of_one_command(refused: Command, arguments: list[str], message: str) -> None:
    name, *rest = arguments
    assert re.search(message, refused(*COMMANDS[name], *rest).err)


@pytest.mark.parametrize(("option", "value"), [("--y", "power"), ("--cached", "100")])
def test_choices_for_services_need_services(refused: Command, option: str, value: str) -> None:
    assert f"{option} goes with --serving only" in refused("frontier", *SMALL, option, value).err


def test_power_of_a_chip_without_watts(refused: Command) -> None:
    outcome = refused(*COMMANDS["frontier"], "--y", "power", "--set", "hardware.watts=null")
    assert "lists no watts; give them, for example --set hardware.watts='700 W'" in outcome.err


@pytest.mark.parametrize("name", ["price", "recommend"])
def test_promises_that_nothing_keeps(refused: Command, name: str) -> None:
    outcome = refused(*COMMANDS[name], "--ttft", "1 ms", "--tpot", "10 us", code=1)
    assert re.search(
        r"no deployment keeps TTFT 1 ms, TPOT 0\.01 ms \(p90\), even with one request in flight\. Best reachable: "
        r"NVIDIA H100 SXM5 80GB: TPOT [\d.]+ ms on 2 accelerators, TTFT [\d.]+ ms on 2",
        outcome.err,
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_layouts_that_do_not_fit(refused: Command, name: str) -> None:
    head, model, hardware, *_ = COMMANDS[name]
    serving = ("--serving",) if name == "frontier" else ()
    outcome = refused(head, "llama_3_70b", hardware, *serving, "--max-accelerators", 1, code=1)
    assert "alone need 2 accelerators (NVIDIA H100 SXM5 80GB); at most 1 are allowed" in outcome.err
    outcome = refused(head, model, hardware, *serving, "--tp", 3, "--dp", 1, "--pp", 1, code=1)
    assert "no layout of 3 to 3 accelerators divides heads, layers, experts and widths" in outcome.err


@pytest.mark.parametrize("name", COMMANDS)
def test_what_ifs_are_checked(refused: Command, name: str) -> None:
    outcome = refused(*COMMANDS[name], "--set", "hardware.hbm_byte=1")
    assert "unknown key 'hbm_byte'; did you mean 'hbm_bytes'" in outcome.err
