"""Options that commands share: what they refuse, in every command that has them."""

from __future__ import annotations

import re

import pytest

from tests.cli.conftest import Command, record

SMALL = ("llama_3_8b", "h100_sxm", "--max-instance-gpus", 2)


ONE = ("llama_3_8b", "h100_sxm", "--tp", 1, "--dp", 1, "--pp", 1)


COMMANDS = {
    "price": ("price", *SMALL),
    "recommend": ("recommend", *SMALL),
    "load": ("load", *ONE),
    "frontier": ("frontier", *SMALL),
}


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
    (["--ttft", "nan"], r"'--ttft': nan is not a positive time"),
    (
        ["--ttft", "0.5"],
        r"'--ttft': 0\.5 would be 0\.5 ms, as numbers without a unit are milliseconds; write 500 if 0\.5 s is "
        r"meant, or '0\.5 ms' if it is that",
    ),
    (["--ttft", "2"], r"'--ttft': 2 would be 2 ms, .*; write 2000 if 2 s is meant, or '2 ms' if it is that"),
    (["--tpot", "0.05"], r"'--tpot': 0\.05 would be 0\.05 ms, .*; write 50 if 0\.05 s is meant"),
    (
        ["--tpot", "25 s"],
        r"'--tpot': 25 s would be 25 s, longer than what anybody is promised \(at most 2 s\); write the milliseconds",
    ),
    (["--tpot", "25000"], r"'--tpot': 25000 would be 25 s, longer than what anybody is promised \(at most 2 s\)"),
    (["--ttft", "20 min"], r"'--ttft': 20 min would be 1200 s, longer than .* \(at most 600 s\)"),
    (["--tpot", "5 GB"], r"'--tpot': '5 GB' has the dimension \[data\], but s"),
    *(
        (["--ttft", f"{which}:1000"], rf"'--ttft': percentile: got '{which}'; allowed: mean, and p1 to p99\.9")
        for which in ("p0", "p100", "p0.5", "pfoo", "median", "95")
    ),
    *(
        (["--tpot", text], rf"'--tpot': '{text}' names no time; write for example p95:1000 or 'mean:30 ms'")
        for text in ("p95:", "p95", "mean", "mean: ")
    ),
    (["--e2e", "p95:p99:1000"], r"'--e2e': 'p95:p99:1000': one SLO has one percentile; write for example p95"),
    (["--e2e", "p95:1 s,p99:2 s"], r"'--e2e': 'p95:1 s,p99:2 s': one SLO has one percentile"),
    (["--tpot", "p95:soon"], r"'--tpot': 'soon' is not a quantity"),
    (["--ttft", "p95:0.5"], r"'--ttft': 0\.5 would be 0\.5 ms, as numbers without a unit are milliseconds"),
    (
        ["--ttft", "p95:1000", "--ttft", "p99:2000"],
        r"'--ttft': given 2 times; one SLO has one time and one percentile, for example p95:1000",
    ),
    (["--tpot", "soon"], r"'--tpot': 'soon' is not a quantity"),
    *(
        (["--arrival-scv", value], rf"'--arrival-scv': {value}\.0 is not in the range 0<=x<=1000")
        for value in ("-1", "1001")
    ),
]


DEMAND = [
    (["--request-rate", "0"], r"'--request-rate': 0.0 is not in the range x>0"),
    (["--throughput", "inf"], r"'--throughput': inf is not a finite number"),
    (["--request-rate", "5", "--throughput", "100"], r"give either --request-rate or --throughput, not both"),
    (["--percentile", "p100"], r"'--percentile': got 'p100'; allowed: mean, and p1 to p99\.9, for example p95"),
    (["--percentile", "pfoo"], r"'--percentile': got 'pfoo'; allowed: mean, and p1 to p99\.9"),
]


@pytest.mark.parametrize("name", ["price", "recommend", "load"])
@pytest.mark.parametrize(("arguments", "message"), LENGTHS + PROMISES)
def test_bad_lengths_and_promises(refused: Command, name: str, arguments: list[str], message: str) -> None:
    assert re.search(message, refused(*COMMANDS[name], *arguments).err)


@pytest.mark.parametrize("name", ["price", "recommend"])
@pytest.mark.parametrize(("arguments", "message"), DEMAND)
def test_bad_demands(refused: Command, name: str, arguments: list[str], message: str) -> None:
    assert re.search(message, refused(*COMMANDS[name], *arguments).err)


def test_times_to_the_last_token_that_cannot_be_meant(refused: Command) -> None:
    said = refused(*COMMANDS["recommend"], "--e2e", 5).err
    assert "5 would be 5 ms, as numbers without a unit are milliseconds; write 5000 if 5 s is meant" in said


def test_bare_latencies_are_milliseconds(command: Command) -> None:
    promised = (*COMMANDS["recommend"], "--request-rate", 5)
    options = record(command, *promised, "--ttft", 500, "--tpot", "25.5")["asked"]["options"]
    assert (options["ttft"], options["tpot"]) == (0.5, 0.0255)
    bare = command(*promised, "--ttft", 2000, "--tpot", 20).out
    assert bare == command(*promised, "--ttft", "2 s", "--tpot", "20 ms").out


@pytest.mark.parametrize("name", ["price", "recommend"])
def test_promises_that_nothing_keeps(refused: Command, name: str) -> None:
    outcome = refused(*COMMANDS[name], "--ttft", "1 ms", "--tpot", "10 us", code=1)
    assert re.search(
        r"no deployment keeps TTFT 1 ms, TPOT 0\.01 ms \(p90\), even with one request in flight: TTFT or TPOT "
        r"alone, however long, would not\. Best reachable: "
        r"NVIDIA H100 SXM5 80GB: TTFT [\d.]+ ms on 2 accelerators, TPOT [\d.]+ ms on 2",
        outcome.err,
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_layouts_that_do_not_fit(refused: Command, name: str) -> None:
    head, model, hardware, *_ = COMMANDS[name]
    outcome = refused(head, "llama_3_70b", hardware, "--max-instance-gpus", 1, code=1)
    assert "alone need 2 accelerators (NVIDIA H100 SXM5 80GB); at most 1 are allowed" in outcome.err
    outcome = refused(head, model, hardware, "--tp", 3, "--dp", 1, "--pp", 1)
    assert "Llama 3.1 8B cannot be laid out with tp=3: 32 query heads do not split" in outcome.err


@pytest.mark.parametrize("name", COMMANDS)
def test_what_ifs_are_checked(refused: Command, name: str) -> None:
    outcome = refused(*COMMANDS[name], "--set", "hardware.hbm_byte=1")
    assert "unknown key 'hbm_byte'; did you mean 'hbm_bytes'" in outcome.err
