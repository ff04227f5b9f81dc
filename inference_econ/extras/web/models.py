"""Pydantic request models, one per command, with their JSON schemas."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, create_model

from inference_econ.extras.web.questions import Fields, RefusedError
from inference_econ.requests import Command, Parameter

#: Longest text of an option [characters], and most entries of a list [1].
LONGEST_TEXT, MOST_ENTRIES = 2_000, 40


class _Request(BaseModel):
    """Base of all request models: strict, without unknown fields."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, protected_namespaces=(), str_max_length=LONGEST_TEXT, allow_inf_nan=False
    )


def request_model(question: Command) -> type[BaseModel]:
    """Create the request model of a command."""
    taken = {option.field for option in question.asked}
    fields: dict[str, Any] = {option.field: (_annotation(option), _field(option, taken)) for option in question.asked}
    name = "".join(part.capitalize() for part in question.slug.split("-"))
    model = create_model(f"{name}Question", __base__=_Request, **fields)
    model.__doc__ = question.text
    return model


def _annotation(option: Parameter) -> Any:
    limits: Any = option.kind.limits
    kind: Any = Annotated[option.kind.json, Field(**limits)] if limits else option.kind.json
    if option.repeat:
        kind = Annotated[list.__class_getitem__(kind), Field(max_length=MOST_ENTRIES)]
    return kind if option.required or option.json_default is not None else kind | None


def _field(option: Parameter, taken: Collection[str]) -> Any:
    extra = {"x-group": option.group} | ({"x-catalogue": option.kind.catalog} if option.kind.catalog else {})
    default = ... if option.required else option.json_default
    names = AliasChoices(option.field, *(name for name in option.synonyms if name not in taken))
    return Field(default, description=option.help, json_schema_extra=dict(extra), validation_alias=names)


def brief_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Short JSON schema of a request model for language models, without titles, defaults and nulls."""
    schema = model.model_json_schema()
    properties = {name: _brief(about) for name, about in schema["properties"].items()}
    return {"type": "object", "properties": properties, "additionalProperties": False} | {
        key: schema[key] for key in ("required",) if key in schema
    }


def _brief(about: dict[str, Any]) -> dict[str, Any]:
    kinds = [kind for kind in about.get("anyOf", ()) if kind != {"type": "null"}]
    single = kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {}
    plain = {key: about[key] for key in ("type", "enum", "items", "description") if key in about}
    default = {} if about.get("default") is None else {"default": about["default"]}
    return {**single, **plain, **default}


def checked(model: type[BaseModel], fields: Fields, *, texts: bool = False) -> Fields:
    """Check options against the model of a command.

    Parameters
    ----------
    model : type
        Result of :func:`request_model`.
    fields : mapping
        Options as JSON values, or as texts.
    texts : bool
        True if numbers and flags are texts, as in an address.

    Returns
    -------
    mapping
        Options in the order of the model, without defaults.

    Raises
    ------
    RefusedError
        If an option is invalid; the message names the first one.
    """
    try:
        request = model.model_validate(dict(fields), strict=not texts)
    except ValidationError as error:
        raise _refused(error) from None
    return request.model_dump(exclude_defaults=True)


def _refused(error: ValidationError) -> RefusedError:
    errors = error.errors(include_url=False, include_context=False)
    # A value of several types has an error for each; a text that is too long is not a mistyped number.
    first = min(errors, key=lambda it: (it["loc"][:1] != errors[0]["loc"][:1], it["type"] != "string_too_long"))
    field = str(first["loc"][0]) if first["loc"] else None
    advice = {"missing": "is needed", "extra_forbidden": "is no option of this question"}.get(first["type"])
    value = "" if advice else f"got {str(first['input'])[:60]!r}; "
    return RefusedError(f"{field or 'request'}: {value}{advice or first['msg']}", field)
