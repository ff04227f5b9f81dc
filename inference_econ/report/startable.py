"""Engines that can start what is shown: a column of tables, and remarks below them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from inference_econ.engine import Instances, Setup
from inference_econ.inputs import Quantity, engines_for, known_engines, lacks
from inference_econ.report import caveats
from inference_econ.report.table import Table
from inference_econ.search import Saving

#: A smaller share of the cost is not worth a word [1].
_NOTICED = 0.01


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


def saving_note(saving: Saving | None) -> list[str]:
    """Sentence on the savings of any layout over those that can be started; none where that was not asked."""
    if saving is None:
        return []
    if saving.share < _NOTICED:
        return ["At no speed is an unrestricted layout more than 1 % cheaper than one that can be started."]
    return [
        f"An unrestricted layout is up to {100 * saving.share:.0f} % cheaper than one that can be started (at "
        f"{saving.tokens_per_second:.3g} tokens/s per user)."
    ]


def doubts(setups: Sequence[Setup], subjects: Iterable[Instances]) -> list[str]:
    """Warnings on a table: layouts that cannot be started, and numbers that can be doubted."""
    return [*cannot_start(setups), *caveats.warnings(subjects)]


def grounds(
    setups: Iterable[Setup], subjects: Iterable[Instances], quantities: Sequence[Quantity] = ("tpot",)
) -> list[str]:
    """Notes on the basis of a table: who can start what is shown, and how far off predictions are."""
    return [*startable_notes(setups), *caveats.remarks(subjects, quantities)]


def startable_notes(setups: Iterable[Setup]) -> list[str]:
    """Remarks on who can start what is shown, or on why nobody is asked; one per kind of chip."""
    return list(dict.fromkeys(note for setup in setups for note in _notes(setup)))


def cannot_start(setups: Sequence[Setup]) -> list[str]:
    """Engines and pools that were left out, and chips on which no known engine can start it; in sentences."""
    left_out = dict.fromkeys(reason for setup in setups for reason in setup.left_out)
    chips = dict.fromkeys(setup.hardware.name for setup in setups if _is_startable_by_none(setup))
    nobody = [f"No known engine can start it on {', '.join(chips)}: any layout is shown."] if chips else []
    return [*(f"Left out: {reason}." for reason in left_out), *nobody]


def is_bound(setup: Setup) -> bool:
    """Return whether nothing is known to be as good: it was fitted to no server, or no known engine can start it."""
    return setup.is_bound or _is_startable_by_none(setup)


def _is_startable_by_none(setup: Setup) -> bool:
    """Return whether no engine is known for a model on a chip, where any is asked for."""
    idle = setup.assumptions.layout.attention_groups == "idle"
    return not setup.engines and not idle and not engines_for(setup.model, setup.hardware, setup.precision)


def _notes(setup: Setup) -> list[str]:
    """Nothing where attention ranks idle: the published study means no engine."""
    if setup.engines:
        *others, last = [engine.label for engine in setup.engines]
        return [f"Layouts are those that {', '.join(others)}{' or ' if others else ''}{last} can start."]
    if setup.assumptions.layout.attention_groups == "idle":
        return []
    if engines_for(setup.model, setup.hardware, setup.precision):
        return ["Any layout: some can be started by no engine that is known."]
    reasons = [lacks(engine, setup.model, setup.hardware, setup.precision) for engine in known_engines()]
    return [f"No known engine can start it ({reasons[-1]}), so any layout is shown."]
