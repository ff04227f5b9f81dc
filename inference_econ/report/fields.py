"""Glossary of fields: their names, units and number formats in tables, charts, schemas and documents.

``fields.csv`` is the glossary, with one row per JSON name. Records use these names and base units, and tables show
records. If a name has a special meaning in one kind of record, the glossary has another row ``RECORD.NAME``. Columns
that exist only in tables are named ``column.HEADING``; ``{}`` represents the variable part of a heading.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from inference_econ.records.texts import PART_NAMES, amount, chance_percent, dollars, layout_label, per_hour, size
from inference_econ.report.page import Table

#: Plain data of one row.
Record: TypeAlias = Mapping[str, Any]
#: Column of a table: name of a field, optionally with a percentile after a dot; or a heading with the cells.
Column: TypeAlias = "str | tuple[str, Sequence[str]]"
#: Formatters that no format specification can express.
_WRITERS: Mapping[str, Callable[[Any], str]] = {
    "amount": amount,
    "chance": lambda percent: chance_percent(percent / 100.0),
    "dollars": dollars,
    "dollars_or_0": lambda value: dollars(value) if value else "0",
    "per_hour": per_hour,
    "size": size,
    "layout": layout_label,
    "part": lambda name: PART_NAMES[name],
    "text": str,
}
#: Numbers below this limit are written as integers if their format would use an exponent [1].
_WHOLE = 1e15
#: Definition of GB for all sizes.
GIGABYTES = "GB are decimal (10^9 B). Vendors sell GiB as GB, so an H100 with 80 GB has 85.5 GB here."
#: Suffixes of the ends of the 80% interval.
ENDS: Mapping[str, str] = {"_low": "Lower", "_high": "Upper"}
#: Prefix of columns that only tables have.
_COLUMN = "column."


class Field(NamedTuple):
    """Field of records (a number or text), and how it is displayed."""

    name: str
    """Name of the field in JSON and CSV; ``RECORD.NAME`` for a special meaning in one kind of record."""
    type: str
    """Type of the values: a JSON type or a kind of record.

    ``[]`` marks lists, ``{}`` marks mappings by name, and ``?`` marks values that may be null.
    """
    unit: str
    """Unit in records: 1 for dimensionless numbers; empty for texts and records."""
    heading: str
    """Column heading with the displayed unit; ``{}`` represents a percentile."""
    writing: str
    """Display format: an optional factor, then a format specification or the name of a formatter."""
    missing: str
    """Text that a table shows instead of null."""
    meaning: str
    """Meaning of the field, as a sentence."""

    def text(self, value: Any) -> str:
        """Format a value in base units."""
        if value is None:
            return self.missing
        *_, form = self.writing.split()
        scaled = value if self.factor == 1.0 else self.factor * value
        text = _WRITERS[form](scaled) if form in _WRITERS else format(scaled, form)
        return f"{scaled:,.0f}" if "e+" in text and scaled < _WHOLE else text

    def head(self, percentile: str = "") -> str:
        """Return the column heading, with the percentile that the column shows."""
        return " ".join(self.heading.format(percentile).split())

    @property
    def tables_alone(self) -> bool:
        """True for a column that exists only in tables."""
        return self.name.startswith(_COLUMN)

    @property
    def factor(self) -> float:
        """Factor from base units to the displayed number, such as 1000 for seconds in milliseconds."""
        first, *form = self.writing.split()
        return float(first) if form else 1.0


@cache
def glossary() -> Mapping[str, Field]:
    """Return all fields by name."""
    with Path(__file__).with_name("fields.csv").open(encoding="utf-8", newline="") as file:
        return {row["name"]: Field(**row) for row in csv.DictReader(file)}


def field(name: str, record: str = "") -> Field:
    """Look up the glossary entry of a name, with its special meaning in a kind of record.

    Raises
    ------
    KeyError
        If the glossary lacks the name.
    """
    fields = glossary()
    return fields.get(f"{record}.{name}") or fields[name]


def column(records: Sequence[Record], named: Column, kind: str = "") -> tuple[str, Sequence[str]]:
    """Return the heading and the cells of a column.

    Parameters
    ----------
    records : sequence of mapping
        Records, one per table row.
    named : str or (str, sequence of str)
        Name of a field, or a heading with its cells.
    kind : str
        Kind of record.
    """
    if not isinstance(named, str):
        return named
    name, _, percentile = named.partition(".")
    shown = field(name, kind)
    cells = []
    for record in records:
        # A cell is empty if the record lacks the field, and a dash if the field lacks the percentile.
        if name not in record or (percentile and percentile not in record[name]):
            cells.append("-" if name in record else "")
        else:
            # A sum of texts would lose the value of an amount, which reports rescale.
            text, between = shown.text(_part(record[name], percentile)), _interval(record, name, percentile, shown)
            cells.append(text + between if between else text)
    return shown.head(percentile), cells


#: True if tables show 80% intervals.
_INTERVALS: ContextVar[bool] = ContextVar("intervals", default=False)


@contextmanager
def intervals_shown(shown: bool) -> Iterator[None]:
    """Show 80% intervals in all tables created within a ``with`` block."""
    token = _INTERVALS.set(shown)
    try:
        yield
    finally:
        _INTERVALS.reset(token)


def shows_intervals() -> bool:
    """Return True if tables show 80% intervals."""
    return _INTERVALS.get()


def _part(value: Any, percentile: str) -> Any:
    return value[percentile] if percentile else value


def _interval(record: Record, name: str, percentile: str, shown: Field) -> str:
    """80% interval in parentheses; empty if hidden or unknown."""
    if not shows_intervals() or f"{name}_low" not in record:
        return ""
    ends = [_part(record[f"{name}_{end}"], percentile) for end in ("low", "high") if record[f"{name}_{end}"]]
    if not ends or ends[0] is None:
        return ""
    known = [shown.text(end) for end in ends if end is not None]
    return f" ({known[0]} to {known[1]})" if len(known) == 2 else f" (from {known[0]})"


def view(
    title: str,
    records: Sequence[Record],
    columns: Iterable[Column],
    *,
    kind: str = "",
    notes: Iterable[str] = (),
    why: Iterable[str] = (),
    least: Iterable[str] = (),
) -> Table:
    """Create a table from records.

    Parameters
    ----------
    title : str
        Title.
    records : sequence of mapping
        Records, one per table row.
    columns : iterable of str or (str, sequence of str)
        Columns from left to right: field names, or headings with their cells.
    kind : str
        Kind of the records, if some fields have a special meaning in this kind.
    notes, why : iterable of str
        Notes, and lines on the basis of the numbers (``--why``).
    least : iterable of str
        Fields or headings that a narrow terminal may leave out, least important first.
    """
    made = [column(records, named, kind) for named in columns]
    rows = tuple(zip(*(cells for _, cells in made), strict=True))
    names = (named.partition(".") for named in least)
    heads = tuple(
        field(name, kind).head(which) if name in glossary() else f"{name}{dot}{which}" for name, dot, which in names
    )
    return Table(title, tuple(head for head, _ in made), rows, tuple(dict.fromkeys(notes)), tuple(why), heads)


def details(records: Sequence[Record], names: Iterable[str]) -> dict[str, list[float | str]]:
    """Create hover texts, by heading, from fields of the records of points; integers remain numbers."""
    columns: dict[str, list[float | str]] = {}
    for name in names:
        shown = field(name)
        values = [record[name] for record in records]
        columns[shown.head()] = [value if isinstance(value, int) else shown.text(value) for value in values]
    return columns
