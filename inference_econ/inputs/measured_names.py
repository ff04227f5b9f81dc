"""Names that people, and measurements, write for models, chips and engines."""

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
    checkpoints: dict[str, dict[str, str]]
    """Model to number format to the model's file for checkpoints of that format."""
    formats: dict[str, dict[str, str]]
    """Model to number format to the one that its makers mean by that word."""
    prefill_first: Spellings
    """Engines, or versions of them by their beginning, that read all prompts before they go on decoding."""
    compiled: Spellings
    """Engines, or versions of them by their beginning, whose models are compiled as a whole."""
    unversioned: Spellings
    """Texts that give an engine away, and after which the number is that of a library below it."""
    engines: dict[str, Spellings]
    """Engine to the texts that give it away, the engine to look for first first."""
