"""How people, and measurements, write the names of models, chips and engines."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from inference_econ.inputs._base import Count, Spec

Spellings = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)]


class OwnRuns(Spec):
    """How a collection launched the engine of its own runs, from some version on."""

    engine: str = Field(min_length=1)
    """Name in the catalogue."""
    version: str | None = None
    """First version; all before the next entry without it."""
    step_room: Count
    """Prompt tokens of a step beyond one prompt and, but for SGLang, a token of each request [tokens]."""
    prefill_first: bool = False
    """Prompts come before decoding; otherwise they are read beside it."""
    single_prompts: bool = False
    """A step reads one prompt of models without experts, whatever room it has."""


class MeasuredNames(Spec):
    """Spellings found in measurements, by the name that the catalogue has for the same thing."""

    models: dict[str, Spellings]
    """Catalogue name of a model to its other names."""
    hardware: dict[str, Spellings]
    """Catalogue name of a chip to its other names."""
    plain_hardware: Spellings
    """Catalogue names of chips that people mean where they leave the board open, though there are others."""
    within_source: dict[str, dict[str, str]]
    """Source to what a name of hardware means there, as a catalogue name."""
    checkpoints: dict[str, dict[str, str]]
    """Model to number format to the model's file for checkpoints of that format."""
    formats: dict[str, dict[str, str]]
    """Model to number format to the one that its makers mean by that word."""
    kv_formats: dict[str, dict[str, str]]
    """Model to engine and chip to the format of the KV cache in the own runs of a collection which does not record
    it."""
    own_runs: Annotated[tuple[OwnRuns, ...], Field(strict=False)]
    """How such runs were launched, by engine, from the oldest version on."""
    prefill_first: Spellings
    """Engines, or versions of them by their beginning, that read all prompts before they go on decoding."""
    compiled: Spellings
    """Engines, or versions of them by their beginning, whose models are compiled as a whole."""
    eager: Spellings
    """Sources whose engines launched the kernels of decode steps one by one, without graphs."""
    even_routing: Spellings
    """Sources, or single rows, whose tokens were spread over experts evenly by force."""
    two_batch: Spellings
    """Sources whose engines let two halves of a batch take turns, which none does by itself."""
    redundant_experts: dict[str, int]
    """Copies of experts that the deployments of a source hold, where that is recorded [1]."""
    equal_lengths: Spellings
    """Sources whose requests are all equally long."""
    unversioned: Spellings
    """Texts that give an engine away, and after which the number is that of a library below it."""
    engines: dict[str, Spellings]
    """Engine to the texts that give it away, the engine to look for first first."""
