"""Commands as questions that others ask, over HTTP or through an assistant: one list of options for all of them.

Options, their checks and what they mean are those of the commands themselves; nothing is said of them again.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Literal

import click

from inference_econ import allow
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.explorer import Answer, Fields, Option, Question, RefusedError
from inference_econ.inputs import catalog
from inference_econ.inputs.options import request_name

from . import compare, provenance, show
from .commands import served
from .help import OPTIONS
from .parameters import DEGREE, PERCENTILE, RATES, UNCOUNTABLE, Name

#: Options that say where an answer goes, or that name files of the machine that a command runs on.
_LEFT_OUT = (
    *("--format", "--json", "--csv", "--output", "--why", "--quiet", "--plot", "--roofline"),
    *("--acceptance-file", "--measured", "--trace", "--yes"),
)
#: What the estimate of a question may be, half of which a server waits for its answer [s].
_SECONDS = 60.0
#: Whole numbers below are the same without a point [1].
_LARGEST_EXACT = 1e15
#: Arguments of commands that may be a file, and are a name of the catalogue in a question.
_NAMES = {"answer": ("model", Name("models"))}


def questions() -> tuple[Question, ...]:
    """All commands that are questions."""
    return tuple(_question(name, listed.command) for name, listed in served().items())


def answer(question: str, fields: Fields) -> Answer:
    """Return the answer of a command to some options, by the names of :func:`questions`.

    Raises
    ------
    RefusedError
        If an option cannot be used, or nothing fits.
    """
    listed = served()[question]
    command = listed.command
    remarks = [
        remark for parameter in _parameters(command) for remark in _meant(parameter, fields.get(_name(parameter)))
    ]
    with warnings.catch_warnings():
        # NumPy only warns of an overflow and goes on with infinity, which is no answer.
        warnings.simplefilter("error", RuntimeWarning)
        with _context(command, question, fields) as context, catalog.uncopied(), allow(_SECONDS):
            taken = show.taken(lambda: _run(context))
    # A number of milliseconds stays one, in the digits in which it was given.
    values = {
        str(parameter.name): repr(value) if isinstance(value, float) else value
        for parameter, value in _filled(command, fields)
    }
    typed = shlex.join(["inference-econ", question, *provenance.typed(command, values)])
    file = partial(_scenario, question, fields) if "scenarios" in listed.doors else None
    return Answer(typed, taken.page, taken.text, remarks, taken.question, file)


def _scenario(question: str, fields: Fields) -> str:
    """The scenario that asks the same."""
    with _context(compare.compare, question, _compared(fields)) as context:
        return compare.scenario_text(context.params)


def _compared(fields: Fields) -> Fields:
    """The options of a frontier, or of a comparison, as those of a comparison."""
    named = {{"model": "models", "hardware": "on"}.get(name, name): value for name, value in fields.items()}
    repeated = {_name(parameter): _repeats(parameter) for parameter in compare.compare.params}
    return {
        name: [value] if repeated[name] and not isinstance(value, list) else value
        for name, value in named.items()
        if name in repeated
    }


def _context(command: click.Command, name: str, fields: Fields) -> click.Context:
    """The command with its options, checked as those that are typed are.

    Raises
    ------
    RefusedError
        If an option cannot be used.
    """
    values = {parameter.name: _value(parameter, value) for parameter, value in _filled(command, fields)}
    try:
        return command.make_context(name, [], default_map={**values, "quiet": True})
    except click.UsageError as error:
        raise _refused(error) from error


def _filled(command: click.Command, fields: Fields) -> Iterator[tuple[click.Parameter, Any]]:
    """The parameters that some options give, with their values."""
    for parameter in _parameters(command):
        value = fields.get(_name(parameter))
        if value is not None:
            yield parameter, str(value).split() if parameter.nargs > 1 else _whole(value)


def _whole(value: Any) -> Any:
    """A value with numbers as people write them: whole ones without a point."""
    if isinstance(value, (list, tuple)):
        return [_whole(item) for item in value]
    whole = isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_EXACT
    return int(value) if whole else value


def _value(parameter: click.Parameter, value: Any) -> Any:
    """Value of a parameter in place of the words that are typed."""
    if isinstance(parameter, click.Option) and parameter.is_flag and not parameter.is_bool_flag:
        return parameter.flag_value if value else None
    return value


def _refused(error: click.UsageError) -> RefusedError:
    """Refusal by the parser, with the option at fault where it knows it."""
    parameter = error.param if isinstance(error, click.BadParameter) else None
    if parameter is None:
        return RefusedError(error.message)
    return RefusedError(f"{_spelled(parameter)}: {error.message}", _name(parameter))


def _meant(parameter: click.Parameter, value: object) -> Iterator[str]:
    """Remarks on the meaning of the names of an option, where that is not plain.

    Raises
    ------
    RefusedError
        If the catalogue does not have one.
    """
    kind = _type(parameter)
    if not isinstance(kind, Name) or value is None:
        return
    for name in value if isinstance(value, list) else [value]:
        try:
            meaning = catalog.meaning(kind.kind, str(name))
        except InputError as error:
            raise RefusedError(str(error), _name(parameter)) from error
        if meaning.remark:
            yield meaning.remark


def _run(context: click.Context) -> None:
    """Have the command of a context answer, with the option at fault where it cannot."""
    try:
        context.command.invoke(context)
    except (ArithmeticError, RuntimeWarning) as error:
        raise RefusedError(f"{UNCOUNTABLE} ({error})") from error
    except MemoryError as error:
        raise RefusedError("this takes more memory than there is; ask for less") from error
    except (InputError, NothingFitsError) as error:
        names = [_name(parameter) for parameter in _parameters(context.command)]
        raise RefusedError(str(error), error.option if error.option in names else None) from error


def _parameters(command: click.Command) -> list[click.Parameter]:
    """The parameters that others may give."""
    return [parameter for parameter in command.params if _spelled(parameter) not in _LEFT_OUT]


def _question(name: str, command: click.Command) -> Question:
    options = sorted((_option(parameter) for parameter in _parameters(command)), key=lambda option: not option.required)
    text = " ".join((command.help or "").split())
    return Question(name, command.get_short_help_str(limit=1000), text, tuple(options))


def _option(parameter: click.Parameter) -> Option:
    kind, default = _type(parameter), parameter.to_info_dict().get("default")
    plain = default if isinstance(default, (bool, int, float, str)) else None
    return Option(
        _name(parameter),
        bool if isinstance(parameter, click.Option) and parameter.is_flag else _kind(kind),
        _described(parameter),
        None if parameter.required else plain,
        parameter.required,
        _limits(kind),
        _repeats(parameter),
        next((group for group, names in OPTIONS.items() if parameter.name in names), "Options"),
        kind.kind if isinstance(kind, Name) else "",
    )


def _name(parameter: click.Parameter) -> str:
    """The name of an option in requests: the longest that is typed, the first of equals."""
    if isinstance(parameter, click.Argument):
        return _NAMES.get(str(parameter.name), (str(parameter.name),))[0]
    return request_name(_spelled(parameter))


def _type(parameter: click.Parameter) -> click.ParamType[Any]:
    """Type of a parameter; of one that may be a file, its type in a question."""
    return _NAMES.get(str(parameter.name), ("", parameter.type))[1]


def _spelled(parameter: click.Parameter) -> str:
    """Spelling of an option."""
    return next((spelling for spelling in parameter.opts if spelling.startswith("--")), parameter.opts[0])


def _repeats(parameter: click.Parameter) -> bool:
    return parameter.multiple or parameter.nargs == -1


def _kind(kind: click.ParamType[Any]) -> Any:
    """Type of JSON for a kind of value."""
    if isinstance(kind, click.Choice):
        return Literal[tuple(map(str, kind.choices))]
    if isinstance(kind, click.IntRange):
        return int
    if isinstance(kind, click.FloatRange):
        return float
    if kind is DEGREE:
        return int | Literal["any"]
    if kind is RATES:
        return list[float] | float | str
    return str if isinstance(kind, Name) or kind is PERCENTILE else float | str


def _limits(kind: click.ParamType[Any]) -> Mapping[str, float]:
    if not isinstance(kind, (click.IntRange, click.FloatRange)):
        return {}
    least, most = ("gt" if kind.min_open else "ge"), ("lt" if kind.max_open else "le")
    return {name: limit for name, limit in ((least, kind.min), (most, kind.max)) if limit is not None}


def _described(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Option):
        return parameter.help or ""
    return {"models": "Names of models."}.get(str(parameter.name), f"Name of the {_name(parameter)}.")
