"""Answers that are tables and lines of numbers, with what a publication printed for them.

A question that is not about frontiers answers with :class:`CellTable` and :class:`Chart`; what shows answers needs
to know nothing else about it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal


@dataclass(frozen=True, slots=True)
class Cell:
    """One published cell beside ours.

    Attributes
    ----------
    item, row, column : str
        Scenario, series and column.
    printed : str
        As published, digits included.
    ours : float
        Ours, unrounded.
    match : bool
        Ours rounds to what was printed.
    note : str
        How it was rounded, or why it does not match.
    """

    item: str
    row: str
    column: str
    printed: str
    ours: float
    match: bool
    note: str

    @classmethod
    def of(cls, item: str, row: str, column: str, printed: str, ours: float) -> Cell:
        """A cell with the verdict on it."""
        return cls(item, row, column, printed, ours, *_agrees(ours, printed))

    def record(self) -> dict[str, object]:
        """Plain data, for JSON."""
        return {name: getattr(self, name) for name in ("item", "row", "column", "printed", "ours", "match", "note")}


@dataclass(frozen=True, slots=True)
class CellRow:
    """One row of numbers.

    Attributes
    ----------
    names : tuple of (str or int)
        What the row is about, one per name column.
    values : tuple of (float or str)
        One per value column: a number, or words where there is none.
    printed : mapping of str to str
        What a publication printed, by value column, digits included.
    """

    names: tuple[str | int, ...]
    values: tuple[float | str, ...]
    printed: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """All names in one line."""
        return ", ".join(map(str, self.names))


@dataclass(frozen=True, slots=True)
class CellTable:
    """Numbers in rows and columns, some of them with what was printed for them.

    Attributes
    ----------
    title : str
        Above the table.
    names, columns : tuple of str
        Heads of the columns that name a row, and of those with values; units are part of them.
    rows : tuple of CellRow
        As many names and values as columns.
    notes : tuple of str
        Below the table.
    errors : bool
        Show by how much each printed value is missed, for publications whose digits no model meets.
    """

    title: str
    names: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[CellRow, ...]
    notes: tuple[str, ...] = ()
    errors: bool = False

    def cells(self, item: str) -> list[Cell]:
        """Every printed cell beside ours."""
        return [
            Cell.of(item, row.label, column, row.printed[column], value)
            for row in self.rows
            for column, value in zip(self.columns, row.values, strict=True)
            if column in row.printed and not isinstance(value, str)
        ]

    def record(self) -> dict[str, object]:
        """Plain data, for JSON."""
        rows = [
            {**dict(zip(self.names, row.names, strict=True)), **dict(zip(self.columns, row.values, strict=True))}
            for row in self.rows
        ]
        return {"title": self.title, "rows": rows, "notes": list(self.notes)}


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One line of a chart; values that are NaN are gaps.

    Attributes
    ----------
    label : str
        What the legend says.
    x, y : sequence of float
        Equally long.
    points : bool
        Draw points instead of a line.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    points: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over one pair of axes.

    Attributes
    ----------
    title, x_label, y_label : str
        Units are part of the labels.
    lines : tuple of Line
        Lines of one label have one colour in all charts of an answer.
    logarithmic : str
        Axes that are logarithmic: "", "x", "y" or "xy".
    marks : mapping of str to float
        Vertical lines by what the legend says of them.
    """

    title: str
    x_label: str
    y_label: str
    lines: tuple[ChartLine, ...]
    logarithmic: str = "xy"
    marks: Mapping[str, float] = field(default_factory=dict)

    def record(self) -> dict[str, object]:
        """Plain data, for JSON; gaps are None."""
        lines = [
            {"label": line.label, "x": list(line.x), "y": [None if math.isnan(value) else value for value in line.y]}
            for line in self.lines
        ]
        return {"title": self.title, "x_label": self.x_label, "y_label": self.y_label, "lines": lines}


def like(value: float, printed: str | None) -> str:
    """A value with as many decimals as were printed, or with three digits."""
    if printed is None:
        return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
    return str(_rounded(value, _decimals(printed)))


def _decimals(printed: str) -> int:
    return len(printed.partition(".")[2])


def _rounded(value: float | Decimal, decimals: int) -> Decimal:
    return Decimal(value).quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_HALF_UP)


def _agrees(ours: float, printed: str) -> tuple[bool, str]:
    decimals = _decimals(printed)
    if str(_rounded(ours, decimals)) == printed:
        return True, ""
    twice = _rounded(_rounded(ours, 2), decimals)
    if decimals < 2 and str(twice) == printed:
        return True, f"rounded twice in the publication: {ours:.3f} -> {_rounded(ours, 2)} -> {printed}"
    note = f"ours is {ours:.5g}"
    if float(printed) != 0.0:
        note += f", {off_by(ours, printed)} of the printed value"
    return False, note


def off_by(ours: float, printed: str) -> str:
    """Difference of ours from the printed value, relative to it [1]."""
    return f"{100 * (ours / float(printed) - 1):+z.1f} %" if float(printed) != 0.0 else ""


@dataclass(frozen=True, slots=True)
class Compared:
    """Answer of tables and charts.

    Attributes
    ----------
    tables : tuple of CellTable
        Numbers, and what was printed for them.
    charts : tuple of Chart
        Lines over what differs.
    basis : tuple
        Setups or specifications that the numbers rest on.
    """

    tables: tuple[CellTable, ...]
    charts: tuple[Chart, ...]
    basis: tuple[object, ...]
