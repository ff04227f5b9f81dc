"""Options of commands: those that ``commands.toml`` names, as the table of all questions and ``options.csv`` have them.

A row of ``options.csv`` is of a command, or of a set of options: where it says nothing, what the table of all questions
says of the same name holds.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from inference_econ.inputs.options import OPTIONS, rows

from . import bounded, prices
from . import parameters as kinds

F = TypeVar("F", bound=Callable[..., Any])
#: The options that a command was given, by their names in Python.
Choices = Mapping[str, Any]

_DOCUMENT: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))
#: Options that commands have together: names of options, and of other sets.
SETS: Mapping[str, str] = _DOCUMENT["sets"]
#: Word of a command for the options that it alone has, as far as it does not name them.
_OWN = "own"
#: Each command by what is typed: its function, its options, lines of its help, and the doors to its question.
COMMANDS: Mapping[str, Mapping[str, Any]] = _DOCUMENT["commands"]
#: What options of some kinds are to click; the types of others are in :mod:`.parameters`.
_KINDS: Mapping[str, Mapping[str, Any]] = {
    "carbon": {"metavar": "GRID|G/KWH"},
    "either": {"default": None},
    "engine": {"multiple": True, "metavar": "NAME[@VERSION]"},
    "flag": {"is_flag": True},
    "format": {"type": kinds.Format(), "metavar": kinds.FORMAT},
    "price": {"multiple": True, "callback": prices.parsed, "metavar": "[HARDWARE=]USD[/node]|KIND"},
    "probabilities": {"metavar": "P|P,P,..."},
    "recomputed": {"flag_value": "recomputed", "default": None},
    "text": {"default": ""},
    "tiers": {"multiple": True, "metavar": "NAME|PATH"},
    "what_ifs": {"multiple": True, "metavar": "KEY=VALUE"},
    "yes": {"is_flag": True, "expose_value": False, "callback": bounded.allowed},
    **{kind: {} for kind in ("", "lengths", "switch", "words")},
}
#: What commands and sets say of options, as far as they say it, by ``COMMAND.NAME`` or ``SET.NAME``.
_ROWS: Mapping[str, Mapping[str, Any]] = {
    f"{row.pop('of')}.{row['name']}": {column: value for column, value in row.items() if value}
    for row in rows(Path(__file__).with_name("options.csv"))
}


def of(command: str, words: str) -> Callable[[F], F]:
    """Options of a command as one decorator.

    Parameters
    ----------
    command : str
        Its name.
    words : str
        Names of options and of :data:`SETS`, in their order; ``own`` for those that it alone has and does not name.
    """

    def decorate(function: F) -> F:
        for option in reversed(list(_options(words, (command,)))):
            function = option(function)
        return function

    return decorate


def _options(words: str, within: tuple[str, ...]) -> Iterator[Callable[[F], F]]:
    for word in words.split():
        if word == _OWN:
            yield from (_option(name, within) for name in _own(within[0], words.split()))
        elif word in SETS:
            yield from _options(SETS[word], (*within, word))
        else:
            outer, _, name = word.rpartition(".")
            yield _option(name, (*within, outer) if outer else within)


def _own(command: str, words: Sequence[str]) -> list[str]:
    """Options that a command alone has and does not name among its words, in the order of the table."""
    pairs = [(owner, name) for owner, _, name in (key.partition(".") for key in _ROWS)]
    common = {*OPTIONS, *(name for owner, name in pairs if owner not in COMMANDS), *words}
    return [name for owner, name in pairs if owner == command and name not in common]


def _option(name: str, within: tuple[str, ...]) -> Callable[[F], F]:
    """An option or argument as the tables have it: what a command or a set says of it first, the outermost before."""
    special = next((row for outer in within if (row := _ROWS.get(f"{outer}.{name}"))), {})
    row = {**(OPTIONS[name]._asdict() if name in OPTIONS else _ROWS.get(f".{name}", {})), **special}
    kind, typed = row.get("kind", ""), row.get("typed") or f"--{name.replace('_', '-')}"
    settings: dict[str, Any] = {**_of_kind(kind)} | ({"metavar": row["metavar"]} if row.get("metavar") else {})
    if not typed.startswith("-"):
        settings |= {"nargs": -1 if row.get("repeat") else 1, "required": row.get("required", False)}
        return click.argument(typed, **settings)
    if kind in ("switch", "either"):
        typed = f"{typed}/--no-{typed.removeprefix('--')}"
    if row.get("default"):
        default = _default(kind, settings.get("type"), row["default"])
        settings |= {"default": (default,) if row.get("repeat") else default, "show_default": row.get("shown", False)}
    settings |= {name: True for name, column in (("multiple", "repeat"), ("required", "required")) if row.get(column)}
    return click.option(*typed.split(), name, help=row["help"], **settings)


def _of_kind(kind: str) -> Mapping[str, Any]:
    """Settings of a kind for click: a choice (``1d|2d``), a whole number in a range (``1..``), or by its name."""
    if "|" in kind:
        return {"type": click.Choice(kind.split("|"))}
    if ".." in kind:
        least, most = (int(end) if end else None for end in kind.split(".."))
        return {"type": click.IntRange(least, most)}
    return _KINDS[kind] if kind in _KINDS else {"type": getattr(kinds, kind.upper())}


def _default(kind: str, type_: object, text: str) -> bool | float | str:
    """A default as it is in Python: a number where a number is taken."""
    if kind in ("flag", "switch"):
        return text == "yes"
    if not isinstance(type_, (click.IntRange, click.FloatRange)) and type_ is not float:
        return text
    return int(text) if text.isdecimal() else float(text)
