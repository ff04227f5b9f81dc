"""Starts of engines by name: what their commands have for options, and what it takes besides."""

from __future__ import annotations

import difflib
import re
from functools import cache

from pydantic import Field

from inference_econ.errors import InputError
from inference_econ.inputs import _yaml, catalog
from inference_econ.inputs._base import Bytes, Count, Dtype, SourcedSpec
from inference_econ.inputs.engine_options import EngineOptions


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
    return EngineOptions.from_document(_yaml.read(path))


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
    return EngineLaunch.from_document(_yaml.read(places[engine]))


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
