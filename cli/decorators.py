"""Several options as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
#: The options that a command was given, by their names in Python.
Choices = Mapping[str, Any]


def apply(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, listed in their order."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate
