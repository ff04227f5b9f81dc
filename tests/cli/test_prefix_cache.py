"""The command that holds reading a prefix cache against computing it again."""

from __future__ import annotations

import json

from tests.cli.conftest import Command, record

CACHE = ("cache", "llama_3_8b", "h100_sxm", "--tp", 1)


def test_a_cache_of_one_tier(command: Command) -> None:
    only = command(*CACHE, "--tier", "ssd", "--isl", 8000, "--hit-rate", 0.9, "--format", "json")
    record = json.loads(only.out)
    assert [one["tier"] for one in record["tiers"]] == ["HBM", "local SSD"]
    assert (record["prefix_tokens"], record["new_tokens"]) == (7200, 800)
    assert record["conversation"] is None


def test_replicas_behind_a_router(command: Command) -> None:
    talk = (*CACHE, "--turns", 6, "--request-rate", 3)

    def hits(*routed: object) -> list[float]:
        answer = record(command, *talk, *routed)
        return [tier["hit_rate"] for tier in answer["tiers"]]

    alone, aware = hits(), hits("--replicas", 4, "--routing", "prefix_aware")
    dealt, more = (hits("--replicas", count, "--routing", "round_robin") for count in (4, 16))
    assert alone == aware == hits("--replicas", 4)
    assert all(few < many for few, many in zip(dealt, alone, strict=True))
    assert all(few < many for few, many in zip(more, dealt, strict=True))
    text = command(*talk, "--replicas", 4, "--routing", "round_robin").said
    assert f"4 instances share the requests, dealt round robin: of prompts {100 * dealt[0]:.1f} % are found" in text
    assert f"sent to the instance that holds the conversation {100 * alone[0]:.1f} %" in text
    answer = record(command, *talk, "--replicas", 4)
    assert (answer["conversation"]["replicas"], answer["conversation"]["routing"]) == (4, "prefix_aware")


def test_sessions_of_a_traffic_are_played(command: Command) -> None:
    answer = record(command, *CACHE, "--traffic", "chat")
    hits = {tier["tier"]: tier["hit_rate"] for tier in answer["tiers"]}
    assert (answer["traffic"], list(hits)) == ("chat", ["HBM", "host memory", "local SSD"])
    # Together they have no more than the sessions repeat; each counts what those before it have not.
    assert 0.0 < sum(hits.values()) < answer["prefix_tokens"] / (answer["prefix_tokens"] + answer["new_tokens"]) + 0.01
    assert hits["host memory"] > 0.3
    text = command(*CACHE, "--traffic", "chat", "--why").said
    assert "Hit: prompt tokens of chat found there" in text
