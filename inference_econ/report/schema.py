"""Schemas of results, as JSON and as a documentation page, which follow from the glossary of fields."""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from inference_econ.errors import UnknownNameError
from inference_econ.report.fields import ENDS, GIGABYTES, Field, glossary
from inference_econ.report.page import Page, Table, listed

#: JSON types by their names in the glossary; all other types are kinds of records.
_TYPES: Mapping[str, str] = {
    "number": "number", "integer": "integer", "boolean": "boolean", "text": "string", "null": "null",
}  # fmt: skip
#: Alternatives of a type, which are separated by bars outside of brackets.
_ALTERNATIVES = re.compile(r"(?:\([^)]*\)|[^|()])+")
_ENTRY = re.compile(r"(?P<name>[\w-]+)(?P<ends>~?)(?P<optional>\??)(:(?P<type>\S+))?")
#: Statistic between name and unit of a heading.
_STATISTIC = r"(mean|median|p[\d.]+)"
#: Example number, in the displayed unit.
_EXAMPLE = 12.345
_NAMED = "RECORD.FIELD: meaning of a field in one kind of record, or in the result of one command."
_MARKS = "~: with the interval NAME_low and NAME_high. ?: not in every such record."
_FOR_PEOPLE = f"""\
# Fields of results

This page lists the fields of all results with their units. `inference-econ list fields --format markdown -o
docs/reference/fields.md` writes it from the table that also defines the headings and the JSON schemas.

Every result is a record. JSON (`--format json`, `.to_dict()`, HTTP) contains the whole record. CSV and `.to_frame()`
contain its rows; a nested field has a column with joined names (`ttft_seconds_p50`). Numbers are in base units; 1
means no unit. A field marked `~` has an 80% prediction interval in `NAME_low` and `NAME_high`, which are null if the
interval is unknown. A type is a JSON type or the name of a record. `[]` marks a list, `{{}}` a map by name, and `?` a
value that may be null.

For the JSON schema of a result, run `inference-econ show field recommend --format json`, or see the OpenAPI document
of `inference-econ serve`. The last table lists columns that only tables have; `..` marks the variable part of a
heading. `validate`, `sweep` and the catalog have their own formats.

{textwrap.fill(GIGABYTES, 120)}
"""


class SchemaField(NamedTuple):
    """Field of a kind of record."""

    field: Field
    """Row of the glossary that applies to the field."""
    name: str
    """Name of the field in the record."""
    type: str
    """Type of the field's values, in the notation of the glossary."""
    ends: bool
    """True if the record also has both interval ends of the field."""
    optional: bool
    """True if some records of the kind lack the field."""


@cache
def _document() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads(Path(__file__).with_name("records.toml").read_text(encoding="utf-8"))


def questions() -> tuple[str, ...]:
    """Return the commands with a schema of their results."""
    return tuple(_document()["answers"])


def _kinds() -> Mapping[str, str]:
    """Return the field lists of all results and kinds of records, by name."""
    return {**_document()["answers"], **_document()["records"]}


def entries(kind: str, within: tuple[str, ...] = ()) -> Iterator[SchemaField]:
    """Yield the fields of a kind of record, or of the result of a command.

    Parameters
    ----------
    kind : str
        Kind of record, or command.
    within : tuple of str
        Kinds of records that contain the record; special meanings of fields in these kinds have priority.

    Raises
    ------
    KeyError
        If the kind is unknown, or the glossary lacks one of its fields.
    """
    within = (*within, kind)
    for word in _kinds()[kind].split():
        if word.startswith("+"):
            part = entries(word.strip("+?"), within)
            yield from (entry._replace(optional=True) for entry in part) if word.endswith("?") else part
            continue
        match = _ENTRY.fullmatch(word)
        assert match is not None, word
        name = match["name"]
        special = [key for key in (f"{outer}.{name}" for outer in within) if key in glossary()]
        field = glossary()[special[0] if special else name]
        yield SchemaField(field, name, match["type"] or field.type, bool(match["ends"]), bool(match["optional"]))


def json_schema(kind: str, place: str = "#/$defs/") -> dict[str, Any]:
    """Return the JSON schema of a kind of record, or of the result of a command.

    Parameters
    ----------
    kind : str
        Kind of record, or command.
    place : str
        JSON pointer at which the schemas of nested records are.
    """
    properties: dict[str, Any] = {}
    required = []
    for entry in entries(kind):
        about = {"description": entry.field.meaning}
        if entry.field.unit:
            about["unit"] = entry.field.unit
        properties[entry.name] = _of_type(entry.type, place) | about
        if not entry.optional:
            required.append(entry.name)
        for end, which in ENDS.items() if entry.ends else ():
            meaning = f"{which} end of the 80% prediction interval; null if unknown."
            properties[entry.name + end] = _of_type(f"({entry.type})?", place) | about | {"description": meaning}
    return {"type": "object", "properties": properties, "required": required}


def definitions(place: str = "#/$defs/") -> dict[str, Any]:
    """Return the schemas of all kinds of nested records."""
    return {kind: json_schema(kind, place) for kind in _document()["records"]}


def _of_type(text: str, place: str) -> dict[str, Any]:
    """Return the JSON schema of a type in the notation of the glossary."""
    either = _ALTERNATIVES.findall(text)
    if len(either) > 1:
        return {"anyOf": [_of_type(part, place) for part in either]}
    if text.endswith("?"):
        return {"anyOf": [_of_type(text[:-1], place), {"type": "null"}]}
    if text.endswith("[]"):
        return {"type": "array", "items": _of_type(text[:-2], place)}
    if text.endswith("{}"):
        return {"type": "object", "additionalProperties": _of_type(text[:-2], place)}
    if text.startswith("("):
        return _of_type(text[1:-1], place)
    return {"type": _TYPES[text]} if text in _TYPES else {"$ref": f"{place}{text}"}


@dataclass(frozen=True)
class FieldsPage(Page):
    """Page that shows the glossary of fields, or the entries of one name.

    Attributes
    ----------
    name : str or None
        Command, kind of record, field or column heading; None for all fields.

    Raises
    ------
    UnknownNameError
        If the name is unknown.
    """

    name: str | None = None

    def __post_init__(self) -> None:
        if self.name is None or self.name in _kinds() or self._fields():
            return
        names = sorted({*_kinds(), *(_in_records(field) for field in glossary().values())})
        # A name with the same start is a better suggestion than a similar name.
        begun = [name for name in names if self.name and name.startswith(self.name.lower())]
        near = [*dict.fromkeys((*begun, *get_close_matches(self.name, names, n=4)))][:4]
        hint = f"did you mean {', '.join(near)}?" if near else f"questions: {', '.join(questions())}"
        raise UnknownNameError(
            f"{self.name!r} is not a field, record or command; {hint} 'inference-econ list fields' lists all fields"
        )

    def tables(self) -> Sequence[Table]:
        """Table with one row per field."""
        columns, least, note = ("field", "type", "unit", "in tables", "meaning"), ("in tables", "type"), _NAMED
        if self.name is not None and self.name in _kinds():
            rows = [
                (f"{entry.name}{'~' * entry.ends}{'?' * entry.optional}", entry.type, entry.field)
                for entry in entries(self.name)
            ]
            title, note = f"Fields of {self.name}", _MARKS
        else:
            rows = [("-" if field.tables_alone else field.name, field.type, field) for field in self._fields()]
            title = f"{len(rows)} field{'s' * (len(rows) > 1)} of results"
        cells = [(name, type_, field.unit, _headed(field), field.meaning) for name, type_, field in rows]
        notes = (note, GIGABYTES) if any("GB" in headed for *_, headed, _ in cells) else (note,)
        if self.name is None:
            alone = [(headed, unit, meaning) for name, _, unit, headed, meaning in cells if name == "-"]
            held = [row for row in cells if row[0] != "-"]
            return (
                Table(f"{len(held)} fields of results", columns, tuple(held), notes, least=least),
                Table(f"{len(alone)} columns that only tables have", ("heading", "unit", "meaning"), tuple(alone)),
            )
        if self.name in _kinds():
            return (Table(title, columns, tuple(cells), notes, least=least),)
        # Commands and kinds of records with each field.
        kinds = {kind: [entry.field for entry in entries(kind)] for kind in _kinds()}
        places = tuple(
            (*row, ", ".join(kind for kind, fields in kinds.items() if field in fields))
            for row, (_, _, field) in zip(cells, rows, strict=True)
        )
        return (Table(title, (*columns, "in records"), places, notes, least=("type", "in tables")),)

    def record(self) -> object:
        """JSON schema of a command or a kind of record; for other names, the fields of the glossary."""
        if self.name is not None and self.name in _kinds():
            return {**json_schema(self.name), "$defs": definitions()}
        return [field._asdict() for field in self._fields()]

    def markdown(self) -> str:
        """Return the tables in Markdown; for all fields, the documentation page."""
        if self.name is not None:
            return super().markdown()
        answers = [f"- `{question}`: {_listed(question)}\n" for question in questions()]
        inside = [f"- `{kind}`: {_listed(kind)}\n" for kind in _kinds() if kind not in questions()]
        parts = [_FOR_PEOPLE, "\n## Results\n\n", *answers, "\n## Nested records\n\n", *inside]
        return "".join([*parts, "\n## Fields\n\n", "\n".join(map(_documented, self.tables()))])

    def _fields(self) -> list[Field]:
        """Return all fields, or the fields with the given name or column heading; the heading may lack its unit."""
        fields = list(glossary().values())
        if self.name is None:
            return fields
        return [field for field in fields if self.name in _names(field)] or _patterns(fields, self.name)


def _patterns(fields: Iterable[Field], heading: str) -> list[Field]:
    """Return the fields whose heading has a variable part, such as a percentile, and matches the given heading."""
    forms = [(field, field.heading.partition("{}")) for field in fields if "{}" in field.heading]
    return [
        field
        for field, (before, _, after) in forms
        for inside, unit in [(".+", "") if field.tables_alone else (_STATISTIC, "?")]
        if re.fullmatch(f"{re.escape(before)}{inside}({re.escape(after)}){unit}", heading)
    ]


def _names(field: Field) -> set[str]:
    """All names by which a field can be looked up: its name in records, and its headings with and without units."""
    headings = {field.head(), field.head("p90")}
    return {_in_records(field), *headings, *(heading.rpartition(" ")[0] for heading in headings)} - {""}


def _in_records(field: Field) -> str:
    """Name of a field in records; for columns that exist only in tables, their heading."""
    return field.name.partition(".")[2] or field.name


def _headed(field: Field) -> str:
    """Heading of a field with an example value in its number format."""
    heading = field.heading.replace("{}", "..") if field.tables_alone else field.head("p90")
    if not heading or field.type.strip("?") != "number":
        return heading
    value = _EXAMPLE / field.factor
    return f"{heading}: {value:.5g} as {field.text(value)}"


def _listed(kind: str) -> str:
    return ", ".join(f"`{entry.name}{'~' * entry.ends}`" for entry in entries(kind))


def _documented(table: Table) -> str:
    """Markdown of a table of fields and its notes, with names and headings as code."""
    names = [column in ("field", "type", "in tables", "heading") for column in table.columns]
    rows = tuple(
        tuple(f"`{cell}`" if name and cell else cell for name, cell in zip(names, row, strict=True))
        for row in table.rows
    )
    return replace(table, rows=rows).markdown() + listed(table.every_note)
