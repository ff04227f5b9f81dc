"""Base classes and field types of specifications. Pydantic is imported only to validate a document."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from copy import deepcopy
from datetime import date
from functools import partial
from inspect import Signature, get_annotations
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar

from inference_econ._named import named
from inference_econ.errors import InputError, unsafe_character
from inference_econ.inputs._yaml import Document, Location
from inference_econ.inputs.dtype import BYTES_PER_ELEMENT, SIZED, is_format
from inference_econ.inputs.units import EXAMPLES, LEAST, list_index, looks_like_quantity, parse_quantity

if TYPE_CHECKING:
    from pydantic import AfterValidator as AfterValidator
    from pydantic import BeforeValidator as BeforeValidator
    from pydantic import Discriminator as Discriminator
    from pydantic import Field as Field
    from pydantic import GetCoreSchemaHandler
    from pydantic import Tag as Tag
    from pydantic import WithJsonSchema as WithJsonSchema
    from pydantic_core import CoreSchema


class Constraint:
    """Constraint of a field: the name of a class of pydantic, and its arguments.

    Most commands read validated specifications from a cache. For these commands, no object of pydantic is created.
    """

    def __init__(self, name: str, *values: Any, **options: Any) -> None:
        self.name, self.values, self.options = name, values, options


if not TYPE_CHECKING:
    AfterValidator, BeforeValidator, Discriminator, Field, Tag, WithJsonSchema = (
        partial(Constraint, name)
        for name in ("AfterValidator", "BeforeValidator", "Discriminator", "Field", "Tag", "WithJsonSchema")
    )

#: Default of a field that has none.
REQUIRED = object()


class StatedError(ValueError):
    """Mistake with a message that already contains the invalid value."""


class SourceError(StatedError):
    """Number without a source, or source without a number."""


class UnsafeError(StatedError):
    """Character in the value of a field that cannot be printed."""

    def __init__(self, field: str, character: str) -> None:
        super().__init__(character)
        self.field = field


def _validation(name: str) -> Any:
    """Function of the module that imports pydantic. The import takes longer than many answers."""
    return named(f"inputs._validation:{name}")


class _ClassSignature:
    """Descriptor for :func:`inspect.signature`, which computes the signature of a class from its fields."""

    def __get__(self, spec: object, cls: type[Spec]) -> Signature:
        return _validation("signature")(cls)  # type: ignore[no-any-return]


class Spec:
    """Base class of all specifications: strict and frozen; unknown keys are rejected.

    Annotations are fields, as in pydantic, and the methods that pydantic also has work alike.

    Raises
    ------
    SpecError
        The message lists every mistake in the values.
    """

    #: Defaults of all fields, by name, or their constraints; see :func:`default_of`.
    fields: ClassVar[Mapping[str, Any]] = {}
    #: Class whose docstrings describe the fields; None for the class itself.
    described_by: ClassVar[type[Spec] | None] = None
    #: Type of the values of unknown keys; None if unknown keys are rejected.
    further: ClassVar[Any] = None
    #: Attributes that are copied and compared like fields, and are not in files.
    private: ClassVar[tuple[str, ...]] = ()
    #: New names of renamed fields, for error messages; several are separated by " or ".
    moved: ClassVar[Mapping[str, str]] = {}
    #: Text that a message shows as a fix for a missing field, for fields whose value always has the same form.
    written: ClassVar[Mapping[str, str]] = {}
    __signature__ = _ClassSignature()

    #: Names of the fields that were given, without defaults.
    model_fields_set: frozenset[str]

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        own = {}
        for name, kind in get_annotations(cls).items():
            if not name.startswith("_") and "ClassVar" not in str(kind):
                own[name] = cls.__dict__.get(name, REQUIRED)
                if name in cls.__dict__:
                    delattr(cls, name)
        cls.fields = {**cls.fields, **own}

    def __init__(self, **data: Any) -> None:
        vars(self).update(vars(self.build(data, origin=type(self).__name__)))

    @classmethod
    def model_construct(cls, **values: object) -> Self:
        """Create a specification without validation; missing fields have their defaults."""
        filled = {name: values[name] if name in values else default_of(field) for name, field in cls.fields.items()}
        return cls._made({name: value for name, value in filled.items() if value is not REQUIRED}, values)

    @classmethod
    def _made(cls, values: Mapping[str, object], given: Iterable[str]) -> Self:
        """Create a specification from the values of its fields, and the names of the fields that were given."""
        spec = object.__new__(cls)
        vars(spec).update(values, model_fields_set=frozenset(given))
        return spec

    def _values(self) -> dict[str, Any]:
        """Values of all fields, in the order of the class, and of private attributes."""
        names = {*self.fields, *self.model_fields_set}
        values = {name: value for name, value in vars(self).items() if name in names}
        return values | {name: getattr(self, name) for name in self.private}

    def __setattr__(self, name: str, value: object) -> None:
        raise ValueError(f"{name}: Instance is frozen")

    __delattr__ = __setattr__  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and self._values() == other._values())

    def __hash__(self) -> int:
        return hash((type(self), *self._values().values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._values().items())})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self._made(deepcopy(self._values(), memo), self.model_fields_set)

    @classmethod
    def _prepared(cls, data: Any) -> Any:
        """Plain data before its validation."""
        return data

    def _checked(self) -> None:
        """Raise ValueError for text that cannot be printed, and for fields that contradict each other."""
        for field, value in vars(self).items():
            if not isinstance(value, (int, float, Spec)) and (character := unsafe_character(value)):
                raise UnsafeError(field, character)
        self._check_fields()

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

    def model_copy(self, *, update: Mapping[str, object] | None = None) -> Self:
        """Return a copy with changed fields, without validation."""
        update = update or {}
        return self._made({**self._values(), **update}, self.model_fields_set.union(update))

    def model_dump(
        self,
        *,
        mode: Literal["python", "json"] = "python",
        exclude: Container[str] = (),
        exclude_none: bool = False,
        exclude_unset: bool = False,
        exclude_defaults: bool = False,
    ) -> dict[str, Any]:
        """Return the fields as plain data, in which specifications are mappings.

        Parameters
        ----------
        mode : str, optional
            ``json`` writes tuples as lists.
        exclude : collection of str, optional
            Names of fields to leave out.
        exclude_none, exclude_unset, exclude_defaults : bool, optional
            True to leave out fields that are None, that were not given, or that have their default.
        """

        def plain(value: Any) -> Any:
            match value:
                case str() | int() | float() | None:
                    return value
                case Spec():
                    return dumped(value)
                case Mapping():
                    return {key: plain(inner) for key, inner in value.items()}
                case tuple() if mode == "python":
                    return tuple(map(plain, value))
                case tuple() | list():
                    return list(map(plain, value))
            return value

        def dumped(spec: Spec, left_out: Container[str] = ()) -> dict[str, Any]:
            return {
                name: plain(inner)
                for name, inner in spec._values().items()
                if name not in spec.private
                and name not in left_out
                and not (exclude_none and inner is None)
                and not (exclude_unset and name not in spec.model_fields_set)
                and not (exclude_defaults and inner == default_of(spec.fields.get(name, REQUIRED)))
            }

        return dumped(self, exclude)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return _validation("core_schema_of")(cls, handler)  # type: ignore[no-any-return]

    @classmethod
    def model_validate(cls, data: object) -> Self:
        """Validate plain data.

        Raises
        ------
        pydantic.ValidationError
            If the data is invalid.
        """
        return _validation("adapter")(cls).validate_python(data)  # type: ignore[no-any-return]

    @classmethod
    def build(cls, data: Mapping[str, object], *, origin: str) -> Self:
        """Validate plain data; error messages name ``origin`` instead of a file."""
        return cls.from_document(Document(dict(data), origin, {(): (origin, 0)}))  # type: ignore[arg-type]

    @classmethod
    def from_document(cls, document: Document) -> Self:
        """Validate a document read from YAML.

        Raises
        ------
        SpecError
            The message lists every mistake in the document, with file and line.
        """
        return _validation("from_document")(cls, document)  # type: ignore[no-any-return]

    @classmethod
    def _further_mistakes(cls, data: Mapping[str, Any]) -> list[tuple[Location, str]]:
        """Mistakes in combinations of fields, which are reported even if single fields are also invalid."""
        del data
        return []


def default_of(value: Any) -> Any:
    """Default of a field, given its entry in :attr:`Spec.fields`."""
    if not isinstance(value, Constraint):
        return value
    create = value.options.get("default_factory")
    return create() if create else value.options.get("default", REQUIRED)


def by_line(text: str) -> tuple[str, int, str]:
    """Sort key of mistakes: file, line, text."""
    origin, _, rest = text.partition(":")
    line, _, _ = rest.partition(":")
    return (origin, list_index(line, 10**9) or 0, text)


#: Part of the locations of pydantic that marks a union.
TAG = "[kind]"
T = TypeVar("T")
#: Range of accepted quantities. Values outside have a wrong unit, and would overflow in later calculations.
_SMALLEST, _LARGEST = 1e-15, 1e24
#: Upper bounds: counts of heads, layers or tokens; dimensions and numbers of parameters [1].
_MOST, _LARGEST_SIZE = 1_000_000_000, 1e15


def in_file(read: Callable[[Any], T]) -> Callable[[Any], T]:
    """Wrap a reader function so that its errors are reported as mistakes in the file that is validated."""

    def reader(value: object) -> T:
        try:
            return read(value)
        except InputError as error:
            raise StatedError(error) from error

    return reader


def _quantity(unit: str, least: float = 0.0) -> BeforeValidator:
    """Validator that reads a quantity in a unit.

    Values below ``least`` are rejected, because the user probably forgot the unit.
    """
    parse = in_file(partial(parse_quantity, unit=unit))

    def read(value: object) -> float:
        number = parse(value)
        if number and not _SMALLEST <= abs(number) <= _LARGEST:
            raise StatedError(f"{value!r} is out of range: {number:g} {unit}; write for example {EXAMPLES[unit]!r}")
        if 0.0 < number < least:
            example = f"write for example {EXAMPLES[unit]!r}"
            raise StatedError(f"{value!r} is {number:g} {unit}, less than there is; {example}")
        return number

    return BeforeValidator(read, json_schema_input_type=float | str)


def _no_slip(share: float) -> float:
    """Validator that rejects shares close to zero, because results are divided by them."""
    if share < _SMALLEST:
        raise StatedError(f"{share:g} is out of range; shares are from {_SMALLEST:g} to 1")
    return share


def of_calendar(text: str) -> str:
    """Validator that rejects months and days that do not exist; a date may lack the day and month, or be `undated`."""
    try:
        _ = text == "undated" or date.fromisoformat(f"{text}-01-01"[:10])
    except ValueError as error:
        raise StatedError(f"{text!r} is not a date: {error}") from error
    return text


def _format(name: str) -> str:
    """Validator of number formats, including formats with a block or group size in their name."""
    if not is_format(name):
        *others, last = map(repr, BYTES_PER_ELEMENT)
        raise StatedError(f"got {name!r}; allowed: {', '.join(others)} or {last}")
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
Date = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$"), AfterValidator(of_calendar)]
#: Day, month or year.
Period = Annotated[str, Field(pattern=r"^\d{4}(-\d{2}(-\d{2})?)?$"), AfterValidator(of_calendar)]
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

    def _checked(self) -> None:
        data = self.model_dump(exclude=("sources",), exclude_none=True, exclude_unset=True)
        problems = source_mistakes({**data, "sources": self.sources})
        if problems:
            raise SourceError(problems[0][1])
        super()._checked()

    @classmethod
    def _further_mistakes(cls, data: Mapping[str, Any]) -> list[tuple[Location, str]]:
        return source_mistakes({key: _plain_base(value) for key, value in data.items()})


def _plain_base(value: Any) -> Any:
    """Convert specifications inside a value to plain data, as in a file."""
    if isinstance(value, Spec):
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
