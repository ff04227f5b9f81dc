"""Parts of specifications: quantities, and numbers that name their sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError, PydanticKnownError

from inference_econ.errors import InputError
from inference_econ.inputs._spec import Spec as Spec
from inference_econ.inputs._yaml import Location
from inference_econ.inputs.dtype import BYTES_PER_ELEMENT, SIZED, is_format
from inference_econ.inputs.units import EXAMPLES, LEAST, looks_like_quantity, parse_quantity

T = TypeVar("T")
#: Quantities beyond these are slips of the unit, and would overflow on the way to a result.
_SMALLEST, _LARGEST = 1e-15, 1e24
#: No number of heads, layers or tokens, and no dimension or number of parameters, is larger [1].
_MOST, _LARGEST_SIZE = 1_000_000_000, 1e15


def quantity_error(problem: object) -> PydanticCustomError:
    """Mistake of a value that names what was given itself."""
    return PydanticCustomError("quantity", "{problem}", {"problem": str(problem)})


def in_file(read: Callable[[Any], T]) -> Callable[[Any], T]:
    """Reader of a value whose refusals are mistakes of the file that it stands in."""

    def reader(value: object) -> T:
        try:
            return read(value)
        except InputError as error:
            raise quantity_error(error) from error

    return reader


def _quantity(unit: str, least: float = 0.0) -> BeforeValidator:
    """Read a quantity in a unit; one below the least that there can be lost its unit, and is refused."""
    parse = in_file(partial(parse_quantity, unit=unit))

    def read(value: object) -> float:
        number = parse(value)
        if number and not _SMALLEST <= abs(number) <= _LARGEST:
            raise quantity_error(f"{value!r} cannot be meant: {number:g} {unit}; write for example {EXAMPLES[unit]!r}")
        if 0.0 < number < least:
            example = f"write for example {EXAMPLES[unit]!r}"
            raise quantity_error(f"{value!r} is {number:g} {unit}, less than there is; {example}")
        return number

    return BeforeValidator(read, json_schema_input_type=float | str)


def _no_slip(share: float) -> float:
    """A share that results can be divided by."""
    if share < _SMALLEST:
        raise quantity_error(f"{share:g} cannot be meant; shares are from {_SMALLEST:g} to 1")
    return share


def _format(name: str) -> str:
    """A number format that is known by its name, or by the size of its blocks or groups."""
    if not is_format(name):
        *others, last = map(repr, BYTES_PER_ELEMENT)
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(others)} or {last}"})
    return name


#: A number format; see :data:`inference_econ.inputs.dtype.SIZED` for those that have a size in their name.
Dtype = Annotated[
    str,
    AfterValidator(_format),
    WithJsonSchema(
        {"anyOf": [{"enum": list(BYTES_PER_ELEMENT)}, {"type": "string", "pattern": f"^({SIZED.pattern})$"}]}
    ),
]
Bytes = Annotated[float, _quantity("B"), Field(gt=0)]
#: Bytes of the whole memory of a chip.
Memory = Annotated[float, _quantity("B", LEAST["memory"]), Field(gt=0)]
BytesPerSecond = Annotated[float, _quantity("B/s", LEAST["B/s"]), Field(gt=0)]
FlopsPerSecond = Annotated[float, _quantity("FLOP/s", LEAST["FLOP/s"]), Field(gt=0)]
Seconds = Annotated[float, _quantity("s"), Field(ge=0)]
Watts = Annotated[float, _quantity("W", LEAST["W"]), Field(gt=0)]
DollarsPerHour = Annotated[float, _quantity("USD/h"), Field(gt=0)]
Fraction = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False), AfterValidator(_no_slip)]
#: A dimension or head count; the scaled variants of the published study are fractional.
Size = Annotated[int | float, Field(gt=0, le=_LARGEST_SIZE, allow_inf_nan=False)]
Count = Annotated[int, Field(gt=0, le=_MOST)]
Date = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
Names = Annotated[tuple[str, ...], Field(min_length=1, strict=False)]
Formats = Annotated[tuple[Dtype, ...], Field(min_length=1, strict=False)]
SourceKind = Literal["measured", "published", "derived", "assumed", "what_if"]


class Source(Spec):
    """The origin of one field of a specification."""

    ref: str = Field(min_length=1)
    """Key of the reference in ``references.bib``, or ``user`` for a value given on the command line."""
    where: str = Field(min_length=1)
    """Page, table, field or file inside the reference, and how the value was derived from it."""
    kind: SourceKind
    """How sure it is: measured by somebody, published by the vendor, derived by a formula, or assumed;
    or a what-if, set for one question."""


class SourcedSpec(Spec):
    """A specification whose every number names its source.

    ``sources`` maps a field, or a dotted path to one, to a :class:`Source`; an entry
    covers everything below its field, and the most specific entry counts.
    """

    written: ClassVar[Mapping[str, str]] = {
        "sources": "write 'sources: {FIELD: {ref: mine, where: where from, kind: assumed}}' for all numbers below FIELD"
    }

    name: str = Field(min_length=1)
    """Name that readers know it by."""
    description: str = ""
    """One or two sentences for people."""
    sources: dict[str, Source]
    """The source of every number in this file, keyed by field."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        problems = source_mistakes(self.model_dump(exclude_none=True, exclude_unset=True))
        if problems:
            raise PydanticCustomError("sources", "{problem}", {"problem": problems[0][1]})
        self._check_fields()
        return self

    @classmethod
    def _further_mistakes(cls, data: Mapping[str, Any]) -> list[tuple[Location, str]]:
        return source_mistakes({key: _plain(value) for key, value in data.items()})


def _plain(value: Any) -> Any:
    """Plain data that a file would hold in the place of specifications that are built already."""
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_none=True, exclude_unset=True)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def source_mistakes(data: Mapping[str, Any]) -> list[tuple[Location, str]]:
    """Numbers without a source, and sources without a field, with their locations."""
    sources = data.get("sources")
    if not isinstance(sources, Mapping):
        return []
    fields = {key: value for key, value in data.items() if key != "sources"}
    mistakes: list[tuple[Location, str]] = []
    for location in _numbers(fields, (), sources):
        path = covering_keys(location)[0]
        mistakes.append(
            (location, f"{path} has no source; add '{path}: {{ref: ..., where: ..., kind: ...}}' to sources")
        )
    strays = [key for key in sources if not _exists(data, key)]
    if strays:  # or names with a point in them
        used = {key for location in _numbers(fields, (), {}) for key in covering_keys(location)}
        strays = [key for key in strays if key not in used]
    mistakes += [(("sources", key), f"sources: {key!r} names no field of this file") for key in strays]
    return mistakes


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


def _numbers(value: Any, location: Location, sources: Mapping[str, Any], path: str = "") -> Iterator[Location]:
    """Locations of numbers below a path that no source covers."""
    if path and path in sources:
        return
    if isinstance(value, Mapping):
        if "ref" in value and "kind" in value:  # a price or constant that carries its own source
            return
        for key, item in value.items():
            yield from _numbers(item, (*location, key), sources, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _numbers(item, (*location, index), sources, f"{path}.{index}")
    elif isinstance(value, bool):
        return
    elif isinstance(value, (int, float)) or (isinstance(value, str) and looks_like_quantity(value)):
        yield location
