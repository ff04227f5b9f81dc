"""The OpenAPI document of the application, made of the models of its questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import models_json_schema

from inference_econ.explorer.questions import Option, Question
from inference_econ.explorer.replies import MEDIA
from inference_econ.report import schema

if TYPE_CHECKING:
    from pydantic import BaseModel

_SCHEMAS, _PARAMETERS = "#/components/schemas/", "#/components/parameters/"
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
_ANSWER: Mapping[str, Any] = {
    "type": "object",
    "required": ["command", "text"],
    "properties": {
        "command": {"type": "string", "description": "What one types to ask the same."},
        "text": {"type": "string", "description": "A script or manifest, where that is the answer."},
        "remarks": {"type": "array", "items": {"type": "string"}, "description": "What names were taken for."},
        "answer": {"type": "object", "description": "All numbers, in base units."},
        "tables": {"type": "array", "items": {"type": "object"}, "description": "The answer for people."},
    },
}
_FORM: Mapping[str, Any] = {"name": "form", "in": "path", "required": True, "schema": {"enum": list(MEDIA)}}
_ERRORS: Mapping[str, str] = {
    "400": "No valid request, or one of another page.",
    "404": "Nothing of that name.",
    "413": "More than can be sent.",
    "415": "Not said to be JSON.",
    "422": "An option that cannot be used, nothing that fits, or too much to calculate.",
    "429": "Too many questions wait.",
}


#: What a text that somebody sends is called from then on.
_TEXT: Mapping[str, Any] = {
    "operationId": "keep_text",
    "summary": "Keep a configuration, a benchmark result or a saved answer, under a name that options may have.",
    "requestBody": {"required": True, "content": {"text/plain": {"schema": {"type": "string"}}}},
}
_NAMED: Mapping[str, Any] = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}


def document(questions: Mapping[str, Question], models: Mapping[str, type[BaseModel]]) -> dict[str, Any]:
    """The document, as plain data."""
    _, schemas = models_json_schema(
        [(model, "validation") for model in models.values()], ref_template=f"{_SCHEMAS}{{model}}"
    )
    paths: dict[str, Any] = {"/api/v1/texts": {"post": {**_TEXT, "responses": _replies("application/json", _NAMED)}}}
    parameters: dict[str, Any] = {}
    for question in questions.values():
        asked = models[question.name].__name__
        properties = schemas["$defs"][asked]["properties"]
        named = {_key(question, option): _parameter(option, properties[option.name]) for option in question.options}
        parameters |= named
        paths |= _paths(question, asked, [{"$ref": f"{_PARAMETERS}{name}"} for name in named])
    answers = {_answer(name): schema.json_schema(name, _SCHEMAS) for name in schema.questions()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "inference-econ",
            "version": metadata.version("inference-econ"),
            "description": "What it costs, and how fast it goes, to serve language models.",
        },
        "paths": paths,
        "components": {
            "schemas": {**schemas["$defs"], **answers, **schema.definitions(_SCHEMAS), "Error": dict(_ERROR)},
            "parameters": parameters,
        },
    }


def _answer(question: str) -> str:
    """Return the name of the schema of its answers."""
    return f"{question}Answer"


def _answered(question: str) -> dict[str, Any]:
    """Return the schema of what comes back as JSON."""
    if question not in schema.questions():
        return dict(_ANSWER)
    return {**_ANSWER, "properties": {**_ANSWER["properties"], "answer": {"$ref": f"{_SCHEMAS}{_answer(question)}"}}}


def _key(question: Question, option: Option) -> str:
    return f"{question.name}.{option.name}"


def _paths(question: Question, asked: str, parameters: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The addresses of a question: as JSON, with its options in the address or as JSON; and in another form."""
    content = {"application/json": {"schema": {"$ref": f"{_SCHEMAS}{asked}"}}}
    said = {"summary": question.summary, "description": question.description}
    body = {"requestBody": {"required": True, "content": content}}
    responses = _replies("application/json", _answered(question.name))
    got = {"operationId": f"get_{question.name}", **said, "parameters": parameters, "responses": responses}
    sent = {"operationId": f"ask_{question.name}", **said, **body, "responses": responses}
    file = {
        "operationId": f"file_{question.name}",
        **said,
        "parameters": [dict(_FORM), *parameters],
        "responses": _replies(*sorted({media.partition(";")[0] for media in MEDIA.values()})),
    }
    return {
        f"/api/v1/{question.name}": {"get": got, "post": sent},
        f"/api/v1/{question.name}.{{form}}": {"get": file},
    }


def _replies(*media: Any) -> dict[str, Any]:
    """What comes back: types of media, the last perhaps followed by its schema; or an error."""
    schema = media[-1] if isinstance(media[-1], Mapping) else {}
    types = [each for each in media if isinstance(each, str)]
    error = {"application/json": {"schema": {"$ref": f"{_SCHEMAS}Error"}}}
    answered = {"200": {"description": "The answer.", "content": {each: {"schema": dict(schema)} for each in types}}}
    return answered | {code: {"description": said, "content": error} for code, said in _ERRORS.items()}


def _parameter(option: Option, schema: Mapping[str, Any]) -> dict[str, Any]:
    about = {"name": option.name, "in": "query", "required": option.required, "description": option.description}
    return {**about, "schema": dict(schema)}
