"""Options that are gone (``renamed.csv``) or that others have, what to type instead, and commands that are gone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from inference_econ.errors import InputError
from inference_econ.inputs.options import rows

if TYPE_CHECKING:
    import click

#: Commands by other names that people have for them.
COMMANDS: Mapping[str, str] = {"prices": "offers"}
#: Commands that are named that have an option [1].
_MOST = 6
#: Options that ask for a speed, and how commands have it that take promises.
_SPEEDS = ("--speed", "--tokens-per-second")
_AS_PROMISE = (
    "a speed is a promise of TPOT: --tpot mean:20 is 50 tokens/s per user on average, --tpot 20 for 90 % of them"
)


def no_such_command(name: str) -> str | None:
    """What to type instead of a command that is gone; None for any other name."""
    gone = (row for row in rows(Path(__file__).with_suffix(".csv")) if not row["option"])
    return next((f"there is no {name} any more: {row['advice']}" for row in gone if row["commands"] == name), None)


def no_such_option(error: click.NoSuchOption) -> InputError | None:
    """The message for an option that is gone, or that other commands have, with what to type; None for any other."""
    name = error.option_name
    # The program itself has no options that a command could lack.
    command = None if error.ctx is None or error.ctx.parent is None else error.ctx.command
    if command is None:
        return None
    for row in rows(Path(__file__).with_suffix(".csv")):
        if row["option"] == name and command.name in row["commands"].split():
            return InputError(f"there is no {name} any more: {row['advice']}")
    if name in _SPEEDS and _has(command, "--tpot"):
        return InputError(f"{command.name} has no {name}: {_AS_PROMISE}")
    from .commands import COMMANDS as EVERY

    others = [listed.name for listed in EVERY if _has(listed.command, name)]
    if not others:
        return None
    shown = ", ".join(others) if len(others) <= _MOST else f"{', '.join(others[:_MOST])} and {len(others) - _MOST} more"
    return InputError(
        f"{command.name} has no {name}; commands that have it: {shown} (see 'inference-econ {command.name} --help')"
    )


def _has(command: click.Command, option: str) -> bool:
    """Return whether a command has an option."""
    return any(option in parameter.opts for parameter in command.params)
