"""Sessions: what they wait for, and what is refused of them by its line."""

from __future__ import annotations

import pytest

from inference_econ.errors import SpecError
from inference_econ.inputs import SessionSpec, Step


def _step(name: str, **fields: object) -> dict[str, object]:
    return {"name": name, "new_tokens": 100, "answer_tokens": 50, **fields}


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([_step("a", after=["b"]), _step("b", after=["a"])], r"steps.0.after: steps can wait for steps above them"),
        ([_step("a", after=["a"])], r"steps.0.after: steps can wait .* here none, so that they never wait in a circle"),
        ([_step("a"), _step("b", continues="a")], r"steps.1.continues: what a step carries on must be in its 'after'"),
        ([_step("a", agents=2), _step("b", after=["a"], continues="a")], "no single prompt to carry on"),
        ([_step("a"), _step("a")], r"steps.1.name: every step needs a name of its own, got 'a'"),
        ([_step("a", pause="-3 s")], r"steps.0.pause must be >= 0, got '-3 s'"),
        ([_step("a", pause_variation=-1)], r"steps.0.pause_variation must be >= 0, got -1"),
        ([_step("a", new_tokens=0.5)], r"new_tokens: 0.5 is no length: from 1 to 1e\+09 tokens are"),
        ([], r"steps: Tuple should have at least 1 item"),
    ],
)  # fmt: skip
def test_what_cannot_be_played_is_refused_where_it_stands(steps: list[dict[str, object]], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        SessionSpec.build({"steps": steps}, origin="sessions")


def test_the_longest_context_is_that_of_the_last_turn() -> None:
    work = Step(name="work", turns=3, new_tokens=100, first_tokens=1000, answer_tokens=50)
    search = Step(name="search", after=["work"], new_tokens=9000, answer_tokens=10, agents=4)
    report = Step(name="report", after=["work", "search"], continues="work", new_tokens=10, answer_tokens=500)
    assert SessionSpec(shared_tokens=5000, steps=[work, search, report]).longest_context == 5000 + 9000 + 10
    assert SessionSpec(steps=[work]).longest_context == 1000 + 2 * 100 + 3 * 50
