"""Validation of specifications with pydantic, and error messages that name file and line."""

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
from operator import getitem, is_, or_
from types import UnionType
from typing import Any, TypeVar

import pydantic
from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from inference_econ.errors import SpecError
from inference_econ.inputs._spec import (
    REQUIRED,
    TAG,
    Constraint,
    SourceError,
    Spec,
    StatedError,
    UnsafeError,
    by_line,
    default_of,
)
from inference_econ.inputs._yaml import Document, Location

SpecT = TypeVar("SpecT", bound=Spec)
#: A document with at least this number of unknown keys may be of another kind. A message lists at most this number of
#: keys [1].
_STRANGE = 3


@cache
def model_of(cls: type[Spec]) -> type[BaseModel]:
    """Model of pydantic with the fields of a specification."""
    kinds = typing.get_type_hints(cls, include_extras=True)
    fields = {name: _of_pydantic(kinds[name]) for name in cls.fields}
    defaults = {name: _of_pydantic(value) for name, value in cls.fields.items() if value is not REQUIRED}
    if cls.further is not None:
        fields["__pydantic_extra__"] = dict[str, cls.further]  # type: ignore[name-defined]
    settings = ConfigDict(
        strict=True,
        extra="forbid" if cls.further is None else "allow",
        defer_build=True,
        json_schema_extra=partial(_describe, cls),
    )
    about = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    create: Any = type(BaseModel)  # unlike create_model, the metaclass takes the type of further fields
    model: type[BaseModel] = create(
        cls.__name__, (BaseModel,), {**defaults, **about, "__annotations__": fields, "model_config": settings}
    )
    return model


def _of_pydantic(kind: Any) -> Any:
    """Type annotation, or default, with the constraints of pydantic.

    Examples
    --------
    >>> _of_pydantic(typing.Annotated[int, Constraint("Tag", "one")] | None)
    typing.Optional[typing.Annotated[int, Tag(tag='one')]]
    """
    if isinstance(kind, Constraint):
        return getattr(pydantic, kind.name)(*kind.values, **kind.options)
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is None or origin is typing.Literal:
        return kind
    translated = tuple(map(_of_pydantic, inside))
    if all(map(is_, translated, inside)):
        return kind
    return reduce(or_, translated) if origin is UnionType else origin[translated]


@cache
def adapter(cls: type[SpecT]) -> TypeAdapter[SpecT]:
    """Validator of a specification."""
    return TypeAdapter(cls)


def core_schema_of(cls: type[Spec], handler: GetCoreSchemaHandler) -> CoreSchema:
    """Core schema that validates the fields, creates the specification, and checks its fields together."""

    def build(value: Any, validate: Callable[[Any], BaseModel]) -> Spec:
        if isinstance(value, cls):
            return value
        model = validate(cls._prepared(value))
        spec = cls._made({**vars(model), **(model.model_extra or {})}, model.model_fields_set)
        spec._checked()
        return spec

    return core_schema.no_info_wrap_validator_function(build, handler.generate_schema(model_of(cls)))  # type: ignore[arg-type]


def from_document(cls: type[SpecT], document: Document) -> SpecT:
    """Validate a document; see :meth:`inference_econ.inputs._spec.Spec.from_document`."""
    try:
        return cls.model_validate(document.data)
    except ValidationError as error:
        raise _wrong(cls, document, error) from None


def signature(cls: type[Spec]) -> Signature:
    """Signature of a class with types, but without the constraints that the docstrings of the fields describe."""
    kinds = typing.get_type_hints(cls)
    return Signature(
        [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=Parameter.empty if (default := default_of(value)) is REQUIRED else default,
                annotation=_plain(kinds[name]),
            )
            for name, value in cls.fields.items()
        ]
    )


def _plain(kind: Any) -> Any:
    """Type annotation that is shown as in the source.

    Examples
    --------
    >>> _plain(typing.Optional[int | float])
    int | float | None
    """
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is None or origin is typing.Literal:
        return kind
    if origin in (typing.Union, UnionType):
        return reduce(or_, map(_plain, inside))
    return origin[tuple(map(_plain, inside))]


def _wrong(cls: type[Spec], document: Document, error: ValidationError) -> SpecError:
    """Build an error that lists all mistakes in a document, including mistakes that pydantic did not report."""
    details = error.errors(include_url=False)
    # If most keys belong to another kind of file, report one mistake instead of dozens.
    top = [detail for detail in details if len(detail["loc"]) == 1 and detail["type"] == "extra_forbidden"]
    unknown = [str(detail["loc"][0]) for detail in top]
    if len(unknown) >= max(_STRANGE, len(document.data) // 2 + 1) and not cls.moved.keys() & unknown:
        return SpecError(
            f"{document.where(())}: another kind of file is needed here: {len(unknown)} of its "
            f"{len(document.data)} keys are unknown ({', '.join(unknown[:_STRANGE])}, ...); "
            f"allowed: {', '.join(sorted(cls.fields))}"
        )
    errors = [*details, *_behind_kinds(cls, document, details)]
    mistakes = {
        _in_document(document.data, detail["loc"]): _mistake(cls, document, detail)
        for detail in errors
        # Pydantic drops an invalid entry from its list or mapping, and then may report that the list has too few
        # entries.
        if detail["type"] != "too_short"
        or not any(e["loc"][: len(detail["loc"])] == detail["loc"] and e is not detail for e in errors)
    }
    unsourced = cls._further_mistakes(document.data)
    if unsourced and isinstance(details[0].get("ctx", {}).get("error"), SourceError):
        mistakes = {}  # the same mistake, without a line
    for location, problem in unsourced:
        mistakes.setdefault(location, f"{document.where(location)}: {problem}")
    return SpecError(*sorted(set(mistakes.values()), key=by_line))


def _behind_kinds(cls: type[Spec], document: Document, details: Sequence[ErrorDetails]) -> Iterator[ErrorDetails]:
    """Find mistakes in objects with an invalid ``kind``, by validating them with the most similar valid kind."""
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


def descriptions(cls: type[Spec]) -> Mapping[str, str]:
    """Docstrings of the fields of a class and its bases, by field name; empty if the source is not available.

    The source is read only when a schema is requested. The pydantic option for docstrings parses the source of every
    class at import. This parsing would take a quarter of the run time of a command that shows no schema.
    """
    texts: dict[str, str] = {}
    for base in (*reversed(cls.__mro__), cls.described_by or cls):
        if not issubclass(base, Spec) or base is Spec:
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


def _describe(cls: type[Spec], schema: dict[str, Any]) -> None:
    """Add a description to each property of a JSON schema that has none."""
    for name, text in descriptions(cls).items():
        if name in schema.get("properties", {}):
            schema["properties"][name].setdefault("description", text)


def _mistake(cls: type[Spec], document: Document, detail: ErrorDetails) -> str:
    location = _in_document(document.data, detail["loc"])
    path = ".".join(str(part) for part in location) or "the file"
    where = document.where(location)
    value, kind, context = detail["input"], detail["type"], detail.get("ctx", {})
    match context.get("error"):
        case SourceError() as error:
            return f"{where}: {error}"
        case UnsafeError(field=field) as error:
            where = document.where((*location, field))
            name = ".".join(map(str, (*location, field)))
            return f"{where}: {name} contains {error}, which is not printable; remove it"
        case StatedError() as error:
            return f"{where}: {path}: {error}"
    if kind == "missing":
        remedy = cls.written.get(str(location[-1]), "")
        return f"{where}: {path} is missing{remedy and f'; {remedy}'}"
    if kind == "extra_forbidden":
        name = str(location[-1])
        moved = cls.moved.get(name)
        remedy = f"it is now {_names(moved)}" if moved else _nearest(name, _fields_at(cls, detail["loc"]), cls.moved)
        return f"{where}: unknown key {path!r}; {remedy}"
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
    if not location and document.options:  # a mistake in a combination of fields, some of them set by options
        return f"{', '.join(document.options)}: {message}"
    return f"{where}: {path}: {message}" + ("" if isinstance(value, (dict, Spec)) else f", got {value!r}")


#: Parts of pydantic's locations that are not in the file: the marker of a key, and the marker of a union.
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


def _fields_at(cls: type[Spec], loc: tuple[str | int, ...]) -> list[str]:
    """Names of the fields that are allowed at the location ``loc``."""
    classes = {cls}
    for part in loc[:-1]:
        below = {
            model
            for candidate in classes
            if isinstance(part, str) and part in candidate.fields
            for model in _models_in(typing.get_type_hints(candidate)[part])
        }
        tagged = {
            candidate
            for candidate in classes
            if "kind" in candidate.fields and part in typing.get_args(typing.get_type_hints(candidate)["kind"])
        }
        classes = below or tagged or classes
    return sorted({name for candidate in classes for name in candidate.fields})


def _likely_kind(cls: type[Spec], detail: ErrorDetails) -> str | None:
    """Valid kind with the most similar spelling, or else with the most keys in common; None if no kind is similar."""
    kinds: list[str] = re.findall(r"'([^']+)'", detail["ctx"]["expected_tags"])
    spelt: list[str] = difflib.get_close_matches(str(detail["ctx"]["tag"]), kinds, n=1)
    if spelt:
        return spelt[0]
    keys = set(detail["input"]) - {"kind"}
    shared = {kind: len(keys & {*_fields_at(cls, (*detail["loc"], kind, ""))}) for kind in kinds}
    return max(shared, key=shared.__getitem__) if any(shared.values()) else None


def _models_in(annotation: object) -> Iterator[type[Spec]]:
    if isinstance(annotation, type) and issubclass(annotation, Spec):
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
