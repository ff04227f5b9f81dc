"""Commands that are served over HTTP and MCP, and their results.

Options, checks and descriptions come from the command tables.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from inference_econ import allow
from inference_econ.errors import InputError, NothingFitsError, TooMuchError
from inference_econ.inputs import catalog
from inference_econ.requests import COMMANDS, Command, Invocation, kinds, too_much

if TYPE_CHECKING:
    from inference_econ.report.page import Page

#: Options of a command by name, as JSON values.
Fields: TypeAlias = Mapping[str, Any]

#: Command whose first run loads shared data.
WARM_UP: tuple[str, Fields] = ("frontier", {"model": "llama_3_70b", "hardware": "h100_sxm", "weights": "fp8"})
#: Maximum estimated run time of a command [s]. The server waits half of this time.
_SECONDS = 60.0
#: Integers below this value are exact as floats [1].
_LARGEST_EXACT = 1e15


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of a command: a page, or the text of a script.

    Attributes
    ----------
    command : str
        Equivalent command line.
    page : Page or None
        Page of the result.
    remarks : sequence of str
        Interpretations of inexact names.
    text : str
        Script or manifest, if the result is not a page.
    question : mapping
        Options of the command, for results that other commands read.
    scenario : callable or None
        Function that returns the scenario file of the command; None if scenarios do not support the command.
    """

    command: str
    page: Page | None = None
    text: str = ""
    remarks: Sequence[str] = ()
    question: Mapping[str, object] = field(default_factory=dict)
    scenario: Callable[[], str] | None = None


class RefusedError(InputError):
    """Error for invalid options, with the option that caused it."""


def questions() -> Mapping[str, Command]:
    """Commands that are served, by name."""
    return {command.slug: command for command in COMMANDS.values() if "served" in command.doors}


def answer(name: str, fields: Fields) -> Answer:
    """Run a command with options by field name.

    Raises
    ------
    RefusedError
        If an option is invalid, or no layout fits.
    """
    command = questions()[name]
    remarks = _remarks(command, fields)
    given = {
        option.name: _whole(fields[option.field]) for option in command.asked if fields.get(option.field) is not None
    }
    with warnings.catch_warnings():
        # NumPy warns of an overflow and continues with infinity, which is not a valid result.
        warnings.simplefilter("error", RuntimeWarning)
        with catalog.uncopied(), allow(_SECONDS):
            asked, answered = _answered(command, given)
    # Options in milliseconds keep their unit and digits.
    typed = command.typed({key: repr(value) if isinstance(value, float) else value for key, value in given.items()})
    line = shlex.join(["inference-econ", *command.name.split(), *typed])
    if isinstance(answered, str):
        return Answer(line, text=answered, remarks=remarks)
    from inference_econ import report

    page = answered if isinstance(answered, report.page.Page) else report.pages.page(answered)
    file = partial(_scenario, fields) if "scenarios" in command.doors else None
    return Answer(line, page, "", remarks, asked.question(page=page is answered), file)


def _answered(command: Command, given: Fields) -> tuple[Invocation, Any]:
    """Parse and run a command. Return the parsed invocation and the result; errors name the option."""
    try:
        asked = Invocation.of(command.name, {**given, "quiet": True})
        return asked, asked.answer()
    except (ArithmeticError, RuntimeWarning) as error:
        raise RefusedError(f"{kinds.UNCOUNTABLE} ({error})") from error
    except MemoryError as error:
        raise RefusedError("this takes more memory than there is; ask for less") from error
    except kinds.BadValueError as error:
        option = next(option for option in command.asked if option.field == error.option)
        raise RefusedError(f"{option.typed}: {error}", option.field) from error
    except (InputError, NothingFitsError) as error:
        told = too_much(error, command) if isinstance(error, TooMuchError) else error
        names = [option.field for option in command.asked]
        raise RefusedError(str(told), told.option if told.option in names else None) from error


def _scenario(fields: Fields) -> str:
    """Scenario text that is equivalent to a ``frontier`` or ``compare`` command."""
    command = COMMANDS["compare"]
    named = {{"model": "models", "hardware": "on"}.get(name, name): value for name, value in fields.items()}
    given: dict[str, Any] = {}
    for option in command.asked:
        value = _whole(named.get(option.field))
        if value is not None:
            given[option.name] = [value] if option.repeat and not isinstance(value, list) else value
    made: str = Invocation.of("compare", given).answer(ask=command.load("scenario_text"))
    return made


def _whole(value: Any) -> Any:
    """Replace floats with integer values by integers."""
    if isinstance(value, (list, tuple)):
        return [_whole(item) for item in value]
    whole = isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_EXACT
    return int(value) if whole else value


def _remarks(command: Command, fields: Fields) -> list[str]:
    """Notes on the interpretation of inexact names.

    Raises
    ------
    RefusedError
        If the catalog lacks a name.
    """
    remarks = []
    for option in command.asked:
        value = fields.get(option.field)
        for name in value if isinstance(value, list) else [value]:
            try:
                remark = "" if name is None else option.kind.remark(name)
            except InputError as error:
                raise RefusedError(str(error), option.field) from error
            remarks += [remark] if remark else []
    return remarks
