"""Options that are gone or that other commands have, what to type in their place, and other names of commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from inference_econ.errors import InputError

if TYPE_CHECKING:
    import click

#: Commands by other names that people have for them.
COMMANDS: Mapping[str, str] = {"prices": "offers"}
#: Commands that are named that have an option [1].
_MOST = 6
_LARGEST = {"--max-accelerators": "it is --max-instance-gpus"}
_INSTANCES = {
    "--accelerators": "it is --instance-gpus, the size of one instance",
    **_LARGEST,
}
_DEGREES = dict.fromkeys(
    ("--accelerators", "--max-accelerators"), "the degrees are the size of the instance: --tp 8, or --tp 8 --pp 2"
)
#: What is said of an option that is gone, by command ("" is every command) and by its name.
RENAMED: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("compare", "price", "recommend", "launch", "load"), _INSTANCES),
    **dict.fromkeys(("cache", "explain", "speculate"), _DEGREES),
    "assess": {"--accelerators": "all chips of what was measured are --gpus"},
    "disaggregate": {"--accelerators": "all chips of the fleet are --gpus", **_LARGEST},
    "frontier": {
        **_INSTANCES,
        "--serving": "services are what 'frontier' shows; leave it out (decode steps alone: --decode-only)",
    },
}


#: Options that ask for a speed, and how commands have it that take promises.
_SPEEDS = ("--speed", "--tokens-per-second")
_AS_PROMISE = "a speed is a promise of TPOT: --tpot 25 is 40 tokens/s per user"


def no_such_option(error: click.NoSuchOption) -> InputError | None:
    """The message for an option that is gone, or that other commands have, with what to type; None for any other."""
    name = error.option_name
    # The program itself has no options that a command could lack.
    command = None if error.ctx is None or error.ctx.parent is None else error.ctx.command
    called = "" if command is None else command.name or ""
    advice = {**RENAMED.get("", {}), **RENAMED.get(called, {})}.get(name)
    if advice is not None:
        return InputError(f"there is no {name} any more: {advice}")
    if command is not None and name in _SPEEDS and _has(command, "--tpot"):
        return InputError(f"{called} has no {name}: {_AS_PROMISE}")
    from .commands import COMMANDS as EVERY
    from .commands import name_of

    others = [name_of(listed.command) for listed in EVERY if _has(listed.command, name)]
    if command is None or not others:
        return None
    shown = ", ".join(others) if len(others) <= _MOST else f"{', '.join(others[:_MOST])} and {len(others) - _MOST} more"
    return InputError(f"{called} has no {name}; commands that have it: {shown} (see 'inference-econ {called} --help')")


def _has(command: click.Command, option: str) -> bool:
    """Return whether a command has an option."""
    return any(option in parameter.opts for parameter in command.params)
