"""Selection of the fitted profile for a chip and an engine."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Annotated

from inference_econ.inputs import catalog
from inference_econ.inputs._spec import Count, Field, Spec
from inference_econ.inputs.kept import from_file
from inference_econ.inputs.presets import generations

if TYPE_CHECKING:
    from inference_econ.inputs.catalog import Name
    from inference_econ.inputs.hardware import HardwareSpec
    from inference_econ.inputs.presets.assumptions import Assumptions
    from inference_econ.inputs.scenario_kinds import GridName

#: Preset for the grid of the published study.
_STUDY = "paper"


def name_for(generation: str, engine: str | None = None) -> str:
    """Name of the preset for a chip generation and an engine.

    Parameters
    ----------
    generation : str
        See :attr:`HardwareSpec.generation`.
    engine : str, optional
        vllm, sglang, trtllm, ...; the name of an unknown engine is ignored.

    Returns
    -------
    str
        Name of the first profile in ``scenarios/assumptions/generations`` that matches the generation and the engine;
        ``deployable`` if no profile matches.

    Examples
    --------
    >>> name_for("hopper", "vllm"), name_for("cdna4"), name_for("tpu")
    ('profiles/vllm_hopper', 'profiles/servers', 'deployable')
    """
    table = generations.usual()
    fitted = (entry.profile for entry in table.profiles if entry.holds(generation, engine))
    return next(fitted, table.otherwise)


def is_bound(preset: str, generation: str) -> bool:
    """True if ``preset`` is the default only because no profile was fitted to a generation of chips.

    Examples
    --------
    >>> is_bound("deployable", "tpu"), is_bound("deployable", "hopper"), is_bound("paper", "tpu")
    (True, False, False)
    """
    return preset == generations.usual().otherwise == name_for(generation)


def generation_of(chip: HardwareSpec) -> str:
    """Generation of a chip, if a profile was fitted to measurements of this generation only; empty otherwise.

    Examples
    --------
    >>> generation_of(catalog.hardware("h200_sxm")), generation_of(catalog.hardware("l4"))
    ('hopper', '')
    """
    alone = any(entry.generations == (chip.generation,) for entry in generations.usual().profiles)
    return chip.generation if alone else ""


def generations_fitted() -> list[str]:
    """Chip generations with a fitted profile, sorted."""
    return sorted({name for entry in generations.usual().profiles for name in entry.generations})


def is_fitted_to(engine: str) -> bool:
    """True if a profile was fitted to servers of the engine.

    Examples
    --------
    >>> is_fitted_to("vllm"), is_fitted_to("llama_cpp")
    (True, False)
    """
    return any(entry.engine == engine for entry in generations.usual().profiles)


def for_hardware(
    hardware: HardwareSpec | Name, engine: str | None = None, *, changes: Iterable[str] = ()
) -> Assumptions:
    """Fitted assumptions for a chip, and optionally for an engine.

    Parameters
    ----------
    hardware : HardwareSpec, name or path
        The chip.
    engine : str, optional
        vllm, sglang, trtllm, ...; an engine without its own profile uses the profile of all engines.
    changes : iterable of str
        Fields to override, ``FIELD=VALUE``.

    Returns
    -------
    Assumptions
        Profile that :func:`name_for` selects, with the changed fields.

    Raises
    ------
    UnknownNameError, SpecError, InputError
        If the chip is unknown, or a change is invalid.
    """
    from inference_econ.inputs.hardware import HardwareSpec

    chip = hardware if isinstance(hardware, HardwareSpec) else catalog.hardware(hardware)
    return catalog.assumptions(name_for(chip.generation, engine), changes=changes)


def for_grid(assumptions: Assumptions | Name | None, grid: GridName) -> Assumptions | Name | None:
    """Return the given assumptions, or else the default for a grid of parallelism degrees.

    The default is ``paper`` for the grid of the published study. For the grid of integers the default is None, and each
    chip has its own default.

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
    """Return the given assumptions, or else the default profile of a chip, with changed fields.

    Parameters
    ----------
    assumptions : Assumptions, name or path, optional
        Assumptions; by default the profile of the chip's generation (:func:`for_hardware`).
    hardware : HardwareSpec, name or path
        The chip.
    engine : str, optional
        vllm, sglang, trtllm, ...: engine whose profile is used if no assumptions are given.
    changes : iterable of str
        Fields to override, ``FIELD=VALUE``; ignored if ``assumptions`` is an :class:`Assumptions` object.

    Returns
    -------
    Assumptions
        Assumptions with the changed fields.

    Raises
    ------
    UnknownNameError, SpecError, InputError
        If a name or a change is invalid.

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
    """Outliers: measurements of an engine with a model on a chip that no profile predicts well."""

    engine: str = Field(min_length=1)
    """Catalog name of the engine."""
    model: str = Field(min_length=1)
    """Catalog name of the model."""
    hardware: str = Field(min_length=1)
    """Catalog name of the chip."""
    version: str = ""
    """Engine version of the measurements; empty if the measurements do not record the version."""
    factor: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]
    """Median of measured time per output token divided by predicted time [1]."""
    rows: Count
    """Number of measurements [1]."""
    why: str = Field(min_length=1)
    """Explanation of the outliers, as text."""


class Misfits(Spec):
    """All known groups of outliers."""

    series: Annotated[tuple[Misfit, ...], Field(strict=False)]
    """Groups of outliers, in any order."""


@cache
def known_misfits() -> tuple[Misfit, ...]:
    """Groups of outliers that ``scenarios/measured/misfits.yaml`` lists.

    Examples
    --------
    >>> all(misfit.factor > 0 for misfit in known_misfits())
    True
    """
    return from_file(Misfits, catalog.folder("scenarios") / "measured" / "misfits.yaml").series


def misfits_of(model: str, hardware: str) -> tuple[Misfit, ...]:
    """Groups of outliers of a model on a chip. The arguments are display names."""
    return tuple(
        misfit
        for misfit in known_misfits()
        if catalog.hardware(misfit.hardware).name == hardware and catalog.model(misfit.model).name == model
    )
