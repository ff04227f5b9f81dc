"""Chip generations, with the profiles fitted to each and the families that belong to it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from inference_econ.inputs import places
from inference_econ.inputs._spec import Names, Spec

if TYPE_CHECKING:
    from inference_econ.inputs.hardware import HardwareSpec


class FittedProfile(Spec):
    """Preset that was fitted to measured servers, with the chips and the engine to which it applies."""

    profile: str = Field(min_length=1)
    """Name of the preset."""
    engine: str | None = None
    """Engine to which the preset applies; absent for any engine."""
    generations: Names
    """Chip generations to which the preset applies (:attr:`HardwareSpec.generation`)."""

    def holds(self, generation: str, engine: str | None) -> bool:
        """True if the profile applies to an engine on a chip generation."""
        return generation in self.generations and self.engine in (None, engine)


class Generations(Spec):
    """Table of fitted profiles and chip families, by generation."""

    name: str = Field(min_length=1)
    """Display name."""
    profiles: Annotated[tuple[FittedProfile, ...], Field(min_length=1, strict=False)]
    """Fitted profiles. The first one that applies is used."""
    otherwise: str = Field(min_length=1)
    """Preset for chips to which no profile applies."""
    families: dict[str, Names] = Field(default={})
    """Families of each generation (:attr:`HardwareSpec.family`). The first one is used for chips of unknown families.
    By default, the only family has the name of the generation."""

    def family(self, chip: HardwareSpec) -> str:
        """Family of a chip, whose recipes and exceptions apply: its own if known, else the first of its generation."""
        families = self.families.get(chip.generation, (chip.generation,))
        return chip.family if chip.family in families else families[0]


@cache
def usual() -> Generations:
    """Table in ``scenarios/assumptions/generations``."""
    return Generations.from_file(places.folder("assumptions") / "generations" / "usual.yaml")
