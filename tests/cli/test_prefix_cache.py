"""The command that holds reading a prefix cache against computing it again."""

from __future__ import annotations

import json

from tests.commands import Command

CACHE = ("cache", "llama_3_8b", "h100_sxm", "--tp", 1)


def test_a_cache_of_one_tier(command: Command) -> None:
    only = command(*CACHE, "--tier", "ssd", "--isl", 8000, "--hit-rate", 0.9, "--format", "json")
    record = json.loads(only.out)
    assert [one["tier"] for one in record["tiers"]] == ["HBM", "local SSD"]
    assert (record["prefix_tokens"], record["new_tokens"]) == (7200, 800)
    assert record["conversation"] is None
