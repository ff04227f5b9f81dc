"""The command that puts a fleet under load."""

from __future__ import annotations

from tests.cli.conftest import Command, record, rows

ONE = ("llama_3_8b", "h100_sxm", "--tp", 1, "--dp", 1, "--pp", 1)


def test_loads_at_which_prompts_take_most_of_the_time_are_played(command: Command) -> None:
    words = ("load", *ONE, "--isl", 4000, "--osl", 300, "--rates", "0.5,5.5")
    said = command(*words, "--why").said
    assert (
        "At 5.5 requests/s it is too full, arrivals are bursty, lengths vary too much or prompts take too much" in said
    )
    assert said.count("The same loads in the simulation") == 1
    light, heavy = record(command, *words)["points"]
    assert "simulated" not in light
    assert heavy["simulated"]["tpot_seconds"]["mean"] > 0
    # Where prompts take little of it, nothing is played, and nothing said.
    assert "the simulation has played" not in command("load", *ONE, "--rates", 1, "--why").said


def test_preemptions_are_counted_and_told(command: Command) -> None:
    """29 requests fit on average; at 90 % too many are now and then longer than that."""
    words = (
        "load", "llama_3_70b", "h100_sxm", "--weights", "fp8", "--kv", "bf16",
        "--tp", "2", "--isl", "8000", "--osl", "1000",
    )  # fmt: skip
    full, roomy = (record(command, *words, "--rates", rate)["points"][0] for rate in ("0.5", "0.1"))
    assert full["simulated"]["preemptions"] > 0
    assert "simulated" not in roomy
    shown = command(*words, "--rates", "0.5").out
    assert "Preemptions per simulated request:" in shown
    assert "Preemptions" not in command(*words, "--rates", "0.1").out


def test_what_is_promised_has_its_columns(command: Command) -> None:
    asked = ("load", *ONE, "--rates", 5, "--ttft", "p95:300", "--tpot", "mean:30", "--e2e", "p99:20 s")
    head = command(*asked, "--format", "markdown").out.splitlines()[0]
    percentiles = "TTFT p50 ms | TTFT p95 ms | TTFT p99 ms | TPOT mean ms | TPOT p50 ms | TPOT p99 ms | E2E p99 s"
    assert percentiles in head
    plain = command("load", *ONE, "--rates", 5, "--format", "markdown").out.splitlines()[0]
    assert "TTFT p50 ms | TTFT p99 ms | TPOT p50 ms | TPOT p99 ms | E2E p99 s" in plain
    (point,) = record(command, *asked)["points"]
    assert list(point["ttft_seconds"]) == ["mean", "p50", "p90", "p95", "p99"]
    lines = rows(command, *asked)
    assert float(lines[0]["ttft_seconds_p95"]) == point["ttft_seconds"]["p95"]
    assert "p95 TTFT" not in command("load", *ONE, "--rates", 5).out
