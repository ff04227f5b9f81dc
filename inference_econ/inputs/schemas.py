"""JSON schemas of input files, and the generated reference page of assumptions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from inference_econ.errors import InputError
from inference_econ.inputs import _validation, catalog
from inference_econ.inputs._spec import Spec
from inference_econ.inputs.presets.assumptions import GROUPS, value_of

#: Pattern of roles of reStructuredText, which do not exist in Markdown.
_MARKUP = re.compile(r":\w+:`([^`]+)`")


def json_schema(kind: str) -> dict[str, Any]:
    """JSON schema of files of a kind: hardware, model, traffic, assumptions, scenario or engine.

    Raises
    ------
    InputError
        If the kind is unknown.
    """
    classes = catalog.classes()
    if kind not in classes:
        raise InputError(f"unknown kind {kind!r}; kinds: {', '.join(classes)}")
    return _validation.adapter(classes[kind]).json_schema()  # type: ignore[arg-type]


def reference_page() -> str:
    """Reference page of assumptions, with the values of all fields in some presets: ``docs/reference/assumptions.md``.

    Returns
    -------
    str
        Markdown, generated from the docstrings of the fields and the shipped files.
    """
    presets = {name: catalog.assumptions(name) for name in ("paper", "deployable", "profiles/servers")}
    schema = json_schema("assumptions")
    lines = [
        "# Assumptions",
        "",
        "This page lists every assumption of the cost model by group, with its value in three presets. The presets",
        "are files in `scenarios/assumptions`. Set an assumption with `--set assumptions.GROUP.FIELD=VALUE`, or in",
        "your own file that extends a preset (`extends: deployable`). `inference-econ show assumptions NAME` shows a",
        "preset with its sources. The descriptions are those of the fields:",
        "`inference-econ show schema assumptions --page -o docs/reference/assumptions.md` generates this page.",
    ]
    for group, spec in GROUPS.items():
        lines += ["", f"## {group}", "", (spec.__doc__ or "").strip(), ""]
        lines += [f"| field | allowed | what it is | {' | '.join(presets)} |", "|---|---|---|" + "---|" * len(presets)]
        for name, field in schema["$defs"][spec.__name__]["properties"].items():
            values = (_shown(value_of(preset, f"{group}.{name}")) for preset in presets.values())
            text = _MARKUP.sub(r"`\1`", " ".join(field["description"].split())).replace("``", "`").replace("|", "\\|")
            lines.append(f"| `{name}` | {_allowed(field)} | {text} | {' | '.join(values)} |")
    return "\n".join(lines) + "\n"


def _allowed(field: Mapping[str, Any]) -> str:
    """Allowed values of a field, according to its JSON schema."""
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if field.get("type") == "boolean":
        return "`true`, `false`"
    if field.get("type") == "array":
        return f"list of {_allowed(field['items'])}"
    if field.get("type") == "object":
        folder = re.search(r"assumptions/\w+", field["description"])
        return f"name of a file in `{folder[0]}`, or formats" if folder else "formats"
    if "discriminator" in field or "oneOf" in field:
        return "name of a file in `assumptions/collectives`, or one"
    bounds = {key: value for part in (field, *field.get("anyOf", ())) for key, value in part.items()}
    signs = {"exclusiveMinimum": "> ", "minimum": ">= ", "exclusiveMaximum": "< ", "maximum": "<= "}
    return " and ".join(f"{sign}{bounds[key]:g}" for key, sign in signs.items() if key in bounds) or "a quantity"


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    if isinstance(value, Mapping):
        return ", ".join(value)
    if isinstance(value, Spec):
        return str(getattr(value, "kind", ""))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
