"""Options that are gone (``renamed.csv``) with what to type in their place, and other names of commands."""

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


def no_such_option(error: click.NoSuchOption) -> InputError | None:
    """The message for an option that is gone, with what to type; None for one that never was."""
    command = "" if error.ctx is None else error.ctx.command.name or ""
    for row in rows(Path(__file__).with_suffix(".csv")):
        if row["option"] == error.option_name and command in row["commands"].split():
            return InputError(f"there is no {error.option_name} any more: {row['advice']}")
    return None
