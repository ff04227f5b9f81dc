"""The command that prices tokens."""

from __future__ import annotations

from tests.commands import Command, record

SMALL = ("llama_3_8b", "h100_sxm", "--max-instance-gpus", 2)


def test_a_throughput_is_a_request_rate(command: Command) -> None:
    both = (record(command, "price", *SMALL, *how) for how in (("--request-rate", 4), ("--throughput", 2000)))
    one, other = ({**answer, "asked": None} for answer in both)
    assert one == other
