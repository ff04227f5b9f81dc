"""The command whose exit code says whether a model fits."""

from __future__ import annotations

from tests.commands import Command, record


def test_sizes_that_have_room_for_so_many(command: Command) -> None:
    answer = record(command, "fits", "llama_3_8b", "rtx_4090", "--concurrency", 100)
    assert [instance["accelerators"] for instance in answer["instances"]] == [4, 8]
    assert answer["most_context"] == 131_072
