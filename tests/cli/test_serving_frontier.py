"""The frontier of services."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Command, record

SMALL = ("llama_3_8b", "h100_sxm", "--max-instance-gpus", 2)


SERVING = ("frontier", *SMALL)


@pytest.mark.parametrize("y", ["cost", "blended", "throughput", "power"])
def test_a_frontier_of_services(command: Command, tmp_path: Path, y: str) -> None:
    outcome = command(*SERVING, "--y", y, "--plot", "a.png")
    assert outcome.code == 0
    heads = {"cost": "$/M output tokens", "blended": "in+out", "throughput": "tok/s per GPU", "power": "tok/s per MW"}
    for head in ("tokens/s per user", "$/M output tokens", heads[y], "TTFT ms", "in flight"):
        assert head in outcome.out
    assert outcome.out.count("⠤") + outcome.out.count("⠒") > 20
    assert (tmp_path / "a.png").stat().st_size > 10_000


#: Constants that both are under: services by default have those of each engine, and its recipe.
SAME = ("--assumptions", "profiles/hopper")


def test_prefill_makes_a_frontier_of_services_dearer(command: Command) -> None:
    """At the same speed and per output token, decode steps alone are cheaper."""
    steps = record(command, *SERVING, *SAME, "--decode-only")["points"]
    services = record(command, *SERVING, *SAME, "--together", "--no-speculation")["points"]
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


def test_a_picture_to_point_at_is_a_page_that_loads_nothing(command: Command, tmp_path: Path) -> None:
    outcome = command(*SERVING, "--plot", "a.html")
    assert (outcome.code, outcome.err) == (0, "wrote a.html\n")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<title>What do services cost at each speed?</title>" in page
    assert "https://cdn" not in page


def test_promises_leave_points_out_before_the_frontier_is_taken(command: Command) -> None:
    everything, kept = (record(command, *SERVING, *more) for more in ((), ("--ttft", 70, "--tpot", "10 ms")))
    promised = [kept["promises"][f"{name}_seconds"] for name in ("ttft", "tpot", "e2e")]
    assert promised == [0.07, 0.01, None]
    assert {value for name, value in everything["promises"].items() if name.endswith("seconds")} == {None}

    def keeps(point: dict[str, float]) -> bool:
        return point["ttft_seconds"] <= 0.07 and point["tpot_seconds"] <= 0.01

    assert all(map(keeps, kept["points"]))
    among = [point for point in everything["points"] if keeps(point)]
    # What was beaten only by points that break a promise is on the frontier now.
    assert 0 < len(among) <= len(kept["points"]) < len(everything["points"])
    assert all(point in kept["points"] for point in among)
    said = " ".join(command(*SERVING, "--ttft", 70).out.split())
    assert "500 output tokens; mean TTFT <= 70 ms" in said
    assert "a queue is not: 'load' has it" in said


def test_a_promise_that_nothing_keeps_says_the_least_that_would_be(command: Command, refused: Command) -> None:
    said = refused(*SERVING, "--ttft", "10", "--tpot", "50", code=1).err
    assert "nothing keeps a mean TTFT of 10 ms and TPOT of 50 ms, not even without a queue: Llama 3.1 8B" in said
    found = re.search(r"relax the SLO to a TTFT of ([\d.]+) ms at least$", said.strip())
    assert found is not None, said
    assert command(*SERVING, "--ttft", found[1], "--tpot", "50").code == 0
