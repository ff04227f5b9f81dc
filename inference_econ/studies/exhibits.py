"""Tables and charts of reproduced numbers, next to the values that a publication printed.

Scenarios without frontiers return :class:`CellTable` and :class:`Chart`. Both classes contain all data that the display
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
    """Name of the scenario."""
    row: str
    """Row of the published table."""
    column: str
    """Column of the published table."""
    printed: str
    """Published value as text, with the published number of digits."""
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
        """Note about double rounding in the publication, or about a difference from the published value."""
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
    """Row of a table, with its names, values and published values."""

    names: tuple[str | int, ...]
    """Name of the row; one entry per name column."""
    values: tuple[float | str, ...]
    """Values of the row, one per value column: a number, or a text where a number is missing."""
    printed: Mapping[str, str] = field(default_factory=dict)
    """Published values as text with their published digits, by value column."""

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
    """Headings of the columns that name a row."""
    columns: tuple[str, ...]
    """Headings of the value columns, with units."""
    rows: tuple[CellRow, ...]
    """Rows of the table."""
    notes: tuple[str, ...] = ()
    """Notes below the table."""
    errors: bool = False
    """True to show the difference from each published value.

    Differences are shown for publications that no cost model reproduces to all digits.
    """
    subject: str = ""
    """Subject of all rows, for example a model; notes about differences from published values contain the subject."""

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
    """Label of the line whose color the points have, if ``points`` is True."""


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
    """Lines of the chart. Lines with the same label have the same color in all charts of a result."""
    logarithmic: str = "xy"
    """Logarithmic axes: "" for none, "x", "y" or "xy"."""
    marks: Mapping[str, float] = field(default_factory=dict)
    """Horizontal positions of vertical lines, by label in the legend."""

    def record(self) -> dict[str, object]:
        """The chart as plain data; gaps are None."""
        lines = [
            {"label": line.label, "x": list(line.x), "y": [None if math.isnan(value) else value for value in line.y]}
            for line in self.lines
        ]
        return {"title": self.title, "x_label": self.x_label, "y_label": self.y_label, "lines": lines}


def like(value: float, printed: str | None) -> str:
    """Format a number with as many decimals as the published number; without one, with three significant digits."""
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
    """Tables of the result, with published values."""
    charts: tuple[Chart, ...]
    """Charts of the result."""
    basis: tuple[object, ...]
    """Setups or specification files from which the numbers are computed."""
