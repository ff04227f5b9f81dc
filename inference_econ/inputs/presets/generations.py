"""Generations of chips: the profiles that were fitted to each, and the families that are of it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from inference_econ.inputs import places
from inference_econ.inputs._spec import Names, Spec

if TYPE_CHECKING:
    from inference_econ.inputs.hardware import HardwareSpec


class FittedProfile(Spec):
    """A preset that was fitted to servers, and the chips that take it."""

    profile: str = Field(min_length=1)
    """Name of the preset."""
    engine: str | None = None
    """Only where this engine is meant; any, or none, without."""
    generations: Names
    """Generations of the chips (:attr:`HardwareSpec.generation`)."""

    def holds(self, generation: str, engine: str | None) -> bool:
        """Return whether chips of a generation take the profile under an engine."""
        return generation in self.generations and self.engine in (None, engine)


class Generations(Spec):
    """Fitted profiles by generation and engine, and the families of each generation."""

    name: str = Field(min_length=1)
    """Name that readers know it by."""
    profiles: Annotated[tuple[FittedProfile, ...], Field(min_length=1, strict=False)]
    """The first that holds is taken."""
    otherwise: str = Field(min_length=1)
    """Preset of chips that no profile is for."""
    families: dict[str, Names] = Field(default={})
    """Families of a generation (:attr:`HardwareSpec.family`), the first for chips of others; its own name without."""

    def family(self, chip: HardwareSpec) -> str:
        """Return the family whose recipes and exceptions a chip has: its own if that is known, or the first there."""
        families = self.families.get(chip.generation, (chip.generation,))
        return chip.family if chip.family in families else families[0]


@cache
def usual() -> Generations:
    """Read the generations that are known, as ``scenarios/assumptions/generations`` has them."""
    return Generations.from_file(places.folder("assumptions") / "generations" / "usual.yaml")
