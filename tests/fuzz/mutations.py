"""Implausible changes of texts and of plain data, a few at once."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

#: Replacements for values of a text: other types, extremes, units, YAML's own signs, other scripts.
TEXTS = (
    "0", "-1", "1", "7", "1e300", "1e-300", "-0.0", "1" + 310 * "0", "9999999999999999999", "0.1", ".5", "1_000",
    "0x10", "nan", ".inf", "true", "no", "null", "~", "''", "x", "1 TB", "80 GiB", "5 parsecs", "4 us", "-3 GB/s",
    "2.10 USD/h", "1e300 TB/s", "llama_3_8b", "h100_sxm", "bf16", "int3", "[]", "{}", "[1, 2]", "{a: {b: 1}}", "&a 1",
    "*a", "!!python/none x", "| x", "? x", "# x", "'", '"', "{", "]", "\t", "ü", "日本", "\u202e", "\udcff", "\x00",
    "\U0001f600", "<<", "@x", "%", 40 * "[", "2024-02-30",
)  # fmt: skip
#: Replacements for values of plain data.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 3, 7, 2**31, 2**63, 10**300, 10**310, 0.5, -0.0, 1e300, 1e-300, 5e-324,
    float("inf"), float("nan"), "", "x", "0", "1", "12", "nan", "inf", "bf16", "\udcff", "日本", 5000 * "x", [], {},
    [1], [[]], [None], {"a": 1}, ["x", 2], [0, 0], {"": None}, [1e308, 1e308],
)  # fmt: skip
_TOKEN = re.compile(r"[^\s,:{}\[\]\"'#]+")


@st.composite
def texts(draw: st.DrawFn, text: str) -> str:
    """Draw a text after one to three changes of lines and of words in them."""
    lines = text.splitlines()
    for _ in range(draw(st.integers(1, 3))):
        if not lines:
            break
        at = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(("word", "word", "word", "drop", "double", "indent", "insert", "swap", "cut"))):
            case "word":
                lines[at] = draw(_other_word(lines[at]))
            case "drop":
                del lines[at]
            case "double":
                lines.insert(at, lines[at])
            case "indent":
                lines[at] = "  " + lines[at]
            case "insert":
                lines.insert(at, draw(st.sampled_from(TEXTS)) + draw(st.sampled_from(("", ": 1", ": {a: 1}", ",,"))))
            case "swap":
                lines[0], lines[at] = lines[at], lines[0]
            case _:
                lines[at:] = [lines[at][: len(lines[at]) // 2]]
    return "\n".join(lines) + draw(st.sampled_from(("\n", "", "\r\n")))


@st.composite
def _other_word(draw: st.DrawFn, line: str) -> str:
    """Draw a line with another word, more often after a colon than before it."""
    words = list(_TOKEN.finditer(line))
    if not words:
        return line
    word = draw(st.sampled_from(words[1:] or words))
    return line[: word.start()] + draw(st.sampled_from(TEXTS)) + line[word.end() :]


@st.composite
def data(draw: st.DrawFn, plain: Any) -> Any:
    """Draw plain data after one to three changes: a value omitted, duplicated, nested, or of another type or size."""
    root = [copy.deepcopy(plain)]
    for _ in range(draw(st.integers(1, 3))):
        container, key = draw(_place(root))
        match draw(st.sampled_from(("value", "value", "value", "drop", "nest", "double", "scale"))):
            case "drop" if container is not root:
                del container[key]
            case "nest":
                container[key] = draw(st.sampled_from(([container[key]], {"a": container[key]})))
            case "double" if isinstance(container, list) and container is not root:
                container.insert(key, copy.deepcopy(container[key]))
            case "double" if isinstance(container, dict):
                container[f"{key}_2"] = container[key]
            case "scale" if isinstance(container[key], (int, float)):
                container[key] = container[key] * draw(st.sampled_from((-1, 0, 2, 3, 1000, 10**12)))
            case _:
                container[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))
    return root[0]


@st.composite
def _place(draw: st.DrawFn, root: list[Any]) -> tuple[Any, Any]:
    """Draw a container and one of its keys, from the top down."""
    container: Any = root
    key: Any = 0
    while isinstance(container[key], (dict, list)) and container[key] and draw(st.integers(0, 5)):
        container = container[key]
        keys: Sequence[Any] = list(container) if isinstance(container, dict) else range(len(container))
        key = draw(st.sampled_from(keys))
    return container, key
