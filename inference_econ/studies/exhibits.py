"""Tables and charts of numbers, next to the values that a publication printed.

Scenarios without frontiers return :class:`CellTable` and :class:`Chart`. Both classes contain everything that display
code needs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal

from inference_econ.records.plain import attributes


@dataclass(frozen=True, slots=True)
class Cell:
    """Published cell of a table, with the reproduced value."""

    item: str
    """Scenario."""
    row: str
    """Series."""
    column: str
    """Column."""
    printed: str
    """Published text of the cell, with its digits."""
    ours: float
    """Reproduced value, unrounded."""

    @property
    def match(self) -> bool:
        """True if the reproduced value, rounded to the digits of the publication, equals the published value."""
        decimals = _decimals(self.printed)
        twice = decimals < 2 and str(_rounded(_rounded(self.ours, 2), decimals)) == self.printed
        return twice or like(self.ours, self.printed) == self.printed

    @property
    def note(self) -> str:
        """Note about the rounding of the publication, or about the reason for a difference."""
        ours, off = self.ours, off_by(self.ours, self.printed)
        if like(ours, self.printed) == self.printed:
            return ""
        if self.match:
            return f"rounded twice in the publication: {ours:.3f} -> {_rounded(ours, 2)} -> {self.printed}"
        return f"ours is {ours:.5g}{off and f', {off} of the printed value'}"

    def record(self) -> dict[str, object]:
        """The cell as plain data."""
        return attributes(self, "item row column printed ours match note")


@dataclass(frozen=True, slots=True)
class CellRow:
    """One row of numbers."""

    names: tuple[str | int, ...]
    """Name of the row; one entry per name column."""
    values: tuple[float | str, ...]
    """Values of the row, one per value column: numbers, or texts where a number is missing."""
    printed: Mapping[str, str] = field(default_factory=dict)
    """Published texts by value column, with the published digits."""

    @property
    def label(self) -> str:
        """Names of the row, joined in one line."""
        return ", ".join(map(str, self.names))


@dataclass(frozen=True, slots=True)
class CellTable:
    """Table of numbers, some with published values."""

    title: str
    """Title."""
    names: tuple[str, ...]
    """Headings of the name columns."""
    columns: tuple[str, ...]
    """Headings of the value columns, with units."""
    rows: tuple[CellRow, ...]
    """Rows with one entry per column."""
    notes: tuple[str, ...] = ()
    """Notes below the table."""
    errors: bool = False
    """True to show the difference from each published value.

    Used for publications that no cost model reproduces to all digits.
    """
    subject: str = ""
    """Subject of all rows. The notes about compared cells contain it."""

    def cells(self, item: str) -> list[Cell]:
        """Published cells, each with the reproduced value."""
        return [
            Cell(item, ", ".join(filter(None, (self.subject, row.label))), column, row.printed[column], value)
            for row in self.rows
            for column, value in zip(self.columns, row.values, strict=True)
            if column in row.printed and not isinstance(value, str)
        ]

    def record(self) -> dict[str, object]:
        """The table as plain data."""
        rows = [
            {**dict(zip(self.names, row.names, strict=True)), **dict(zip(self.columns, row.values, strict=True))}
            for row in self.rows
        ]
        return {"title": self.title, "rows": rows, "notes": list(self.notes)}


@dataclass(frozen=True, slots=True)
class ChartLine:
    """Line of a chart; NaN values are gaps."""

    label: str
    """Label in the legend."""
    x: Sequence[float]
    """Horizontal positions."""
    y: Sequence[float]
    """Values, one for each ``x``."""
    points: bool = False
    """True to draw points instead of a line."""
    beside: str = ""
    """For points, the label of the line whose color they have."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Chart of lines over one pair of axes."""

    title: str
    """Title."""
    x_label: str
    """Label of the x axis, with its unit."""
    y_label: str
    """Label of the y axis, with its unit."""
    lines: tuple[ChartLine, ...]
    """Lines. Lines with the same label have the same color in all charts of a result."""
    logarithmic: str = "xy"
    """Logarithmic axes: "" for none, "x", "y" or "xy"."""
    marks: Mapping[str, float] = field(default_factory=dict)
    """Positions of vertical lines, by label in the legend."""

    def record(self) -> dict[str, object]:
        """The chart as plain data; gaps are None."""
        lines = [
            {"label": line.label, "x": list(line.x), "y": [None if math.isnan(value) else value for value in line.y]}
            for line in self.lines
        ]
        return {"title": self.title, "x_label": self.x_label, "y_label": self.y_label, "lines": lines}


def like(value: float, printed: str | None) -> str:
    """Format a number with as many decimals as the published one, or with three digits."""
    if printed is None:
        return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
    return str(_rounded(value, _decimals(printed)))


def _decimals(printed: str) -> int:
    return len(printed.partition(".")[2])


def _rounded(value: float | Decimal, decimals: int) -> Decimal:
    return Decimal(value).quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_HALF_UP)


def off_by(ours: float, printed: str) -> str:
    """Relative difference from the published value [1], as text."""
    return f"{100 * (ours / float(printed) - 1):+z.1f} %" if float(printed) != 0.0 else ""


@dataclass(frozen=True, slots=True)
class Compared:
    """Result that consists of tables and charts."""

    tables: tuple[CellTable, ...]
    """Tables, with published values."""
    charts: tuple[Chart, ...]
    """Charts."""
    basis: tuple[object, ...]
    """Setups or specifications on which the numbers are based."""
