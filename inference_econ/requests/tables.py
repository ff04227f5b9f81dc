"""Commands and their options, as ``commands.toml`` and ``options.csv`` have them beside the table of all questions.

A row of ``options.csv`` is of a command, or of a set of options: where it says nothing, what the table of all questions
says of the same name holds.
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
from inference_econ.requests import kinds

_DOCUMENT: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))
#: Options that commands have together: names of options, and of other sets.
SETS: Mapping[str, str] = _DOCUMENT["sets"]
#: Word of a command for the options that it alone has, as far as it does not name them.
_OWN = "own"
#: What commands and sets say of options, as far as they say it, by ``COMMAND.NAME`` or ``SET.NAME``.
ROWS: Mapping[str, Mapping[str, Any]] = {
    f"{row.pop('of')}.{row['name']}": {column: value for column, value in row.items() if value}
    for row in rows(Path(__file__).with_name("options.csv"))
}
#: Options that say where an answer goes, not what it is about.
SHOWN = ("form", "as_json", "as_csv", "output", "quiet", "why", "plot", "roofline")
#: Options by heading of the help; all others are what a command has for itself.
HEADINGS: Mapping[str, tuple[str, ...]] = {
    **{heading: tuple(option.name for option in group) for heading, group in GROUPS.items()},
    "Disaggregation": ("decode_on", "transfer", "prefill_chain"),
    "Output": ("plot", "form", "as_json", "as_csv", "output", "path", "why", "quiet", "yes", "help", "help_all"),
}
#: Most options of the short help beside --help and --help-all, and how many of them only the command has [1].
_MOST_IN_HELP, _OWN_IN_HELP = 18, 5
#: Options of the short help in the order of their importance; the first are always there.
_ALWAYS = ("output", "path", "form", "plot")
_USUAL = (
    *("isl", "osl", "request_rate", "gpus", "ttft", "tpot", "weights", "engine", "price", "tp", "traffic", "kv", "e2e"),
    *("cached", "why", "aggregated", "disaggregated", "budget", "percentile", "quiet"),
)
#: Options that say where an answer goes, as they are typed; functions of Python lack them.
OUTPUT = ("--format", "--json", "--csv", "--output", "--why", "--quiet", "--plot", "--roofline")
#: Options that requests of others lack: these, and files of the machine that a command runs on.
LEFT_OUT = (*OUTPUT, "--acceptance-file", "--measured", "--trace", "--yes")
#: Options that ask for a speed, and how commands have it that take promises.
_SPEEDS = ("--speed", "--tokens-per-second")
_AS_PROMISE = "set a TPOT SLO instead: --tpot mean:20 is 50 tokens/s per user on average, --tpot 20 for 90 % of them"
#: Kinds whose numbers are times.
_TIMES = (kinds.TIME, kinds.TTFT, kinds.TPOT, kinds.E2E)


@dataclass(frozen=True, slots=True)
class Parameter:
    """An option or argument of a command."""

    name: str
    """In Python, and in saved answers."""
    kind: kinds.ValueKind
    """What it takes."""
    spelled: tuple[str, ...]
    """Spellings with their dashes; empty of an argument."""
    metavar: str
    """Stands for the value in the help, where it is not that of the kind."""
    repeat: bool
    """Whether it may be given several times."""
    required: bool
    """Whether it must be given."""
    default: Any
    """Value where it is not given, as it is typed; None leaves it open."""
    shown: bool
    """Whether the help says the default."""
    help: str
    """Text of the help and of the HTTP API."""

    @property
    def typed(self) -> str:
        """The longest spelling, which messages have; of an argument its name."""
        return next((text for text in self.spelled if text.startswith("--")), self.name)

    @property
    def field(self) -> str:
        """Name in requests of others."""
        return "model" if isinstance(self.kind, kinds.AnswerKind) else request_name(self.typed)

    @property
    def synonyms(self) -> list[str]:
        """Other names in requests: those of other tools, and old ones."""
        return [request_name(word) for word, spelled in OTHER_SPELLINGS.items() if spelled in self.spelled]

    @property
    def group(self) -> str:
        """Heading of the help that lists it."""
        return next((heading for heading, names in HEADINGS.items() if self.name in names), "Options")

    @property
    def usual(self) -> Any:
        """Value where it is not given."""
        if self.repeat:
            return self.kind.gather([] if self.default is None else [self.kind.read(self.default)])
        if isinstance(self.kind, kinds.Flag):
            return self.kind.absent if self.default is None else self.default
        return None if self.default is None else self.kind.read(self.default)

    @property
    def json_default(self) -> Any:
        """Value in JSON where it is not given; None says that nothing is."""
        return (
            None if self.required or self.repeat else self.usual if isinstance(self.kind, kinds.Flag) else self.default
        )

    def read(self, value: Any) -> Any:
        """Convert a value of JSON.

        Raises
        ------
        BadValueError
            If it is of another kind.
        InputError
            If it cannot be used for another reason.
        """
        return self.kind.gather([self.kind.read(item) for item in value]) if self.repeat else self.kind.read(value)

    def words(self, value: Any) -> Iterator[str]:
        """A value as it is typed behind its option, or by itself."""
        if isinstance(self.kind, kinds.Flag):
            yield self.typed if value else f"--no-{self.typed.removeprefix('--')}"
        elif isinstance(self.kind, kinds.Pair):
            yield from (self.typed, *(value.split() if isinstance(value, str) else value))
        else:
            for item in _texts(value) if self.repeat else [value]:
                text = self._text(item)
                if self.spelled and text.startswith("-"):
                    yield f"{self.spelled[0]}={text}"  # so that it is taken for no option
                else:
                    yield from (*self.spelled[:1], text)

    def _text(self, value: object) -> str:
        """A value as it is typed: times with their unit, lists with commas."""
        if isinstance(value, (list, tuple)):
            between = "x" if self.name == "contexts" else ":"
            return ",".join(
                between.join(map(_number, it)) if isinstance(it, (list, tuple)) else _number(it) for it in value
            )
        return f"{_number(value)} s" if self.kind in _TIMES and isinstance(value, float) else _number(value)


@dataclass(frozen=True)
class Command:
    """A command in the list of all."""

    name: str
    """What is typed."""
    function: str
    """Where its function is: ``module:name``."""
    heading: str
    """Heading of the command in the help of all commands."""
    doors: tuple[str, ...]
    """Other ways to ask its question: ``saved``, ``served``, ``reported``, ``scenarios``; see ``commands.toml``."""
    options: str
    """Names of its options and of sets of them."""
    examples: tuple[str, ...]
    """Lines of its help."""
    variants: Mapping[str, str] = field(default_factory=dict)
    """Other functions, ``module:name``, by the option that selects them; ``sessions`` is a workload that has them."""
    records: tuple[str, ...] = ()
    """Kinds of records that its answers have, as :mod:`inference_econ.report.schema` names them."""
    call: str = ""
    """Function of Python that answers it from objects: ``module:name``; empty if Python has none."""

    @property
    def slug(self) -> str:
        """Name in an HTTP path and as a tool of an assistant."""
        return self.name.replace(" ", "-")

    @property
    def python_name(self) -> str:
        """Name of its function in Python."""
        return self.name.split()[-1].replace("-", "_")

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """Options and arguments by name, in their order."""
        return {parameter.name: parameter for parameter in _parameters(self.options, (self.name,))}

    @property
    def short_help(self) -> list[str]:
        """Options of the short help, those that most people need; with --help and --help-all at most 20."""
        shared = {name for names in HEADINGS.values() for name in names}
        options = [name for name, parameter in self.parameters.items() if parameter.spelled]
        own = [name for name in options if name not in shared]
        ranked = [*own[:_OWN_IN_HELP], *(name for name in _USUAL if name in options), *own, *options]
        always = [name for name in _ALWAYS if name in options]
        return list(dict.fromkeys([*always, *ranked]))[:_MOST_IN_HELP]

    @property
    def asked(self) -> list[Parameter]:
        """Options that requests of others may have, those first that are required."""
        others = [parameter for parameter in self.parameters.values() if parameter.typed not in LEFT_OUT]
        return sorted(others, key=lambda parameter: not parameter.required)

    def has(self, option: str) -> bool:
        """Return whether it has an option, as it is spelled."""
        return any(option in parameter.spelled for parameter in self.parameters.values())

    def load(self, beside: str = "") -> Callable[..., Any]:
        """Import the function that answers it, or another one beside that."""
        function: Callable[..., Any] = named(f"{self.function.partition(':')[0]}:{beside}" if beside else self.function)
        return function

    @property
    def description(self) -> str:
        """All that is said of it."""
        return str(self.load().__doc__)

    @property
    def text(self) -> str:
        """The description in one line."""
        return " ".join(self.description.split())

    @property
    def summary(self) -> str:
        """The first sentence of the description."""
        paragraph = " ".join(self.description.strip().partition("\n\n")[0].split())
        first, end, _ = paragraph.partition(". ")
        return first + end.strip()

    def spelling(self, option: str) -> str:
        """Spelling of the command for an option that people may know by another one; the same if there is none."""
        other = OTHER_SPELLINGS.get(option, option)
        spelled = {word for parameter in self.parameters.values() for word in parameter.spelled}
        return other if option not in spelled and other in spelled else option

    def typed(self, values: Mapping[str, Any]) -> list[str]:
        """Words to type behind the command for some values of its options; usual ones are left out."""
        words: list[str] = []
        for name, parameter in self.parameters.items():
            value = values.get(name)
            if value is not None and name not in SHOWN and _plain(value) != _plain(parameter.usual):
                words += parameter.words(value)
        return words


def _parameters(words: str, within: tuple[str, ...]) -> Iterator[Parameter]:
    """Parameters that words name: names of options and of sets, or ``own``; the command is the first of ``within``."""
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
    """An option or argument as the tables have it: what a command or a set says of it first, the outermost before."""
    special = next((row for outer in within if (row := ROWS.get(f"{outer}.{name}"))), {})
    row = {**(OPTIONS[name]._asdict() if name in OPTIONS else ROWS.get(f".{name}", {})), **special}
    word, typed = row.get("kind", ""), row.get("typed") or f"--{name.replace('_', '-')}"
    kind = kinds.kind(word)
    spelled = tuple(typed.split()) if typed.startswith("-") else ()
    default: Any = row.get("default") or ("" if word == "text" else None)
    if default and isinstance(kind, kinds.Flag):
        default = default == "yes"
    elif default and isinstance(kind, kinds.Number):
        default = int(default) if default.isdecimal() else float(default)
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
    """Text of an argument, which the help does not say."""
    if name == "models":
        return "Names of models."
    return f"Name of the {'model' if isinstance(kind, kinds.AnswerKind) else name}."


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _texts(value: object) -> list[object]:
    """Values behind an option that is repeated: prices by chip, or all of a list."""
    if isinstance(value, Mapping):
        return [f"{name}={part}" for name, part in value.items()]
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _number(value: object) -> str:
    """A number in as few digits as say it exactly."""
    short = f"{value:g}" if isinstance(value, float) else str(value)
    return short if not isinstance(value, float) or float(short) == value else repr(value)


#: All commands by what is typed, in the order of the help.
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


#: Summaries of groups of commands, by their first word.
GROUPS_OF_COMMANDS: Mapping[str, str] = _DOCUMENT["groups"]
#: Commands that the help does not list: frontier takes several models, GPUs or settings, too.
HIDDEN = ("compare",)
#: Old names of commands, with the words to type instead; after ``|`` those for an old name with an argument.
OLD_NAMES: Mapping[str, str] = _DOCUMENT["old_names"]
#: Other names that people type, with the words that they stand for.
SYNONYMS: Mapping[str, str] = _DOCUMENT["synonyms"]
#: Old spellings of options, with the new ones.
OLD_OPTIONS: Mapping[str, str] = _DOCUMENT["old_options"]
#: Spellings that people may know, old ones among them, with those that commands have.
OTHER_SPELLINGS: Mapping[str, str] = {**_DOCUMENT["option_synonyms"], **OLD_OPTIONS}
#: Names that people guess, with the command that does it.
GUESSED: Mapping[str, str] = _DOCUMENT["guessed"]


def launch_writer(form: str) -> Callable[..., str]:
    """Load the function that writes a launch plan in a form, from the plan and the GPUs of a machine."""
    table = rows(Path(__file__).with_name("launch_forms.csv"))
    writer: Callable[..., str] = named(next(row["writer"] for row in table if row["form"] == form))
    return writer


def gone(command: str, option: str) -> str:
    """Return what to type in place of an option that a command had once, or of the command itself for the option ''."""
    for row in rows(Path(__file__).with_name("renamed.csv")):
        if row["option"] == option and command in row["commands"].split():
            return str(row["advice"])
    return ""


def lacking(command: Command, option: str) -> str:
    """Return what to type in place of an option that a command lacks; empty if nothing is known of it."""
    if advice := gone(command.name, option):
        return f"there is no {option}: {advice}"
    if option in _SPEEDS and command.has("--tpot"):
        return f"{command.name} has no {option}: {_AS_PROMISE}"
    return ""
