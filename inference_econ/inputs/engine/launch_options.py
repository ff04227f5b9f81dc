"""Which serving engines have a model, a chip and number formats: what may be started at all."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import Field

from inference_econ.errors import InputError
from inference_econ.inputs import catalog
from inference_econ.inputs._spec import Bytes, Count, Dtype, SourcedSpec, Spec
from inference_econ.inputs.dtype import family

if TYPE_CHECKING:
    from inference_econ.inputs.engine_specs import EngineVersion
    from inference_econ.inputs.hardware import HardwareSpec
    from inference_econ.inputs.models.model import ModelSpec, Precision

#: Layouts are not asked whether any engine has them: the bound of all.
ANY_LAYOUT = "any"


class ServingEngine(NamedTuple):
    """An engine at a version."""

    name: str
    """Of its file: ``vllm``."""
    facts: EngineVersion
    """Facts of that version."""

    @property
    def label(self) -> str:
        """For people: ``vllm 0.33.0``."""
        return f"{self.name} {self.facts.version}"


def engines_for(
    model: ModelSpec, hardware: HardwareSpec, precision: Precision, wanted: str | None = None
) -> tuple[ServingEngine, ...]:
    """The engines that can serve a model on a chip in some formats.

    Parameters
    ----------
    model : ModelSpec
        What is served.
    hardware : HardwareSpec
        On what.
    precision : Precision
        Formats of weights and cache.
    wanted : str, optional
        ``vllm`` or ``vllm@0.24.0``: only this one; :data:`ANY_LAYOUT`: none is asked. All that are known, at their
        newest version, without.

    Returns
    -------
    tuple of ServingEngine
        Empty where none is known, so that layouts cannot be asked of any.

    Raises
    ------
    InputError
        If the engine that is wanted is unknown, or has no such model, chip or format; with those that have.

    Examples
    --------
    >>> from inference_econ.inputs.models.model import Precision
    >>> model, chip = catalog.model("llama_3_8b"), catalog.hardware("h100_sxm")
    >>> [engine.name for engine in engines_for(model, chip, Precision.of(model))]
    ['sglang', 'trtllm', 'vllm']
    """
    if wanted == ANY_LAYOUT:
        return ()
    able = tuple(engine for engine in known_engines() if lacks(engine, model, hardware, precision) is None)
    if wanted is None:
        return able
    chosen = named(wanted)
    missing = lacks(chosen, model, hardware, precision)
    if missing is not None:
        others = ", ".join(engine.label for engine in able) or "none"
        raise InputError(
            f"--engine {wanted}: {missing}; engines that have {model.name} on {hardware.name} so: {others}",
            option="engine",
        )
    return (chosen,)


def able_of(
    model: ModelSpec, hardware: HardwareSpec, precision: Precision, wanted: Sequence[str]
) -> tuple[tuple[ServingEngine, ...], tuple[str, ...]]:
    """Engines of several that can serve, each once, and why others cannot.

    Parameters
    ----------
    model, hardware, precision
        As of :func:`engines_for`.
    wanted : sequence of str
        ``vllm`` or ``vllm@0.24.0``, at least one.

    Raises
    ------
    InputError
        If none can, with the reason of each; if one of them is unknown, or none is named.
    """
    if not wanted or ANY_LAYOUT in wanted:
        names = ", ".join(wanted) or "none"
        raise InputError(f"engines: got {names}; name one or more, for example 'vllm', or {ANY_LAYOUT!r} by itself")
    engines = {engine.label: engine for engine in map(named, wanted)}.values()
    reasons = [lacks(engine, model, hardware, precision) for engine in engines]
    able = tuple(engine for engine, reason in zip(engines, reasons, strict=True) if reason is None)
    absent = tuple(reason for reason in reasons if reason is not None)
    if not able:
        raise InputError(f"none of {', '.join(wanted)} can serve: {'; '.join(absent)}")
    return able, absent


def serving_adapters(
    engines: Sequence[ServingEngine], model: ModelSpec, hardware: HardwareSpec
) -> tuple[tuple[ServingEngine, ...], tuple[str, ...]]:
    """Engines of several that serve adapters of low rank beside a model, and why others do not.

    Raises
    ------
    InputError
        If none of them does.
    """
    supports = [engine.facts.support(model.architecture, hardware.generation) for engine in engines]
    able = tuple(
        engine for engine, support in zip(engines, supports, strict=True) if support is not None and support.lora
    )
    absent = [engine.label for engine in engines if engine not in able]
    reasons = tuple(f"{label} is not known to serve adapters beside {model.name}" for label in absent)
    if not able:
        raise InputError(f"--loras: {'; '.join(reasons)}; leave --loras out, or take another engine", option="loras")
    return able, reasons


def lacks(engine: ServingEngine, model: ModelSpec, hardware: HardwareSpec, precision: Precision) -> str | None:
    """Support that an engine lacks of a model, a chip and formats, in words; None if it has all of them."""
    facts, generation = engine.facts, hardware.generation
    kernels = facts.kernels_on(generation)
    if kernels is None:
        return f"{engine.label} is not known to run on {hardware.name}"
    if facts.support(model.architecture, generation) is None:
        elsewhere = any(model.architecture in entry.architectures for entry in facts.models)
        where = f" on {hardware.name}" if elsewhere and facts.support(model.architecture, "") is None else ""
        return f"{engine.label} is not known to have {model.name} ({model.architecture or 'no architecture'}){where}"
    for kind, formats, able in (
        ("weights", precision.of_weights, kernels.weights),
        ("a cache", (precision.kv,), kernels.kv),
    ):
        absent = [dtype for dtype in formats if family(dtype) not in able]
        if absent:
            return (
                f"{engine.label} is not known to have kernels for {kind} in {absent[0]} on {hardware.name}; "
                f"it has {', '.join(able)}"
            )
    return None


def run_on(generation: str) -> tuple[ServingEngine, ...]:
    """Return the engines that are known to start some model on a generation of chips."""
    return tuple(engine for engine in known_engines() if engine.facts.kernels_on(generation) is not None)


@cache
def known_engines() -> tuple[ServingEngine, ...]:
    """All engines that say which chips they run on, at their newest version."""
    engines = (ServingEngine(name, catalog.engine(name).at()) for name in catalog.names("engines"))
    return tuple(engine for engine in engines if engine.facts.chips)


def named(wanted: str) -> ServingEngine:
    """An engine as people name it, with a version behind an @.

    Raises
    ------
    InputError
        If there is no such engine, or nothing is known of the version.
    """
    name, _, version = wanted.partition("@")
    names = [engine.name for engine in known_engines()]
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise InputError(
            f"--engine {wanted}: there is no engine {name!r}; known: {', '.join(names)}{hint}", option="engine"
        )
    return ServingEngine(name, catalog.engine(name).at(version or None))


Scalar = bool | int | float | str
#: What an option reads: a value of a type, JSON, or nothing (``flag``).
OptionType = Literal["int", "float", "str", "json", "flag"]
#: What a parsed option has: one value, several, or true where it is a flag.
Parsed = dict[str, Any]


class EngineOption(Spec):
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
    commands: dict[str, list[EngineOption]]
    """Options by command; keys of a file under the name of the command and ``config``."""

    @cached_property
    def _by_name(self) -> dict[str, dict[str, EngineOption]]:
        return {
            command: {name: option for option in options for name in option.names}
            for command, options in self.commands.items()
        }

    def has(self, command: str, name: str) -> bool:
        """Whether a command has an option or a key of that name."""
        return name in self._by_name.get(command, {})

    def option(self, command: str, name: str) -> EngineOption:
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
            read = [option.value(text) for text in ([attached] if sign else _values(option, rest))]
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


def _values(option: EngineOption, rest: list[str]) -> list[str]:
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


@cache
def versions(engine: str) -> tuple[str, ...]:
    """The versions of an engine or load generator whose options are recorded, from the oldest on."""
    stems = (path.stem for path in (catalog.folder("engines") / "options").glob(f"{engine}_*.yaml"))
    numbered = (stem.removeprefix(f"{engine}_") for stem in stems)
    return tuple(sorted(numbered, key=lambda version: [int(part) for part in re.findall(r"\d+", version)]))


@cache
def options(engine: str, version: str | None = None) -> EngineOptions:
    """The options of an engine's or load generator's commands, at a version; the newest recorded one without it.

    Raises
    ------
    InputError
        If nothing is recorded of the engine, or of that version, with the nearest.
    """
    recorded_versions = versions(engine)
    if not recorded_versions:
        raise InputError(f"no options of {engine!r} are recorded; known: {', '.join(recorded())}")
    if version is not None and version not in recorded_versions:
        near = (difflib.get_close_matches(version, recorded_versions, n=1, cutoff=0.0) or recorded_versions[-1:])[0]
        raise InputError(
            f"no options of {engine} {version} are recorded; nearest: {near}; recorded: {', '.join(recorded_versions)}"
        )
    path = catalog.folder("engines") / "options" / f"{engine}_{version or recorded_versions[-1]}.yaml"
    return EngineOptions.from_file(path)


@cache
def recorded() -> tuple[str, ...]:
    """Engines and load generators whose options are recorded."""
    files = (catalog.folder("engines") / "options").glob("*.yaml")
    return tuple(sorted({path.stem.rpartition("_")[0] for path in files}))


@cache
def launch(engine: str) -> EngineLaunch:
    """Facts of the start of an engine.

    Raises
    ------
    InputError
        If nobody knows.
    """
    places = {path.stem: path for path in sorted((catalog.folder("engines") / "launch").glob("*.yaml"))}
    if engine not in places:
        raise InputError(f"nobody knows how to start {engine!r}; known: {', '.join(places)}")
    return EngineLaunch.from_file(places[engine])


class EngineLaunch(SourcedSpec):
    """Facts that are needed to start an engine, besides its options."""

    command: str = Field(min_length=1)
    """The command among :attr:`EngineOptions.commands`."""
    program: tuple[str, ...] = Field(min_length=1, strict=False)
    """Words that come before its options."""
    image: str | None = Field(default=None, min_length=1)
    """Container image, with ``{version}`` where the version goes; absent where none is started by its command."""
    port: Count
    """Where it listens if nothing else is said [1]."""
    health: str = Field(pattern="^/")
    """Path that answers once it is ready."""
    vendors: tuple[str, ...] = Field(min_length=1, strict=False)
    """Vendors of chips that its images run on."""
    caches: dict[Dtype, str]
    """Names that the option for the cache's format has for each format."""
    quantised_on_load: dict[Dtype, str]
    """Names that the option for weights has for each format made of a 16-bit checkpoint while it loads."""
    graph_bytes: Bytes
    """Memory of one captured graph, about [B]."""
