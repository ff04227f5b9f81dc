"""Commands and their options, from ``commands.toml``, ``options.csv`` and :mod:`inference_econ.inputs.options`.

A row of ``options.csv`` belongs to a command or to a set of options. If a cell is empty, the value of the option with
the same name in :mod:`inference_econ.inputs.options` applies.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from inference_econ._named import named
from inference_econ.inputs.options import GROUPS, OPTIONS, request_name, rows
from inference_econ.inputs.units import integer
from inference_econ.requests import kinds

_DOCUMENT: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))
#: Sets of options that several commands share. Each lists options and other sets.
SETS: Mapping[str, str] = _DOCUMENT["sets"]
#: Word in a list of options that means all options of the command that the list does not name.
_OWN = "own"
#: Rows of ``options.csv``, without empty cells. Keys are ``COMMAND.NAME`` or ``SET.NAME``.
ROWS: Mapping[str, Mapping[str, Any]] = {
    f"{row.pop('of')}.{row['name']}": {column: value for column, value in row.items() if value}
    for row in rows(Path(__file__).with_name("options.csv"))
}
#: Options about the output; they do not change the query.
SHOWN = ("form", "as_json", "as_csv", "output", "quiet", "why", "intervals", "plot", "roofline")
#: Options by their heading in the help. All other options belong to a single command.
HEADINGS: Mapping[str, tuple[str, ...]] = {
    **{heading: tuple(option.name for option in group) for heading, group in GROUPS.items()},
    "Disaggregation": ("decode_on", "transfer", "prefill_chain"),
    "Output": (
        *(
            "plot",
            "form",
            "as_json",
            "as_csv",
            "output",
            "path",
            "why",
            "intervals",
            "quiet",
            "yes",
            "help",
            "help_all",
        ),
    ),
}
#: Maximum number of options in the short help, except --help and --help-all. The second number limits options that only
#: this command has [1].
_MOST_IN_HELP, _OWN_IN_HELP = 18, 5
#: Options of the short help in order of importance. The options in the first tuple are always included.
_ALWAYS = ("output", "path", "form", "plot")
_USUAL = (
    *("isl", "osl", "request_rate", "gpus", "ttft", "tpot", "weights", "engine", "price", "tp", "traffic", "kv", "e2e"),
    *("cached", "why", "aggregated", "disaggregated", "budget", "percentile", "quiet"),
)
#: Options about the output, as typed. Python functions do not have them.
OUTPUT = ("--format", "--json", "--csv", "--output", "--why", "--quiet", "--plot", "--roofline")
#: Options that remote requests do not have: those about the output, and those with local files.
LEFT_OUT = (*OUTPUT, "--acceptance-file", "--measured", "--trace", "--yes")
#: Options that require a speed. Commands with SLOs have an SLO option instead.
_SPEEDS = ("--speed", "--tokens-per-second")
_AS_PROMISE = "set a TPOT SLO instead: --tpot mean:20 is 50 tokens/s per user on average, --tpot 20 for 90 % of them"
#: Types of values that are times.
_TIMES = (kinds.TIME, kinds.TTFT, kinds.TPOT, kinds.E2E)


@dataclass(frozen=True, slots=True)
class Parameter:
    """Option or argument of a command."""

    name: str
    """Name in Python and in saved results."""
    kind: kinds.ValueKind
    """Type of the option's value."""
    spelled: tuple[str, ...]
    """Spellings with dashes; empty for a positional argument."""
    metavar: str
    """Placeholder of the value in the help, if it is not the placeholder of the type."""
    repeat: bool
    """True if the option may be repeated."""
    required: bool
    """True if the option is required."""
    default: Any
    """Default, as a user types it; None if there is no fixed default."""
    shown: bool
    """True if the help shows the default."""
    help: str
    """Description for the help and for the HTTP API."""

    @property
    def typed(self) -> str:
        """Longest spelling, as messages show it; for an argument, its name."""
        return next((text for text in self.spelled if text.startswith("--")), self.name)

    @property
    def field(self) -> str:
        """Name of the option in HTTP and MCP requests."""
        return "model" if isinstance(self.kind, kinds.AnswerKind) else request_name(self.typed)

    @property
    def synonyms(self) -> list[str]:
        """Other names that HTTP and MCP requests accept for the option: names in other tools, and old names."""
        return [request_name(word) for word, spelled in OTHER_SPELLINGS.items() if spelled in self.spelled]

    @property
    def group(self) -> str:
        """Heading in the help under which the option is listed."""
        return next((heading for heading, names in HEADINGS.items() if self.name in names), "Options")

    @property
    def usual(self) -> Any:
        """Default value, converted to the type of the option."""
        if self.repeat:
            return self.kind.gather([] if self.default is None else [self.kind.read(self.default)])
        if isinstance(self.kind, kinds.Flag):
            return self.kind.absent if self.default is None else self.default
        return None if self.default is None else self.kind.read(self.default)

    @property
    def json_default(self) -> Any:
        """Default as a JSON value; None if there is no value."""
        return (
            None if self.required or self.repeat else self.usual if isinstance(self.kind, kinds.Flag) else self.default
        )

    def read(self, value: Any) -> Any:
        """Convert a JSON value.

        Raises
        ------
        BadValueError
            If the value has another type, or is an empty list for an argument that is required.
        InputError
            If the value is invalid for another reason.
        """
        if self.required and self.repeat and not value:
            raise kinds.BadValueError("is needed: the list is empty")
        return self.kind.gather([self.kind.read(item) for item in value]) if self.repeat else self.kind.read(value)

    def words(self, value: Any) -> Iterator[str]:
        """Words that a user types for a value, with the option if it has one."""
        if isinstance(self.kind, kinds.Flag):
            yield self.typed if value else f"--no-{self.typed.removeprefix('--')}"
        elif isinstance(self.kind, kinds.Pair):
            yield from (self.typed, *(value.split() if isinstance(value, str) else value))
        else:
            for item in _texts(value) if self.repeat else [value]:
                text = self._text(item)
                if self.spelled and text.startswith("-"):
                    yield f"{self.spelled[0]}={text}"  # the value starts with a dash, as options do
                else:
                    yield from (*self.spelled[:1], text)

    def _text(self, value: object) -> str:
        """Value as a user types it: times with their unit, and lists with commas."""
        if isinstance(value, (list, tuple)):
            between = "x" if self.name == "contexts" else ":"
            return ",".join(
                between.join(map(_number, it)) if isinstance(it, (list, tuple)) else _number(it) for it in value
            )
        return f"{_number(value)} s" if self.kind in _TIMES and isinstance(value, float) else _number(value)


@dataclass(frozen=True)
class Command:
    """A command in the table."""

    name: str
    """Name of the command, as typed."""
    function: str
    """Function of the command, as ``module:name``."""
    heading: str
    """Heading under which the help lists the command."""
    doors: tuple[str, ...]
    """Further uses of the command, such as ``saved`` results or ``served`` by HTTP; see ``commands.toml`` for all."""
    options: str
    """Names of the command's options and sets of options, separated by spaces."""
    examples: tuple[str, ...]
    """Example command lines in the help of the command."""
    variants: Mapping[str, str] = field(default_factory=dict)
    """Alternative functions (``module:name``) by the option that selects them.

    The key ``sessions`` is for a workload with sessions.
    """
    records: tuple[str, ...] = ()
    """Kinds of records in the results of the command, see :mod:`inference_econ.report.schema`."""
    call: str = ""
    """Python function that takes objects, as ``module:name``; empty if there is none."""

    @property
    def slug(self) -> str:
        """Name of the command in HTTP paths and as an MCP tool."""
        return self.name.replace(" ", "-")

    @property
    def python_name(self) -> str:
        """Name of the command's Python function."""
        return self.name.split()[-1].replace("-", "_")

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """Options and arguments by name, in order."""
        return {parameter.name: parameter for parameter in _parameters(self.options, (self.name,))}

    @property
    def short_help(self) -> list[str]:
        """Options of the short help, which most users need: at most 20, including --help and --help-all."""
        shared = {name for names in HEADINGS.values() for name in names}
        options = [name for name, parameter in self.parameters.items() if parameter.spelled]
        own = [name for name in options if name not in shared]
        ranked = [*own[:_OWN_IN_HELP], *(name for name in _USUAL if name in options), *own, *options]
        always = [name for name in _ALWAYS if name in options]
        return list(dict.fromkeys([*always, *ranked]))[:_MOST_IN_HELP]

    @property
    def asked(self) -> list[Parameter]:
        """Options that HTTP and MCP requests accept; required options come first."""
        others = [parameter for parameter in self.parameters.values() if parameter.typed not in LEFT_OUT]
        return sorted(others, key=lambda parameter: not parameter.required)

    def has(self, option: str) -> bool:
        """Return True if the command has an option with this spelling."""
        return any(option in parameter.spelled for parameter in self.parameters.values())

    def load(self, beside: str = "") -> Callable[..., Any]:
        """Import the function of the command, or a function with another name from the same module."""
        function: Callable[..., Any] = named(f"{self.function.partition(':')[0]}:{beside}" if beside else self.function)
        return function

    @property
    def description(self) -> str:
        """Full description of the command."""
        return str(self.load().__doc__)

    @property
    def text(self) -> str:
        """Description in one line."""
        return " ".join(self.description.split())

    @property
    def summary(self) -> str:
        """First sentence of the description."""
        paragraph = " ".join(self.description.strip().partition("\n\n")[0].split())
        first, end, _ = paragraph.partition(". ")
        return first + end.strip()

    def spelling(self, option: str) -> str:
        """Spelling that this command uses for an option that has other names; else the option unchanged."""
        other = OTHER_SPELLINGS.get(option, option)
        spelled = {word for parameter in self.parameters.values() for word in parameter.spelled}
        return other if option not in spelled and other in spelled else option

    def typed(self, values: Mapping[str, Any]) -> list[str]:
        """Command-line words that set the given options.

        Options with their default value are left out.
        """
        words: list[str] = []
        for name, parameter in self.parameters.items():
            value = values.get(name)
            if value is not None and name not in SHOWN and _plain(value) != _plain(parameter.usual):
                words += parameter.words(value)
        return words


def _parameters(words: str, within: tuple[str, ...]) -> Iterator[Parameter]:
    """Yield the parameters that a cell of the command table lists: options, sets of options, and ``own``.

    ``own`` means all options of the command that are not listed. ``within`` has the command, then enclosing sets.
    """
    for word in words.split():
        if word == _OWN:
            named = words.split()
            pairs = [key.partition(".")[::2] for key in ROWS]
            common = {*OPTIONS, *(name for owner, name in pairs if owner not in COMMANDS), *named}
            own = [name for owner, name in pairs if owner == within[0] and name not in common]
            yield from (_parameter(name, within) for name in own)
        elif word in SETS:
            yield from _parameters(SETS[word], (*within, word))
        else:
            outer, _, name = word.rpartition(".")
            yield _parameter(name, (*within, outer) if outer else within)


def _parameter(name: str, within: tuple[str, ...]) -> Parameter:
    """Option or argument from the tables. A table row for the command has priority over a row for a set of options."""
    special = next((row for outer in within if (row := ROWS.get(f"{outer}.{name}"))), {})
    row = {**(OPTIONS[name]._asdict() if name in OPTIONS else ROWS.get(f".{name}", {})), **special}
    word, typed = row.get("kind", ""), row.get("typed") or f"--{name.replace('_', '-')}"
    kind = kinds.kind(word)
    spelled = tuple(typed.split()) if typed.startswith("-") else ()
    default: Any = row.get("default") or ("" if word == "text" else None)
    if default and isinstance(kind, kinds.Flag):
        default = default == "yes"
    elif default and isinstance(kind, kinds.Number):
        default = integer(default) if default.isdecimal() else float(default)
    return Parameter(
        name,
        kind,
        spelled,
        row.get("metavar", ""),
        bool(row.get("repeat")) or word in ("engine", "price", "tiers", "what_ifs"),
        bool(row.get("required")),
        default,
        bool(row.get("shown")),
        row.get("help") or _of_argument(name, kind),
    )


def _of_argument(name: str, kind: kinds.ValueKind) -> str:
    """Description of a positional argument; the help does not show it."""
    if isinstance(kind, kinds.AnswerKind):
        name = "model"
    return f"Names of {name}." if name.endswith("s") else f"Name of the {name}."


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _texts(value: object) -> list[object]:
    """Values of a repeated option: prices by GPU, or the items of a list."""
    if isinstance(value, Mapping):
        return [f"{name}={part}" for name, part in value.items()]
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _number(value: object) -> str:
    """Format a number with the fewest digits that are exact."""
    short = f"{value:g}" if isinstance(value, float) else str(value)
    return short if not isinstance(value, float) or float(short) == value else repr(value)


#: Commands by name, in the order in which the help lists them.
COMMANDS: Mapping[str, Command] = {
    name: Command(
        name,
        row["function"],
        row["heading"],
        tuple(row["doors"]),
        row["options"],
        tuple(row["examples"]),
        row.get("variants", {}),
        tuple(row.get("answers", [name])),
        row.get("python", ""),
    )
    for name, row in _DOCUMENT["commands"].items()
}


#: Summaries of the command groups, by the first word of their commands.
GROUPS_OF_COMMANDS: Mapping[str, str] = _DOCUMENT["groups"]
#: Commands that the help does not list. ``compare`` is one, because frontier also takes several models, GPUs or
#: settings.
HIDDEN = ("compare",)
#: Old names of commands, with the current names. The text after ``|`` applies if the old name has an argument.
OLD_NAMES: Mapping[str, str] = _DOCUMENT["old_names"]
#: Synonyms of commands, with the words that replace them.
SYNONYMS: Mapping[str, str] = _DOCUMENT["synonyms"]
#: Old spellings of options, with the current spellings.
OLD_OPTIONS: Mapping[str, str] = _DOCUMENT["old_options"]
#: All known spellings of options (including old ones), with the spelling that commands use.
OTHER_SPELLINGS: Mapping[str, str] = {**_DOCUMENT["option_synonyms"], **OLD_OPTIONS}
#: Wrong names that users may try, with the right command.
GUESSED: Mapping[str, str] = _DOCUMENT["guessed"]


def launch_writer(form: str) -> Callable[..., str]:
    """Load the function that writes a launch format.

    The arguments of this function are the launch plan and the number of GPUs in a machine.
    """
    table = rows(Path(__file__).with_name("launch_forms.csv"))
    writer: Callable[..., str] = named(next(row["writer"] for row in table if row["form"] == form))
    return writer


def gone(command: str, option: str) -> str:
    """Text that names the replacement of a removed option.

    For the option '', the text names the replacement of the removed command.
    """
    for row in rows(Path(__file__).with_name("renamed.csv")):
        if row["option"] == option and command in row["commands"].split():
            return str(row["advice"])
    return ""


def lacking(command: Command, option: str) -> str:
    """Text that names what to use instead of an option that a command lacks; empty if there is no replacement."""
    if advice := gone(command.name, option):
        known = any(other.has(option) for other in COMMANDS.values())
        return f"{f'{command.name} has' if known else 'there is'} no {option}: {advice}"
    if option in _SPEEDS and command.has("--tpot"):
        return f"{command.name} has no {option}: {_AS_PROMISE}"
    return ""
