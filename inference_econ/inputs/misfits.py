"""Measured servers that are known to be far from what is predicted of them."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from pydantic import Field

from inference_econ.inputs._base import Count
from inference_econ.inputs._spec import Spec


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
    from inference_econ.inputs import _yaml, catalog

    path = catalog.folder("scenarios") / "measured" / "misfits.yaml"
    return Misfits.from_document(_yaml.read(path)).series


def misfits_of(model: str, hardware: str) -> tuple[Misfit, ...]:
    """The series of a model on a chip, by the names that are printed of both."""
    from inference_econ.inputs import catalog

    return tuple(
        misfit
        for misfit in known_misfits()
        if catalog.hardware(misfit.hardware).name == hardware and catalog.model(misfit.model).name == model
    )
