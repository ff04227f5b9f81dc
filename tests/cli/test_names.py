"""Names of commands (old names, synonyms, guesses, misspellings) and catalog entries by name alone."""

from __future__ import annotations

import re

import pytest

from inference_econ.requests import COMMANDS
from inference_econ.requests.tables import HIDDEN
from inference_econ.requests.words import current_words
from tests.commands import Command


@pytest.mark.rows
def test_an_old_name_is_the_new_one_and_says_so_once(old: str, current: str) -> None:
    told: list[str] = []
    assert current_words(old.split(), told.append) == current.split()
    assert [text.split("'")[1] for text in told] == [old.split()[0]]


def test_at_most_27_names_are_listed() -> None:
    assert len({name.split()[0] for name in COMMANDS if name not in HIDDEN}) <= 27


@pytest.mark.rows
def test_a_frontier_of_several_is_a_comparison(words: str, current: str) -> None:
    assert current_words(words.split(), pytest.fail) == current.split()


def test_an_old_name_answers_with_a_note(command: Command) -> None:
    outcome = command("hour-cost", "h100_sxm")
    assert outcome.code == 0
    assert "note: 'hour-cost' is now 'gpu-cost'; the old name works until 0.3.0" in outcome.err
    assert outcome.out == command("gpu-cost", "h100_sxm").out
    assert "note" not in command("hour-cost", "h100_sxm", "--quiet").err


def _options(text: str) -> int:
    """Return the options that a help page lists under its headings."""
    return len(re.findall(r"^  -", re.split(r"^\w[\w, ]*:\n", text, maxsplit=1, flags=re.MULTILINE)[1], re.MULTILINE))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_short_help_has_at_most_20_options_and_the_other_all(command: Command, name: str) -> None:
    count = sum(bool(parameter.spelled) for parameter in COMMANDS[name].parameters.values())
    short = command(*name.split(), "--help").out
    assert _options(short) <= 20
    if "--help-all" in short:
        assert _options(command(*name.split(), "--help-all").out) == count + 2
    else:
        assert _options(short) == count + 1
