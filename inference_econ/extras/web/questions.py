"""Commands as questions that others ask, over HTTP or through an assistant, and their answers.

Options, their checks and what they mean are those of the tables of commands; nothing is said of them again.
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

#: Options of a question by name, as JSON has them.
Fields: TypeAlias = Mapping[str, Any]

#: A question whose answer loads what others need too.
WARM_UP: tuple[str, Fields] = ("frontier", {"model": "llama_3_70b", "hardware": "h100_sxm", "weights": "fp8"})
#: What the estimate of a question may be, half of which a server waits for its answer [s].
_SECONDS = 60.0
#: Whole numbers below are the same without a point [1].
_LARGEST_EXACT = 1e15


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to a question: a page, or the text of a file to run.

    Attributes
    ----------
    command : str
        What one types to ask the same.
    page : Page or None
        What can be shown of it.
    remarks : sequence of str
        What names were taken for, where that is not plain.
    text : str
        A script or manifest, where that is the answer.
    question : mapping
        What was asked, for answers that other commands take up.
    scenario : callable or None
        Gives the file of the same question; None of questions that files do not hold.
    """

    command: str
    page: Page | None = None
    text: str = ""
    remarks: Sequence[str] = ()
    question: Mapping[str, object] = field(default_factory=dict)
    scenario: Callable[[], str] | None = None


class RefusedError(InputError):
    """A question that cannot be answered, with the option that caused it."""


def questions() -> Mapping[str, Command]:
    """All commands that others may ask, by name."""
    return {command.slug: command for command in COMMANDS.values() if "served" in command.doors}


def answer(name: str, fields: Fields) -> Answer:
    """Return the answer of a command to some options, by the names of their fields.

    Raises
    ------
    RefusedError
        If an option cannot be used, or nothing fits.
    """
    command = questions()[name]
    remarks = _remarks(command, fields)
    given = {
        option.name: _whole(fields[option.field]) for option in command.asked if fields.get(option.field) is not None
    }
    with warnings.catch_warnings():
        # NumPy only warns of an overflow and goes on with infinity, which is no answer.
        warnings.simplefilter("error", RuntimeWarning)
        with catalog.uncopied(), allow(_SECONDS):
            asked, answered = _answered(command, given)
    # A number of milliseconds stays one, in the digits in which it was given.
    typed = command.typed({key: repr(value) if isinstance(value, float) else value for key, value in given.items()})
    line = shlex.join(["inference-econ", *command.name.split(), *typed])
    if isinstance(answered, str):
        return Answer(line, text=answered, remarks=remarks)
    from inference_econ import report

    page = answered if isinstance(answered, report.page.Page) else report.pages.page(answered)
    file = partial(_scenario, fields) if "scenarios" in command.doors else None
    return Answer(line, page, "", remarks, asked.question(page=page is answered), file)


def _answered(command: Command, given: Fields) -> tuple[Invocation, Any]:
    """What was asked, and the answer; errors name the option at fault."""
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
    """The scenario that asks the same as a frontier, or a comparison."""
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
    """A value with numbers as people write them: whole ones without a point."""
    if isinstance(value, (list, tuple)):
        return [_whole(item) for item in value]
    whole = isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_EXACT
    return int(value) if whole else value


def _remarks(command: Command, fields: Fields) -> list[str]:
    """Remarks on the meaning of names, where that is not plain.

    Raises
    ------
    RefusedError
        If the catalog does not have one.
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
