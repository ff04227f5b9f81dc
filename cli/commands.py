"""All commands of ``commands.toml``: what each is for, and by which other doors its question is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from . import decorators

if TYPE_CHECKING:
    import click


class Listed(NamedTuple):
    """A command in the list of all."""

    name: str
    """What is typed."""
    command: click.Command
    """Command of click."""
    heading: str
    """Heading of the command in the help of all commands."""
    doors: Sequence[str]
    """Other ways to ask its question: ``served`` over HTTP and by assistants, ``reported``, in ``scenarios``."""


def _read() -> Iterator[Listed]:
    """Commands in the order of the help."""
    for name, row in decorators.COMMANDS.items():
        module, _, function = row["function"].partition(":")
        yield Listed(name, getattr(import_module(f".{module}", __package__), function), row["heading"], row["doors"])


COMMANDS: Sequence[Listed] = tuple(_read())


def served() -> Mapping[str, Listed]:
    """Commands whose questions are asked over HTTP and by assistants, too, by name."""
    return {listed.name: listed for listed in COMMANDS if "served" in listed.doors}


def reported() -> Sequence[str]:
    """Names of the commands whose answers a report shows."""
    return [listed.name for listed in COMMANDS if "reported" in listed.doors]
