"""Options that commands share: what they refuse, in every command that has them."""

from __future__ import annotations

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


def test_bare_latencies_are_milliseconds(command: Command) -> None:
    promised = (*COMMANDS["recommend"], "--request-rate", 5)
    options = record(command, *promised, "--ttft", 500, "--tpot", "25.5")["asked"]["options"]
    assert (options["ttft"], options["tpot"]) == (0.5, 0.0255)
    bare = command(*promised, "--ttft", 2000, "--tpot", 20).out
    assert bare == command(*promised, "--ttft", "2 s", "--tpot", "20 ms").out


@pytest.mark.parametrize("name", COMMANDS)
def test_layouts_that_do_not_fit(refused: Command, name: str) -> None:
    head, model, hardware, *_ = COMMANDS[name]
    outcome = refused(head, "llama_3_70b", hardware, "--max-instance-gpus", 1, code=1)
    assert "alone need 2 accelerators (NVIDIA H100 SXM5 80GB); at most 1 are allowed" in outcome.err
    outcome = refused(head, model, hardware, "--tp", 3, "--dp", 1, "--pp", 1)
    assert "Llama 3.1 8B cannot be laid out with tp=3: 32 query heads do not split" in outcome.err
