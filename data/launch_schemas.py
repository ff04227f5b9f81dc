"""Reduction of published schemas to the parts that files use: ``python -m data.launch_schemas SCHEMA FILE...``.

SCHEMA is a JSON schema, a schema for values of a Helm chart, or a CustomResourceDefinition (YAML). FILES are outputs of
``inference-econ launch``. The reduced schema is printed. It has all names at the level of a used name, so that it still
rejects unknown names. It omits the contents of unused names. The schemas in ``tests/fixtures/schemas`` were created
this way.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

#: Keywords of a schema that remain for used parts.
_KEPT = ("type", "required", "enum", "const", "pattern", "minimum", "maximum", "minItems", "x-kubernetes-int-or-string")


def reduced(schema: Any, values: list[Any], root: Mapping[str, Any]) -> Any:
    """Part of a schema that the given values use."""
    if not isinstance(schema, dict):
        return schema
    while "$ref" in schema:
        schema = _at(root, schema["$ref"])
    kept = {word: schema[word] for word in _KEPT if word in schema}
    for word in ("oneOf", "anyOf", "allOf"):
        if word in schema:
            kept[word] = [reduced(part, values, root) for part in schema[word]]
    mappings = [value for value in values if isinstance(value, dict)]
    names = schema.get("properties", {})
    if names:
        kept["properties"] = {
            name: reduced(part, [value[name] for value in mappings if name in value], root)
            if any(name in value for value in mappings)
            else True
            for name, part in names.items()
        }
    if "patternProperties" in schema:
        kept["patternProperties"] = {
            name: reduced(part, [item for value in mappings for item in value.values()], root)
            for name, part in schema["patternProperties"].items()
        }
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        kept["additionalProperties"] = reduced(others, [item for value in mappings for item in value.values()], root)
    elif names and others is not True:
        kept["additionalProperties"] = False
    if "items" in schema:
        inside = [item for value in values if isinstance(value, list) for item in value]
        kept["items"] = reduced(schema["items"], inside, root)
    return kept


@cache
def _beside(file: str) -> Any:
    return json.loads((Path(sys.argv[1]).parent / Path(file).name).read_text(encoding="utf-8"))


def _at(root: Mapping[str, Any], reference: str) -> Any:
    """Schema to which a reference points, inside the schema or in a neighboring file; all such files are one."""
    file, _, pointer = reference.partition("#/")
    found: Any = _beside(file) if file else root if pointer.split("/")[0] in root else _beside("_definitions.json")
    for part in pointer.split("/"):
        found = found[part]
    return found


def _documents(paths: Iterable[str], kind: str | None) -> list[Any]:
    listed = [document for path in paths for document in yaml.safe_load_all(Path(path).read_text(encoding="utf-8"))]
    return [document for document in listed if kind is None or document.get("kind") == kind]


def main() -> None:
    """Print the reduced schema."""
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    whole = yaml.safe_load(text)
    kind = None
    if whole.get("kind") == "CustomResourceDefinition":
        kind = whole["spec"]["names"]["kind"]
        whole = whole["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        whole["properties"]["metadata"] = True
    elif "kind" in whole.get("properties", {}):
        kind = whole["properties"]["kind"]["enum"][0]
    json.dump(reduced(whole, _documents(sys.argv[2:], kind), whole), sys.stdout, separators=(",", ":"))


if __name__ == "__main__":
    main()
