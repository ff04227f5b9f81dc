"""``prefill``: ways to process one prompt on several chips."""

from __future__ import annotations

import json

from tests.commands import Command

PREFILL = ("prefill", "llama_3_8b", "l40s")


def test_a_chain_of_several_kinds_of_chips(command: Command) -> None:
    chains = ("--chain", "l40s=1,h100_sxm=2", "--chain", "h100=2,l40s=1")
    found = command(*PREFILL, "--prompt", "8000", *chains, "--json")
    rows = json.loads(found.out)["rows"]
    assert [row["chips"] for row in rows] == [
        "1 x NVIDIA L40S 48GB + 2 x NVIDIA H100 SXM5 80GB",
        "2 x NVIDIA H100 SXM5 80GB + 1 x NVIDIA L40S 48GB",
    ]
    for row in rows:
        assert set(row["prefill_methods"]) == {"even", "chain"} and row["gpus"] == 3
        assert len(row["prefill_methods"]["chain"]["parts"]) == 3
        assert row["prefill_methods"]["chain"]["ttft_seconds"] < row["prefill_methods"]["even"]["ttft_seconds"]
    beside = command(
        *PREFILL, "--prompt", "8000", *chains, "--ranks", "2", "--price", "l40s=1", "--price", "h100_sxm=3"
    )
    assert "prices" not in beside.err and beside.out.count("1 x NVIDIA L40S 48GB + 2 x") == 3
