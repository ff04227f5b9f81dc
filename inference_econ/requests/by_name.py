"""Python functions that run commands.

The functions take the names and options of the command, or objects of the Python API.
"""

from __future__ import annotations

import inspect
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from difflib import get_close_matches
from functools import cache
from keyword import iskeyword
from os import PathLike, fspath
from typing import Any

from inference_econ._answer import Shown
from inference_econ._calls import checked
from inference_econ._named import named
from inference_econ._work import allow
from inference_econ.errors import InferenceEconError, InputError, TooMuchError
from inference_econ.inputs.options import request_name
from inference_econ.requests import kinds
from inference_econ.requests.request import Host, Invocation, too_much
from inference_econ.requests.tables import COMMANDS, LEFT_OUT, OUTPUT, Command, Parameter, lacking

#: For each command, options that select the displayed content. Python functions lack these options, because a Python
#: result has the full content.
_OF_PAGES = {"frontier": ("y",), "compare": ("y", "speeds", "costs"), "explain": ("operators", "memory")}
#: Python types of repeated options.
_SEVERAL = (list, tuple, set, range)
#: Largest integer that is the same number with and without a decimal point [1].
_LARGEST_EXACT = 1e15
#: Pattern of an option with its value, in messages of a command.
_SPELLED = re.compile(
    r"--(?:no-)?([a-z][a-z0-9]*(?:-[a-z0-9]+)*)"
    r"(?: ([A-Z0-9'{][^\s,;)]*?|[a-z_]+[.:][^\s,;)]+?)(?=[.,;:)]*(?:\s|$)))?"
)


@cache
def question(name: str) -> Callable[..., Any]:
    """Create the public function of a command.

    Parameters
    ----------
    name : str
        Python name, such as ``gpu_cost``.

    Raises
    ------
    AttributeError
        If no command has this Python name.
    """
    command = next((it for it in COMMANDS.values() if it.call and it.python_name == name), None)
    if command is None:
        raise AttributeError(name)
    plain = named(command.call)
    signature, example = inspect.signature(plain), ", ".join(map(repr, _example(command)))
    of_objects = checked(plain, f"; or give names: {name}({example or argument(taken(command)[0]) + '=...'})", name)
    first = str(next(iter(signature.parameters.values())).annotation)
    takes_names = bool(re.search(r"\bNames?\b", first)) and plain.__name__ == name

    def ask(*args: Any, **options: Any) -> Any:
        # The frontiers of a comparison (``series``) may be objects instead of texts.
        known = options.keys() <= {"progress", *_options(command)} and not isinstance(options.get("series"), Mapping)
        if not args:
            objects = _binds(signature, (), options) and not (known and options.keys() - signature.parameters.keys())
        elif takes_names:
            objects = not all(map(_is_name, args)) or (not known and _binds(signature, args, options))
        else:
            objects = not _is_name(args[0])
        return of_objects(*args, **options) if objects else _answer(command, args, options)

    ask.__name__ = ask.__qualname__ = name
    ask.__module__ = "inference_econ"
    ask.__doc__ = _document(command, plain)
    vars(ask)["__signature__"] = _signature(command)
    return ask


def _answer(command: Command, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Run a command with names and options, as the command line does. Error messages use Python spelling."""
    given: dict[str, Any] = {}
    host = Host(progress=options.get("progress"))
    for parameter, value in _given(command, args, {key: value for key, value in options.items() if key != "progress"}):
        if value is None:
            continue
        if parameter.name in given:
            raise InputError(f"{command.python_name}: {parameter.field} is given twice; give it once", parameter.field)
        given[parameter.name] = _typed(command, parameter, value)
    for parameter in command.parameters.values():
        if parameter.required and parameter.name not in given:
            others = [f"{argument(it)}=..." for it in taken(command) if it.required]
            call = f"{command.python_name}({', '.join([*map(repr, _example(command)), *others])})"
            raise InputError(f"{command.python_name} needs {argument(parameter)}; write {call}", parameter.field)
    try:
        with allow() if given.get("yes") else nullcontext():
            answered = Invocation.of(command.name, given).answer(host)
    except kinds.BadValueError as error:
        raise InputError(f"{command.python_name}: {error.option}: {in_python(str(error))}", error.option) from None
    except InferenceEconError as error:
        error.args = (in_python(str(too_much(error, command) if isinstance(error, TooMuchError) else error)),)
        raise
    return answered if isinstance(answered, Shown | str) else getattr(answered, "answer", answered)


def arguments(command: Command) -> list[Parameter]:
    """List the positional arguments of a command in order. In comparisons, the GPUs follow the models."""
    own = command.parameters
    return [it for it in own.values() if not it.spelled or (it.name == "hardware" and "models" in own)]


def argument(parameter: Parameter) -> str:
    """Python argument name of an option; a name that is a Python keyword ends in ``_``."""
    return f"{parameter.field}_" if iskeyword(parameter.field) else parameter.field


def taken(command: Command) -> list[Parameter]:
    """List the keyword arguments of a command's Python function: all options of the command except display options."""
    places = arguments(command)
    options = [it for it in command.parameters.values() if it not in places and not _is_shown(command, it)]
    return sorted(options, key=lambda parameter: not parameter.required)


def _is_shown(command: Command, parameter: Parameter) -> bool:
    """Return True for an option that sets the display or the output file of a result."""
    return parameter.typed in OUTPUT or parameter.name in _OF_PAGES.get(command.name, ())


def in_python(text: str) -> str:
    """Rewrite the options in a text of the command line as arguments: ``--tp 8`` is ``tp=8``."""

    def written(found: re.Match[str]) -> str:
        name, value = found[1].replace("-", "_"), found[2]
        return name if value is None else f"{name}={value!r}" if value[0].islower() else f"{name}={value}"

    return _SPELLED.sub(written, text)


def _options(command: Command) -> dict[str, Parameter]:
    """Options and arguments of a command by Python name; an option with synonyms has several entries."""
    found: dict[str, Parameter] = {}
    for parameter in command.parameters.values():
        spelled = [request_name(text) for text in parameter.spelled if text.startswith("--")]
        found |= dict.fromkeys((argument(parameter), parameter.name, *spelled), parameter)
    synonyms = {name: parameter for parameter in command.parameters.values() for name in parameter.synonyms}
    return {**synonyms, **found}


def _given(command: Command, args: Sequence[Any], options: Mapping[str, Any]) -> Iterator[tuple[Parameter, Any]]:
    """Yield the options of a call with their values.

    Raises
    ------
    InputError
        If the command does not have an option, or if there are too many arguments.
    """
    places, known, name = arguments(command), _options(command), command.python_name
    if places and places[-1].repeat and len(args) > len(places):
        first = len(places) - 1
        args = [*args[:first], [text for it in args[first:] for text in ([it] if isinstance(it, str) else it)]]
    if len(args) > len(places):
        listed = " and ".join(it.field for it in places) or "no names"
        raise InputError(f"{name} takes {listed}, got {reprlib.repr(args[len(places)])} as well; give it by its name")
    yield from zip(places, args, strict=False)
    for key, value in options.items():
        parameter = known.get(key)
        if parameter is None:
            raise InputError(_lacking(command, key), key)
        if _is_shown(command, parameter):
            ways = "to_frame(), to_dict(), plot(PATH) and save(PATH)"
            raise InputError(f"{name}: {key} is for the command line; its result in Python has {ways}", key)
        yield parameter, value


def _lacking(command: Command, key: str) -> str:
    """Error message for an unknown option, with a hint; see :func:`option_hint`."""
    name = command.python_name
    if advice := lacking(command, f"--{key.replace('_', '-')}"):
        return in_python(advice)
    return f"{name} has no {key}; {option_hint(command, key, 'functions') or f'help({name}) lists all'}"


def option_hint(command: Command, key: str, others: str, *, remote: bool = False) -> str:
    """Name the most similar option, or the commands that have this option; empty without a similar option.

    Parameters
    ----------
    command : Command
        Command that lacks the option.
    key : str
        Name that was given.
    others : str
        Noun for the commands that are listed.
    remote : bool
        True for a request by HTTP or MCP, which has neither options about the output nor Python names.
    """
    having: dict[str, list[Command]] = {}
    for other in COMMANDS.values():
        for option in _options(other) if other.call else ():
            having.setdefault(option, []).append(other)
    near = next(iter(get_close_matches(key, having, 1)), "")
    first = having[near][0] if near else command
    found = _options(command if near in _options(command) else first).get(near)
    if found is None or (remote and found.typed in LEFT_OUT):
        return ""
    # A command may name the same kind of argument differently: `chips` instead of `hardware`.
    wanted = {it.kind.catalog for it in arguments(first) if it.field == near and it.kind.catalog}
    alike = [it.field for it in arguments(command) if it.kind.catalog in wanted]
    shown = found.field if remote else near
    if near in _options(command) or alike:
        return f"did you mean {shown if near in _options(command) else alike[0]}?"
    return f"{others} that have {shown}: {', '.join(it.python_name for it in having[near])}"


def _typed(command: Command, parameter: Parameter, value: object) -> Any:
    """Convert a Python value to text as on the command line, except for flags.

    The text then has the same meaning in both interfaces.
    """
    subject = f"{command.python_name}: {argument(parameter)}"
    if isinstance(parameter.kind, kinds.Flag):
        if not isinstance(value, bool):
            raise InputError(f"{subject}: write True or False (got {reprlib.repr(value)})", parameter.field)
        return value
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, _SEVERAL) and isinstance(parameter.kind, kinds.Name) and not parameter.repeat:
        others = "; give the others as on=[...]" if parameter.name == "hardware" and command.has("--on") else ""
        raise InputError(f"{subject} takes one name, got {reprlib.repr(value)}{others}", parameter.field)
    try:
        if not parameter.repeat:
            return _text(value)
        if isinstance(value, Mapping):
            return [f"{key}={_text(part)}" for key, part in value.items()]
        return list(map(_text, value)) if isinstance(value, _SEVERAL) else [_text(value)]
    except TypeError:
        form = "a text, a number or a list" if parameter.repeat else "a text or a number"
        message = f"{subject}: got {reprlib.repr(value)}; give {form}: {in_python(parameter.help)}"
        raise InputError(message, parameter.field) from None


def _text(value: Any) -> str:
    """Convert a Python value to text as on the command line; raises TypeError for unsupported types."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_text(part)}" for key, part in value.items())
    if isinstance(value, _SEVERAL):
        return ",".join(map(_text, value))
    if isinstance(value, float):
        whole = value.is_integer() and abs(value) < _LARGEST_EXACT
        return str(int(value)) if whole else repr(value)
    return str(value) if isinstance(value, int) else fspath(value)


def _is_name(value: object) -> bool:
    """Return True if an argument is a name, a path, or a list of names."""
    several = isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(it, str) for it in value)
    return several or isinstance(value, str | PathLike)


def _binds(signature: inspect.Signature, args: Sequence[Any], options: Mapping[str, Any]) -> bool:
    """Return True if a function accepts these arguments."""
    try:
        signature.bind(*args, **options)
    except TypeError:
        return False
    return True


def _example(command: Command) -> list[str]:
    """Names of a model and a GPU, as an example for calls."""
    usual = {"model": "llama_3_70b", "models": "llama_3_70b", "names": "llama_3_70b", "answer": "llama_3_70b"}
    names = [usual.get(it.name, "h100_sxm") for it in arguments(command)]
    return [*names, "h100_sxm"] if names == ["llama_3_70b"] else names


def is_rest(command: Command, place: Parameter) -> bool:
    """Return True if an argument receives all remaining positional arguments, as ``*args`` does."""
    return place.repeat and place is arguments(command)[-1] and place.name not in ("models", "hardware")


def _signature(command: Command) -> inspect.Signature:
    """Signature of the Python function with names and options."""
    new = inspect.Parameter
    first = [
        new(it.field, new.VAR_POSITIONAL if is_rest(command, it) else new.POSITIONAL_OR_KEYWORD)
        for it in arguments(command)
    ]
    options = [
        new(argument(it), new.KEYWORD_ONLY, default=new.empty if it.required else it.json_default)
        for it in taken(command)
    ]
    return inspect.Signature([*first, *options])


def _document(command: Command, plain: Callable[..., Any]) -> str:
    """Docstring of a Python function: description of the command, its options, and the signature that takes objects."""
    rows = []
    for parameter in (*arguments(command), *taken(command)):
        kind = parameter.kind
        form = parameter.metavar or ("bool" if isinstance(kind, kinds.Flag) else kind.metavar)
        if isinstance(kind, kinds.ChoiceKind) and not kind.metavar:
            form = " or ".join(map(repr, kind.words))
        listed = f"{form}{', or a list' * parameter.repeat}{'' if parameter.required else ', optional'}"
        default = f" [default: {parameter.default}]" if parameter.shown else ""
        rows += [f"{argument(parameter)} : {listed}", f"    {in_python(parameter.help)}{default}"]
    objects = inspect.getdoc(plain) or ""
    return "\n".join(
        [
            in_python(inspect.cleandoc(command.description)),
            *("", "Parameters", "----------", *rows),
            *("", "Notes", "-----", "With objects in place of names::", ""),
            f"    {command.python_name}" + re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(plain))),
            # The lines of dashes are removed, because tools would take them for section headings.
            *(f"    {line}".rstrip() for line in ("", *objects.splitlines()) if set(line.strip()) != {"-"}),
        ]
    )
