"""Sessions: what they wait for, and what is refused of them by its line."""

from __future__ import annotations

from typing import Any

import pytest

from inference_econ.errors import SpecError
from inference_econ.inputs import SessionSpec, Step


def _step(name: str, **fields: object) -> dict[str, object]:
    return {"name": name, "new_tokens": 100, "answer_tokens": 50, **fields}


@pytest.mark.rows
def test_what_cannot_be_played_is_refused_where_it_stands(steps: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        SessionSpec.build({"steps": [_step(**step) for step in steps]}, origin="sessions")


def test_the_longest_context_is_that_of_the_last_turn() -> None:
    work = Step(name="work", turns=3, new_tokens=100, first_tokens=1000, answer_tokens=50)
    search = Step(name="search", after=["work"], new_tokens=9000, answer_tokens=10, agents=4)
    report = Step(name="report", after=["work", "search"], continues="work", new_tokens=10, answer_tokens=500)
    assert SessionSpec(shared_tokens=5000, steps=[work, search, report]).longest_context == 5000 + 9000 + 10
    assert SessionSpec(steps=[work]).longest_context == 1000 + 2 * 100 + 3 * 50
