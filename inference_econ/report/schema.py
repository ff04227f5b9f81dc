"""Schemas of answers as JSON and as a page of the documents, made of the glossary of fields."""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from inference_econ.errors import UnknownNameError
from inference_econ.report.fields import ENDS, GIGABYTES, Field, glossary
from inference_econ.report.page import Page, Table

#: Types of JSON, by what the glossary calls them; all others are kinds of records.
_TYPES: Mapping[str, str] = {
    "number": "number", "integer": "integer", "boolean": "boolean", "text": "string", "null": "null",
}  # fmt: skip
#: Parts of a type between bars that no bracket encloses.
_ALTERNATIVES = re.compile(r"(?:\([^)]*\)|[^|()])+")
_ENTRY = re.compile(r"(?P<name>[\w-]+)(?P<ends>~?)(?P<optional>\??)(:(?P<type>\S+))?")
#: What stands between the name and the unit of a heading.
_STATISTIC = r"(mean|median|p[\d.]+)"
#: What is written to show how, in the unit that is written.
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
    """A field of a kind of record."""

    field: Field
    """Row of the glossary that holds there."""
    name: str
    """Name in the record."""
    type: str
    """Type of its values there."""
    ends: bool
    """True if the record has both ends of it, too."""
    optional: bool
    """True if some records of the kind lack it."""


@cache
def _document() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads(Path(__file__).with_name("records.toml").read_text(encoding="utf-8"))


def questions() -> tuple[str, ...]:
    """Return the questions whose answers are described."""
    return tuple(_document()["answers"])


def _kinds() -> Mapping[str, str]:
    """Return what answers and kinds of records hold, by their names."""
    return {**_document()["answers"], **_document()["records"]}


def entries(kind: str, within: tuple[str, ...] = ()) -> Iterator[SchemaField]:
    """Yield the fields of a kind of record, or of the answer to a question.

    Parameters
    ----------
    kind : str
        Of record, or a question.
    within : tuple of str
        Kinds that it is a part of; what their fields say goes first.

    Raises
    ------
    KeyError
        If there is no such kind, or the glossary lacks one of its fields.
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
    """Return what a kind of record, or the answer to a question, holds.

    Parameters
    ----------
    kind : str
        Of record, or a question.
    place : str
        Where schemas of records stand that are inside of it.
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
    """Return the schemas of all kinds of records that are inside of answers."""
    return {kind: json_schema(kind, place) for kind in _document()["records"]}


def _of_type(text: str, place: str) -> dict[str, Any]:
    """Return the schema of a type as the glossary writes it."""
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
    """The glossary, or what it says of one name, ready to be shown.

    Attributes
    ----------
    name : str or None
        A question, a kind of record, a field or the heading of a column; None for all fields.

    Raises
    ------
    UnknownNameError
        If there is no such name.
    """

    name: str | None = None

    def __post_init__(self) -> None:
        """Refuse names that mean nothing."""
        if self.name is None or self.name in _kinds() or self._fields():
            return
        names = sorted({*_kinds(), *(_in_records(field) for field in glossary().values())})
        # Whoever types the beginning of a name means it more than one that only resembles it.
        begun = [name for name in names if self.name and name.startswith(self.name.lower())]
        near = [*dict.fromkeys((*begun, *get_close_matches(self.name, names, n=4)))][:4]
        hint = f"did you mean {', '.join(near)}?" if near else f"questions: {', '.join(questions())}"
        raise UnknownNameError(
            f"{self.name!r} is no field, record or question; {hint} 'inference-econ list fields' lists all fields"
        )

    def tables(self) -> Sequence[Table]:
        """One row per field."""
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
        # The questions and kinds of records that hold each field.
        kinds = {kind: [entry.field for entry in entries(kind)] for kind in _kinds()}
        places = tuple(
            (*row, ", ".join(kind for kind, fields in kinds.items() if field in fields))
            for row, (_, _, field) in zip(cells, rows, strict=True)
        )
        return (Table(title, (*columns, "in records"), places, notes, least=("type", "in tables")),)

    def record(self) -> object:
        """The JSON schema of a question or of a kind of record; the fields as they are in the glossary otherwise."""
        if self.name is not None and self.name in _kinds():
            return {**json_schema(self.name), "$defs": definitions()}
        return [field._asdict() for field in self._fields()]

    def markdown(self) -> str:
        """Markdown of the tables; of all fields, the page of the documents."""
        if self.name is not None:
            return super().markdown()
        answers = [f"- `{question}`: {_listed(question)}\n" for question in questions()]
        inside = [f"- `{kind}`: {_listed(kind)}\n" for kind in _kinds() if kind not in questions()]
        parts = [_FOR_PEOPLE, "\n## Results\n\n", *answers, "\n## Nested records\n\n", *inside]
        return "".join([*parts, "\n## Fields\n\n", super().markdown()])

    def _fields(self) -> list[Field]:
        """Return all fields, or those of a name or of the heading of a column, with its unit or without."""
        fields = list(glossary().values())
        if self.name is None:
            return fields
        return [field for field in fields if self.name in _names(field)] or _patterns(fields, self.name)


def _patterns(fields: Iterable[Field], heading: str) -> list[Field]:
    """Return the fields whose headings hold a percentile or differ in a part, as that one does."""
    forms = [(field, field.heading.partition("{}")) for field in fields if "{}" in field.heading]
    return [
        field
        for field, (before, _, after) in forms
        for inside, unit in [(".+", "") if field.tables_alone else (_STATISTIC, "?")]
        if re.fullmatch(f"{re.escape(before)}{inside}({re.escape(after)}){unit}", heading)
    ]


def _names(field: Field) -> set[str]:
    """Names that ask for a field: its name in records, and its headings, with their units or without."""
    headings = {field.head(), field.head("p90")}
    return {_in_records(field), *headings, *(heading.rpartition(" ")[0] for heading in headings)} - {""}


def _in_records(field: Field) -> str:
    """The name of a field in records; the heading of a column that tables alone have."""
    return field.name.partition(".")[2] or field.name


def _headed(field: Field) -> str:
    """Write the heading of a field, and of a number how one is written under it."""
    heading = field.heading.replace("{}", "..") if field.tables_alone else field.head("p90")
    if not heading or field.type.strip("?") != "number":
        return heading
    value = _EXAMPLE / field.factor
    return f"{heading}: {value:.5g} as {field.text(value)}"


def _listed(kind: str) -> str:
    return ", ".join(f"{entry.name}{'~' * entry.ends}" for entry in entries(kind))
