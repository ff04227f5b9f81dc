"""Chip generations: the chip families of each generation, and the profiles that were fitted to each generation."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated

from inference_econ.inputs import places
from inference_econ.inputs._spec import Field, Names, Spec
from inference_econ.inputs.kept import from_file

if TYPE_CHECKING:
    from inference_econ.inputs.hardware import HardwareSpec


class FittedProfile(Spec):
    """Preset that was fitted to measured servers, with the chips and the engine for which it is valid."""

    profile: str = Field(min_length=1)
    """Catalog name of the preset."""
    engine: str | None = None
    """Engine for which the preset is valid; absent for all engines."""
    generations: Names
    """Chip generations for which the preset is valid (:attr:`HardwareSpec.generation`)."""

    def holds(self, generation: str, engine: str | None) -> bool:
        """True if the preset is valid for an engine on a chip generation."""
        return generation in self.generations and self.engine in (None, engine)


class Generations(Spec):
    """Table of the profiles and chip families of each generation."""

    name: str = Field(min_length=1)
    """Display name."""
    profiles: Annotated[tuple[FittedProfile, ...], Field(min_length=1, strict=False)]
    """Fitted profiles. The first valid profile is used."""
    otherwise: str = Field(min_length=1)
    """Preset for chips without a fitted profile."""
    families: dict[str, Names] = Field(default={})
    """Families of each generation (:attr:`HardwareSpec.family`).

    A chip of an unknown family is treated like the first family of its generation. A generation that is not listed has
    one family, with the name of the generation.
    """

    def family(self, chip: HardwareSpec) -> str:
        """Family of a chip. For an unknown family, the result is the first family of the chip's generation.

        Recipes and exceptions of assumptions for this family are valid for the chip.
        """
        families = self.families.get(chip.generation, (chip.generation,))
        return chip.family if chip.family in families else families[0]


@cache
def usual() -> Generations:
    """Read the table of generations in ``scenarios/assumptions/generations``."""
    return from_file(Generations, places.folder("assumptions") / "generations" / "usual.yaml")
