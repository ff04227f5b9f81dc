"""Answers that are tables and lines of numbers, with what a publication printed for them.

A question that is not about frontiers answers with :class:`CellTable` and :class:`Chart`; what shows answers needs
to know nothing else about it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal

from inference_econ.records.plain import attributes


@dataclass(frozen=True, slots=True)
class Cell:
    """One published cell beside ours."""

    item: str
    """Scenario."""
    row: str
    """Series."""
    column: str
    """Column."""
    printed: str
    """As published, digits included."""
    ours: float
    """Our value, unrounded."""

    @property
    def match(self) -> bool:
        """True if our value rounds to the printed one."""
        decimals = _decimals(self.printed)
        twice = decimals < 2 and str(_rounded(_rounded(self.ours, 2), decimals)) == self.printed
        return twice or like(self.ours, self.printed) == self.printed

    @property
    def note(self) -> str:
        """How the publication rounded, or why the values differ."""
        ours, off = self.ours, off_by(self.ours, self.printed)
        if like(ours, self.printed) == self.printed:
            return ""
        if self.match:
            return f"rounded twice in the publication: {ours:.3f} -> {_rounded(ours, 2)} -> {self.printed}"
        return f"ours is {ours:.5g}{off and f', {off} of the printed value'}"

    def record(self) -> dict[str, object]:
        """Plain data, for JSON."""
        return attributes(self, "item row column printed ours match note")


@dataclass(frozen=True, slots=True)
class CellRow:
    """One row of numbers."""

    names: tuple[str | int, ...]
    """Subject of the row, one per name column."""
    values: tuple[float | str, ...]
    """One per value column: a number, or words where there is none."""
    printed: Mapping[str, str] = field(default_factory=dict)
    """Printed value by value column, digits included."""

    @property
    def label(self) -> str:
        """All names in one line."""
        return ", ".join(map(str, self.names))


@dataclass(frozen=True, slots=True)
class CellTable:
    """Numbers in rows and columns, some of them with what was printed for them."""

    title: str
    """Above the table."""
    names: tuple[str, ...]
    """Heads of the columns that name a row."""
    columns: tuple[str, ...]
    """Heads of the columns with values; units are part of them."""
    rows: tuple[CellRow, ...]
    """As many names and values as columns."""
    notes: tuple[str, ...] = ()
    """Below the table."""
    errors: bool = False
    """Show the difference from each printed value, for publications whose digits no model meets."""

    def cells(self, item: str) -> list[Cell]:
        """Every printed cell beside ours."""
        return [
            Cell(item, row.label, column, row.printed[column], value)
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
    """One line of a chart; values that are NaN are gaps."""

    label: str
    """Label in the legend."""
    x: Sequence[float]
    """Positions across."""
    y: Sequence[float]
    """Values, as many as ``x``."""
    points: bool = False
    """Draw points instead of a line."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over one pair of axes."""

    title: str
    """Above the chart."""
    x_label: str
    """Label across, with its unit."""
    y_label: str
    """Label of the values, with its unit."""
    lines: tuple[ChartLine, ...]
    """Lines of one label have one color in all charts of a result."""
    logarithmic: str = "xy"
    """Axes that are logarithmic: "", "x", "y" or "xy"."""
    marks: Mapping[str, float] = field(default_factory=dict)
    """Positions of vertical lines by their label in the legend."""

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


def off_by(ours: float, printed: str) -> str:
    """Difference of ours from the printed value, relative to it [1]."""
    return f"{100 * (ours / float(printed) - 1):+z.1f} %" if float(printed) != 0.0 else ""


@dataclass(frozen=True, slots=True)
class Compared:
    """Answer of tables and charts."""

    tables: tuple[CellTable, ...]
    """Numbers, with the printed ones."""
    charts: tuple[Chart, ...]
    """Lines over what differs."""
    basis: tuple[object, ...]
    """Setups or specifications that the numbers rest on."""
