"""Entry point: the group of commands, what happens to errors, and what to type in place of options that are gone."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import click

from inference_econ import _missing
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import catalog
from inference_econ.requests import COMMANDS, Command
from inference_econ.requests.kinds import UNCOUNTABLE
from inference_econ.requests.tables import gone

from .commands import ClickCommand, write

#: How the shells that click knows learn to complete names.
COMPLETION = """The shell completes commands, options, models, chips and scenarios once ~/.bashrc says:

\b
  eval "$(_INFERENCE_ECON_COMPLETE=bash_source inference-econ)"  # or zsh_source
"""
#: Commands by other names that people have for them.
_OTHER_NAMES: Mapping[str, str] = {"prices": "offers"}
#: Commands that are named that have an option [1].
_MOST = 6
#: Options that ask for a speed, and how commands have it that take promises.
_SPEEDS = ("--speed", "--tokens-per-second")
_AS_PROMISE = (
    "a speed is a promise of TPOT: --tpot mean:20 is 50 tokens/s per user on average, --tpot 20 for 90 % of them"
)


class StoppedError(Exception):
    """An interrupt on its way out of click, which would print an empty line for it."""


class _Commands(Mapping[str, click.Command]):
    """The commands of the tables, each made where it is needed."""

    @staticmethod
    @cache
    def made(name: str) -> click.Command:
        """A command by its name."""
        return ClickCommand(COMMANDS[name])

    def __getitem__(self, name: str) -> click.Command:
        return self.made(name)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class CommandGroup(click.Group):
    """Commands under headings, each with its whole first sentence."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands()  # type: ignore[assignment]  # nobody adds one

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise StoppedError from error

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name, or another that people have for it; refuse one that is gone."""
        if advice := gone(cmd_name, ""):
            raise InputError(f"there is no {cmd_name} any more: {advice}")
        return super().get_command(ctx, _OTHER_NAMES.get(cmd_name, cmd_name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write them, with the first sentence of what each does."""
        del ctx  # the tables have all of them
        for heading in dict.fromkeys(row.heading for row in COMMANDS.values()):
            rows = [(row.name, row.summary) for row in COMMANDS.values() if row.heading == heading]
            write(formatter, heading, rows)


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=COMPLETION,
)
@click.version_option(package_name="inference-econ", message="%(version)s")
def app() -> None:
    """Predict what it costs, and how fast it goes, to serve language models.

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
    name = error.option_name
    # The program itself has no options that a command could lack.
    row = error.ctx.command.row if error.ctx is not None and isinstance(error.ctx.command, ClickCommand) else None
    if row is None:
        return None
    advice = gone(row.name, name)
    if advice:
        return InputError(f"there is no {name} any more: {advice}")
    if name in _SPEEDS and _has(row, "--tpot"):
        return InputError(f"{row.name} has no {name}: {_AS_PROMISE}")
    others = [other.name for other in COMMANDS.values() if _has(other, name)]
    if not others:
        return None
    shown = ", ".join(others) if len(others) <= _MOST else f"{', '.join(others[:_MOST])} and {len(others) - _MOST} more"
    return InputError(
        f"{row.name} has no {name}; commands that have it: {shown} (see 'inference-econ {row.name} --help')"
    )


def _has(row: Command, option: str) -> bool:
    """Return whether a command has an option."""
    return any(option in parameter.spelled for parameter in row.parameters.values())
