"""The command that puts a fleet under load."""

from __future__ import annotations

from tests.commands import Command, record, rows

ONE = ("llama_3_8b", "h100_sxm", "--tp", 1, "--dp", 1, "--pp", 1)


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
