"""Descriptions of specification fields: the docstrings below them, read from the source when a schema is requested.

The pydantic option for this parses the source of every class at import, which takes a quarter of the time of a command
that shows no schema.
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
    """Docstring below each annotated field of a class and its bases; empty if the source is not available."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not issubclass(base, BaseModel) or base is BaseModel:
            continue
        try:
            source = inspect.getsource(base)
        except OSError:  # dynamic class, or an installation without sources
            continue
        definition = ast.parse(textwrap.dedent(source)).body[0]
        assert isinstance(definition, ast.ClassDef)
        for pair in pairwise(definition.body):
            match pair:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    texts[name] = inspect.cleandoc(text)
    return texts


def describe(cls: type, properties: Mapping[str, Any]) -> None:
    """Add descriptions to properties of a JSON schema that have none."""
    for name, text in descriptions(cls).items():
        if name in properties:
            properties[name].setdefault("description", text)


def describe_as(cls: type, name: str, schema: dict[str, Any]) -> None:
    """Add the description of a field to a JSON schema that replaces a field of another class."""
    describe(cls, {name: schema})
