"""Which deployments are tried."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

from inference_econ.engine.layouts.pins import Pins
from inference_econ.errors import InputError
from inference_econ.inputs import GridName


@dataclass(frozen=True, slots=True)
class Space:
    """Which deployments are tried.

    Attributes
    ----------
    pins : Pins
        Degrees that all of them have.
    max_accelerators : float or None
        Largest instance [1]; by default 64, or four times the smallest.
    pipeline : bool
        Try pipeline depths other than 1.
    grid : {'whole', 'paper'}
        Whole-number instances and layouts, or the published study's logarithmic grid.

    Raises
    ------
    InputError
        If there is no such grid, or the largest instance is not positive.
    """

    pins: Pins = field(default_factory=Pins)
    max_accelerators: float | None = None
    pipeline: bool = True
    grid: GridName = "whole"

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if self.grid not in get_args(GridName):
            raise InputError(f"grid: got {self.grid!r}; allowed: {', '.join(sorted(get_args(GridName), reverse=True))}")
        if self.max_accelerators is not None and not self.max_accelerators > 0:
            raise InputError(f"max_accelerators must be positive, got {self.max_accelerators:g}")
