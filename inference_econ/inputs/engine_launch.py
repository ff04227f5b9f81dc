"""Start of an engine: its program and image, and what its options call number formats."""

from __future__ import annotations

from pydantic import Field

from inference_econ.inputs._base import Bytes, Count, Dtype, SourcedSpec


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
