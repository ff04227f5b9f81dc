"""Commands that must agree, on one of the forty setups; ``sh run.sh validate agreement`` checks all."""

from __future__ import annotations

import math

from benchmarks.agreement import SETUPS, Pair, disagreements


def test_commands_agree_about_a_small_model() -> None:
    told: list[str] = []
    assert disagreements([("llama_3_8b", "l40s")], told.append) == 0, told
    assert int(told[-1].split()[0]) >= 5
    assert len(SETUPS) == 40


def test_what_agrees() -> None:
    assert Pair("cost", 1.0, 1.04).agrees
    assert not Pair("cost", 1.0, 1.06).agrees
    assert Pair("cost", 1.0, 0.5, below=math.inf).agrees
    assert not Pair("cost", 1.0, 0.5).agrees
