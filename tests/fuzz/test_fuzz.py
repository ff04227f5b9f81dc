"""Fuzz tests: every input gives a result or a clear error; ``sh run.sh sturdiness fuzz`` tries more."""

from __future__ import annotations

import warnings

import click
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from inference_econ.inputs.huggingface import FAMILIES
from tests.fuzz.configurations import by_family
from tests.fuzz.judged import Case, judged, main, run
from tests.fuzz.kinds import KINDS

#: Inputs of each kind that are tried in every run of the tests [1].
EXAMPLES = {"options": 60, "specifications": 60, "configurations": 120, "data": 60, "recorded": 60}


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_every_input_is_answered_or_refused(kind: str) -> None:
    # A failing input is shown unreduced, since reduction takes minutes.
    @settings(
        max_examples=EXAMPLES[kind],
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(KINDS[kind]())
    def each(case: Case) -> None:
        result = judged(case)
        assert result.outcome != "defect", (case.line, case.files, result.why)

    each()


def test_configurations_of_every_family_are_changed() -> None:
    inner = {config.get("text_config", config).get("model_type") for known in by_family().values() for config in known}
    # Copies of DeepSeek-V4 have its keys under another name.
    assert set(FAMILIES) - {"deepseek_ref"} <= inner | set(by_family())


def test_an_overflow_that_no_bound_foresaw_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def overflow() -> None:
        warnings.warn("overflow encountered in multiply", RuntimeWarning, stacklevel=1)

    def nothing() -> float:
        return 1 / 0

    def large() -> None:
        raise MemoryError

    for what, said in (
        (overflow, "too large or too small to calculate with; give others (overflow encountered in multiply)"),
        (nothing, "too large or too small to calculate with; give others (division by zero)"),
        (large, "this takes more memory than there is; ask for less"),
    ):
        made = click.Command("explain", callback=what)
        monkeypatch.setattr(main.app, "get_command", lambda *_, made=made: made)
        code, out, err = run(("explain",))
        assert (code, out) == (2, "")
        assert err.startswith("Error: ")
        assert said in err
        assert len(err.splitlines()) == 1
