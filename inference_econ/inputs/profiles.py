"""Generations of chips: the fitted assumptions that belong to each under an engine, and the families that are of it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from inference_econ.inputs import catalog
from inference_econ.inputs._spec import Spec

if TYPE_CHECKING:
    from inference_econ.inputs.asks import GridName
    from inference_econ.inputs.assumptions import Assumptions
    from inference_econ.inputs.catalog import Name
    from inference_econ.inputs.hardware import HardwareSpec

#: What goes with the published study's grid.
_STUDY = "paper"
Names = Annotated[tuple[str, ...], Field(min_length=1, strict=False)]


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
def generations() -> Generations:
    """Read the generations that are known, as ``scenarios/assumptions/generations`` has them."""
    return catalog.usual(Generations, "generations")


def name_for(generation: str, engine: str | None = None) -> str:
    """Return the name of the preset for a generation of chips and an engine.

    Parameters
    ----------
    generation : str
        See :attr:`HardwareSpec.generation`.
    engine : str, optional
        vllm, sglang, trtllm, ...; unknown ones count as none.

    Returns
    -------
    str
        The first profile that ``scenarios/assumptions/generations`` has for both; ``deployable`` for generations that
        are unlike all that were measured.

    Examples
    --------
    >>> name_for("hopper", "vllm"), name_for("cdna4"), name_for("tpu")
    ('profiles/vllm_hopper', 'profiles/servers', 'deployable')
    """
    table = generations()
    fitted = (entry.profile for entry in table.profiles if entry.holds(generation, engine))
    return next(fitted, table.otherwise)


def is_bound(preset: str, generation: str) -> bool:
    """Return whether a preset stands in for a profile, as no servers were fitted with such chips, or chips like them.

    Examples
    --------
    >>> is_bound("deployable", "tpu"), is_bound("deployable", "hopper"), is_bound("paper", "tpu")
    (True, False, False)
    """
    return preset == generations().otherwise == name_for(generation)


def generation_of(chip: HardwareSpec) -> str:
    """Return the generation of a chip, as profiles that were fitted to it alone are named; empty if there are none.

    Examples
    --------
    >>> generation_of(catalog.hardware("h200_sxm")), generation_of(catalog.hardware("l4"))
    ('hopper', '')
    """
    alone = any(entry.generations == (chip.generation,) for entry in generations().profiles)
    return chip.generation if alone else ""


def generations_fitted() -> list[str]:
    """Return the generations of chips that some profile is for, sorted."""
    return sorted({name for entry in generations().profiles for name in entry.generations})


def is_fitted_to(engine: str) -> bool:
    """Return whether some profile was fitted to servers of an engine.

    Examples
    --------
    >>> is_fitted_to("vllm"), is_fitted_to("llama_cpp")
    (True, False)
    """
    return any(entry.engine == engine for entry in generations().profiles)


def for_hardware(
    hardware: HardwareSpec | Name, engine: str | None = None, *, changes: Iterable[str] = ()
) -> Assumptions:
    """The fitted assumptions for a chip, and an engine if one is given.

    Parameters
    ----------
    hardware : HardwareSpec, name or path
        The chip.
    engine : str, optional
        vllm, sglang, trtllm, ...; without a profile of its own, that of all engines.
    changes : iterable of str
        What-ifs, ``FIELD=VALUE``.

    Returns
    -------
    Assumptions
        See :func:`name_for`.

    Raises
    ------
    UnknownNameError, SpecError, InputError
        If there is no such chip, or a what-if cannot be used.
    """
    from inference_econ.inputs.hardware import HardwareSpec

    chip = hardware if isinstance(hardware, HardwareSpec) else catalog.hardware(hardware)
    return catalog.assumptions(name_for(chip.generation, engine), changes=changes)


def for_grid(assumptions: Assumptions | Name | None, grid: GridName) -> Assumptions | Name | None:
    """Given assumptions, or those of a grid: ``paper`` with the published study's, nothing with whole numbers.

    Examples
    --------
    >>> for_grid(None, "paper"), for_grid("ideal", "paper"), for_grid(None, "whole")
    ('paper', 'ideal', None)
    """
    return _STUDY if assumptions is None and grid == "paper" else assumptions


def assumed(
    assumptions: Assumptions | Name | None,
    hardware: HardwareSpec | Name,
    engine: str | None = None,
    *,
    changes: Iterable[str] = (),
) -> Assumptions:
    """The assumptions that something is answered under: those asked for, or those that go with the chip.

    Parameters
    ----------
    assumptions : Assumptions, name or path, optional
        What was asked for; without, the profile of the chip's generation (:func:`for_hardware`).
    hardware : HardwareSpec, name or path
        The chip.
    engine : str, optional
        vllm, sglang, trtllm, ...: its profile, unless assumptions are asked for.
    changes : iterable of str
        What-ifs, ``FIELD=VALUE``, of what has a name.

    Returns
    -------
    Assumptions
        With the what-ifs.

    Raises
    ------
    UnknownNameError, SpecError, InputError
        If a name or what-if cannot be used.

    Examples
    --------
    >>> assumed("ideal", "h100_sxm").name, assumed(None, "tpu_v6e").name
    ('ideal', 'deployable')
    """
    from inference_econ.inputs.assumptions import Assumptions

    if assumptions is None:
        return for_hardware(hardware, engine, changes=changes)
    return assumptions if isinstance(assumptions, Assumptions) else catalog.assumptions(assumptions, changes=changes)
