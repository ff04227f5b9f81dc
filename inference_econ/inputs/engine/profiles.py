"""Choice of the fitted profile for a chip and an engine."""

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

#: Preset of the published study's grid.
_STUDY = "paper"


def name_for(generation: str, engine: str | None = None) -> str:
    """Name of the preset for a chip generation and an engine.

    Parameters
    ----------
    generation : str
        See :attr:`HardwareSpec.generation`.
    engine : str, optional
        vllm, sglang, trtllm, ...; unknown engines are treated as none.

    Returns
    -------
    str
        The first profile in ``scenarios/assumptions/generations`` for both; ``deployable`` if there is none.

    Examples
    --------
    >>> name_for("hopper", "vllm"), name_for("cdna4"), name_for("tpu")
    ('profiles/vllm_hopper', 'profiles/servers', 'deployable')
    """
    table = generations.usual()
    fitted = (entry.profile for entry in table.profiles if entry.holds(generation, engine))
    return next(fitted, table.otherwise)


def is_bound(preset: str, generation: str) -> bool:
    """True if a preset replaces a missing profile, because no server with such or similar chips was fitted.

    Examples
    --------
    >>> is_bound("deployable", "tpu"), is_bound("deployable", "hopper"), is_bound("paper", "tpu")
    (True, False, False)
    """
    return preset == generations.usual().otherwise == name_for(generation)


def generation_of(chip: HardwareSpec) -> str:
    """Generation of a chip, as in the names of profiles fitted to it alone; empty if there are none.

    Examples
    --------
    >>> generation_of(catalog.hardware("h200_sxm")), generation_of(catalog.hardware("l4"))
    ('hopper', '')
    """
    alone = any(entry.generations == (chip.generation,) for entry in generations.usual().profiles)
    return chip.generation if alone else ""


def generations_fitted() -> list[str]:
    """Sorted chip generations with a profile."""
    return sorted({name for entry in generations.usual().profiles for name in entry.generations})


def is_fitted_to(engine: str) -> bool:
    """True if some profile was fitted to servers of an engine.

    Examples
    --------
    >>> is_fitted_to("vllm"), is_fitted_to("llama_cpp")
    (True, False)
    """
    return any(entry.engine == engine for entry in generations.usual().profiles)


def for_hardware(
    hardware: HardwareSpec | Name, engine: str | None = None, *, changes: Iterable[str] = ()
) -> Assumptions:
    """Fitted assumptions for a chip, and an engine if given.

    Parameters
    ----------
    hardware : HardwareSpec, name or path
        The chip.
    engine : str, optional
        vllm, sglang, trtllm, ...; without its own profile, that of all engines is used.
    changes : iterable of str
        What-ifs, ``FIELD=VALUE``.

    Returns
    -------
    Assumptions
        See :func:`name_for`.

    Raises
    ------
    UnknownNameError, SpecError, InputError
        If there is no such chip, or a what-if is invalid.
    """
    from inference_econ.inputs.hardware import HardwareSpec

    chip = hardware if isinstance(hardware, HardwareSpec) else catalog.hardware(hardware)
    return catalog.assumptions(name_for(chip.generation, engine), changes=changes)


def for_grid(assumptions: Assumptions | Name | None, grid: GridName) -> Assumptions | Name | None:
    """Given assumptions, or the default of a grid: ``paper`` for the published study's, None for integers.

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
    """Given assumptions, or the default profile of a chip.

    Parameters
    ----------
    assumptions : Assumptions, name or path, optional
        Assumptions; by default the profile of the chip's generation (:func:`for_hardware`).
    hardware : HardwareSpec, name or path
        The chip.
    engine : str, optional
        vllm, sglang, trtllm, ...: its profile, unless assumptions are given.
    changes : iterable of str
        What-ifs on named inputs, ``FIELD=VALUE``.

    Returns
    -------
    Assumptions
        Assumptions with the what-ifs.

    Raises
    ------
    UnknownNameError, SpecError, InputError
        If a name or what-if is invalid.

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
    """Outlier series of measurements: an engine with a model on a chip."""

    engine: str = Field(min_length=1)
    """Catalog name of the engine."""
    model: str = Field(min_length=1)
    """Catalog name of the model."""
    hardware: str = Field(min_length=1)
    """Catalog name of the chip."""
    factor: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]
    """Median of measured over predicted time per output token [1]."""
    rows: Count
    """Number of measurements [1]."""
    cached: bool = False
    """True if prompts were probably cached, which the measurements do not record; no correction is then fitted."""
    why: str = Field(min_length=1)
    """Observation in words."""


class Misfits(Spec):
    """All known outlier series."""

    series: Annotated[tuple[Misfit, ...], Field(strict=False)]
    """Series in any order."""


@cache
def known_misfits() -> tuple[Misfit, ...]:
    """Series of ``scenarios/measured/misfits.yaml``.

    Examples
    --------
    >>> all(misfit.factor > 0 for misfit in known_misfits())
    True
    """
    return Misfits.from_file(catalog.folder("scenarios") / "measured" / "misfits.yaml").series


def misfits_of(model: str, hardware: str) -> tuple[Misfit, ...]:
    """Outlier series of a model on a chip, by display names."""
    return tuple(
        misfit
        for misfit in known_misfits()
        if catalog.hardware(misfit.hardware).name == hardware and catalog.model(misfit.model).name == model
    )
