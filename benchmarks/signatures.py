"""Write the type stubs of the Python functions, ``inference_econ/_questions.pyi``: ``python -m benchmarks.signatures``.

A function has two overloads: names and options from the command tables, and objects as in its source.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from pathlib import Path

from inference_econ._named import named
from inference_econ.requests import COMMANDS, Command, Parameter, by_name, kinds

FILE = Path(__file__).parents[1] / "inference_econ" / "_questions.pyi"
#: Commands whose result class depends on options.
_SEVERAL = ("recommend", "estimate", "frontier", "explain", "sensitivity", "infer")
#: Line width [characters].
_WIDTH = 120
#: Imports already in the head, and the name that it defines.
_IMPORTED = {
    "from inference_econ._types import Progress\n",
    "from inference_econ.inputs import Name\n",
    "from inference_econ.inputs.catalog import Name\n",
}
_HEAD = '''\
"""Types of the questions of Python; ``python -m benchmarks.signatures`` writes them from the tables of commands."""

# fmt: off
# ruff: noqa
from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypeAlias, overload

from inference_econ._types import Progress
'''
_TYPES = """
#: A name of the catalog, or the path of a file.
Name: TypeAlias = str | PathLike[str]
#: A value as it is typed, with a unit if it has one.
Value: TypeAlias = str | float | PathLike[str] | None
#: One value, or several.
Values: TypeAlias = Value | Sequence[str | float | Mapping[str, str | float]] | Mapping[str, str | float]
"""


def text() -> str:
    """Text of the file."""
    commands = [command for command in COMMANDS.values() if command.call]
    imports, functions = set[str](), []
    for command in commands:
        of_objects, returned, used = _of_objects(command)
        imports |= used
        forms = [_of_names(command, returned), of_objects]
        # An overload with names and arbitrary settings would accept wrong options.
        functions += [f"@overload\n{form}" for form in forms] if command.name != "sensitivity" else forms[:1]
    return "".join([_HEAD, *sorted(imports), _TYPES, "\n", *functions])


def _of_names(command: Command, returned: str) -> str:
    """Overload with names and options."""
    own = []
    for place in by_name.arguments(command):
        rest = by_name.is_rest(command, place)
        optional = "" if place.required or rest else " = ..."
        own.append(f"{'*' * rest}{place.field}: Name{' | Sequence[Name]' * place.repeat}{optional}")
    if not own[-1:] or not own[-1].startswith("*"):
        own.append("*")
    options = [
        f"{by_name.argument(it)}: {_type(it)}{'' if it.required else f' = {it.json_default!r}'}"
        for it in by_name.taken(command)
    ]
    others = " | Any" if command.python_name in _SEVERAL else ""
    return _function(command, [*own, *options, "progress: Progress | None = None"], f"{returned}{others}")


def _function(command: Command, arguments: list[str], returned: str) -> str:
    """Format a function with its arguments on the fewest lines."""
    joined = ", ".join(argument.replace(" ", "\0") for argument in arguments)
    lines = textwrap.wrap(joined, _WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    body = "".join(f"    {line}\n" for line in lines).replace("\0", " ")
    return f"def {command.python_name}(\n{body}) -> {returned}: ...\n"


def _type(parameter: Parameter) -> str:
    """Type of an option."""
    kind = parameter.kind
    optional = "" if parameter.required else " | None"
    if isinstance(kind, kinds.Flag):
        return f"bool{optional}"
    if parameter.repeat or "," in (parameter.metavar or kind.metavar):
        return "Values"
    if isinstance(kind, kinds.ChoiceKind) and not kind.metavar:
        return f"Literal[{', '.join(map(repr, kind.words))}]{optional}"
    if isinstance(kind, kinds.Number):
        return f"{'int' if kind.whole else 'float'}{optional}"
    return "Value"


def _of_objects(command: Command) -> tuple[str, str, set[str]]:
    """Overload with objects: its text, return type, and needed imports."""
    function = named(command.call)
    tree = ast.parse(Path(inspect.getfile(function)).read_text(encoding="utf-8"))
    found = next(it for it in tree.body if isinstance(it, ast.FunctionDef) and it.name == function.__name__)
    assert found.returns is not None
    found.args.defaults = [ast.Constant(...) for _ in found.args.defaults]
    found.args.kw_defaults = [default and ast.Constant(...) for default in found.args.kw_defaults]
    # Split at commas between arguments, not within brackets.
    arguments, returned = re.split(r", (?![^\[]*\])", ast.unparse(found.args)), ast.unparse(found.returns)
    bound = {
        it.asname or it.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for it in node.names
    }
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [node]
        bound |= {str(getattr(it, "id", getattr(it, "name", ""))): function.__module__ for it in targets}
    used = {node.id for node in ast.walk(ast.Module([found.args, found.returns], [])) if isinstance(node, ast.Name)}  # type: ignore[list-item]
    imports = {
        f"from {bound[name]} import {name}\n" for name in used if f"{bound.get(name)}".startswith("inference_econ")
    }
    return _function(command, arguments, returned), returned, imports - _IMPORTED


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
