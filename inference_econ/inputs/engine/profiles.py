"""Which fitted assumptions belong to a chip and an engine."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from inference_econ.inputs import catalog
from inference_econ.inputs._spec import Count, Spec
from inference_econ.inputs.presets import generations

if TYPE_CHECKING:
    from inference_econ.inputs.catalog import Name
    from inference_econ.inputs.hardware import HardwareSpec
    from inference_econ.inputs.presets.assumptions import Assumptions
    from inference_econ.inputs.scenario_kinds import GridName

#: What goes with the published study's grid.
_STUDY = "paper"


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
    table = generations.usual()
    fitted = (entry.profile for entry in table.profiles if entry.holds(generation, engine))
    return next(fitted, table.otherwise)


def is_bound(preset: str, generation: str) -> bool:
    """Return whether a preset stands in for a profile, as no servers were fitted with such chips, or chips like them.

    Examples
    --------
    >>> is_bound("deployable", "tpu"), is_bound("deployable", "hopper"), is_bound("paper", "tpu")
    (True, False, False)
    """
    return preset == generations.usual().otherwise == name_for(generation)


def generation_of(chip: HardwareSpec) -> str:
    """Return the generation of a chip, as profiles that were fitted to it alone are named; empty if there are none.

    Examples
    --------
    >>> generation_of(catalog.hardware("h200_sxm")), generation_of(catalog.hardware("l4"))
    ('hopper', '')
    """
    alone = any(entry.generations == (chip.generation,) for entry in generations.usual().profiles)
    return chip.generation if alone else ""


def generations_fitted() -> list[str]:
    """Return the generations of chips that some profile is for, sorted."""
    return sorted({name for entry in generations.usual().profiles for name in entry.generations})


def is_fitted_to(engine: str) -> bool:
    """Return whether some profile was fitted to servers of an engine.

    Examples
    --------
    >>> is_fitted_to("vllm"), is_fitted_to("llama_cpp")
    (True, False)
    """
    return any(entry.engine == engine for entry in generations.usual().profiles)


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
    from inference_econ.inputs.presets.assumptions import Assumptions

    if assumptions is None:
        return for_hardware(hardware, engine, changes=changes)
    return assumptions if isinstance(assumptions, Assumptions) else catalog.assumptions(assumptions, changes=changes)


class Misfit(Spec):
    """One series of measurements: an engine with a model on a chip."""

    engine: str = Field(min_length=1)
    """Name in the catalogue."""
    model: str = Field(min_length=1)
    """Name in the catalogue."""
    hardware: str = Field(min_length=1)
    """Name in the catalogue."""
    factor: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]
    """Measured over predicted time per output token, the median of the series [1]."""
    rows: Count
    """Measurements of the series [1]."""
    cached: bool = False
    """Prompts were probably found in a cache, which no row says: no level is fitted to the series."""
    why: str = Field(min_length=1)
    """Observation in words."""


class Misfits(Spec):
    """All series that are known."""

    series: Annotated[tuple[Misfit, ...], Field(strict=False)]
    """In no order."""


@cache
def known_misfits() -> tuple[Misfit, ...]:
    """Every series of ``scenarios/measured/misfits.yaml``.

    Examples
    --------
    >>> [misfit.factor for misfit in known_misfits() if misfit.model == "minimax_m2_5"]
    [1.46]
    """
    return Misfits.from_file(catalog.folder("scenarios") / "measured" / "misfits.yaml").series


def misfits_of(model: str, hardware: str) -> tuple[Misfit, ...]:
    """The series of a model on a chip, by the names that are printed of both."""
    return tuple(
        misfit
        for misfit in known_misfits()
        if catalog.hardware(misfit.hardware).name == hardware and catalog.model(misfit.model).name == model
    )
