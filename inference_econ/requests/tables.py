"""Commands and their options, from ``commands.toml``, ``options.csv`` and :mod:`inference_econ.inputs.options`.

A row of ``options.csv`` belongs to a command or to a set of options. Empty cells take the values of the option with the
same name in :mod:`inference_econ.inputs.options`.
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
#: Sets of options that commands share: names of options and of other sets.
SETS: Mapping[str, str] = _DOCUMENT["sets"]
#: Word for all options of a command that it does not list by name.
_OWN = "own"
#: Rows of ``options.csv`` by ``COMMAND.NAME`` or ``SET.NAME``, without empty cells.
ROWS: Mapping[str, Mapping[str, Any]] = {
    f"{row.pop('of')}.{row['name']}": {column: value for column, value in row.items() if value}
    for row in rows(Path(__file__).with_name("options.csv"))
}
#: Options for output, which do not change the query.
SHOWN = ("form", "as_json", "as_csv", "output", "quiet", "why", "intervals", "plot", "roofline")
#: Options by heading of the help; all others belong to one command only.
HEADINGS: Mapping[str, tuple[str, ...]] = {
    **{heading: tuple(option.name for option in group) for heading, group in GROUPS.items()},
    "Disaggregation": ("decode_on", "transfer", "prefill_chain"),
    "Output": (
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
}
#: Maximum options of the short help in addition to --help and --help-all, and how many of them are the command's own
#: [1].
_MOST_IN_HELP, _OWN_IN_HELP = 18, 5
#: Options of the short help by importance; the first ones are always included.
_ALWAYS = ("output", "path", "form", "plot")
_USUAL = (
    *("isl", "osl", "request_rate", "gpus", "ttft", "tpot", "weights", "engine", "price", "tp", "traffic", "kv", "e2e"),
    *("cached", "why", "aggregated", "disaggregated", "budget", "percentile", "quiet"),
)
#: Options for output, as typed; Python functions lack them.
OUTPUT = ("--format", "--json", "--csv", "--output", "--why", "--quiet", "--plot", "--roofline")
#: Options that remote requests lack: these, and local files.
LEFT_OUT = (*OUTPUT, "--acceptance-file", "--measured", "--trace", "--yes")
#: Options for a speed, and their SLO form for commands with SLOs.
_SPEEDS = ("--speed", "--tokens-per-second")
_AS_PROMISE = "set a TPOT SLO instead: --tpot mean:20 is 50 tokens/s per user on average, --tpot 20 for 90 % of them"
#: Types of times.
_TIMES = (kinds.TIME, kinds.TTFT, kinds.TPOT, kinds.E2E)


@dataclass(frozen=True, slots=True)
class Parameter:
    """Option or argument of a command."""

    name: str
    """Name in Python and in saved results."""
    kind: kinds.ValueKind
    """Type of its value."""
    spelled: tuple[str, ...]
    """Spellings with dashes; empty for an argument."""
    metavar: str
    """Placeholder of the value in the help, if it differs from the placeholder of its type."""
    repeat: bool
    """True if it may be repeated."""
    required: bool
    """True if it is required."""
    default: Any
    """Default, as typed; None for an open choice."""
    shown: bool
    """True if the help shows the default."""
    help: str
    """Text of the help and of the HTTP API."""

    @property
    def typed(self) -> str:
        """Longest spelling, as in messages; for an argument, its name."""
        return next((text for text in self.spelled if text.startswith("--")), self.name)

    @property
    def field(self) -> str:
        """Name in remote requests."""
        return "model" if isinstance(self.kind, kinds.AnswerKind) else request_name(self.typed)

    @property
    def synonyms(self) -> list[str]:
        """Other names in requests: names of other tools, and old names."""
        return [request_name(word) for word, spelled in OTHER_SPELLINGS.items() if spelled in self.spelled]

    @property
    def group(self) -> str:
        """Heading of the help with this option."""
        return next((heading for heading, names in HEADINGS.items() if self.name in names), "Options")

    @property
    def usual(self) -> Any:
        """Converted default."""
        if self.repeat:
            return self.kind.gather([] if self.default is None else [self.kind.read(self.default)])
        if isinstance(self.kind, kinds.Flag):
            return self.kind.absent if self.default is None else self.default
        return None if self.default is None else self.kind.read(self.default)

    @property
    def json_default(self) -> Any:
        """JSON default; None for no value."""
        return (
            None if self.required or self.repeat else self.usual if isinstance(self.kind, kinds.Flag) else self.default
        )

    def read(self, value: Any) -> Any:
        """Convert a JSON value.

        Raises
        ------
        BadValueError
            If it has another type.
        InputError
            If it is invalid for another reason.
        """
        return self.kind.gather([self.kind.read(item) for item in value]) if self.repeat else self.kind.read(value)

    def words(self, value: Any) -> Iterator[str]:
        """Words of a value as typed, after the option or alone."""
        if isinstance(self.kind, kinds.Flag):
            yield self.typed if value else f"--no-{self.typed.removeprefix('--')}"
        elif isinstance(self.kind, kinds.Pair):
            yield from (self.typed, *(value.split() if isinstance(value, str) else value))
        else:
            for item in _texts(value) if self.repeat else [value]:
                text = self._text(item)
                if self.spelled and text.startswith("-"):
                    yield f"{self.spelled[0]}={text}"  # so that it is not parsed as an option
                else:
                    yield from (*self.spelled[:1], text)

    def _text(self, value: object) -> str:
        """Value as typed: times with their unit, lists with commas."""
        if isinstance(value, (list, tuple)):
            between = "x" if self.name == "contexts" else ":"
            return ",".join(
                between.join(map(_number, it)) if isinstance(it, (list, tuple)) else _number(it) for it in value
            )
        return f"{_number(value)} s" if self.kind in _TIMES and isinstance(value, float) else _number(value)


@dataclass(frozen=True)
class Command:
    """Command of the table."""

    name: str
    """Name as typed."""
    function: str
    """Location of its function: ``module:name``."""
    heading: str
    """Heading of the command in the help of all commands."""
    doors: tuple[str, ...]
    """Other interfaces to it: ``saved``, ``served``, ``reported``, ``scenarios``; see ``commands.toml``."""
    options: str
    """Names of its options and of sets of options."""
    examples: tuple[str, ...]
    """Examples in its help."""
    variants: Mapping[str, str] = field(default_factory=dict)
    """Other functions, ``module:name``, by the option that selects them; ``sessions`` is a workload with sessions."""
    records: tuple[str, ...] = ()
    """Kinds of records in its results, as in :mod:`inference_econ.report.schema`."""
    call: str = ""
    """Python function for objects: ``module:name``; empty if there is none."""

    @property
    def slug(self) -> str:
        """Name in HTTP paths and as an MCP tool."""
        return self.name.replace(" ", "-")

    @property
    def python_name(self) -> str:
        """Name of its Python function."""
        return self.name.split()[-1].replace("-", "_")

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """Options and arguments by name, in order."""
        return {parameter.name: parameter for parameter in _parameters(self.options, (self.name,))}

    @property
    def short_help(self) -> list[str]:
        """Options of the short help, those that most users need; at most 20 with --help and --help-all."""
        shared = {name for names in HEADINGS.values() for name in names}
        options = [name for name, parameter in self.parameters.items() if parameter.spelled]
        own = [name for name in options if name not in shared]
        ranked = [*own[:_OWN_IN_HELP], *(name for name in _USUAL if name in options), *own, *options]
        always = [name for name in _ALWAYS if name in options]
        return list(dict.fromkeys([*always, *ranked]))[:_MOST_IN_HELP]

    @property
    def asked(self) -> list[Parameter]:
        """Options of remote requests, required ones first."""
        others = [parameter for parameter in self.parameters.values() if parameter.typed not in LEFT_OUT]
        return sorted(others, key=lambda parameter: not parameter.required)

    def has(self, option: str) -> bool:
        """Return True if it has an option, as spelled."""
        return any(option in parameter.spelled for parameter in self.parameters.values())

    def load(self, beside: str = "") -> Callable[..., Any]:
        """Import the function of the command, or another one from the same module."""
        function: Callable[..., Any] = named(f"{self.function.partition(':')[0]}:{beside}" if beside else self.function)
        return function

    @property
    def description(self) -> str:
        """Full description."""
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
        """Spelling in this command of an option known by another name; unchanged if there is none."""
        other = OTHER_SPELLINGS.get(option, option)
        spelled = {word for parameter in self.parameters.values() for word in parameter.spelled}
        return other if option not in spelled and other in spelled else option

    def typed(self, values: Mapping[str, Any]) -> list[str]:
        """Words after the command for some values of its options, without defaults."""
        words: list[str] = []
        for name, parameter in self.parameters.items():
            value = values.get(name)
            if value is not None and name not in SHOWN and _plain(value) != _plain(parameter.usual):
                words += parameter.words(value)
        return words


def _parameters(words: str, within: tuple[str, ...]) -> Iterator[Parameter]:
    """Parameters of a list of option names, sets and ``own``; ``within`` starts with the command."""
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
    """Option or argument from the tables; the outermost command or set takes precedence."""
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
    """Description of an argument, which the help does not show."""
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
    """Number with the fewest digits that are exact."""
    short = f"{value:g}" if isinstance(value, float) else str(value)
    return short if not isinstance(value, float) or float(short) == value else repr(value)


#: Commands by name, in the order of the help.
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


#: Summaries of command groups, by their first word.
GROUPS_OF_COMMANDS: Mapping[str, str] = _DOCUMENT["groups"]
#: Commands that the help does not list; frontier also takes several models, GPUs or settings.
HIDDEN = ("compare",)
#: Old names of commands with their replacements; after ``|`` those of an old name with an argument.
OLD_NAMES: Mapping[str, str] = _DOCUMENT["old_names"]
#: Synonyms of commands, with the words that they stand for.
SYNONYMS: Mapping[str, str] = _DOCUMENT["synonyms"]
#: Old spellings of options with their replacements.
OLD_OPTIONS: Mapping[str, str] = _DOCUMENT["old_options"]
#: Known spellings of options, old ones included, with those of the commands.
OTHER_SPELLINGS: Mapping[str, str] = {**_DOCUMENT["option_synonyms"], **OLD_OPTIONS}
#: Names that users may guess, with the right command.
GUESSED: Mapping[str, str] = _DOCUMENT["guessed"]


def launch_writer(form: str) -> Callable[..., str]:
    """Load the writer of a launch format; it takes the launch plan and the GPUs of a machine."""
    table = rows(Path(__file__).with_name("launch_forms.csv"))
    writer: Callable[..., str] = named(next(row["writer"] for row in table if row["form"] == form))
    return writer


def gone(command: str, option: str) -> str:
    """Return the replacement of a removed option, or of the removed command for the option ''."""
    for row in rows(Path(__file__).with_name("renamed.csv")):
        if row["option"] == option and command in row["commands"].split():
            return str(row["advice"])
    return ""


def lacking(command: Command, option: str) -> str:
    """Return the replacement of an option that a command lacks; empty if unknown."""
    if advice := gone(command.name, option):
        known = any(other.has(option) for other in COMMANDS.values())
        return f"{f'{command.name} has' if known else 'there is'} no {option}: {advice}"
    if option in _SPEEDS and command.has("--tpot"):
        return f"{command.name} has no {option}: {_AS_PROMISE}"
    return ""
