"""Options of commands: those of the table of options, and several as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from inference_econ.inputs.options import OPTIONS, Kind

from . import prices
from .parameters import (
    CONFIDENCE,
    COUNT,
    DEGREE,
    E2E,
    FORMAT,
    NON_NEGATIVE,
    PERCENTILE,
    POSITIVE,
    TPOT,
    TTFT,
    WATTS,
    Format,
    Mix,
    Name,
    Number,
)

F = TypeVar("F", bound=Callable[..., Any])
#: The options that a command was given, by their names in Python.
Choices = Mapping[str, Any]


#: What an option of each kind is to click.
_KINDS: Mapping[Kind, Mapping[str, Any]] = {
    "assumptions": {"type": Name("assumptions")},
    "carbon": {"metavar": "GRID|G/KWH"},
    "confidence": {"type": CONFIDENCE},
    "count": {"type": COUNT},
    "degree": {"type": DEGREE},
    "draft": {"type": click.IntRange(1, 64)},
    "e2e": {"type": E2E},
    "engines": {"multiple": True, "metavar": "NAME[@VERSION]"},
    "file": {"type": click.Path()},
    "flag": {"is_flag": True},
    "format": {"type": Format(), "metavar": FORMAT},
    "grid": {"type": click.Choice(["whole", "paper"])},
    "lengths": {},
    "mix": {"type": Mix()},
    "model": {"type": Name("models")},
    "non_negative": {"type": NON_NEGATIVE},
    "percentile": {"type": PERCENTILE},
    "positive": {"type": POSITIVE},
    "price": {"multiple": True, "callback": prices.parsed, "metavar": "[HARDWARE=]USD[/node]|KIND"},
    "probabilities": {"metavar": "P|P,P,..."},
    "recomputed": {"flag_value": "recomputed", "default": None},
    "redundancy": {"type": click.IntRange(0, 100_000)},
    "rent": {"type": click.Choice(["gpu", "node"])},
    "router": {"type": click.Choice(["round_robin", "least_busy", "prefix_aware"])},
    "scv": {"type": Number(min=0, max=1000)},
    "switch": {},
    "tiers": {"multiple": True, "metavar": "NAME|PATH"},
    "tpot": {"type": TPOT},
    "traffic": {"type": Name("traffic")},
    "ttft": {"type": TTFT},
    "watts": {"type": WATTS},
    "what_ifs": {"multiple": True, "metavar": "KEY=VALUE"},
}


def option(name: str, kind: Kind | None = None, **own: Any) -> Callable[[F], F]:
    """An option of the table, with what one command has of its own.

    Parameters
    ----------
    name : str
        In :data:`inference_econ.inputs.options.OPTIONS`.
    kind : str, optional
        What it takes here, if not what the table says.
    **own
        Arguments of ``click.option`` that differ here: its help, its default, whether it is repeated.
    """
    row = OPTIONS[name]
    taken = row.kind if kind is None else kind
    typed = f"{row.spelled}/--no-{name.replace('_', '-')}" if taken == "switch" else row.spelled
    usual = {} if row.default is None else {"default": row.default, "show_default": row.shown}
    return click.option(typed, name, **{"help": row.help, **usual, **_KINDS[taken], **own})


def options(*names: str) -> Callable[[F], F]:
    """Options of the table as one decorator, as they stand there."""
    return apply(*map(option, names))


def apply(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, listed in their order."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate
