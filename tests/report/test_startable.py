"""Columns of engines and recipes."""

from __future__ import annotations

import pytest

from inference_econ.report.startable import with_recipes
from inference_econ.report.table import Table


@pytest.mark.parametrize(
    ("engines", "recipes", "columns", "least"),
    [
        # One recipe for each engine: who reads the engine knows it.
        (("vllm", "sglang"), ("bf16", "MTP 2"), ("GPUs", "engine", "recipe", "$"), ("recipe", "$")),
        # Rows of one engine that differ in nothing else would look the same without it.
        (("sglang", "sglang"), ("MTP 1", "MTP 2"), ("GPUs", "engine", "recipe", "$"), ("$", "recipe")),
        (("vllm", "sglang"), ("bf16", "bf16"), ("GPUs", "engine", "$"), ("$",)),
    ],
)
def test_what_tells_rows_apart_is_the_last_to_be_left_out(
    engines: tuple[str, ...], recipes: tuple[str, ...], columns: tuple[str, ...], least: tuple[str, ...]
) -> None:
    rows = tuple(("8", engine, "1.20") for engine in engines)
    table = with_recipes(Table("t", ("GPUs", "engine", "$"), rows, least=("$",)), recipes)
    assert (table.columns, table.least) == (columns, least)


def test_without_engines_there_are_no_recipes() -> None:
    table = Table("t", ("GPUs",), (("8",), ("4",)))
    assert with_recipes(table, ("bf16", "fp8")) is table
