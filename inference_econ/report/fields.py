"""Glossary of fields: names and ways to write numbers of records, each once, for tables, charts, schemas and documents.

``fields.csv`` is the glossary, by the names that JSON has. A record of an answer holds numbers in base units under
these names; a table is a view of records. Where a name says something else in one kind of record, the row is that of
``RECORD.NAME``. Columns that tables alone have are called by their headings there: ``column.HEADING``, ``{}`` where
headings differ.
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
#: A column: the name of a field, a percentile of it behind a dot; or a head with its cells.
Column: TypeAlias = "str | tuple[str, Sequence[str]]"
#: Ways to write a value that no format specification says.
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
#: Numbers that are written whole where they are too large for their digits, at most [1].
_WHOLE = 1e15
#: What a GB is wherever sizes are shown, once.
GIGABYTES = (
    "GB are decimal, 10^9 B, of chips, weights and caches alike. Memory is sold in GiB that are called GB: an H100 of "
    "80 GB has 85.5 here."
)
#: Of predictions: where a name ends so, it is an end of what 80 % of measured values lie between.
ENDS: Mapping[str, str] = {"_low": "Lower", "_high": "Upper"}
#: Kind of the columns that tables alone have.
_COLUMN = "column."


class Field(NamedTuple):
    """A number or text of records as people see it."""

    name: str
    """Name in JSON and CSV; ``RECORD.NAME`` where it says something else in other records."""
    type: str
    """Type of its values: one of JSON or the name of a record; ``[]`` for lists, ``{}`` by name, ``?`` for null."""
    unit: str
    """Unit in records, 1 where it has none; empty of texts and records."""
    heading: str
    """Heading of a column, with the unit that is written; ``{}`` stands for a percentile."""
    writing: str
    """Way to write a value: a factor if there is one, and a format specification or one of some words."""
    missing: str
    """Text for null."""
    meaning: str
    """Meaning in a sentence."""

    def text(self, value: Any) -> str:
        """Write a value in base units."""
        if value is None:
            return self.missing
        *_, form = self.writing.split()
        scaled = value if self.factor == 1.0 else self.factor * value
        text = _WRITERS[form](scaled) if form in _WRITERS else format(scaled, form)
        return f"{scaled:,.0f}" if "e+" in text and scaled < _WHOLE else text

    def head(self, percentile: str = "") -> str:
        """Write the heading, of a percentile if there is one."""
        return " ".join(self.heading.format(percentile).split())

    @property
    def tables_alone(self) -> bool:
        """True for a column that no record has."""
        return self.name.startswith(_COLUMN)

    @property
    def factor(self) -> float:
        """Factor from the value to the written number: 1000 where seconds are written as milliseconds."""
        first, *form = self.writing.split()
        return float(first) if form else 1.0


@cache
def glossary() -> Mapping[str, Field]:
    """Return all fields by name."""
    with Path(__file__).with_name("fields.csv").open(encoding="utf-8", newline="") as file:
        return {row["name"]: Field(**row) for row in csv.DictReader(file)}


def field(name: str, record: str = "") -> Field:
    """Return what a name says in a kind of record.

    Raises
    ------
    KeyError
        If the glossary lacks it.
    """
    fields = glossary()
    return fields.get(f"{record}.{name}") or fields[name]


def column(records: Sequence[Record], named: Column, kind: str = "") -> tuple[str, Sequence[str]]:
    """Return the head and the cells of a column.

    Parameters
    ----------
    records : sequence of mapping
        One per row.
    named : str or (str, sequence of str)
        Which.
    kind : str
        Of record.
    """
    if not isinstance(named, str):
        return named
    name, _, percentile = named.partition(".")
    shown = field(name, kind)
    cells = []
    for record in records:
        # Nothing where a record lacks it, a dash where it has other percentiles.
        if name not in record or (percentile and percentile not in record[name]):
            cells.append("-" if name in record else "")
        else:
            cells.append(shown.text(_part(record[name], percentile)) + _interval(record, name, percentile, shown))
    return shown.head(percentile), cells


#: Whether tables show 80 % intervals beside what is predicted.
_INTERVALS: ContextVar[bool] = ContextVar("intervals", default=False)


@contextmanager
def intervals_shown(shown: bool) -> Iterator[None]:
    """Have tables show 80 % intervals behind predicted values, for a block."""
    token = _INTERVALS.set(shown)
    try:
        yield
    finally:
        _INTERVALS.reset(token)


def shows_intervals() -> bool:
    """Return whether tables show 80 % intervals."""
    return _INTERVALS.get()


def _part(value: Any, percentile: str) -> Any:
    return value[percentile] if percentile else value


def _interval(record: Record, name: str, percentile: str, shown: Field) -> str:
    """Ends of the 80 % interval of a value in parentheses; empty where they are not shown, or nobody knows them."""
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
    """Return records as a table.

    Parameters
    ----------
    title : str
        Above it.
    records : sequence of mapping
        One per row.
    columns : iterable of str or (str, sequence of str)
        In their order.
    kind : str
        Of record, where its names say something else than in others.
    notes, why : iterable of str
        Below it.
    least : iterable of str
        Fields or heads that a narrow terminal may leave out, the least important first.
    """
    made = [column(records, named, kind) for named in columns]
    rows = tuple(zip(*(cells for _, cells in made), strict=True))
    names = (named.partition(".") for named in least)
    heads = tuple(
        field(name, kind).head(which) if name in glossary() else f"{name}{dot}{which}" for name, dot, which in names
    )
    return Table(title, tuple(head for head, _ in made), rows, tuple(notes), tuple(why), heads)


def details(records: Sequence[Record], names: Iterable[str]) -> dict[str, list[float | str]]:
    """Return what hovering over points says: fields of their records; counts stay numbers."""
    columns: dict[str, list[float | str]] = {}
    for name in names:
        shown = field(name)
        values = [record[name] for record in records]
        columns[shown.head()] = [value if isinstance(value, int) else shown.text(value) for value in values]
    return columns
