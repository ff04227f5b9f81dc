"""Engines that support a model, a chip and number formats, and the launch options of these engines."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from inference_econ.errors import InputError
from inference_econ.inputs import catalog
from inference_econ.inputs._spec import Bytes, Count, Dtype, Field, SourcedSpec, Spec
from inference_econ.inputs.dtype import family
from inference_econ.inputs.engine_specs import version_order
from inference_econ.inputs.kept import from_file
from inference_econ.inputs.units import integer

if TYPE_CHECKING:
    from inference_econ.inputs.engine_specs import EngineVersion
    from inference_econ.inputs.hardware import HardwareSpec
    from inference_econ.inputs.models.model import ModelSpec, Precision

#: Engine name that allows all layouts, including those that no engine supports. It is used to compute bounds.
ANY_LAYOUT = "any"


class ServingEngine(NamedTuple):
    """Serving engine at one version."""

    name: str
    """Catalog name of the engine: ``vllm``."""
    facts: EngineVersion
    """Facts of the engine at this version."""
    asked: str = ""
    """Version that the query gives; empty if it gives none."""

    @property
    def version(self) -> str:
        """Version that the query gives, for example ``0.25.1``. By default, the version of the facts."""
        return self.asked or self.facts.version

    @property
    def label(self) -> str:
        """Display name: ``vllm 0.33.0``."""
        return f"{self.name} {self.version}"


def engines_for(
    model: ModelSpec, hardware: HardwareSpec, precision: Precision, wanted: str | None = None
) -> tuple[ServingEngine, ...]:
    """Engines that can serve a model on a chip in given formats.

    Parameters
    ----------
    model : ModelSpec
        Model that is served.
    hardware : HardwareSpec
        Chip that runs the model.
    precision : Precision
        Number formats of weights and cache.
    wanted : str, optional
        One engine, ``vllm`` or ``vllm@0.24.0``; by default, all known engines at their newest version.
        :data:`ANY_LAYOUT` selects no engine.

    Returns
    -------
    tuple of ServingEngine
        Engines; empty if no engine is known or selected. If the result is empty, layouts are not checked.

    Raises
    ------
    InputError
        If the wanted engine is unknown, or does not support the model, chip or formats. The message lists engines that
        do.

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
            f"--engine {wanted}: {missing}; engines that serve {model.name} on {hardware.name}: {others}",
            option="engine",
        )
    return (chosen,)


def able_of(
    model: ModelSpec, hardware: HardwareSpec, precision: Precision, wanted: Sequence[str]
) -> tuple[tuple[ServingEngine, ...], tuple[str, ...]]:
    """Engines in ``wanted`` that can serve a model on a chip, and the reasons against each rejected engine.

    Parameters
    ----------
    model, hardware, precision
        As in :func:`engines_for`.
    wanted : sequence of str
        Engine names such as ``vllm`` or ``vllm@0.24.0``, at least one.

    Raises
    ------
    InputError
        If none of these engines can serve the model; the message lists the reasons. If an engine is unknown, or none is
        given.
    """
    if not wanted or ANY_LAYOUT in wanted:
        names = ", ".join(wanted) or "none"
        raise InputError(f"engines: got {names}; name one or more, for example 'vllm', or {ANY_LAYOUT!r} alone")
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
    """Engines that can serve LoRA adapters with a model, and the reasons why other engines cannot.

    Raises
    ------
    InputError
        If none of the engines can serve adapters with the model.
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
    """Reason why an engine cannot serve a model on a chip in the given formats; None if the engine can."""
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
    """Engines that run at least one model on a generation of chips."""
    return tuple(engine for engine in known_engines() if engine.facts.kernels_on(generation) is not None)


@cache
def known_engines() -> tuple[ServingEngine, ...]:
    """All engines whose supported chips are known, at their newest version."""
    engines = (ServingEngine(name, catalog.engine(name).at()) for name in catalog.names("engines"))
    return tuple(engine for engine in engines if engine.facts.chips)


def named(wanted: str) -> ServingEngine:
    """Engine with a name, and optionally a version: ``vllm@0.24.0``.

    Raises
    ------
    InputError
        If the engine or the version is unknown.
    """
    name, _, version = wanted.partition("@")
    names = [engine.name for engine in known_engines()]
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise InputError(
            f"--engine {wanted}: there is no engine {name!r}; known: {', '.join(names)}{hint}", option="engine"
        )
    return ServingEngine(name, catalog.engine(name).at(version or None), version)


Scalar = bool | int | float | str
#: Type of the value of an option; a ``flag`` has no value.
OptionType = Literal["int", "float", "str", "json", "flag"]
#: Values by option: one value, a list of values, or true for a flag.
Parsed = dict[str, Any]


class EngineOption(Spec):
    """Option or positional argument of a command, or key of a configuration file or JSON option."""

    names: tuple[str, ...] = Field(min_length=1, strict=False)
    """Spellings of an option (``--tensor-parallel-size``, ``-tp``); the dotted path of a key; or an argument name.

    The dotted path of a key is for example ``--speculative-config.method``.
    """
    type: OptionType
    """Type of the option's value."""
    choices: tuple[Scalar, ...] | None = Field(default=None, strict=False)
    """Allowed values; None if all values of the type are allowed."""
    nargs: int | str | None = None
    """Number of values in the notation of argparse: an integer, ``+``, ``*`` or ``?``; None for one value."""
    default: Scalar | list[Scalar] | None = None
    """Default value; absent if the default is null or computed at run time."""

    def value(self, text: str) -> Any:
        """Convert a word on the command line to a value of the option.

        Raises
        ------
        InputError
            If the word is invalid for the option.
        """
        try:
            read = _READERS.get(self.type, str)(text)
        except ValueError:
            raise InputError(f"{self.names[0]} {text!r}: {_KINDS[self.type]} is needed") from None
        if self.choices is not None and read not in self.choices:
            raise InputError(f"{self.names[0]} {text!r}: allowed are {', '.join(map(str, self.choices))}")
        return read


_READERS: Mapping[str, Callable[[str], Any]] = {"int": int, "float": float, "json": json.loads}
_KINDS = {"int": "an integer", "float": "a number", "json": "JSON"}


class EngineOptions(SourcedSpec):
    """Commands of an engine or load generator at one version, with all their options."""

    engine: str = Field(min_length=1)
    """``vllm``, ``sglang``, ``trtllm``, or the name of a load generator."""
    version: str = Field(pattern=r"\d")
    """Version of the engine or load generator."""
    date: Annotated[str, Field(pattern=r"^\d{4}(-\d{2}(-\d{2})?)?$")] | None = None
    """Release date; absent if unknown."""
    commands: dict[str, list[EngineOption]]
    """Options by command. The keys of a configuration file are listed under the command followed by ``config``."""

    @cached_property
    def _by_name(self) -> dict[str, dict[str, EngineOption]]:
        return {
            command: {name: option for option in options for name in option.names}
            for command, options in self.commands.items()
        }

    def has(self, command: str, name: str) -> bool:
        """True if a command has an option or key with this name."""
        return name in self._by_name.get(command, {})

    def option(self, command: str, name: str) -> EngineOption:
        """Option of a command, by name.

        Raises
        ------
        InputError
            If the command has no such option; the message lists the most similar names.
        """
        options = self._by_name[command]
        if name not in options:
            near = difflib.get_close_matches(name, list(options), n=2)
            hint = f"; nearest: {', '.join(near)}" if near else ""
            raise InputError(f"{command} of {self.engine} {self.version} has no {name}{hint}")
        return options[name]

    def parse(self, command: str, words: Sequence[str]) -> Parsed:
        """Parse the words after a command as the engine would.

        Parameters
        ----------
        command : str
            A key of :attr:`commands`.
        words : sequence of str
            Options with their values, and positional arguments.

        Returns
        -------
        dict
            Values by option; the key is the first name of the option.

        Raises
        ------
        InputError
            If an option is unknown, lacks a value, or has an invalid one.
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
        """Check the keys and values of a configuration file or JSON option.

        Parameters
        ----------
        command : str
            A key of :attr:`commands`.
        data : dict
            Contents of the file.
        prefix : str
            Prefix of the keys, such as ``--speculative-config.``.

        Raises
        ------
        InputError
            If a key is unknown or its value is invalid. Commands without recorded keys allow all keys.
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
    """Remove the values of an option from the remaining words, and return them."""
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
    """Versions of an engine or load generator whose options are recorded, oldest first."""
    stems = (path.stem for path in (catalog.folder("engines") / "options").glob(f"{engine}_*.yaml"))
    numbered = (stem.removeprefix(f"{engine}_") for stem in stems)
    return tuple(sorted(numbered, key=lambda version: [integer(part) for part in re.findall(r"\d+", version)]))


@cache
def options(engine: str, version: str | None = None) -> EngineOptions:
    """Options of an engine's or load generator's commands at a version; by default the newest recorded one.

    Raises
    ------
    InputError
        If the engine or version is not recorded; the message lists the most similar ones.
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
    return from_file(EngineOptions, path)


def options_at(engine: str, version: str | None) -> EngineOptions:
    """Options of an engine at the newest recorded version up to a version; at the newest of all for None.

    The oldest recorded options are returned for an older version.

    Raises
    ------
    InputError
        If no options of the engine are recorded.
    """
    known = versions(engine)
    older = [entry for entry in known if version is None or version_order(entry) <= version_order(version)]
    return options(engine, (older or known[:1])[-1] if known else None)


@cache
def recorded() -> tuple[str, ...]:
    """Engines and load generators whose options are recorded."""
    files = (catalog.folder("engines") / "options").glob("*.yaml")
    return tuple(sorted({path.stem.rpartition("_")[0] for path in files}))


@cache
def launch(engine: str) -> EngineLaunch:
    """Launch facts of an engine.

    Raises
    ------
    InputError
        If no launch facts of the engine are recorded.
    """
    places = {path.stem: path for path in sorted((catalog.folder("engines") / "launch").glob("*.yaml"))}
    if engine not in places:
        raise InputError(f"the launch of {engine!r} is not known; known engines: {', '.join(places)}")
    return from_file(EngineLaunch, places[engine])


class EngineLaunch(SourcedSpec):
    """Facts that are needed to start an engine, in addition to its options."""

    command: str = Field(min_length=1)
    """Command that starts the server; a key of :attr:`EngineOptions.commands`."""
    program: tuple[str, ...] = Field(min_length=1, strict=False)
    """Words of the command line before the options."""
    image: str | None = Field(default=None, min_length=1)
    """Container image, with ``{version}`` as a placeholder; absent if the engine is started without a container."""
    port: Count
    """Default port [1]."""
    health: str = Field(pattern="^/")
    """URL path of the readiness check."""
    vendors: tuple[str, ...] = Field(min_length=1, strict=False)
    """Vendors of the chips for which container images exist."""
    caches: dict[Dtype, str]
    """Values of the engine's option for the KV-cache format, by number format."""
    quantised_on_load: dict[Dtype, str]
    """Values of the engine's option that quantizes a 16-bit checkpoint when it is loaded, by number format."""
    graph_bytes: Bytes
    """Approximate memory of one captured CUDA graph [B]."""
