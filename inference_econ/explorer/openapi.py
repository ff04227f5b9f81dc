"""The OpenAPI document of the application, made of the models of its questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import models_json_schema

from inference_econ.explorer.questions import Option, Question
from inference_econ.explorer.replies import MEDIA, Form

if TYPE_CHECKING:
    from pydantic import BaseModel

_SCHEMAS = "#/components/schemas/"
_ERROR: Mapping[str, Any] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "field"],
            "properties": {
                "message": {"type": "string", "description": "What was given, what is allowed, what to do."},
                "field": {"type": ["string", "null"], "description": "The option that caused it."},
            },
        }
    },
}
_ERRORS: Mapping[str, str] = {
    "400": "No valid request, or one of another page.",
    "413": "More than can be sent.",
    "415": "Not said to be JSON.",
    "422": "An option that cannot be used, nothing that fits, or too much to calculate.",
    "429": "Too many questions wait.",
}


def document(questions: Mapping[str, Question], models: Mapping[str, type[BaseModel]]) -> dict[str, Any]:
    """The document, as plain data."""
    refs, schemas = models_json_schema(
        [(model, "validation") for model in models.values()], ref_template=f"{_SCHEMAS}{{model}}"
    )
    schema_of = {name: refs[models[name], "validation"] for name in models}
    paths: dict[str, Any] = {}
    for name, question in questions.items():
        properties = schemas["$defs"][models[name].__name__]["properties"]
        for form in MEDIA:
            ending = "" if form == "json" else f".{form}"
            paths[f"/api/v1/{name}{ending}"] = _path(question, form, schema_of[name], properties)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "inference-econ",
            "version": metadata.version("inference-econ"),
            "description": "What it costs, and how fast it goes, to serve language models.",
        },
        "paths": paths,
        "components": {"schemas": {**schemas["$defs"], "Error": dict(_ERROR)}},
    }


def _path(question: Question, form: Form, schema: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """An address of a question: its options in the address, or as JSON."""
    operation = f"{question.name}_{form}"
    responses = {"200": {"description": "The answer.", "content": {_media(form): {}}}, **_problems()}
    return {
        "get": {
            "operationId": f"get_{operation}",
            "summary": question.summary,
            "parameters": [_parameter(option, properties[option.name]) for option in question.options],
            "responses": responses,
        },
        "post": {
            "operationId": f"post_{operation}",
            "summary": question.summary,
            "requestBody": {"required": True, "content": {"application/json": {"schema": dict(schema)}}},
            "responses": responses,
        },
    }


def _media(form: Form) -> str:
    return MEDIA[form].partition(";")[0]


def _problems(codes: Iterable[str] = _ERRORS) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"{_SCHEMAS}Error"}}}
    return {code: {"description": _ERRORS[code], "content": content} for code in codes}


def _parameter(option: Option, schema: Mapping[str, Any]) -> dict[str, Any]:
    about = {"name": option.name, "in": "query", "required": option.required, "description": option.description}
    return {**about, "schema": dict(schema)}
