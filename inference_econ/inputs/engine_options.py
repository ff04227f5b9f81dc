"""The options of commands that engines and load generators have, as their own parsers list them, by version."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field

from inference_econ.errors import InputError
from inference_econ.inputs._base import SourcedSpec
from inference_econ.inputs._spec import Spec

Scalar = bool | int | float | str
#: What an option reads: a value of a type, JSON, or nothing (``flag``).
OptionType = Literal["int", "float", "str", "json", "flag"]
#: What a parsed option has: one value, several, or true where it is a flag.
Parsed = dict[str, Any]


class Option(Spec):
    """One option of a command, one argument without a name, or one key of a file or of JSON that an option reads."""

    names: tuple[str, ...] = Field(min_length=1, strict=False)
    """``--tensor-parallel-size``, ``-tp``; a dotted key (``--speculative-config.method``); or the name of an
    argument."""
    type: OptionType
    """Type of the value."""
    choices: tuple[Scalar, ...] | None = Field(default=None, strict=False)
    """All that it may be; anything of its type without."""
    nargs: int | str | None = None
    """How many values follow: a number, ``+``, ``*`` or ``?``; one without."""
    default: Scalar | list[Scalar] | None = None
    """Value where nothing is given; absent where that is computed, or is nothing."""

    def value(self, text: str) -> Any:
        """A word of a command line as this option reads it.

        Raises
        ------
        InputError
            If the option does not read such a word.
        """
        try:
            read = _READERS.get(self.type, str)(text)
        except ValueError:
            raise InputError(f"{self.names[0]} {text!r}: {_KINDS[self.type]} is needed") from None
        if self.choices is not None and read not in self.choices:
            raise InputError(f"{self.names[0]} {text!r}: allowed are {', '.join(map(str, self.choices))}")
        return read


_READERS: Mapping[str, Callable[[str], Any]] = {"int": int, "float": float, "json": json.loads}
_KINDS = {"int": "a whole number", "float": "a number", "json": "JSON"}


class EngineOptions(SourcedSpec):
    """The commands of one version of an engine or load generator, with all their options."""

    engine: str = Field(min_length=1)
    """``vllm``, ``sglang``, ``trtllm``; or a load generator."""
    version: str = Field(pattern=r"\d")
    """As the engine counts."""
    date: Annotated[str, Field(pattern=r"^\d{4}(-\d{2}(-\d{2})?)?$")] | None = None
    """When it came out, as far as known."""
    commands: dict[str, list[Option]]
    """Options by command; keys of a file under the name of the command and ``config``."""

    @cached_property
    def _by_name(self) -> dict[str, dict[str, Option]]:
        return {
            command: {name: option for option in options for name in option.names}
            for command, options in self.commands.items()
        }

    def has(self, command: str, name: str) -> bool:
        """Whether a command has an option or a key of that name."""
        return name in self._by_name.get(command, {})

    def option(self, command: str, name: str) -> Option:
        """An option of a command.

        Raises
        ------
        InputError
            If there is none, with the nearest names.
        """
        options = self._by_name[command]
        if name not in options:
            near = difflib.get_close_matches(name, list(options), n=2)
            hint = f"; nearest: {', '.join(near)}" if near else ""
            raise InputError(f"{command} of {self.engine} {self.version} has no {name}{hint}")
        return options[name]

    def parse(self, command: str, words: Sequence[str]) -> Parsed:
        """Read the words behind a command as its parser would.

        Parameters
        ----------
        command : str
            A key of :attr:`commands`.
        words : sequence of str
            Options and their values; arguments without a name.

        Returns
        -------
        dict
            Values by the first name of their option.

        Raises
        ------
        InputError
            If an option is unknown, lacks a value, or does not read it.
        """
        parsed: Parsed = {}
        rest = list(words)
        arguments = [
            option for option in self.commands[command] if option.names[0][:1] != "-" and "." not in option.names[0]
        ]
        while rest:
            word = rest.pop(0)
            if not word.startswith("-"):
                if not arguments:
                    raise InputError(f"{command}: {word!r} belongs to no option")
                argument = arguments.pop(0)
                parsed[argument.names[0]] = argument.value(word)
                continue
            name, sign, attached = word.partition("=")
            option = self.option(command, name)
            taken = [attached] if sign else _values(option, rest)
            read = [option.value(text) for text in taken]
            parsed[option.names[0]] = True if option.type == "flag" else read[0] if len(read) == 1 else read
            if option.type == "json" and isinstance(parsed[option.names[0]], dict):
                self.check_file(command, parsed[option.names[0]], f"{option.names[0]}.")
        return parsed

    def check_file(self, command: str, data: dict[str, Any], prefix: str = "") -> None:
        """Hold the keys and values of a file, or of JSON, against what is known of them.

        Parameters
        ----------
        command : str
            A key of :attr:`commands`.
        data : dict
            What the file holds.
        prefix : str
            What the keys are behind: ``--speculative-config.``.

        Raises
        ------
        InputError
            If a key is unknown or its value not allowed; where nothing is known of any key, all are allowed.
        """
        if not any(name.startswith(prefix) for name in self._by_name[command]):
            return
        for key, value in data.items():
            option = self.option(command, f"{prefix}{key}")
            if isinstance(value, dict):
                self.check_file(command, value, f"{prefix}{key}.")
            elif option.type != "json" and not isinstance(value, bool):
                option.value(str(value))


def _values(option: Option, rest: list[str]) -> list[str]:
    """Take the values that follow an option off the rest of the words."""
    if option.type == "flag":
        return []
    several = option.nargs in ("+", "*")
    count = option.nargs if isinstance(option.nargs, int) else len(rest) if several else 1
    taken: list[str] = []
    while rest and len(taken) < count and not rest[0].startswith("--"):
        taken.append(rest.pop(0))
    if not taken and option.nargs not in ("*", "?"):
        raise InputError(f"{option.names[0]}: a value is missing")
    return taken
