"""Pydantic request models, one per command, with their JSON schemas, and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.json_schema import models_json_schema

from inference_econ.extras.web.questions import Fields, RefusedError
from inference_econ.extras.web.replies import MEDIA
from inference_econ.inputs import foreign_yaml
from inference_econ.report import schema
from inference_econ.requests import Command, Parameter, by_name

#: Maximum length of an option's text [characters], and maximum number of entries of a list [1].
LONGEST_TEXT, MOST_ENTRIES = 2_000, 40


class _Request(BaseModel):
    """Base of all request models: strict types, and no unknown fields."""

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


def checked(question: Command, model: type[BaseModel], fields: Fields, *, texts: bool = False) -> Fields:
    """Check options against the model of a command.

    Parameters
    ----------
    question : Command
        Command with these options.
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
        If an option is invalid; the message names the first invalid option.
    """
    try:
        request = model.model_validate(dict(fields), strict=not texts)
    except ValidationError as error:
        raise _refused(question, error) from None
    return request.model_dump(exclude_defaults=True)


def _refused(question: Command, error: ValidationError) -> RefusedError:
    errors = error.errors(include_url=False, include_context=False)
    # A misspelled option is reported before the option that is therefore missing. An option with several types has an
    # error for each type. If a text is too long, that error is reported.
    place = min(errors, key=lambda it: it["type"] != "extra_forbidden")["loc"][:1]
    first = min(errors, key=lambda it: (it["loc"][:1] != place, it["type"] != "string_too_long"))
    field = str(first["loc"][0]) if first["loc"] else None
    advice = {"missing": "is needed", "extra_forbidden": "is no option of this question"}.get(first["type"])
    if first["type"] == "extra_forbidden" and (
        hint := by_name.option_hint(question, str(field), "questions", remote=True)
    ):
        advice = f"{advice}; {hint}"
    value = "" if advice else f"got {str(first['input'])[:60]!r}; "
    return RefusedError(f"{field or 'request'}: {value}{advice or first['msg']}", field)


_JSON = "application/json"
_SCHEMAS, _PARAMETERS = "#/components/schemas/", "#/components/parameters/"
_FORM: Mapping[str, Any] = {"name": "form", "in": "path", "required": True, "schema": {"enum": list(MEDIA)}}


@cache
def _base() -> Mapping[str, Any]:
    """Fixed parts of the OpenAPI document, from ``openapi.yaml``."""
    path = Path(__file__).with_name("openapi.yaml")
    return cast("dict[str, Any]", foreign_yaml(path.read_text(encoding="utf-8"), path.name))


def document(questions: Mapping[str, Command], models: Mapping[str, type[BaseModel]]) -> dict[str, Any]:
    """OpenAPI document as plain data."""
    _, schemas = models_json_schema(
        [(model, "validation") for model in models.values()], ref_template=f"{_SCHEMAS}{{model}}"
    )
    base = _base()
    sent = base["paths"]["/api/v1/texts"]["post"]
    kept = {**sent, "responses": _replies([_JSON], sent["responses"])}
    paths: dict[str, Any] = {"/api/v1/texts": {"post": kept}}
    parameters: dict[str, Any] = {}
    for question in questions.values():
        request_name = models[question.slug].__name__
        properties = schemas["$defs"][request_name]["properties"]
        named = {
            f"{question.slug}.{option.field}": _parameter(option, properties[option.field]) for option in question.asked
        }
        parameters |= named
        paths |= _paths(question, request_name, [{"$ref": f"{_PARAMETERS}{name}"} for name in named])
    answers = {_answer(name): schema.json_schema(name, _SCHEMAS) for name in schema.questions()}
    shared = {**schemas["$defs"], **answers, **schema.definitions(_SCHEMAS), "Error": base["Error"]}
    info = {**base["info"], "version": metadata.version("inference-econ")}
    components = {"schemas": shared, "parameters": parameters}
    return {"openapi": base["openapi"], "info": info, "paths": paths, "components": components}


def _answer(question: str) -> str:
    """Schema name of a command's results."""
    return f"{question}Answer"


def _answered(question: Command) -> dict[str, Any]:
    """Schema of a command's JSON results."""
    answered: dict[str, Any] = _base()["Answer"]
    records = [{"$ref": f"{_SCHEMAS}{_answer(name)}"} for name in question.records if name in schema.questions()]
    if not records:
        return answered
    record = {"answer": records[0] if len(records) == 1 else {"anyOf": records}}
    return {**answered, "properties": {**answered["properties"], **record}}


def _paths(question: Command, request_name: str, parameters: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """OpenAPI paths of a command: JSON results with options in the address or body, and other formats."""
    content = {_JSON: {"schema": {"$ref": f"{_SCHEMAS}{request_name}"}}}
    texts = {"summary": question.summary, "description": question.text}
    body = {"requestBody": {"required": True, "content": content}}
    responses = _replies([_JSON], _answered(question))
    got = {"operationId": f"get_{question.slug}", **texts, "parameters": parameters, "responses": responses}
    sent = {"operationId": f"ask_{question.slug}", **texts, **body, "responses": responses}
    file = {
        "operationId": f"file_{question.slug}",
        **texts,
        "parameters": [dict(_FORM), *parameters],
        "responses": _replies(sorted({media.partition(";")[0] for media in MEDIA.values()}), {}),
    }
    return {
        f"/api/v1/{question.slug}": {"get": got, "post": sent},
        f"/api/v1/{question.slug}.{{form}}": {"get": file},
    }


def _replies(media: Iterable[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """OpenAPI responses: a result in given media types, or an error."""
    error = {_JSON: {"schema": {"$ref": f"{_SCHEMAS}Error"}}}
    answered = {"200": {"description": "The answer.", "content": {kind: {"schema": dict(schema)} for kind in media}}}
    return answered | {code: {"description": text, "content": error} for code, text in _base()["errors"].items()}


def _parameter(option: Parameter, schema: Mapping[str, Any]) -> dict[str, Any]:
    about = {"name": option.field, "in": "query", "required": option.required, "description": option.help}
    return {**about, "schema": dict(schema)}
