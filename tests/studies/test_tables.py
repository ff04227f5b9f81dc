"""Tables 1-6 of Erdil (2025): every printed cell, and the unrounded values behind them."""

from __future__ import annotations

from pathlib import Path

import pytest

from inference_econ.extras.papers import gallery
from inference_econ.inputs import catalog
from inference_econ.report.questions.scenario import scenario_table
from inference_econ.studies.scenario import run
from tests.reading import present, tables

#: Printed cells of each table: rows times columns.
CELLS = {"table_1": 5 * 2, "table_2": 5 * 2, "table_3": 5 * 4, "table_4": 3 * 2, "table_5": 4 * 4, "table_6": 3 * 4}

#: Unrounded results of the published code: tokens/s, chips or tokens/s, USD per million, chips, sequences, with the
#: stored digits.
UNROUNDED: dict[str, dict[str, list[str]]] = tables(Path(__file__))["UNROUNDED"]


def test_the_tables_have_74_printed_cells() -> None:
    assert sum(CELLS.values()) == 74
    assert [name for name in gallery.scenario_names() if "table" in name] == [f"paper/{name}" for name in CELLS]


@pytest.mark.parametrize("name", CELLS)
def test_every_printed_cell(name: str) -> None:
    result = run(f"paper/{name}")
    found = result.cells
    assert len(found) == CELLS[name]
    assert [f"{cell.row}, {cell.column}: {cell.note}" for cell in found if not cell.match] == []
    noted = {(cell.row, cell.column): cell.note for cell in found if cell.note}
    twice = {("DeepSeek-V3 (8-bit)", "Batch size"): "rounded twice in the publication: 246.496 -> 246.50 -> 247"}
    assert noted == (twice if name == "table_3" else {})
    assert scenario_table(result).notes[-1] == f"{CELLS[name]} of {CELLS[name]} printed cells match."

    # Before rounding. Half a unit of the last digit, and a hair for ties.
    spec = present(result.scenario.table)
    assert [curve.label for curve in result.curves] == list(UNROUNDED[name])
    for curve in result.curves:
        ours = curve.values(spec)
        for column, digits in zip(spec.columns, UNROUNDED[name][curve.label], strict=True):
            half_a_unit = 0.5 * 10.0 ** -len(digits.partition(".")[2])
            assert ours[column.key] == pytest.approx(float(digits), abs=1.001 * half_a_unit), (curve.label, column.key)


def test_a_printed_value_that_differs_is_reported_and_not_repeated() -> None:
    scenario = catalog.scenario("paper/table_1")
    assert scenario.table is not None
    printed = {**scenario.table.printed, "GPT-4": {"accelerators": "200", "tokens_per_second_per_user": "0"}}
    changed = scenario.replace(table=scenario.table.replace(printed=printed))
    result = run(changed)
    wrong = [cell for cell in result.cells if not cell.match]
    assert [(cell.printed, cell.note) for cell in wrong] == [
        ("200", "ours is 172.66, -13.7 % of the printed value"),
        ("0", "ours is 55.674"),
    ]
    table = scenario_table(result)
    assert table.rows[-1] == ("GPT-4", "56", "173")
    assert table.notes[0] == "GPT-4, Instance size (GPUs): printed 200. ours is 172.66, -13.7 % of the printed value"
    assert table.notes[-1] == "8 of 10 printed cells match."


def test_expectations_do_not_move_results() -> None:
    scenario = catalog.scenario("paper/table_1")
    bare = scenario.replace(table=present(scenario.table).replace(printed={}))
    with_expectations, without = run(scenario), run(bare)
    assert without.cells == []
    assert [curve.dollars.tolist() for curve in without.curves] == [
        curve.dollars.tolist() for curve in with_expectations.curves
    ]
