"""Every table in every width: no line is longer than the terminal, and no word or number is broken."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.reading import tables

WIDTHS = (80, 100, 140)
_NEXT = "=== next ===\n"
COMMANDS: dict[str, str] = tables(Path(__file__))["COMMANDS"]


@pytest.fixture
def shown(command: Command, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[int, str]]:
    """Calculates an answer once, and prints its tables in several widths."""
    show = importlib.import_module("inference_econ_cli.show")
    emit = show.emit

    def run(*arguments: object, widths: tuple[int, ...]) -> dict[int, str]:
        def print_all(page: Any, output: Any, *_: object) -> None:
            for width in widths:
                monkeypatch.setenv("COLUMNS", str(width))
                emit(page, output._replace(quiet=True))
                sys.stdout.write(_NEXT)

        monkeypatch.setattr(show, "emit", print_all)
        outcome = command(*arguments)
        assert (outcome.code, outcome.err) == (0, ""), outcome
        return dict(zip(widths, outcome.out.split(_NEXT), strict=False))

    return run


@pytest.mark.parametrize("name", COMMANDS)
def test_tables_fit_and_break_no_word(shown: Callable[..., dict[int, str]], name: str) -> None:
    texts = shown(*COMMANDS[name].split(), widths=(*WIDTHS, 2000))
    whole = set(re.split(r"[\s/._]+", texts.pop(2000)))
    for width, text in texts.items():
        assert max(map(len, text.splitlines())) <= width, text
        assert set(re.split(r"[\s/._]+", text)) <= whole | {"─" * len(line) for line in text.splitlines()}
