"""Options that were given, and the message that refuses the first that does not go with others."""

from __future__ import annotations

from collections.abc import Iterable

from click.core import Context, Parameter, ParameterSource

from inference_econ.errors import InputError
from inference_econ.inputs.options import OPTIONS

from .decorators import Choices


def given(context: Context) -> list[Parameter]:
    """Parameters of a command that somebody gave: all that are not as by default."""
    unsaid = (None, ParameterSource.DEFAULT)
    return [it for it in context.command.params if context.get_parameter_source(str(it.name)) not in unsaid]


def named_options(choices: Choices, names: Iterable[str]) -> list[str]:
    """Names in Python of those of some options that are given."""
    return [name for name in names if choices.get(name) is not None]


def refuse(stray: Iterable[str], message: str, option: str | None = None) -> None:
    """Refuse the first of some options; nothing where there is none.

    Parameters
    ----------
    stray : iterable of str
        Names in Python of options that were given.
    message : str
        What is said, ``{}`` where the option stands as it is typed.
    option : str, optional
        The one at fault, if it is another one.

    Raises
    ------
    InputError
        With the message.
    """
    for name in stray:
        typed = OPTIONS[name].spelled if name in OPTIONS else f"--{name.replace('_', '-')}"
        raise InputError(message.replace("{}", typed), option=option or name)
