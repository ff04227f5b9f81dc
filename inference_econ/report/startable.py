"""Engines that can start what is shown, and their recipes: columns of tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from inference_econ.engine import Setup
from inference_econ.report.table import Table


def engine_cell(layout: Mapping[str, float | str]) -> str:
    """The engines that can start a layout; a dash where any layout is offered."""
    return str(layout.get("engine", "-"))


def started(layout: Mapping[str, float | str]) -> str:
    """Engines behind a layout in a sentence; empty where any layout is offered."""
    return f" ({layout['engine']})" if "engine" in layout else ""


def with_engines(
    table: Table, layouts: Iterable[Mapping[str, float | str]], setups: Iterable[Setup], after: str = "layout"
) -> Table:
    """A table with a column of engines behind that of layouts; as it is where any layout is offered.

    Parameters
    ----------
    table : Table
        With one row per layout.
    layouts : iterable of mapping
        What is shown, with the engines that can start it.
    setups : iterable of Setup
        Whose engines are asked: what all of them can start is short, ``all``, if they are the same for all.
    after : str
        The column that the engines stand behind.
    """
    cells = [engine_cell(layout) for layout in layouts]
    if all(cell == "-" for cell in cells):
        return table
    engines = {", ".join(engine.name for engine in setup.engines) for setup in setups}
    everyone = engines.pop() if len(engines) == 1 else ""
    cells = ["all" if cell == everyone and ", " in cell else cell for cell in cells]
    place = table.columns.index(after) + 1
    rows = tuple((*row[:place], cell, *row[place:]) for row, cell in zip(table.rows, cells, strict=True))
    return replace(table, columns=(*table.columns[:place], "engine", *table.columns[place:]), rows=rows)


def with_recipes(table: Table, practices: Sequence[str]) -> Table:
    """A table with a column of recipes behind that of engines; as it is where all rows have the same.

    It is the first to go where the table is too wide, but the last one where an engine has several.
    """
    if len(set(practices)) == 1 or "engine" not in table.columns:
        return table
    place = table.columns.index("engine") + 1
    rows = tuple((*row[:place], practice, *row[place:]) for row, practice in zip(table.rows, practices, strict=True))
    columns = (*table.columns[:place], "recipe", *table.columns[place:])
    engines = [row[place - 1] for row in table.rows]
    alike = len(set(zip(engines, practices, strict=True))) == len(set(engines))
    least = ("recipe", *table.least) if alike else (*table.least, "recipe")
    return replace(table, columns=columns, rows=rows, least=least)


def with_notes(table: Table, notes: Sequence[str]) -> Table:
    """A table with further remarks before its own."""
    return replace(table, notes=(*notes, *table.notes))
