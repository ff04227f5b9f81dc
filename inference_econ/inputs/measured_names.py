"""How people, and measurements, write the names of models, chips and engines."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from inference_econ.inputs._base import Spec

Spellings = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)]


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
    own_step_room: int
    """Prompt tokens of a step in such runs, beyond one prompt and, but for SGLang, a token of each request [tokens]."""
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
    engines: dict[str, Spellings]
    """Engine to the texts that give it away, the engine to look for first first."""
