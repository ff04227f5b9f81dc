"""Options that are gone, what to type in their place, and other names of commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from inference_econ.errors import InputError

if TYPE_CHECKING:
    import click

#: Commands by other names that people have for them.
COMMANDS: Mapping[str, str] = {"prices": "offers"}
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


def no_such_option(error: click.NoSuchOption) -> InputError | None:
    """The message for an option that is gone, with what to type; None for one that never was."""
    command = "" if error.ctx is None else error.ctx.command.name or ""
    advice = {**RENAMED.get("", {}), **RENAMED.get(command, {})}.get(error.option_name)
    return None if advice is None else InputError(f"there is no {error.option_name} any more: {advice}")
