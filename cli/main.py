"""Entry point: the group of commands, and what happens to errors."""

from __future__ import annotations

import io
import sys
import warnings

import click

from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import catalog as catalog_files

from . import extras, renamed
from .commands import COMMANDS
from .help import COMPLETION, Group, StoppedError
from .parameters import UNCOUNTABLE


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=COMPLETION,
)
@click.version_option(package_name="inference-econ", message="%(version)s")
def app() -> None:
    """Predict what it costs, and how fast it goes, to serve language models.

    Start with: inference-econ frontier llama_3_70b h100_sxm --weights fp8 --plot frontier.svg
    """


for listed in COMMANDS:
    app.add_command(listed.command)


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
            with catalog_files.uncopied():
                code = app(prog_name="inference-econ", standalone_mode=False)
    except click.ClickException as error:
        gone = renamed.no_such_option(error) if isinstance(error, click.NoSuchOption) else None
        if gone is None:
            error.show()
        else:
            click.echo(f"Error: {gone}", err=True)
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
            return extras.missing(error)
        case MemoryError():
            return "this takes more memory than there is; ask for less"
        case OSError():
            # Printing failed, for example on a full disk; a closed pipe is click's to handle.
            return f"the output cannot be written: {error.strerror or error}"
    return None
