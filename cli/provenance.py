"""Questions that commands were asked, as a part of their answers, so that other commands can set the same up again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click

from inference_econ.records import saved

from .parameters import E2E, TIME, TPOT, TTFT

#: Options that say where an answer goes, not what it is about.
SHOWN = ("form", "as_json", "as_csv", "output", "quiet", "why", "plot", "roofline")


def question() -> dict[str, object]:
    """The running command and all its options, given or not."""
    context = click.get_current_context()
    options = {name: value for name, value in context.params.items() if name not in SHOWN}
    return saved.question_record(str(context.info_name), options)


def typed(command: click.Command, options: Mapping[str, object]) -> list[str]:
    """Words to type behind a command to ask the same again.

    Parameters
    ----------
    command : Command
        The command.
    options : mapping
        Its options, as :func:`question` has them; those that are as by default are left out.
    """
    usual = command.make_context(command.name, [], resilient_parsing=True).params
    words: list[str] = []
    for parameter in command.params:
        value = options.get(str(parameter.name))
        if (
            value is not None
            and parameter.name not in SHOWN
            and _plain(value) != _plain(usual.get(str(parameter.name)))
        ):
            words += _words(parameter, value)
    return words


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _words(parameter: click.Parameter, value: object) -> Iterator[str]:
    """A value behind its option, or by itself."""
    if isinstance(parameter, click.Option) and parameter.is_flag:
        yield from (parameter.opts if value else parameter.secondary_opts)[:1]
        return
    if parameter.nargs > 1:
        yield from (parameter.opts[0], *map(str, _texts(value)))
        return
    several = parameter.multiple or parameter.nargs == -1
    for item in _texts(value) if several else [value]:
        text = _text(parameter, item)
        if isinstance(parameter, click.Argument):
            yield text
        elif text.startswith("-"):
            yield f"{parameter.opts[0]}={text}"  # so that it is taken for no option
        else:
            yield from (parameter.opts[0], text)


def _texts(value: object) -> list[object]:
    """Values behind an option that is repeated: prices by chip, or all of a list."""
    if isinstance(value, Mapping):
        return [f"{name}={part}" for name, part in value.items()]
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _text(parameter: click.Parameter, value: object) -> str:
    """A value as it is typed: times with their unit, lists with commas."""
    if isinstance(value, (list, tuple)):
        return ",".join(map(_number, value))
    timed = parameter.type in (TIME, TTFT, TPOT, E2E) and isinstance(value, float)
    return f"{_number(value)} s" if timed else _number(value)


def _number(value: object) -> str:
    """A number in as few digits as say it exactly."""
    short = f"{value:g}" if isinstance(value, float) else str(value)
    return short if not isinstance(value, float) or float(short) == value else repr(value)
