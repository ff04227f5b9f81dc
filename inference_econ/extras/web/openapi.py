"""OpenAPI document of the application, from its request models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic.json_schema import models_json_schema

from inference_econ.extras.web.replies import MEDIA
from inference_econ.inputs import foreign_yaml
from inference_econ.report import schema
from inference_econ.requests import Command, Parameter

if TYPE_CHECKING:
    from pydantic import BaseModel

_JSON = "application/json"
_SCHEMAS, _PARAMETERS = "#/components/schemas/", "#/components/parameters/"
_FORM: Mapping[str, Any] = {"name": "form", "in": "path", "required": True, "schema": {"enum": list(MEDIA)}}


@cache
def _base() -> Mapping[str, Any]:
    """Fixed parts of the document, from ``openapi.yaml``."""
    path = Path(__file__).with_suffix(".yaml")
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
    """Paths of a command: JSON with options in the address or the body, and other forms."""
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
    """Responses: a result in given media types, or an error."""
    error = {_JSON: {"schema": {"$ref": f"{_SCHEMAS}Error"}}}
    answered = {"200": {"description": "The answer.", "content": {kind: {"schema": dict(schema)} for kind in media}}}
    return answered | {code: {"description": text, "content": error} for code, text in _base()["errors"].items()}


def _parameter(option: Parameter, schema: Mapping[str, Any]) -> dict[str, Any]:
    about = {"name": option.field, "in": "query", "required": option.required, "description": option.help}
    return {**about, "schema": dict(schema)}
