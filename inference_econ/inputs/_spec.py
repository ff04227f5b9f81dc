"""Strict data, and what is said of mistakes in it: with a line if they stand in a file."""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial, reduce
from inspect import Parameter, Signature
from operator import getitem, or_
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError, PydanticKnownError

from inference_econ.errors import InputError, SpecError
from inference_econ.inputs import _yaml
from inference_econ.inputs._described import describe
from inference_econ.inputs._yaml import Document, Location
from inference_econ.inputs.dtype import BYTES_PER_ELEMENT, SIZED, is_format
from inference_econ.inputs.units import EXAMPLES, LEAST, looks_like_quantity, parse_quantity

if typing.TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
    from pydantic_core import CoreSchema, ErrorDetails
else:
    ModelMetaclass = type(BaseModel)


#: Unknown keys of a document that is perhaps of another kind, at least, of which so many are told.
_STRANGE = 3


class _Readable(ModelMetaclass):
    """Classes whose signature says fields with plain types, as people write them, and their defaults."""

    @property
    def __signature__(self) -> Signature:
        """Parameters of the class; constraints stand in the docstrings of fields."""
        fields = typing.cast("type[BaseModel]", self).model_fields
        return Signature(
            [
                Parameter(
                    name,
                    Parameter.KEYWORD_ONLY,
                    default=Parameter.empty if field.is_required() else field.get_default(call_default_factory=True),
                    annotation=_plain(field.annotation),
                )
                for name, field in fields.items()
            ]
        )

    @__signature__.setter
    def __signature__(self, generated: Signature) -> None:
        """Leave out the signature that pydantic generates, which has all constraints in it."""


def _plain(kind: Any) -> Any:
    """A type without its constraints.

    Examples
    --------
    >>> _plain(typing.Annotated[int | float, "> 0"] | None)
    int | float | None
    """
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is None or origin is typing.Literal:
        return kind
    if origin is typing.Annotated:
        return _plain(inside[0])
    if origin in (typing.Union, UnionType):
        return reduce(or_, map(_plain, inside))
    return origin[tuple(map(_plain, inside))]


class Spec(BaseModel, metaclass=_Readable):
    """Base of all specifications: strict, frozen, unknown keys refused.

    Raises
    ------
    SpecError
        With every mistake in the values given.
    """

    # Of the many that are known, a command reads few: the others are never made ready.
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", defer_build=True)

    #: Where fields are that were elsewhere once, so that who uses the old name is told the new one, or several with
    #: " or " between them.
    moved: ClassVar[Mapping[str, str]] = {}
    #: What to write where a field is missing that is always written in one way.
    written: ClassVar[Mapping[str, str]] = {}

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise self._wrong(_without_lines(data, type(self).__name__), error) from None

    # Otherwise pydantic would build nested specifications through ``__init__`` and lose where their mistakes are.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @model_validator(mode="after")
    def _checked(self) -> Self:
        self._check_fields()
        return self

    def _check_fields(self) -> None:
        """Refuse, with ValueError, fields that do not go together."""

    def replace(self, **changes: object) -> Self:
        """A copy with some fields changed, validated like a file.

        Of a field that is a specification itself, a mapping changes only what it names, unless it names another kind.

        Raises
        ------
        SpecError
            If a field is unknown or a value is not allowed.
        """
        data = {name: getattr(self, name) for name in self.model_fields_set}
        nested = {name: self._nested(name, value) for name, value in changes.items()}
        return self.build({**data, **nested}, origin=type(self).__name__)

    def _nested(self, name: str, change: object) -> object:
        """Value of a field after a change: all of it, or a part of the specification that it holds."""
        before = getattr(self, name, None)
        if not isinstance(before, Spec) or not isinstance(change, Mapping) or "kind" in change:
            return change
        fields = {key: getattr(before, key) for key in before.model_fields_set}
        return {**fields, **{key: before._nested(key, value) for key, value in change.items()}}

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The JSON schema, where docstrings below fields are their descriptions."""
        schema = handler(core_schema)
        describe(cls, handler.resolve_ref_schema(schema).get("properties", {}))
        return schema

    @classmethod
    def build(cls, data: Mapping[str, object], *, origin: str) -> Self:
        """Validate plain data; mistakes are reported under ``origin``."""
        return cls.from_document(_without_lines(data, origin))

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
            raise cls._wrong(document, error) from error

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Read a YAML file; see :func:`inference_econ.inputs._yaml.read_yaml` and :meth:`from_document`."""
        return cls.from_document(_yaml.read_yaml(path))

    @classmethod
    def _wrong(cls, document: Document, error: ValidationError) -> SpecError:
        """The mistakes that pydantic found, and those that it would have found behind them, in our words."""
        details = error.errors(include_url=False)
        # One mistake in the place of dozens, if most keys of a document are those of something else.
        top = [detail for detail in details if len(detail["loc"]) == 1 and detail["type"] == "extra_forbidden"]
        unknown = [str(detail["loc"][0]) for detail in top]
        if len(unknown) >= max(_STRANGE, len(document.data) // 2 + 1) and not cls.moved.keys() & unknown:
            return SpecError(
                [
                    f"{document.where(())}: another kind of file is needed here: {len(unknown)} of its "
                    f"{len(document.data)} keys are unknown ({', '.join(unknown[:_STRANGE])}, ...); "
                    f"allowed: {', '.join(sorted(cls.model_fields))}"
                ]
            )
        errors = [*details, *cls._behind_kinds(document, details)]
        mistakes = {
            _in_document(document.data, detail["loc"]): _mistake(cls, document, detail)
            for detail in errors
            # A list or mapping may only count as empty because of mistakes inside it.
            if detail["type"] != "too_short"
            or not any(e["loc"][: len(detail["loc"])] == detail["loc"] and e is not detail for e in errors)
        }
        unsourced = cls._further_mistakes(document.data)
        if unsourced and details[0]["type"] == "sources":
            mistakes = {}  # the same again, without a line
        for location, problem in unsourced:
            mistakes.setdefault(location, f"{document.where(location)}: {problem}")
        return SpecError(sorted(set(mistakes.values()), key=by_line))

    @classmethod
    def _behind_kinds(cls, document: Document, details: Sequence[ErrorDetails]) -> Iterator[ErrorDetails]:
        """Mistakes below a kind that there is not: those that the kind most like it would have."""
        for detail in details:
            likely = _likely_kind(cls, detail) if detail["type"] == "union_tag_invalid" and detail["loc"] else None
            if likely is None:
                continue
            location, inside = _in_document(document.data, detail["loc"]), len(detail["loc"])
            data = deepcopy(document.data)
            reduce(getitem, location, data)["kind"] = likely  # type: ignore[arg-type]
            try:
                cls.model_validate(data)
            except ValidationError as error:
                below = error.errors(include_url=False)
                yield from (other for other in below if other["loc"][:inside] == detail["loc"] != other["loc"])

    @classmethod
    def _further_mistakes(cls, data: Mapping[str, Any]) -> list[tuple[Location, str]]:
        """Mistakes of the whole, which pydantic does not look for while a part is wrong."""
        del data
        return []


def _without_lines(data: Mapping[str, object], origin: str) -> Document:
    return Document(dict(data), origin, {(): (origin, 0)})  # type: ignore[arg-type]


def _mistake(cls: type[Spec], document: Document, detail: ErrorDetails) -> str:
    location = _in_document(document.data, detail["loc"])
    path = ".".join(str(part) for part in location) or "the file"
    where = document.where(location)
    value, kind, context = detail["input"], detail["type"], detail.get("ctx", {})
    if kind == "sources":
        return f"{where}: {context['problem']}"
    if kind == "missing":
        remedy = cls.written.get(str(location[-1]), "")
        return f"{where}: {path} is missing{remedy and f'; {remedy}'}"
    if kind == "extra_forbidden":
        name = str(location[-1])
        moved = cls.moved.get(name)
        remedy = f"it is now {_names(moved)}" if moved else _nearest(name, _fields_at(cls, detail["loc"]), cls.moved)
        return f"{where}: unknown key {path!r}; {remedy}"
    if kind == "quantity":
        return f"{where}: {path}: {context['problem']}"
    sign = {"greater_than": ">", "greater_than_equal": ">=", "less_than": "<", "less_than_equal": "<="}.get(kind)
    if sign is not None:
        limit = next(bound for key, bound in context.items() if key in ("gt", "ge", "lt", "le"))
        return f"{where}: {path} must be {sign} {limit:g}, got {value!r}"
    if kind == "literal_error":
        return f"{where}: {path}: got {value!r}; allowed: {context['expected']}"
    if kind == "union_tag_invalid":
        likely = _likely_kind(cls, detail)
        hint = "" if likely is None else f"did you mean {likely!r}? "
        return f"{where}: {path}.kind: got {context['tag']!r}; {hint}allowed: {context['expected_tags']}"
    if kind == "union_tag_not_found":
        return f"{where}: {path} needs a 'kind'"
    message = detail["msg"].removeprefix("Value error, ")
    if not location and where == document.origin:
        return f"{where}: {message}"  # of the whole, and in no file
    return f"{where}: {path}: {message}" + ("" if isinstance(value, (dict, BaseModel)) else f", got {value!r}")


#: Parts of a location that no file contains: a key itself, and the tag :data:`TAG` of a union.
TAG = "[kind]"
_UNWRITTEN = ("[key]", TAG)


def _in_document(data: Any, loc: tuple[str | int, ...]) -> Location:
    """Drop the union tags that pydantic puts into a location but no file contains."""
    location: list[str | int] = []
    below_tag = False
    for index, part in enumerate(loc):
        if isinstance(data, Mapping):
            # A kind may have the name of one of its fields: {kind: experts, experts: 8}.
            is_tag = not below_tag and data.get("kind") == part
            below_tag = is_tag
            if is_tag or part in _UNWRITTEN or (part not in data and index < len(loc) - 1):
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
            model
            for candidate in classes
            if isinstance(part, str) and part in candidate.model_fields
            for model in _models_in(candidate.model_fields[part].annotation)
        }
        tagged = {
            candidate
            for candidate in classes
            if "kind" in candidate.model_fields and part in typing.get_args(candidate.model_fields["kind"].annotation)
        }
        classes = below or tagged or classes
    return sorted({name for candidate in classes for name in candidate.model_fields})


def _likely_kind(cls: type[BaseModel], detail: ErrorDetails) -> str | None:
    """The kind that is spelt most like the one given, else the one with most of the other keys, if it has any."""
    kinds: list[str] = re.findall(r"'([^']+)'", detail["ctx"]["expected_tags"])
    spelt: list[str] = difflib.get_close_matches(str(detail["ctx"]["tag"]), kinds, n=1)
    if spelt:
        return spelt[0]
    keys = set(detail["input"]) - {"kind"}
    shared = {kind: len(keys & {*_fields_at(cls, (*detail["loc"], kind, ""))}) for kind in kinds}
    return max(shared, key=shared.__getitem__) if any(shared.values()) else None


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models_in(argument)


#: Words of people for parts of field names.
_WORDS = {
    "bandwidth": "bytes_per_second",
    "flops": "flops_per_second",
    "memory": "hbm_bytes",
    "power": "watts",
    "tdp": "watts",
    "vram": "hbm_bytes",
}
#: Names that a hint lists at most [1].
_MOST_NAMES = 4


def _nearest(key: str, allowed: list[str], moved: Mapping[str, str]) -> str:
    best = difflib.get_close_matches(key, [*allowed, *(name for name in moved if name not in allowed)], n=2)
    if best:
        return f"did you mean {' or '.join(_names(moved.get(name, name)) for name in best)}?"
    words = [_WORDS.get(word, word) for word in key.lower().split("_") if len(word) > 2]
    alike = [name for name in allowed if any(word in name for word in words)][:_MOST_NAMES]
    if alike:
        return f"did you mean {' or '.join(map(_names, alike))}?"
    return f"allowed: {', '.join(allowed)}"


def _names(moved: str) -> str:
    """One or several names of fields, quoted."""
    return " or ".join(map(repr, moved.split(" or ")))


def by_line(text: str) -> tuple[str, int, str]:
    """Key by which mistakes are sorted: file, line, words."""
    origin, _, rest = text.partition(":")
    line, _, _ = rest.partition(":")
    return (origin, int(line) if line.isdigit() else 0, text)


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
            raise quantity_error(f"{value!r} is out of range: {number:g} {unit}; write for example {EXAMPLES[unit]!r}")
        if 0.0 < number < least:
            example = f"write for example {EXAMPLES[unit]!r}"
            raise quantity_error(f"{value!r} is {number:g} {unit}, less than there is; {example}")
        return number

    return BeforeValidator(read, json_schema_input_type=float | str)


def _no_slip(share: float) -> float:
    """A share that results can be divided by."""
    if share < _SMALLEST:
        raise quantity_error(f"{share:g} is out of range; shares are from {_SMALLEST:g} to 1")
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
        return source_mistakes({key: _plain_base(value) for key, value in data.items()})


def _plain_base(value: Any) -> Any:
    """Plain data that a file would hold in the place of specifications that are built already."""
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_none=True, exclude_unset=True)
    if isinstance(value, Mapping):
        return {key: _plain_base(item) for key, item in value.items()}
    return [_plain_base(item) for item in value] if isinstance(value, (list, tuple)) else value


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
