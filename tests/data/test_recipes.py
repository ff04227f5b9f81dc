"""Recipes of disaggregated servers, and the rows that are runs of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from data.measurements.matches import NO_RECIPE, SEVERAL_RECIPES, SPECULATION, with_recipes
from data.measurements.recipes import COLUMNS, Recipe, read, recipes
from inference_econ.errors import InputError
from inference_econ.extras.servers.measurements import Days, Measurement, RecordedPool, Skipped, shipped
from tests.measured import measurement
from tests.reading import tables, write_csv

CELLS: dict[str, str] = tables(Path(__file__))["CELLS"]
PLAIN = replace(recipes()[0], model="deepseek_v3", weights=None, hardware="h200_sxm", engine="trtllm", version="1.0")
RECIPE = replace(
    PLAIN,
    isl=1024.0, osl=1024.0, concurrencies=frozenset({64.0}), speculation="none", step_tokens=8192.0, source="recipe",
    prefill=RecordedPool(workers=1, tp=1, dp=8, pp=1, ep=8, slots=64),
    decode=RecordedPool(workers=3, tp=8, dp=1, pp=1, ep=8),
)  # fmt: skip
DRAFTED = replace(RECIPE, speculation="MTP3")


def _file(path: Path, **changes: str) -> Path:
    return write_csv(path, [CELLS | changes], [*COLUMNS, *(name for name in changes if name not in COLUMNS)])


def _row(milliseconds: float, workers: tuple[int, int] | None = None, **changes: object) -> Measurement:
    """Return a row as the collection writes it: without attention-DP, with the expert parallelism of prefill."""
    first, second = workers or (None, None)
    row = measurement(
        id=f"{milliseconds:g} ms", source="public InferenceX runs", engine="trtllm", engine_version="1.0",
        model="deepseek_v3", weights=None, isl=0.9 * 1024, osl=0.9 * 1024, concurrency=64.0,
        accelerators=None if workers is None else 8 * sum(workers), tp=None,
        prefill=RecordedPool(workers=first, tp=8, dp=1, pp=1, ep=8),
        decode=RecordedPool(workers=second, tp=8, dp=1, pp=1, ep=8),
        tpot_seconds=milliseconds * 1e-3,
    )  # fmt: skip
    return replace(row, **changes)  # type: ignore[arg-type]


def _matched(rows: Sequence[Measurement], *possible: Recipe) -> list[Measurement]:
    return [row for row in with_recipes(rows, possible) if isinstance(row, Measurement)]


def _said(rows: Sequence[Measurement]) -> list[tuple[int | None, str]]:
    return [(row.decode.workers if row.decode else None, row.speculation) for row in rows]


def test_a_recipe_has_pools_and_speculation(tmp_path: Path) -> None:
    (recipe,) = read(_file(tmp_path / "recipes.csv"))
    assert (recipe.model, recipe.weights, recipe.hardware) == ("deepseek_v3", None, "h200_sxm")
    assert recipe.concurrencies == {128.0, 256.0}
    assert recipe.prefill == RecordedPool(workers=1, tp=1, dp=8, pp=1, ep=8, slots=64)
    assert recipe.decode == RecordedPool(workers=4, tp=8, dp=1, pp=1, ep=8, slots=None)
    assert (recipe.speculation, recipe.drafted, recipe.step_tokens, recipe.memory) == ("MTP3", 3.0, 8192.0, 0.95)
    (unsaid,) = read(_file(tmp_path / "recipes.csv", speculation="MTP", model="somebody/New-Model"))
    assert (unsaid.drafted, unsaid.model) == (1.0, "somebody/New-Model")


@pytest.mark.rows
def test_mistakes_in_recipes_are_named_with_their_line(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=rf"recipes\.csv:2: {message}"):
        read(_file(tmp_path / "recipes.csv", **changes))


def test_recipes_have_their_columns(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"recipes\.csv:1: recipes have the columns model, .*; check colour$"):
        read(_file(tmp_path / "recipes.csv", colour="red"))


def test_shipped_recipes_name_their_sources() -> None:
    assert len(recipes()) > 1000
    assert all("-master.yaml@" in recipe.source for recipe in recipes())
    assert {recipe.engine for recipe in recipes()} >= {"trtllm", "sglang", "vllm"}
    assert all(pool.workers for recipe in recipes() for pool in (recipe.prefill, recipe.decode))


def test_the_only_recipe_tells_the_pools_of_a_row() -> None:
    (row,) = _matched([_row(20.0)], RECIPE, replace(RECIPE, concurrencies=frozenset({32.0})))
    assert (row.prefill, row.decode, row.accelerators) == (RECIPE.prefill, RECIPE.decode, 32)
    assert (row.speculation, row.step_tokens, row.unknown) == ("none", 8192.0, "")
    assert row.remarks == ("pools of recipe",)
    (blank,) = _matched([_row(20.0, None, prefill=RecordedPool(workers=None, tp=8, dp=1, pp=1, ep=None))], RECIPE)
    assert blank.prefill == RECIPE.prefill
    # Layouts of the run replace recorded ones.
    (known,) = _matched([_row(20.0, (1, 3))], RECIPE)
    assert known.prefill == RECIPE.prefill


@pytest.mark.rows
def test_rows_without_a_recipe_stay_unknown(other: dict[str, object], pools: dict[str, dict[str, Any]]) -> None:
    recorded = {role: RecordedPool(**pool) for role, pool in pools.items()}
    (row,) = _matched([_row(20.0, None, **other, **recorded)], RECIPE)
    assert (row.unknown, row.accelerators) == (NO_RECIPE, None)


def test_runs_with_and_without_speculation_are_told_apart_by_a_tenth() -> None:
    fast, again, slow = _matched([_row(12.0), _row(12.3), _row(20.0)], RECIPE, DRAFTED)
    assert _said([fast, again, slow]) == [(3, "MTP3"), (3, "MTP3"), (3, "none")]
    # One result for two recipes is ambiguous.
    assert [row.unknown for row in _matched([_row(20.0)], RECIPE, DRAFTED)] == [SPECULATION]
    assert [row.unknown for row in _matched([_row(19.0), _row(20.0)], RECIPE, DRAFTED)] == [SPECULATION] * 2


def test_more_workers_are_no_slower() -> None:
    larger = replace(RECIPE, decode=replace(RECIPE.decode, workers=6))
    assert _said(_matched([_row(20.0), _row(12.0)], RECIPE, larger)) == [(3, "none"), (6, "none")]
    # More workers, or drafts on fewer: neither must be faster.
    assert [row.unknown for row in _matched([_row(20.0), _row(12.0)], larger, DRAFTED)] == [SEVERAL_RECIPES] * 2
    # Nor is anything known of pools of other layouts.
    apart = replace(larger, decode=replace(larger.decode, tp=1, dp=8))
    assert [row.unknown for row in _matched([_row(20.0), _row(12.0)], RECIPE, apart)] == [SEVERAL_RECIPES] * 2


def test_recorded_workers_say_which_recipe_is_left_for_others() -> None:
    larger, drafted = replace(RECIPE, decode=replace(RECIPE.decode, workers=6)), DRAFTED
    fastest = replace(larger, speculation="MTP3")
    rows = [_row(21.0, (1, 3)), _row(17.0, (1, 6)), _row(12.0), _row(8.0)]
    assert _said(_matched(rows, RECIPE, larger, drafted, fastest)) == [
        (3, "none"), (6, "none"), (3, "MTP3"), (6, "MTP3"),
    ]  # fmt: skip


def test_recorded_workers_stay_where_results_do_not_tell() -> None:
    many = replace(DRAFTED, decode=replace(DRAFTED.decode, slots=16))
    (row,) = _matched([_row(20.0, (1, 3))], RECIPE, many)
    # Equal settings of both recipes are known; slots and speculation are not.
    assert row.prefill == RECIPE.prefill
    assert row.decode == RecordedPool(workers=3, tp=8, dp=1, pp=1, ep=8, slots=None)
    assert (row.speculation, row.unknown) == ("unrecorded", "")
    (other,) = _matched([_row(20.0, (1, 5))], RECIPE, DRAFTED)
    assert (other.decode, other.unknown) == (RecordedPool(workers=5, tp=8, dp=1, pp=1, ep=8), "")


def test_recipes_that_say_the_same_count_once() -> None:
    again = replace(RECIPE, step_tokens=4096.0, memory=0.9, decode=replace(RECIPE.decode, slots=32))
    (row,) = _matched([_row(20.0)], replace(RECIPE, memory=0.95), again)
    assert (row.accelerators, row.step_tokens, row.memory, row.decode) == (32, None, None, RECIPE.decode)


def test_a_row_without_a_version_is_of_a_recipe_of_its_days() -> None:
    """Such rows state the accelerators of the full server, or record speculation and attention-DP."""
    days = Days(date(2025, 12, 5), date(2025, 12, 5))
    recipe = replace(RECIPE, days=days)
    whole = RecordedPool(workers=None, tp=32, dp=1, pp=1, ep=1)
    total = _row(20.0, engine_version="", days=days, prefill=whole, decode=whole)
    assert _said(_matched([total], recipe)) == [(3, "none")]
    assert _said(_matched([total], replace(recipe, days=Days(date(2026, 1, 1), date(2026, 2, 1))))) == [
        (None, "unrecorded")
    ]
    assert _said(_matched([replace(total, engine_version="1.1")], recipe)) == [(None, "unrecorded")]
    nightly = replace(total, prefill=recipe.prefill, decode=recipe.decode, accelerators=32, speculation="mtp")
    drafted = replace(recipe, speculation="MTP3", decode=replace(recipe.decode, slots=9))
    other = replace(drafted, speculation="MTP1", prefill=replace(recipe.prefill, tp=8, dp=1))
    assert _said(_matched([nightly], recipe, drafted, other)) == [(3, "MTP3")]


def test_degrees_that_a_script_sets_are_those_of_the_recipe() -> None:
    one = RecordedPool(workers=None, tp=1, dp=1, pp=1, ep=1)
    assert _said(_matched([_row(20.0, prefill=one, decode=one)], RECIPE)) == [(3, "none")]
    groups = RecordedPool(workers=1, tp=1, dp=8, pp=1, ep=1)
    (row,) = _matched([_row(20.0, (1, 3), prefill=groups)], RECIPE)
    assert row.prefill == RECIPE.prefill


def test_workers_of_one_gb200_node_have_the_degrees_and_the_memory_of_their_scripts() -> None:
    """Results and configurations record attention-DP, which these scripts do not use."""
    rows = [
        row
        for row in shipped(["serving_points", "inferencemax_disaggregated"])
        if isinstance(row, Measurement) and row.decode is not None and "-low-latency.sh@" in str(row.remarks)
    ]
    assert len(rows) == 37
    tensor = {(pool.tp, pool.dp, pool.ep) for row in rows for pool in (row.prefill, row.decode) if pool is not None}
    assert (tensor, {row.memory for row in rows}) == ({(4, 1, 1)}, {0.95})


def test_other_collections_are_left_alone() -> None:
    row, skipped = _row(20.0, source="mine"), Skipped("x", "d", "nothing is measured")
    assert with_recipes([row, skipped], [RECIPE]) == [row, skipped]


def test_most_shipped_rows_of_two_pools_have_workers() -> None:
    rows = [row for row in shipped(["serving_points"]) if isinstance(row, Measurement) and row.decode is not None]
    assert len(rows) == 1008
    reasons = Counter(row.unknown for row in rows)
    assert reasons == {"": 834, SEVERAL_RECIPES: 104, NO_RECIPE: 37, SPECULATION: 33}
    assert Counter(row.speculation for row in rows if not row.unknown) == {
        "none": 535, "unrecorded": 64, "MTP3": 158, "MTP2": 50, "MTP1": 27,
    }  # fmt: skip
