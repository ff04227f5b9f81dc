"""Descriptions of specification fields in JSON schemas, taken from the docstrings below the fields.

The source is read only when a schema is requested. Pydantic has an option that parses the source of every class at
import. It would take a quarter of the run time of a command that shows no schema.
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
    """Docstrings of the fields of a class and its bases, by field name; empty if the source is not available."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not issubclass(base, BaseModel) or base is BaseModel:
            continue
        try:
            source = inspect.getsource(base)
        except OSError:  # the class was created at run time, or the installation has no sources
            continue
        definition = ast.parse(textwrap.dedent(source)).body[0]
        assert isinstance(definition, ast.ClassDef)
        for pair in pairwise(definition.body):
            match pair:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    texts[name] = inspect.cleandoc(text)
    return texts


def describe(cls: type, properties: Mapping[str, Any]) -> None:
    """Add a description to each property of a JSON schema that has none."""
    for name, text in descriptions(cls).items():
        if name in properties:
            properties[name].setdefault("description", text)


def describe_as(cls: type, name: str, schema: dict[str, Any]) -> None:
    """Add the description of one field to a JSON schema. The field overrides a field of another class."""
    describe(cls, {name: schema})
