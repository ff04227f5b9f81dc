"""Default assumptions of commands, and their statements about errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import inference_econ as ie
from inference_econ.inputs.engine import profiles
from tests import asking
from tests.commands import Command, record
from tests.reading import tables

#: No server of it was measured, so that its intervals are the wide ones.
MODEL = "falcon_7b"
SMALL = ("--max-instance-gpus", 2)
COMMANDS: dict[str, list[object]] = tables(Path(__file__))["COMMANDS"]


#: The engine that serves the model the best on chips that an engine is known for.
FIRST, SERVED = "vllm", ("h100_sxm", "b200")


def default(chip: str, engine: str | None = None) -> ie.Assumptions:
    return profiles.for_hardware(chip, engine)


def first_record(command: Command, *arguments: object) -> dict[str, Any]:
    answer = record(command, *arguments)
    return answer["choices"][0] if "choices" in answer else answer


def asked(name: str, chip: str) -> tuple[object, ...]:
    first, *flags = name.split()
    return (first, MODEL, chip, *flags, *COMMANDS[name])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_named_preset_replaces_the_profile(command: Command, name: str) -> None:
    found = first_record(command, *asked(name, "h100_sxm"), "--assumptions", "deployable")
    assert found["assumptions"] == "deployable"


def test_what_ifs_change_the_profile(command: Command) -> None:
    found = first_record(command, *asked("explain", "h100_sxm"), "--set", "assumptions.host.step_overhead=9 ms")
    by_hand = ie.assumptions("profiles/hopper", changes=["host.step_overhead=9 ms"])
    assert found["step_seconds"] == asking.explain(MODEL, "h100_sxm", tp=1, assumptions=by_hand).seconds
    assert found["step_seconds"] > first_record(command, *asked("explain", "h100_sxm"))["step_seconds"] + 5e-3
    assert (found["calibration"], found["step_seconds_low"]) == (None, None)


def test_the_studys_grid_keeps_the_study(command: Command) -> None:
    assert first_record(command, "frontier", MODEL, "h100_sxm", "--grid", "paper", *SMALL)["assumptions"] == "paper"


def test_several_chips_have_their_own(command: Command) -> None:
    chips = ("h100_sxm", "b200", "tpu_v6e")
    compared = record(command, "compare", MODEL, *(word for chip in chips for word in ("--on", chip)), *SMALL)
    names = [default(chip, FIRST if chip in SERVED else None).name for chip in chips]
    assert [one["assumptions"] for one in compared["series"]] == names
    table = command("compare", MODEL, *(word for chip in chips for word in ("--on", chip)), *SMALL, "--why").out
    named = ", ".join(f"{name} ({chip})" for name, chip in zip(names, chips, strict=True))
    assert f"Assumptions: {named}." in " ".join(table.split())
    both = command("recommend", MODEL, "h100_sxm", "--on", "tpu_v6e", *SMALL, "--why").out
    assert f"{default('h100_sxm', FIRST).name} (NVIDIA H100 SXM5 80GB)" in " ".join(both.split())
    assert "deployable (Google TPU v6e (Trillium))" in " ".join(both.split())


# Prediction errors
