"""Which fitted assumptions belong to a chip and an engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from inference_econ.inputs import catalog

if TYPE_CHECKING:
    from inference_econ.inputs.asks import GridName
    from inference_econ.inputs.assumptions import Assumptions
    from inference_econ.inputs.catalog import Name
    from inference_econ.inputs.hardware import HardwareSpec

#: Generations of chips that there are profiles for, by :attr:`HardwareSpec.family`.
_GENERATIONS: Mapping[str, str] = {
    "a100": "ampere",
    "h100": "hopper",
    "h200": "hopper",
    "h800": "hopper",
    "h20": "hopper",
    "blackwell": "blackwell",
    "cdna3": "cdna3",
}
#: Engines with kernels of their own, and the only families that these run on: there their profile comes before that of
#: the generation, which was fitted to other engines.
_OWN_KERNELS: Mapping[str, tuple[str, ...]] = {"atom": ("cdna3", "cdna4")}
#: Chips that the same engines run on, without enough measurements of their own generation. What is measured on CDNA 4
#: is nearer to the constants of all other chips than to those of CDNA 3: see its rows in docs/validation.md.
_ALIKE = ("cdna4", "ada", "ampere_workstation", "blackwell_geforce", "v100")
#: Fitted to all engines and generations together.
_ALL = "profiles/servers"
_FALLBACK = "deployable"
#: What goes with the published study's grid.
_STUDY = "paper"


def name_for(family: str, engine: str | None = None) -> str:
    """The preset for a family of chips and an engine.

    Parameters
    ----------
    family : str
        See :attr:`HardwareSpec.family`.
    engine : str, optional
        vllm, sglang, trtllm, ...; unknown ones count as none.

    Returns
    -------
    str
        The first that there is: that of an engine with kernels of its own for the family, of engine and generation, of
        the generation, of the engine, of all engines and generations. Chips that are unlike all that were measured get
        ``deployable``.

    Examples
    --------
    >>> name_for("h100", "vllm"), name_for("cdna4"), name_for("tpu")
    ('profiles/vllm_hopper', 'profiles/servers', 'deployable')
    """
    generation, known = generation_of(family), catalog.names("assumptions")
    # Whatever runs ATOM on another chip has other kernels: the name says nothing there.
    if family not in _OWN_KERNELS.get(engine or "", (family,)):
        engine = None
    wanted = [f"profiles/{engine}_{generation}", f"profiles/{generation}"]
    if engine in _OWN_KERNELS:
        wanted.insert(0, f"profiles/{engine}")
    if generation or family in _ALIKE:
        wanted += [f"profiles/{engine}", _ALL]
    return next((name for name in wanted if name in known), _FALLBACK)


def is_bound(preset: str, family: str) -> bool:
    """Whether a preset stands in for a profile, as no servers were fitted with such chips, or with chips like them.

    Examples
    --------
    >>> is_bound("deployable", "tpu"), is_bound("deployable", "h20"), is_bound("paper", "tpu")
    (True, False, False)
    """
    return preset == _FALLBACK == name_for(family)


def generation_of(family: str) -> str:
    """The generation of a family of chips, as profiles are named; empty if there are none for it.

    Examples
    --------
    >>> generation_of("h200"), generation_of("tpu")
    ('hopper', '')
    """
    return _GENERATIONS.get(family, "")


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
    return catalog.assumptions(name_for(chip.family, engine), changes=changes)


def for_grid(assumptions: Assumptions | Name | None, grid: GridName) -> Assumptions | Name | None:
    """What was asked for, or what goes with a grid: ``paper`` with the published study's, nothing with whole numbers.

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
