"""The command that says which deployment to take."""

from __future__ import annotations

import re

import pytest

from tests.cli.conftest import Command, record

SMALL = ("llama_3_8b", "h100_sxm", "--max-accelerators", 2)


def test_recommendations_keep_their_promises(command: Command) -> None:
    found = record(command, "recommend", *SMALL, "--request-rate", 40, "--ttft", "1 s", "--tpot", "20 ms")
    assert found["targets"] == {"ttft_seconds": 1.0, "tpot_seconds": 0.02, "percentile": "p90"}
    choices = found["choices"]
    costs = [choice["dollars_per_hour"] for choice in choices]
    assert costs == sorted(costs)
    for choice in choices:
        assert choice["ttft_seconds"]["p90"] <= 1.0
        assert choice["tpot_seconds"]["p90"] <= 0.02
        assert choice["accelerators"] == choice["replicas"] * choice["accelerators_per_instance"]
    table = command("recommend", *SMALL, "--request-rate", 40, "--ttft", "1 s", "--tpot", "20 ms").out
    assert "Binding: what one instance less would break" in table


def test_what_is_played_is_said_to_be(command: Command) -> None:
    words = ("recommend", *SMALL, "--isl", 8000, "--osl", 50, "--request-rate", 20)
    assert all(choice["played"] for choice in record(command, *words)["choices"])
    assert "Loads: played request by request" in " ".join(command(*words).out.split())
    light = ("recommend", *SMALL, "--osl", 1000, "--request-rate", 2)
    assert not any(choice["played"] for choice in record(command, *light)["choices"])
    assert "played" not in command(*light).out


def test_prices_of_a_played_load_say_so(command: Command) -> None:
    for words in (("--request-rate", 20), ("--request-rate", 4, "--replicas", 1)):
        price = ("price", *SMALL, "--isl", 8000, "--osl", 50, *words)
        assert record(command, *price)["played"] is True
        assert "ms, played." in " ".join(command(*price).out.split())


def test_several_kinds_of_hardware(command: Command) -> None:
    found = record(command, "recommend", *SMALL, "--on", "h200_sxm", "--request-rate", 10, "--choices", 4)
    assert [choice["hardware"][:11] for choice in found["choices"]].count("NVIDIA H200") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--choices", "0"], r"'--choices': 0 is not in the range 1<=x<=50"),
        (["--on", "h300"], r"unknown hardware 'h300'"),
        (["--on", "h200_sxm", "--price", "2"], r"--price is for one kind of hardware; with --on each"),
    ],
)
def test_bad_input_is_refused(refused: Command, arguments: list[str], message: str) -> None:
    assert re.search(message, refused("recommend", *SMALL, *arguments).err)
