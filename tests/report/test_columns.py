"""Tables in a width: wrapped, omitted and aligned columns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inference_econ.report.page import Table, fitted, least_width
from inference_econ.report.service import with_recipes

TABLE = Table(
    "t",
    ("tokens/s per user", "layout", "why it is so"),
    (
        ("14.4 *", "tp8", "a sentence that is longer than any name can be, by far"),
        ("115.2", "tp16", "short"),
        ("grows", "-", ""),
    ),
    least=("why it is so", "layout"),
)


def test_heads_are_wrapped_first_then_sentences() -> None:
    natural = fitted(TABLE, 81)
    assert [column.width for column in natural.columns] == [17, 6, 54]
    assert [column.width for column in fitted(TABLE, 73).columns] == [9, 6, 54]
    narrow = fitted(TABLE, 60)
    assert sum(column.width for column in narrow.columns) + 4 == 60
    assert [column.width for column in narrow.columns] == [10, 6, 40]
    assert not narrow.left_out


def test_long_paths_are_wrapped_behind_their_separators() -> None:
    (column,) = fitted(Table("t", ("where",), (("see vllm/model_executor/layers/fused_moe.py, line 7",),)), 22).columns
    assert column.cells == ("see vllm/model_\nexecutor/layers/fused_\nmoe.py, line 7",)


def test_columns_go_from_the_least_important_on() -> None:
    assert fitted(TABLE, least_width(TABLE)).left_out == []
    assert fitted(TABLE, least_width(TABLE) - 1).left_out == ["why it is so"]
    narrow = fitted(TABLE, 12)
    assert narrow.left_out == ["layout", "why it is so"]
    assert [column.head for column in narrow.columns] == ["tokens/s per user"]


def test_what_is_of_no_importance_in_particular_goes_from_the_right() -> None:
    table = Table("t", ("a", "b", "c"), (("one two", "three", "four"),))
    assert [column.width for column in fitted(table, 16).columns] == [3, 5, 4]
    assert fitted(table, 10).left_out == ["c"]
    assert fitted(table, 2).left_out == ["b", "c"]


def test_numbers_with_a_mark_or_a_word_are_aligned_to_the_right() -> None:
    speed, layout, reason = fitted(TABLE, 90).columns
    assert (speed.right, layout.right, reason.right) == (True, False, False)
    assert speed.cells == ("           14.4 *", "          115.2  ", "          grows  ")


@pytest.mark.rows
def test_which_columns_are_numbers(cells: list[str], right: bool) -> None:
    (column,) = fitted(Table("t", ("head",), tuple((cell,) for cell in cells)), 80).columns
    assert column.right is right


def test_a_wide_column_that_has_gone_leaves_room_for_a_narrow_one() -> None:
    table = Table("t", ("GPUs", "$", "recipe"), (("8", "1.20", "bf16 cache, MTP 2"),), least=("$", "recipe"))
    assert fitted(table, 16).left_out == ["recipe"]
    assert fitted(table, 8).left_out == ["$", "recipe"]


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


def test_recipes_are_kept_if_only_they_tell_fleets_apart() -> None:
    columns = ("GPUs", "replicas", "layout", "engine", "TPOT p90 ms")
    rows = (("16", "1P1D", "dp8", "trtllm", "18.8"), ("16", "1P1D", "dp8", "trtllm", "37.4"))
    table = Table("", columns, rows, least=("TPOT p90 ms",))
    assert with_recipes(table, ["fp8 cache, MTP 3", "fp8 cache"]).least == ("TPOT p90 ms",)
    other = replace(table, rows=(rows[0], ("8", *rows[1][1:])))
    assert with_recipes(other, ["fp8 cache, MTP 3", "fp8 cache"]).least == ("TPOT p90 ms", "recipe")
