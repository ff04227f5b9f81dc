"""Columns of engines and recipes."""

from __future__ import annotations

import pytest

from inference_econ.report.startable import with_recipes
from inference_econ.report.table import Table


@pytest.mark.rows
def test_what_tells_rows_apart_is_the_last_to_be_left_out(
    engines: list[str], recipes: list[str], columns: list[str], least: list[str]
) -> None:
    rows = tuple(("8", engine, "1.20") for engine in engines)
    table = with_recipes(Table("t", ("GPUs", "engine", "$"), rows, least=("$",)), recipes)
    assert (table.columns, table.least) == (tuple(columns), tuple(least))


def test_without_engines_there_are_no_recipes() -> None:
    table = Table("t", ("GPUs",), (("8",), ("4",)))
    assert with_recipes(table, ("bf16", "fp8")) is table
