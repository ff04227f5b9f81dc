"""Entry point: the group of commands, what happens to errors, and what to type in place of options that are gone."""

from __future__ import annotations

import io
import sys
import warnings
from functools import partial
from typing import Any

import click

from inference_econ import _missing
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import catalog
from inference_econ.requests import COMMANDS, tables, words
from inference_econ.requests.kinds import UNCOUNTABLE

from .catalog import shown_kind
from .commands import ClickCommand, write
from .show import remark

#: How the shells that click knows learn to complete names.
COMPLETION = """To complete commands, options and names in the shell, add this line to ~/.bashrc:

\b
  eval "$(_INFERENCE_ECON_COMPLETE=bash_source inference-econ)"  # or zsh_source
"""
#: Commands that are named that have an option [1].
_MOST = 6


class StoppedError(Exception):
    """An interrupt on its way out of click, which would print an empty line for it."""


class CommandGroup(click.Group):
    """Commands whose names begin with some words, under headings, each with its whole first sentence."""

    def __init__(self, prefix: str = "", **settings: Any) -> None:
        super().__init__(**settings)
        self.prefix = prefix

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise StoppedError from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of commands and of groups, in the order of the help."""
        del ctx
        own = [name.removeprefix(self.prefix).split() for name in COMMANDS if name.startswith(self.prefix)]
        return list(dict.fromkeys(words[0] for words in own))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Make a command, or a group of commands."""
        del ctx
        name = f"{self.prefix}{cmd_name}"
        if name in COMMANDS:
            return ClickCommand(COMMANDS[name])
        if name in tables.GROUPS_OF_COMMANDS:
            return CommandGroup(f"{name} ", name=cmd_name, help=tables.GROUPS_OF_COMMANDS[name], epilog=None)
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of a command line: old names, synonyms, and the kind of an entry behind ``show``."""
        if not self.prefix:
            args = words.current_words(args, partial(remark, quiet="--quiet" in args))
        elif self.prefix == "show " and args[0] not in self.list_commands(ctx) and not args[0].startswith("-"):
            args = [shown_kind(args[0]), *args]
        elif args[0] not in self.list_commands(ctx) and not args[0].startswith("-"):
            known = ", ".join(self.list_commands(ctx))
            raise InputError(
                f"{self.prefix}{args[0]}: there is no such command; after '{self.prefix.strip()}': {known}"
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write them, with the first sentence of what each does."""
        del ctx  # the tables have all of them
        headings: dict[str, dict[str, str]] = {}
        for row in COMMANDS.values():
            if row.name.startswith(self.prefix) and row.name not in tables.HIDDEN:
                first = row.name.removeprefix(self.prefix).split()[0]
                summary = tables.GROUPS_OF_COMMANDS.get(f"{self.prefix}{first}") or row.summary
                headings.setdefault("Commands" if self.prefix else row.heading, {})[first] = summary
        for heading, rows in headings.items():
            write(formatter, heading, list(rows.items()))


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=COMPLETION,
)
@click.version_option(package_name="inference-econ", message="%(version)s")
def app() -> None:
    """Predict the cost and speed of serving large language models.

    Start with: inference-econ frontier llama_3_70b h100_sxm --weights fp8 --plot frontier.svg
    """


def run() -> None:
    """Run the command line: exit code 2 for bad input, 1 if nothing fits, without tracebacks."""
    if sys.stdout is None or sys.stderr is None:
        sys.exit(2)  # closed by the caller: there is nowhere to say it
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character gets a question mark, not a traceback.
            stream.reconfigure(errors="replace")
    try:
        with warnings.catch_warnings():
            # NumPy only warns of an overflow and goes on with infinity, which is no answer.
            warnings.simplefilter("error", RuntimeWarning)
            with catalog.uncopied():
                code = app(prog_name="inference-econ", standalone_mode=False)
    except click.ClickException as error:
        advice = _no_such_option(error) if isinstance(error, click.NoSuchOption) else None
        if advice is None:
            error.show()
        else:
            click.echo(f"Error: {advice}", err=True)
        sys.exit(error.exit_code)
    except (click.Abort, StoppedError) as error:
        raise KeyboardInterrupt from error
    except Exception as error:
        message = _message(error)
        if message is None:
            raise
        click.echo(f"Error: {message}", err=True)
        sys.exit(1 if isinstance(error, NothingFitsError) else 2)
    sys.exit(code if isinstance(code, int) else 0)


def _message(error: Exception) -> str | None:
    """Sentence on an error that is not one of ours; None for one that is."""
    match error:
        case InputError() | NothingFitsError():
            return str(error)
        case ArithmeticError() | RuntimeWarning():
            return f"{UNCOUNTABLE} ({error})"
        case ModuleNotFoundError():
            return _missing.missing(error)
        case MemoryError():
            return "this takes more memory than there is; ask for less"
        case OSError():
            # Printing failed, for example on a full disk; a closed pipe is click's to handle.
            return f"the output cannot be written: {error.strerror or error}"
    return None


def _no_such_option(error: click.NoSuchOption) -> InputError | None:
    """The message for an option that is gone, or that other commands have, with what to type; None for any other."""
    name = tables.OTHER_SPELLINGS.get(error.option_name, error.option_name)
    # The program itself has no options that a command could lack.
    row = error.ctx.command.row if error.ctx is not None and isinstance(error.ctx.command, ClickCommand) else None
    if row is None:
        return None
    if advice := tables.lacking(row, name):
        return InputError(advice)
    others = [other.name for other in COMMANDS.values() if other.has(name)]
    if not others:
        return None
    shown = ", ".join(others) if len(others) <= _MOST else f"{', '.join(others[:_MOST])} and {len(others) - _MOST} more"
    return InputError(
        f"{row.name} has no {name}; commands that have it: {shown} (see 'inference-econ {row.name} --help')"
    )
