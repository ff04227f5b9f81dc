"""Write tables of the fields of YAML files from the schemas that validate these files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from inference_econ.inputs import schemas

if TYPE_CHECKING:
    from sphinx.application import Sphinx

Schema = Mapping[str, Any]
#: Roles and double backticks of reStructuredText, with their Markdown equivalents.
_MARKUP = ((re.compile(r":\w+:`~?([^`]+)`"), r"`\1`"), (re.compile(r"``"), "`"))
_BOUNDS = {"exclusiveMinimum": "> ", "gt": "> ", "minimum": "≥ ", "ge": "≥ ", "maximum": "≤ ", "le": "≤ "}


class Fields(SphinxDirective):
    """Directive for the fields of one kind of file, with meaning, allowed values and default."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write the schema as Markdown, and parse it with the parser of the page."""
        schema = schemas.json_schema(self.arguments[0])
        lines = StringList([*_part(schema), *_parts(schema.get("$defs", {}))], source=f"schema {self.arguments[0]}")
        section = nodes.section()
        section.document = self.state.document
        self.state.nested_parse(lines, self.content_offset, section, match_titles=True)
        return list(section.children)


def _parts(definitions: Mapping[str, Schema]) -> Iterator[str]:
    """Write each definition of a schema under its name."""
    for name, schema in definitions.items():
        yield from ("", f"**{name}**", "", *_part(schema))


def _part(schema: Schema) -> Iterator[str]:
    """Write the description of a mapping and a table of its keys."""
    yield from (_text(schema.get("description", "").split("\nExamples\n")[0]), "")
    if properties := schema.get("properties"):
        yield from ("| key | allowed | default | what it is |", "|---|---|---|---|")
        for name, field in properties.items():
            default = _default(field, required=name in schema.get("required", ()))
            yield f"| `{name}` | {_allowed(field)} | {default} | {_text(field.get('description', ''))} |"


def _text(description: str) -> str:
    """Write a docstring as one line of Markdown."""
    for pattern, replacement in _MARKUP:
        description = pattern.sub(replacement, description)
    return " ".join(description.split()).replace("|", "\\|").replace("[", "\\[")


def _default(field: Schema, *, required: bool) -> str:
    """Write the default of a key."""
    if required or "default" not in field:
        return "needed" if required else ""
    if field["default"] in (None, "", [], {}):
        return "none"
    return f"`{json.dumps(field['default'])}`"


def _allowed(field: Schema) -> str:
    """Describe the allowed values of a field."""
    if choices := field.get("enum", [field["const"]] if "const" in field else None):
        return ", ".join(f"`{choice}`" for choice in choices)
    if reference := field.get("$ref"):
        return str(reference).rsplit("/", 1)[-1]
    if alternatives := [it for it in field.get("anyOf", field.get("oneOf", ())) if it.get("type") != "null"]:
        words = list(dict.fromkeys(_allowed(it) for it in alternatives))
        return _bounded(field, "number with unit" if words == ["number", "text"] else " or ".join(words))
    return _bounded(field, _kind(field))


def _kind(field: Schema) -> str:
    match field.get("type"):
        case "array":
            return f"list of {_allowed(field.get('items', {}))}"
        case "object":
            values = field.get("additionalProperties")
            return f"mapping to {_allowed(values)}" if isinstance(values, Mapping) else "mapping"
        case kind:
            return {"string": "text", "boolean": "`true`, `false`", "integer": "whole number"}.get(str(kind), str(kind))


def _bounded(field: Schema, words: str) -> str:
    """Add the limits of a number to its description."""
    limits = " and ".join(f"{sign}{field[key]:g}" for key, sign in _BOUNDS.items() if key in field)
    return f"{words} {limits}".rstrip()


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_directive("fields", Fields)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
