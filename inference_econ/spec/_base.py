"""What every specification shares: strictness, sources, and messages with a line."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from inference_econ.errors import SpecError, UnitError
from inference_econ.spec._yaml import Document, Location
from inference_econ.spec.source import Source
from inference_econ.units import EXAMPLES, looks_like_quantity, parse_quantity

#: Quantities beyond these are slips of the unit, and would overflow on the way to a result.
_SMALLEST, _LARGEST = 1e-15, 1e24


def _quantity(unit: str) -> BeforeValidator:
    def read(value: object) -> float:
        try:
            number = parse_quantity(value, unit)
        except UnitError as error:
            raise PydanticCustomError("quantity", "{problem}", {"problem": str(error)}) from error
        if number and not _SMALLEST <= abs(number) <= _LARGEST:
            problem = f"{value!r} cannot be meant: {number:g} {unit}; write for example {EXAMPLES[unit]!r}"
            raise PydanticCustomError("quantity", "{problem}", {"problem": problem})
        return number

    return BeforeValidator(read, json_schema_input_type=float | str)


Bytes = Annotated[float, _quantity("B"), Field(gt=0)]
BytesPerSecond = Annotated[float, _quantity("B/s"), Field(gt=0)]
FlopsPerSecond = Annotated[float, _quantity("FLOP/s"), Field(gt=0)]
Seconds = Annotated[float, _quantity("s"), Field(ge=0)]
Watts = Annotated[float, _quantity("W"), Field(gt=0)]
DollarsPerHour = Annotated[float, _quantity("USD/h"), Field(gt=0)]
Fraction = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
#: A dimension or head count; the scaled variants of the published study are fractional.
Size = Annotated[int | float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(gt=0)]


class Spec(BaseModel):
    """Base of all specifications: strict, frozen, unknown keys refused."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", use_attribute_docstrings=True)

    def replace(self, **changes: object) -> Self:
        """A copy with some fields changed, validated like a file.

        Raises
        ------
        SpecError
            If a field is unknown or a value is not allowed.
        """
        data = {name: getattr(self, name) for name in self.model_fields_set}
        return self.build({**data, **changes}, origin=type(self).__name__)

    @classmethod
    def build(cls, data: Mapping[str, object], *, origin: str) -> Self:
        """Validate plain data; mistakes are reported under ``origin``."""
        return cls.from_document(Document(dict(data), origin))  # type: ignore[arg-type]

    @classmethod
    def from_document(cls, document: Document) -> Self:
        """Validate a document that was read from YAML.

        Raises
        ------
        SpecError
            With every mistake of the document, each with its file and line.
        """
        try:
            return cls.model_validate(document.data)
        except ValidationError as error:
            details = error.errors(include_url=False)
            mistakes = {
                _in_document(document.data, detail["loc"]): _mistake(cls, document, detail)
                for detail in details
                if not _is_echo(detail, details)
            }
            unsourced = source_mistakes(document.data) if issubclass(cls, SourcedSpec) else []
            if unsourced and details[0]["type"] == "sources":
                mistakes = {}  # the same again, without a line
            for location, problem in unsourced:
                mistakes.setdefault(location, f"{document.where(location)}: {problem}")
            raise SpecError(sorted(set(mistakes.values()), key=_by_line)) from error


class SourcedSpec(Spec):
    """A specification whose every number names its source.

    ``sources`` maps a field, or a dotted path to one, to a :class:`Source`; an entry
    covers everything below its field, and the most specific entry counts.
    """

    name: str = Field(min_length=1)
    """What a reader calls it."""
    description: str = ""
    """One or two sentences for people."""
    sources: dict[str, Source]
    """The source of every number in this file, keyed by field."""

    @model_validator(mode="after")
    def _every_number_has_a_source(self) -> Self:
        problems = source_mistakes(self.model_dump(exclude_none=True, exclude_unset=True))
        if problems:
            raise PydanticCustomError("sources", "{problem}", {"problem": problems[0][1]})
        return self


def source_mistakes(data: Mapping[str, Any]) -> list[tuple[Location, str]]:
    """Numbers without a source, and sources without a field, with their locations."""
    sources = data.get("sources")
    if not isinstance(sources, Mapping):
        return []
    found: list[tuple[Location, str]] = []
    used: set[str] = set()
    for location in _numbers({key: value for key, value in data.items() if key != "sources"}, ()):
        keys = covering_keys(location)
        used.update(keys)
        if not any(key in sources for key in keys):
            path = keys[0]
            found.append(
                (location, f"{path} has no source; add '{path}: {{ref: ..., where: ..., kind: ...}}' to sources")
            )
    strays = (key for key in sources if key not in used and not _exists(data, key))
    found += [(("sources", key), f"sources: {key!r} names no field of this file") for key in strays]
    return found


def covering_keys(location: Location) -> list[str]:
    """Keys of ``sources`` that would cover a location, the most specific first."""
    names = [str(part) for part in location]
    return [".".join(names[:end]) for end in range(len(names), 0, -1)]


def _exists(data: Any, key: str) -> bool:
    for part in key.split("."):
        if isinstance(data, Mapping) and part in data:
            data = data[part]
        elif isinstance(data, (list, tuple)) and part.isdecimal() and int(part) < len(data):
            data = data[int(part)]
        else:
            return False
    return True


def _numbers(value: Any, location: Location) -> Iterator[Location]:
    if isinstance(value, Mapping):
        if "ref" in value and "kind" in value:  # a price or constant that carries its own source
            return
        for key, item in value.items():
            yield from _numbers(item, (*location, key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _numbers(item, (*location, index))
    elif isinstance(value, bool):
        return
    elif isinstance(value, (int, float)) or (isinstance(value, str) and looks_like_quantity(value)):
        yield location


def _mistake(cls: type[Spec], document: Document, detail: ErrorDetails) -> str:
    location = _in_document(document.data, detail["loc"])
    path = ".".join(str(part) for part in location) or "the file"
    where = document.where(location)
    given, kind, context = detail["input"], detail["type"], detail.get("ctx", {})
    if kind == "sources":
        return f"{where}: {context['problem']}"
    if kind == "missing":
        return f"{where}: {path} is missing"
    if kind == "extra_forbidden":
        return f"{where}: unknown key {path!r}; {_nearest(str(location[-1]), _fields_at(cls, detail['loc']))}"
    if kind == "quantity":
        return f"{where}: {path}: {context['problem']}"
    if kind in ("greater_than", "greater_than_equal", "less_than", "less_than_equal"):
        sign = {"greater_than": ">", "greater_than_equal": ">=", "less_than": "<", "less_than_equal": "<="}[kind]
        limit = next(value for key, value in context.items() if key in ("gt", "ge", "lt", "le"))
        return f"{where}: {path} must be {sign} {limit:g}, got {given!r}"
    if kind == "literal_error":
        return f"{where}: {path}: got {given!r}; allowed: {context['expected']}"
    if kind == "union_tag_invalid":
        return f"{where}: {path}.kind: got {context['tag']!r}; allowed: {context['expected_tags']}"
    if kind == "union_tag_not_found":
        return f"{where}: {path} needs a 'kind'"
    message = detail["msg"].removeprefix("Value error, ")
    return f"{where}: {path}: {message}" + ("" if isinstance(given, (dict, BaseModel)) else f", got {given!r}")


def _is_echo(detail: ErrorDetails, details: list[ErrorDetails]) -> bool:
    """Whether a list or mapping only counts as empty because of mistakes inside it."""
    inside = (other["loc"][: len(detail["loc"])] == detail["loc"] and other is not detail for other in details)
    return detail["type"] == "too_short" and any(inside)


def _in_document(data: Any, loc: tuple[str | int, ...]) -> Location:
    """Drop the union tags that pydantic puts into a location but no file contains."""
    location: list[str | int] = []
    below_tag = False
    for index, part in enumerate(loc):
        if isinstance(data, Mapping):
            # A kind may have the name of one of its fields: {kind: experts, experts: 8}.
            is_tag = not below_tag and data.get("kind") == part
            below_tag = is_tag
            if is_tag or part == "[key]" or (part not in data and index < len(loc) - 1):
                continue
            data = data.get(part)
        elif isinstance(data, (list, tuple)) and isinstance(part, int) and part < len(data):
            data = data[part]
        elif index > 0:
            continue
        location.append(part)
    return tuple(location)


def _fields_at(cls: type[BaseModel], loc: tuple[str | int, ...]) -> list[str]:
    """Names of the fields that were allowed where ``loc`` ends."""
    classes = {cls}
    for part in loc[:-1]:
        below = {
            found
            for candidate in classes
            if isinstance(part, str) and part in candidate.model_fields
            for found in _models_in(candidate.model_fields[part].annotation)
        }
        tagged = {
            candidate
            for candidate in classes
            if "kind" in candidate.model_fields and part in typing.get_args(candidate.model_fields["kind"].annotation)
        }
        classes = below or tagged or classes
    return sorted({name for candidate in classes for name in candidate.model_fields})


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models_in(argument)


def _nearest(given: str, allowed: list[str]) -> str:
    best = difflib.get_close_matches(given, allowed, n=2)
    if best:
        return f"did you mean {' or '.join(map(repr, best))}?"
    return f"allowed: {', '.join(allowed)}"


def _by_line(text: str) -> tuple[str, int, str]:
    origin, _, rest = text.partition(":")
    line, _, _ = rest.partition(":")
    return (origin, int(line) if line.isdigit() else 0, text)
