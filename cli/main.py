"""Entry point: command groups, error handling, and advice for removed options."""

from __future__ import annotations

import io
import sys
import warnings
from functools import partial
from typing import Any

import click

from inference_econ import _missing
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import catalog, noting_files
from inference_econ.requests import COMMANDS, tables, words
from inference_econ.requests.kinds import UNCOUNTABLE

from .catalog import shown_kind
from .commands import ClickCommand, write
from .show import remark

#: Instructions for shell completion.
COMPLETION = """To complete commands, options and names in the shell, add this line to ~/.bashrc:

\b
  eval "$(_INFERENCE_ECON_COMPLETE=bash_source inference-econ)"  # or zsh_source
"""
#: Maximum number of commands that the advice on an option names [1].
_MOST = 6


class StoppedError(Exception):
    """Interrupt (Ctrl-C) inside click. Click would print an empty line for a KeyboardInterrupt."""


class CommandGroup(click.Group):
    """Group of commands with a common first word, listed under headings with their full summaries."""

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
        """Names of commands and groups, in the order of the help."""
        del ctx
        own = [name.removeprefix(self.prefix).split() for name in COMMANDS if name.startswith(self.prefix)]
        return list(dict.fromkeys(words[0] for words in own))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Create a command or a group."""
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
        """Find a command from its words: old names, synonyms, or ``show`` followed by the kind of entry."""
        words.check_words(args)
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
        """List commands under headings, with their summaries."""
        del ctx  # the tables list all commands
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
    """Run the command line without tracebacks: exit code 2 for invalid input, 1 if nothing fits."""
    if sys.stdout is None or sys.stderr is None:
        sys.exit(2)  # the caller closed the streams, so no message can be shown
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Characters that the terminal cannot show become question marks, not tracebacks.
            stream.reconfigure(errors="replace")
    try:
        with warnings.catch_warnings():
            # NumPy warns of overflows and continues with infinity, which is not a valid result.
            warnings.simplefilter("error", RuntimeWarning)
            with catalog.uncopied(), noting_files():
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
    """Message for an error that is not a bug of this package; None for other errors."""
    match error:
        case InputError() | NothingFitsError():
            return str(error)
        case ArithmeticError() | RuntimeWarning():
            return f"{UNCOUNTABLE} ({error})"
        case ModuleNotFoundError():
            return _missing.missing(error)
        case MemoryError():
            return "this takes more memory than there is; ask for less"
        case UnicodeError():
            return f"a text is not UTF-8 ({error})"
        case OSError():
            # Writing failed, for example on a full disk; click handles closed pipes.
            return f"the output cannot be written: {error.strerror or error}"
    return None


def _no_such_option(error: click.NoSuchOption) -> InputError | None:
    """Message for an option that was removed or belongs to other commands; None for unknown options."""
    name = tables.OTHER_SPELLINGS.get(error.option_name, error.option_name)
    # Without a command, the program has no options.
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
