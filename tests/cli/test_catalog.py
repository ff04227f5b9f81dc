"""``list`` and ``show``: entries of the catalog, schemas and fields."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inference_econ.inputs import catalog
from tests.commands import Command, rows

#: Kinds of entries, by the word behind ``list``.
LISTED: dict[str, catalog.Kind] = {
    "gpus": "hardware", "models": "models", "scenarios": "scenarios", "assumptions": "assumptions",
    "engines": "engines", "traffic": "traffic",
}  # fmt: skip


PRICES = Path(__file__).parents[2] / "docs" / "reference" / "price_table.md"
UPDATE = "inference-econ list gpus --prices --format markdown -o docs/reference/price_table.md"


def test_the_document_of_prices_is_what_the_command_prints(command: Command) -> None:
    printed = command("list", "gpus", "--prices", "--format", "markdown").out
    assert PRICES.read_text(encoding="utf-8").strip() == printed.strip(), f"out of date: {UPDATE}"


@pytest.mark.parametrize("word", LISTED)
def test_a_list_of_names(command: Command, word: str) -> None:
    kind = LISTED[word]
    outcome = command("list", word)
    assert outcome.code == 0
    assert outcome.err == ""
    names = catalog.names(kind)
    assert outcome.out.startswith(f"{len(names)} {kind}\n")
    records = json.loads(command("list", word, "--format", "json").out)
    assert [record["name"] for record in records] == list(names)
    if word == "gpus":
        assert [row["name"] for row in rows(command, "list", word)] == list(names)
        lines = command("list", word, "--format", "markdown").out.splitlines()
        assert sum(line.startswith("|") for line in lines) == len(names) + 2
