"""Base classes and field types of specifications, and errors that name file and line."""

from __future__ import annotations

import ast
import difflib
import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache, partial, reduce
from inspect import Parameter, Signature
from itertools import pairwise
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

from inference_econ.errors import InputError, SpecError, unsafe_character
from inference_econ.inputs import _yaml
from inference_econ.inputs._yaml import Document, Location
from inference_econ.inputs.dtype import BYTES_PER_ELEMENT, SIZED, is_format
from inference_econ.inputs.kept import kept
from inference_econ.inputs.units import EXAMPLES, LEAST, list_index, looks_like_quantity, parse_quantity

if typing.TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
    from pydantic_core import CoreSchema, ErrorDetails
else:
    ModelMetaclass = type(BaseModel)


#: A document with at least this number of unknown keys may be of another kind. A message lists at most this number of
#: keys [1].
_STRANGE = 3


class _Readable(ModelMetaclass):
    """Metaclass of specifications, which gives a class a signature with defaults and plain field types."""

    @property
    def __signature__(self) -> Signature:
        """Signature of the class with types, but without the constraints that the docstrings of the fields describe."""
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
        """Ignore the signature that pydantic generates, because it shows all constraints."""


def _plain(kind: Any) -> Any:
    """Type annotation without its constraints.

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
    """Base class of all specifications: strict and frozen; unknown keys are rejected.

    Raises
    ------
    SpecError
        The message lists every mistake in the values.
    """

    # Validators are built when a class is first used, because a command uses few of the many classes. Defaults are
    # constructed with ``model_construct``, which needs no validator.
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", defer_build=True)

    #: New names of renamed fields, for error messages; several are separated by " or ".
    moved: ClassVar[Mapping[str, str]] = {}
    #: Text that a message shows as a fix for a missing field, for fields whose value always has the same form.
    written: ClassVar[Mapping[str, str]] = {}

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise self._wrong(_without_lines(data, type(self).__name__), error) from None

    # Without this, pydantic builds nested specifications through ``__init__`` and loses the location of mistakes.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @model_validator(mode="after")
    def _checked(self) -> Self:
        for field, value in self.__dict__.items():
            if character := unsafe_character(value):
                raise PydanticCustomError("unsafe", "{character}", {"field": field, "character": character})
        self._check_fields()
        return self

    def _check_fields(self) -> None:
        """Raise ValueError for fields that contradict each other."""

    def replace(self, **changes: object) -> Self:
        """Return a copy with changed fields, validated like a file.

        If the field is a specification, a mapping changes only the keys that it lists. If the mapping sets another
        ``kind``, the whole field is replaced.

        Raises
        ------
        SpecError
            If a field is unknown or a value is not allowed.
        """
        data = {name: getattr(self, name) for name in self.model_fields_set}
        nested = {name: self._nested(name, value) for name, value in changes.items()}
        return self.build({**data, **nested}, origin=type(self).__name__)

    def _nested(self, name: str, change: object) -> object:
        """Value of a field after ``change``, which is a new value or a mapping of the changed keys."""
        before = getattr(self, name, None)
        if not isinstance(before, Spec) or not isinstance(change, Mapping) or "kind" in change:
            return change
        fields = {key: getattr(before, key) for key in before.model_fields_set}
        return {**fields, **{key: before._nested(key, value) for key, value in change.items()}}

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """JSON schema that uses the docstrings of the fields as descriptions."""
        schema = handler(core_schema)
        describe(cls, handler.resolve_ref_schema(schema).get("properties", {}))
        return schema

    @classmethod
    def build(cls, data: Mapping[str, object], *, origin: str) -> Self:
        """Validate plain data; error messages name ``origin`` instead of a file."""
        return cls.from_document(_without_lines(data, origin))

    @classmethod
    def from_document(cls, document: Document) -> Self:
        """Validate a document read from YAML.

        Raises
        ------
        SpecError
            The message lists every mistake in the document, with file and line.
        """
        try:
            return cls.model_validate(document.data)
        except ValidationError as error:
            raise cls._wrong(document, error) from error

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Read and validate a YAML file, with the errors of :meth:`from_document`."""
        return kept(cls, path, lambda: cls.from_document(_yaml.read_yaml(path)))

    @classmethod
    def _wrong(cls, document: Document, error: ValidationError) -> SpecError:
        """Build an error that lists all mistakes in a document, including mistakes that pydantic did not report."""
        details = error.errors(include_url=False)
        # If most keys belong to another kind of file, report one mistake instead of dozens.
        top = [detail for detail in details if len(detail["loc"]) == 1 and detail["type"] == "extra_forbidden"]
        unknown = [str(detail["loc"][0]) for detail in top]
        if len(unknown) >= max(_STRANGE, len(document.data) // 2 + 1) and not cls.moved.keys() & unknown:
            return SpecError(
                f"{document.where(())}: another kind of file is needed here: {len(unknown)} of its "
                f"{len(document.data)} keys are unknown ({', '.join(unknown[:_STRANGE])}, ...); "
                f"allowed: {', '.join(sorted(cls.model_fields))}"
            )
        errors = [*details, *cls._behind_kinds(document, details)]
        mistakes = {
            _in_document(document.data, detail["loc"]): _mistake(cls, document, detail)
            for detail in errors
            # Pydantic drops an invalid entry from its list or mapping, and then may report that the list has too few
            # entries.
            if detail["type"] != "too_short"
            or not any(e["loc"][: len(detail["loc"])] == detail["loc"] and e is not detail for e in errors)
        }
        unsourced = cls._further_mistakes(document.data)
        if unsourced and details[0]["type"] == "sources":
            mistakes = {}  # the same mistake, without a line
        for location, problem in unsourced:
            mistakes.setdefault(location, f"{document.where(location)}: {problem}")
        return SpecError(*sorted(set(mistakes.values()), key=by_line))

    @classmethod
    def _behind_kinds(cls, document: Document, details: Sequence[ErrorDetails]) -> Iterator[ErrorDetails]:
        """Find mistakes in objects whose ``kind`` is invalid, by validating them with the most similar valid kind."""
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
        """Mistakes in combinations of fields, which are reported even if single fields are also invalid."""
        del data
        return []


@cache
def descriptions(cls: type) -> Mapping[str, str]:
    """Docstrings of the fields of a class and its bases, by field name; empty if the source is not available.

    The source is read only when a schema is requested. The pydantic option for docstrings parses the source of every
    class at import. This parsing would take a quarter of the run time of a command that shows no schema.
    """
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not issubclass(base, BaseModel) or base is BaseModel:
            continue
        try:
            source = inspect.getsource(base)
        except OSError:  # the class was created at run time, or the installation has no sources
            continue
        definition = ast.parse(textwrap.dedent(source)).body[0]
        assert isinstance(definition, ast.ClassDef)
        for pair in pairwise(definition.body):
            match pair:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    texts[name] = inspect.cleandoc(text)
    return texts


def describe(cls: type, properties: Mapping[str, Any]) -> None:
    """Add a description to each property of a JSON schema that has none."""
    for name, text in descriptions(cls).items():
        if name in properties:
            properties[name].setdefault("description", text)


def describe_as(cls: type, name: str, schema: dict[str, Any]) -> None:
    """Add the docstring of a field of ``cls`` to the JSON schema of a field that overrides it in another class."""
    describe(cls, {name: schema})


def _without_lines(data: Mapping[str, object], origin: str) -> Document:
    return Document(dict(data), origin, {(): (origin, 0)})  # type: ignore[arg-type]


def _mistake(cls: type[Spec], document: Document, detail: ErrorDetails) -> str:
    location = _in_document(document.data, detail["loc"])
    path = ".".join(str(part) for part in location) or "the file"
    where = document.where(location)
    value, kind, context = detail["input"], detail["type"], detail.get("ctx", {})
    if kind == "sources":
        return f"{where}: {context['problem']}"
    if kind == "unsafe":
        field, character = context["field"], context["character"]
        where = document.where((*location, field))
        return (
            f"{where}: {'.'.join(map(str, (*location, field)))} contains {character}, which is not printable; remove it"
        )
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
        return f"{where}: {message}"  # a mistake in a combination of fields, outside a file
    return f"{where}: {path}: {message}" + ("" if isinstance(value, (dict, BaseModel)) else f", got {value!r}")


#: Parts of pydantic's locations that are not in the file: the marker of a key, and :data:`TAG`, which marks a union.
TAG = "[kind]"
_UNWRITTEN = ("[key]", TAG)


def _in_document(data: Any, loc: tuple[str | int, ...]) -> Location:
    """Location in the document, without the union tags that pydantic adds."""
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
    """Names of the fields that are allowed at the location ``loc``."""
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
    """Valid kind with the most similar spelling, or else with the most keys in common; None if no kind is similar."""
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


#: Synonyms of words in field names.
_WORDS = {
    "bandwidth": "bytes_per_second",
    "flops": "flops_per_second",
    "memory": "hbm_bytes",
    "power": "watts",
    "tdp": "watts",
    "vram": "hbm_bytes",
}
#: Maximum number of field names in a hint [1].
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
    """Quoted names of the fields that replace a renamed field."""
    return " or ".join(map(repr, moved.split(" or ")))


def by_line(text: str) -> tuple[str, int, str]:
    """Sort key of mistakes: file, line, text."""
    origin, _, rest = text.partition(":")
    line, _, _ = rest.partition(":")
    return (origin, list_index(line, 10**9) or 0, text)


T = TypeVar("T")
#: Range of accepted quantities. Values outside have a wrong unit, and would overflow in later calculations.
_SMALLEST, _LARGEST = 1e-15, 1e24
#: Upper bounds: counts of heads, layers or tokens; dimensions and numbers of parameters [1].
_MOST, _LARGEST_SIZE = 1_000_000_000, 1e15


def quantity_error(problem: object) -> PydanticCustomError:
    """Create a validation error from a message that already contains the invalid value."""
    return PydanticCustomError("quantity", "{problem}", {"problem": str(problem)})


def in_file(read: Callable[[Any], T]) -> Callable[[Any], T]:
    """Wrap a reader function so that its errors are reported as mistakes in the file that is validated."""

    def reader(value: object) -> T:
        try:
            return read(value)
        except InputError as error:
            raise quantity_error(error) from error

    return reader


def _quantity(unit: str, least: float = 0.0) -> BeforeValidator:
    """Validator that reads a quantity in a unit.

    Values below ``least`` are rejected, because the user probably forgot the unit.
    """
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
    """Validator that rejects shares close to zero, because results are divided by them."""
    if share < _SMALLEST:
        raise quantity_error(f"{share:g} is out of range; shares are from {_SMALLEST:g} to 1")
    return share


def _format(name: str) -> str:
    """Validator of number formats, including formats with a block or group size in their name."""
    if not is_format(name):
        *others, last = map(repr, BYTES_PER_ELEMENT)
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(others)} or {last}"})
    return name


#: Number format; see :data:`inference_econ.inputs.dtype.SIZED` for formats with a size in their name.
Dtype = Annotated[
    str,
    AfterValidator(_format),
    WithJsonSchema(
        {"anyOf": [{"enum": list(BYTES_PER_ELEMENT)}, {"type": "string", "pattern": f"^({SIZED.pattern})$"}]}
    ),
]
Bytes = Annotated[float, _quantity("B"), Field(gt=0)]
#: Total memory of a chip [B].
Memory = Annotated[float, _quantity("B", LEAST["memory"]), Field(gt=0)]
BytesPerSecond = Annotated[float, _quantity("B/s", LEAST["B/s"]), Field(gt=0)]
FlopsPerSecond = Annotated[float, _quantity("FLOP/s", LEAST["FLOP/s"]), Field(gt=0)]
Seconds = Annotated[float, _quantity("s"), Field(ge=0)]
Watts = Annotated[float, _quantity("W", LEAST["W"]), Field(gt=0)]
DollarsPerHour = Annotated[float, _quantity("USD/h"), Field(gt=0)]
Fraction = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False), AfterValidator(_no_slip)]
#: Dimension or head count; the scaled variants of the published study are fractional.
Size = Annotated[int | float, Field(gt=0, le=_LARGEST_SIZE, allow_inf_nan=False)]
Count = Annotated[int, Field(gt=0, le=_MOST)]
Date = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
Names = Annotated[tuple[str, ...], Field(min_length=1, strict=False)]
Formats = Annotated[tuple[Dtype, ...], Field(min_length=1, strict=False)]
SourceKind = Literal["measured", "published", "derived", "assumed", "what_if"]


class Source(Spec):
    """Origin of the value of one field."""

    ref: str = Field(min_length=1)
    """Key of the reference in ``references.bib``, or ``user`` for a value from the command line."""
    where: str = Field(min_length=1)
    """Page, table, field or file in the reference, and the derivation of the value from it."""
    kind: SourceKind
    """Kind of source: measured by a third party, published by the vendor, derived by a formula, assumed, or set by the
    user for one query (``what_if``)."""


class SourcedSpec(Spec):
    """Specification in which every number has a source.

    ``sources`` maps a field or a dotted path to a :class:`Source`. An entry applies to all values below its field,
    unless a longer path has its own entry.
    """

    written: ClassVar[Mapping[str, str]] = {
        "sources": "write 'sources: {FIELD: {ref: mine, where: where from, kind: assumed}}' for all numbers below FIELD"
    }

    name: str = Field(min_length=1)
    """Display name."""
    description: str = ""
    """Description in one or two sentences."""
    sources: dict[str, Source]
    """Source of every number in this file, by field."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        problems = source_mistakes(self.model_dump(exclude_none=True, exclude_unset=True))
        if problems:
            raise PydanticCustomError("sources", "{problem}", {"problem": problems[0][1]})
        return super()._checked()  # type: ignore[operator, no-any-return]

    @classmethod
    def _further_mistakes(cls, data: Mapping[str, Any]) -> list[tuple[Location, str]]:
        return source_mistakes({key: _plain_base(value) for key, value in data.items()})


def _plain_base(value: Any) -> Any:
    """Convert specifications inside a value to plain data, as in a file."""
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_none=True, exclude_unset=True)
    if isinstance(value, Mapping):
        return {key: _plain_base(item) for key, item in value.items()}
    return [_plain_base(item) for item in value] if isinstance(value, (list, tuple)) else value


def source_mistakes(data: Mapping[str, Any]) -> list[tuple[Location, str]]:
    """Location and error message of each number without a source, and of each source without a field."""
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
    if strays:  # or names that contain a dot
        used = {key for location in _numbers(fields, (), {}) for key in covering_keys(location)}
        strays = [key for key in strays if key not in used]
    mistakes += [(("sources", key), f"sources: {key!r} names no field of this file") for key in strays]
    return mistakes


def covering_keys(location: Location) -> list[str]:
    """Keys of ``sources`` that apply to a location, the longest first."""
    names = [str(part) for part in location]
    return [".".join(names[:end]) for end in range(len(names), 0, -1)]


def _exists(data: Any, key: str) -> bool:
    for part in key.split("."):
        if isinstance(data, Mapping) and part in data:
            data = data[part]
        elif isinstance(data, (list, tuple)) and (entry := list_index(part, len(data))) is not None:
            data = data[entry]
        else:
            return False
    return True


def _numbers(value: Any, location: Location, sources: Mapping[str, Any], path: str = "") -> Iterator[Location]:
    """Locations of the numbers below a path to which no source applies."""
    if path and path in sources:
        return
    if isinstance(value, Mapping):
        if "ref" in value and "kind" in value:  # prices and some constants contain their own source
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
