"""Which serving engines have a model, a chip and number formats: what may be started at all."""

from __future__ import annotations

import difflib
import functools
from typing import TYPE_CHECKING, NamedTuple

from inference_econ.errors import InputError
from inference_econ.inputs import catalog
from inference_econ.inputs.dtype import family

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inference_econ.inputs.engines import EngineVersion
    from inference_econ.inputs.hardware import HardwareSpec
    from inference_econ.inputs.model import ModelSpec
    from inference_econ.inputs.precision import Precision

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
    >>> from inference_econ.inputs.precision import Precision
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


@functools.cache
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
