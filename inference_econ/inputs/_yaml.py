"""Strict YAML reader that records the line number of every value.

PyYAML has three faults: it reads ``3.35e12`` as text and ``no`` as false, and it ignores the first of two equal keys.
This module builds the data from PyYAML's *events* instead, and reads scalars by the rules of YAML 1.2. The parser
rejects duplicate keys, aliases and deep nesting. A small file can therefore not expand to large data.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

from inference_econ.errors import InputError, SpecError
from inference_econ.inputs.places import read_text
from inference_econ.inputs.units import integer, list_index, shortened

#: Path of a value inside a document: mapping keys and list indices.
Location = tuple[str | int, ...]
Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]
_ValueT = TypeVar("_ValueT", bound=Value)

_MAX_BYTES = 1_000_000
_MAX_DEPTH = 24
_MAX_DIGITS = 300
_INTEGER = re.compile(r"[-+]?[0-9]+(?:_[0-9]+)*")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+(?:_[0-9]+)*)?(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.?(?:inf|nan|infinity)", re.IGNORECASE)
_NOT_FINITE_BEGINS = "+-.iInN"
_WORDS: Mapping[str, Value] = {"true": True, "false": False, "null": None, "~": None, "": None}
_LONGEST_WORD = max(map(len, _WORDS))


@dataclass(slots=True)
class Document:
    """Plain data of a file, with the line number of every value."""

    data: dict[str, Value]
    origin: str
    """Name of the file, for messages."""
    lines: dict[Location, tuple[str, int]] = field(default_factory=dict)
    """``location -> (origin, line)``. A merged document has several origins.

    Values set on the command line have line 0.
    """

    @property
    def options(self) -> list[str]:
        """Options that set values, as in the command line; the origin of a document that was not read from a file."""
        return list(dict.fromkeys(origin for origin, line in self.lines.values() if not line))

    def where(self, location: Location) -> str:
        """``file:line`` of a value, or of the nearest enclosing value with a known line."""
        while location and location not in self.lines:
            location = location[:-1]
        origin, line = self.lines.get(location, (self.origin, 1))
        return f"{origin}:{line}" if line else origin


def read_yaml(path: Path) -> Document:
    """Read a YAML file whose top level is a mapping.

    Raises
    ------
    InputError
        If the file cannot be read, is not a regular file, or is larger than 1 MB.
    SpecError
        If the text is not YAML, repeats a key, uses an alias, nests too deep, or contains NaN or infinity.
    """
    origin = str(path)
    try:
        text = read_text(path, _MAX_BYTES)
    except UnicodeDecodeError as error:
        raise SpecError(f"{origin}:1: not a text file in UTF-8 ({error.reason})") from error
    return parse(text, origin)


def parse(text: str, origin: str) -> Document:
    """Read YAML text; see :func:`read_yaml` for errors."""
    document = _parsed(text, origin)
    # Callers modify the result, so each call returns a copy.
    return Document(_copied(document.data), origin, dict(document.lines))


# A query reads the same parts several times, because the profiles of all engines refer to them.
@lru_cache(maxsize=128)
def _parsed(text: str, origin: str) -> Document:
    import yaml  # most commands read validated entries instead

    try:
        builder = _Builder(text, origin, _fast())
    except yaml.YAMLError:
        # The messages of the Python parser are clearer than libyaml's, and equal on every machine.
        try:
            builder = _Builder(text, origin, yaml.SafeLoader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
            line = mark.line + 1 if mark is not None else 1
            problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
            raise SpecError(f"{origin}:{line}: not valid YAML: {problem}") from error
    if builder.mistakes:
        raise SpecError(*builder.mistakes)
    if not isinstance(builder.root, dict):
        kind = type(builder.root).__name__ if builder.root is not None else "nothing"
        raise SpecError(f"{origin}:1: a mapping of field names to values is needed, found {kind}")
    return Document(builder.root, origin, builder.lines)


def _fast() -> type[Any]:
    """Fastest parser in the installed PyYAML. The parser of libyaml is ten times as fast as the Python parser."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _copied(value: _ValueT) -> _ValueT:
    """Deep copy of mappings and lists."""
    if isinstance(value, dict):
        return cast("_ValueT", {key: _copied(item) for key, item in value.items()})
    return cast("_ValueT", [_copied(item) for item in value]) if isinstance(value, list) else value


class _Builder:
    """Builder of plain data from YAML events.

    Reading stops at the first rejected event, because libyaml is slow on deep nesting.
    """

    def __init__(self, text: str, origin: str, loader: type[Any]) -> None:
        import yaml

        self._yaml = yaml
        self.origin = origin
        self.root: Value = None
        self.lines: dict[Location, tuple[str, int]] = {}
        self.mistakes: list[str] = []
        self._events: Iterator[Any] = iter(yaml.parse(text, Loader=loader))
        documents = 0
        for event in self._events:
            if isinstance(event, self._yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._stop(event, "a second document (---) in one file is not accepted")
            elif isinstance(event, self._yaml.NodeEvent):
                self.lines[()] = self._at(event)
                self.root = self._value(event, ())

    def _value(self, event: Any, location: Location) -> Value:
        """Read the value that starts with an event."""
        self._check(event, location)
        if isinstance(event, self._yaml.ScalarEvent):  # the most frequent event
            text: str = event.value
            if event.implicit[0] and text[:1] in _NOT_FINITE_BEGINS and _NOT_FINITE.fullmatch(text):
                self.mistakes.append(f"{self._where(event)}: {text} is not accepted; write a finite number")
                return None
            return scalar(text) if event.implicit[0] else text
        if isinstance(event, self._yaml.SequenceStartEvent):
            items: list[Value] = []
            while not isinstance(event := next(self._events), self._yaml.SequenceEndEvent):
                place = (*location, len(items))
                self.lines[place] = self._at(event)
                items.append(self._value(event, place))
            return items
        data: dict[str, Value] = {}
        while not isinstance(event := next(self._events), self._yaml.MappingEndEvent):
            self._check(event, location)
            if not isinstance(event, self._yaml.ScalarEvent):
                self._stop(event, "a mapping or list cannot be a key")
            key: str = event.value
            if key in data:
                self.mistakes.append(f"{self._where(event)}: {key!r} is given twice; keep one")
            place = (*location, key)
            self.lines[place] = self._at(event)
            data[key] = self._value(next(self._events), place)
        return data

    def _check(self, event: Any, location: Location) -> None:
        """Reject aliases, tags and deep nesting."""
        if isinstance(event, self._yaml.AliasEvent):
            self._stop(event, "aliases (*name) are not accepted; write the value out")
        if isinstance(event, self._yaml.ScalarEvent):
            if event.tag not in (None, "tag:yaml.org,2002:str", "!"):
                self._stop(event, f"the tag {event.tag!r} is not accepted")
        elif not event.implicit:
            self._stop(event, f"the tag {event.tag!r} is not accepted")
        elif len(location) >= _MAX_DEPTH:
            self._stop(event, f"nested deeper than {_MAX_DEPTH} levels")

    def _at(self, event: Any) -> tuple[str, int]:
        return self.origin, event.start_mark.line + 1

    def _where(self, event: Any) -> str:
        return "{}:{}".format(*self._at(event))

    def _stop(self, event: Any, problem: str) -> NoReturn:
        raise SpecError(*self.mistakes, f"{self._where(event)}: {problem}")


def scalar(text: str) -> Value:
    """Convert a plain scalar by the rules of YAML 1.2: ``3.35e12`` is a number, ``no`` is text.

    Examples
    --------
    >>> scalar("3.35e12"), scalar("no"), scalar("true"), scalar("1_000")
    (3350000000000.0, 'no', True, 1000)
    """
    if (
        len(text) <= _LONGEST_WORD
        and text.lower() in _WORDS
        and text in (text.lower(), text.upper(), text.capitalize())
    ):
        return _WORDS[text.lower()]
    if text[0].isalpha():  # the most frequent case
        return text
    if _INTEGER.fullmatch(text) and len(text) < _MAX_DIGITS:
        return integer(text.replace("_", ""))
    if _FLOAT.fullmatch(text) and any(digit.isdigit() for digit in text.lower().partition("e")[0]):
        number = float(text.replace("_", ""))
        if math.isfinite(number):
            return number
    return text


def merge(base: Document, changes: Document) -> Document:
    """Merge changes into a document, mapping by mapping.

    Lists, scalars and empty mappings replace the values of ``base``.
    """
    new: dict[Location, bool] = {(): False}  # true for locations whose value comes from the changes

    def merged(old: dict[str, Value], over: dict[str, Value], location: Location) -> dict[str, Value]:
        data = dict(old)
        for key, value in over.items():
            before = data.get(key)
            if isinstance(before, dict) and isinstance(value, dict) and value:
                data[key] = merged(before, value, (*location, key))
            else:
                data[key] = value
                new[*location, key] = True
        return data

    def is_new(place: Location) -> bool:
        if place not in new:
            new[place] = is_new(place[:-1])
        return new[place]

    data = merged(base.data, changes.data, ())
    lines = {place: line for place, line in base.lines.items() if not is_new(place)}
    lines |= {place: line for place, line in changes.lines.items() if is_new(place)}
    return Document(data, changes.origin, lines)


def graft(document: Document, location: Location, part: Document) -> None:
    """Insert ``part`` at a location of ``document``.

    The sources of ``part`` are added to the sources of ``document``; the location becomes the prefix of their keys.
    """
    content = {key: value for key, value in part.data.items() if key != "sources"}
    target = document.data
    for key in location[:-1]:
        below = target[str(key)]
        assert isinstance(below, dict)
        target = below
    target[str(location[-1])] = content
    document.lines.update({(*location, *place): at for place, at in part.lines.items() if place[:1] != ("sources",)})
    sources = document.data.setdefault("sources", {})
    added = part.data.get("sources", {})
    if isinstance(sources, dict) and isinstance(added, dict):
        prefix = ".".join(str(key) for key in location)
        document.data["sources"] = {**sources, **{f"{prefix}.{key}": value for key, value in added.items()}}


def assign(document: Document, path: Sequence[str], value: Value, origin: str) -> None:
    """Set one value, as ``--set`` does; error messages name ``origin`` instead of a file.

    Raises
    ------
    InputError
        If the path leads through a scalar, exceeds the length of a list, or is longer than the allowed nesting.
    """
    if len(path) > _MAX_DEPTH:
        raise InputError(f"{origin}: {len(path)} levels of names; specifications have {_MAX_DEPTH} at most")
    target: Value = document.data
    location: Location = ()
    for depth, name in enumerate(path):
        key = _key(target, name, origin)
        location = (*location, key)
        if depth == len(path) - 1:
            break
        below = _step(target, key)
        if below is None and isinstance(target, dict):
            below = target[str(key)] = {}
        if not isinstance(below, (dict, list)):
            so_far = ".".join(path[: depth + 1])
            raise InputError(f"{origin}: {so_far!r} is not a mapping or list, so it has no {path[depth + 1]!r}")
        target = below
    if isinstance(target, list) and isinstance(key, int):
        target[key] = value
    elif isinstance(target, dict):
        target[str(location[-1])] = value
    for stale in [place for place in document.lines if place[: len(location)] == location]:
        del document.lines[stale]
    document.lines[location] = (origin, 0)


def value_at(document: Document, path: Sequence[str]) -> Value:
    """Current value at the path that :func:`assign` would set."""
    value: Value = document.data
    for name in path:
        value = _step(value, _key(value, name, document.origin))
    return value


def below(data: Value, path: Sequence[str | int]) -> Value:
    """Value at a path of keys in nested mappings; None if a key does not exist."""
    for key in path:
        data = data.get(str(key)) if isinstance(data, dict) else None
    return data


def _key(container: Value, name: str, origin: str) -> str | int:
    """Convert part of a path to a mapping key or a list index."""
    if not isinstance(container, list):
        return name
    key = list_index(name, len(container))
    if key is None:
        entries = "1 entry" if len(container) == 1 else f"{len(container)} entries"
        raise InputError(f"{origin}: the list has {entries}, counted from 0; got {shortened(name)!r}")
    return key


def _step(container: Value, key: str | int) -> Value:
    if isinstance(container, dict):
        return container.get(str(key))
    return container[key] if isinstance(container, list) and isinstance(key, int) else None


@cache
def entry_title(path: Path) -> str:
    """Title of a catalog entry, read without the rest of its file; empty if the file has no title."""
    line = re.search("^name: .+$", path.read_text(encoding="utf-8"), re.MULTILINE)
    # Most titles are simple. A regular expression is faster than the parser, whose time would dominate.
    if line and (plain := re.fullmatch(r"name: ([A-Za-z][\w .()-]*\w\)?)", line[0])):
        return plain[1]
    return str(parse(line[0], str(path)).data["name"]) if line else ""


def foreign_yaml(text: str, origin: str) -> object:
    """Read YAML text that another program wrote, in which infinity is allowed.

    Raises
    ------
    InputError
        If the text is not YAML; the message names the line.
    """
    import yaml

    try:
        return yaml.load(text, Loader=_fast())
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f":{mark.line + 1}"
        raise InputError(f"{origin}{line}: not YAML: {getattr(error, 'problem', None) or error}") from error


def csv_document(path: Path, key: str, value: Callable[[str, str], object]) -> Document:
    """Read a table as a document that contains one list, with a mapping for each row; blank cells are omitted.

    Parameters
    ----------
    path : Path
        CSV in UTF-8 with the column names in the first line.
    key : str
        Name of the list in the document and in messages.
    value : callable
        Function that converts the text of a cell, given its column name.

    Raises
    ------
    InputError
        If the file cannot be read.
    SpecError
        If the file is not CSV in UTF-8, or a row does not have one cell per column.
    """
    try:
        reader = csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True)
        rows, lines = [], {}
        for number, cells in enumerate(reader):
            lines[key, number] = (str(path), reader.line_num)
            if None in cells or None in cells.values():
                raise SpecError(f"{path}:{reader.line_num}: {len(reader.fieldnames or ())} cells are needed")
            rows.append({name: value(name, text.strip()) for name, text in cells.items() if text.strip()})
    except (UnicodeDecodeError, csv.Error) as error:
        raise SpecError(f"{path}: not a CSV file in UTF-8 ({error})") from error
    data = cast("dict[str, Value]", {key: rows})
    return Document(data, str(path), cast("dict[Location, tuple[str, int]]", lines))
