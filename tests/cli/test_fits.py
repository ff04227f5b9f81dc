"""The command whose exit code says whether a model fits."""

from __future__ import annotations

from tests.cli.conftest import Command, record


def test_the_exit_code_says_it(command: Command, refused: Command) -> None:
    assert command("fits", "llama_3_8b", "h100_sxm").code == 0
    assert "at least 2 would do" in refused("fits", "llama_3_70b", "h100_sxm", "--instance-gpus", 1, code=1).err
    said = refused("fits", "deepseek_v3", "h100_sxm", code=1).err
    assert "alone need 9 accelerators" in said
    assert "over several machines 16 would do: --max-instance-gpus 16" in said
    assert record(command, "fits", "deepseek_v3", "h100_sxm", "--max-instance-gpus", 16)["instances"]
    assert (
        "'--concurrency': 0 is not in the range x>=1"
        in refused("fits", "llama_3_8b", "h100_sxm", "--concurrency", 0).err
    )


def test_sizes_that_have_room_for_so_many(command: Command) -> None:
    answer = record(command, "fits", "llama_3_8b", "rtx_4090", "--concurrency", 100)
    assert [instance["accelerators"] for instance in answer["instances"]] == [4, 8]
    assert answer["most_context"] == 131_072
