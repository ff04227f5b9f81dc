"""Chip generations: the profiles fitted to each, and their families."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from inference_econ.inputs import places
from inference_econ.inputs._spec import Names, Spec

if TYPE_CHECKING:
    from inference_econ.inputs.hardware import HardwareSpec


class FittedProfile(Spec):
    """Preset that was fitted to servers, and the chips that it applies to."""

    profile: str = Field(min_length=1)
    """Name of the preset."""
    engine: str | None = None
    """Engine that it applies to; any if absent."""
    generations: Names
    """Generations of the chips (:attr:`HardwareSpec.generation`)."""

    def holds(self, generation: str, engine: str | None) -> bool:
        """True if the profile applies to a chip generation under an engine."""
        return generation in self.generations and self.engine in (None, engine)


class Generations(Spec):
    """Fitted profiles by generation and engine, and the families of each generation."""

    name: str = Field(min_length=1)
    """Display name."""
    profiles: Annotated[tuple[FittedProfile, ...], Field(min_length=1, strict=False)]
    """Profiles; the first that applies is used."""
    otherwise: str = Field(min_length=1)
    """Preset of chips without a profile."""
    families: dict[str, Names] = Field(default={})
    """Families of a generation (:attr:`HardwareSpec.family`), the first for chips of unknown families; by default the
    generation's name."""

    def family(self, chip: HardwareSpec) -> str:
        """Family whose recipes and exceptions apply to a chip: its own if known, else the first of its generation."""
        families = self.families.get(chip.generation, (chip.generation,))
        return chip.family if chip.family in families else families[0]


@cache
def usual() -> Generations:
    """Known generations, from ``scenarios/assumptions/generations``."""
    return Generations.from_file(places.folder("assumptions") / "generations" / "usual.yaml")
