"""Meanings of fields of specifications: the docstrings below them, read from the source when a schema is asked for.

pydantic has an option for it, which reads and parses the source of every class when it is imported: a quarter of the
time of a whole command that shows no schema.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel


@cache
def descriptions(cls: type) -> Mapping[str, str]:
    """The docstring below each annotated field of a class and of those that it is made of; empty without a source."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not issubclass(base, BaseModel) or base is BaseModel:
            continue
        try:
            source = inspect.getsource(base)
        except OSError:  # a class that was put together, or an installation without sources
            continue
        definition = ast.parse(textwrap.dedent(source)).body[0]
        assert isinstance(definition, ast.ClassDef)
        for pair in pairwise(definition.body):
            match pair:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    texts[name] = inspect.cleandoc(text)
    return texts


def describe(cls: type, properties: Mapping[str, Any]) -> None:
    """Say what properties of a JSON schema are, where that is not said yet."""
    for name, text in descriptions(cls).items():
        if name in properties:
            properties[name].setdefault("description", text)


def describe_as(cls: type, name: str, schema: dict[str, Any]) -> None:
    """Say what the JSON schema of a field is that stands in for one of another class."""
    describe(cls, {name: schema})
