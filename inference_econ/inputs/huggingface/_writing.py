"""A specification as YAML text that reads back to an equal one."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from typing import Any

from inference_econ.inputs._base import SourcedSpec
from inference_econ.inputs._yaml import scalar

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./+-]*(?: [A-Za-z0-9_./+(-][A-Za-z0-9_./+()-]*)*")
_WIDTH = 110


def yaml_text(spec: SourcedSpec) -> str:
    """The text of a catalogue file: the fields that were set, in their order.

    Parameters
    ----------
    spec : SourcedSpec
        A model, or anything else that the catalogue holds.

    Returns
    -------
    str
        Text that :mod:`inference_econ.inputs._yaml` reads back to an equal specification.
    """
    data = spec.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    data["sources"] = data.pop("sources")  # last, as in the files written by hand
    return "".join(f"{line}\n" for line in _lines(data, 0))


def _lines(data: Mapping[str, Any], depth: int) -> list[str]:
    found: list[str] = []
    pad = "  " * depth
    for key, value in data.items():
        flow = _flow(value)
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            found.append(f"{pad}{_text(key)}:")
            for item in value:
                first, *rest = _lines(item, depth + 2)
                found += [f"{pad}  - {first.strip()}", *rest]
        elif isinstance(value, dict) and value and len(pad) + len(key) + len(flow) + 2 > _WIDTH:
            found += [f"{pad}{_text(key)}:", *_lines(value, depth + 1)]
        elif isinstance(value, str) and len(pad) + len(key) + len(flow) + 2 > _WIDTH and _foldable(value):
            found.append(f"{pad}{_text(key)}: >-")
            found += _folded(value, f"{pad}  ")
        else:
            found.append(f"{pad}{_text(key)}: {flow}")
    return found


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    if isinstance(value, str):
        return _text(value)
    return json.dumps(value)


def _foldable(text: str) -> bool:
    """Whether folding keeps a text as it is: single spaces only, and nothing that cannot be printed."""
    return text.isprintable() and text == " ".join(text.split(" ")).strip() and "  " not in text


def _folded(text: str, pad: str) -> list[str]:
    width = _WIDTH - len(pad)
    return [f"{pad}{line}" for line in textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)]


def _text(text: str) -> str:
    """A string bare where that is certain to read back as the same string, else in double quotes."""
    if _PLAIN.fullmatch(text) and scalar(text) == text and not _reads_as_other(text):
        return text
    marks = {'"': '\\"', "\\": "\\\\"}
    return '"' + "".join(marks.get(c, c if c.isprintable() else f"\\U{ord(c):08x}") for c in text) + '"'


def _reads_as_other(text: str) -> bool:
    return text.lower().lstrip("+-.") in ("inf", "nan", "infinity", "yes", "no", "on", "off", "y", "n")
