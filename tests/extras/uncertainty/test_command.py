"""``uncertainty``: the confidence of a result."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.commands import Command, record
from tests.reading import tables

if TYPE_CHECKING:
    import pytest

CHIPS = ("llama_3_8b", "h100_sxm", "h200_sxm", "--tp", 1, "--samples", 64)
STUDY: str = tables(Path(__file__))["STUDY"]


def test_one_line_asks_what_a_study_asks(command: Command) -> None:
    asked = ("--vary", "profile", "--vary", "h100_sxm: price = lognorm(s=0.2, relative)", "--speed", 50)
    outcome = command("sensitivity", *CHIPS, *asked)
    assert outcome.code == 0
    words = outcome.out.replace("\n", " ")
    # Prompts and arithmetic decide at this speed, which H200 has for a quarter more.
    assert "At 50 tokens/s, h100_sxm is cheapest in" in words
    assert "price of h100_sxm" in words
    answer = record(command, "sensitivity", *CHIPS, *asked)
    assert answer["speed"] == 50
    assert answer["samples"] == 64
    assert [each["name"] for each in answer["inputs"]] == ["profile", "price"]
    assert answer["asked"]["command"] == "sensitivity"


def test_a_study_is_run_with_other_samples(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(STUDY, encoding="utf-8")
    fewer = record(command, "sensitivity", path, "--samples", 32, "--seed", 3, "--speed", 70)
    assert (fewer["samples"], fewer["seed"], fewer["speed"]) == (32, 3, 70)
    run = record(command, "paper", "run", path)
    assert run["samples"] == 64
    assert command("paper", "figure", path, "-o", tmp_path / "a.svg").code == 0
    assert command("paper", "table", path, "--format", "csv").out.startswith("series,")


def test_who_has_no_salib_is_told_what_to_install(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "SALib", None)
    for name in [name for name in sys.modules if name.startswith("SALib.")]:
        monkeypatch.setitem(sys.modules, name, None)
    outcome = command("sensitivity", *CHIPS, "--vary", "profile")
    assert outcome.code == 2
    assert (
        "SALib is not installed, which studies of uncertainty need: pip install 'inference-econ[studies]'"
        in outcome.err
    )
