"""Power of chips and the machines around them: opinions, beside the board power of a chip's file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from inference_econ.inputs._base import Count, Fraction, SourcedSpec, Spec, Watts
from inference_econ.inputs.hardware import HardwareSpec

_Share = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]


class PowerShares(Spec):
    """Power of a chip at its peaks, over its board power: parts may add up to more, which the clock then keeps it from.

    Fitted to rows of public servers (``data/power.py``).
    """

    chip: str
    """Of the catalogue: the one whose servers were measured; for any other, all of them."""
    idle: Fraction
    """With a model loaded, and no kernel running [1]."""
    memory: _Share
    """Of memory traffic at the peak bandwidth [1]."""
    arithmetic: _Share
    """Of arithmetic at the peak of its maths unit, whichever format that has [1]."""
    rows: Count
    """Rows that they were fitted to [1]."""
    models: Count
    """Models that these are of [1]."""
    median_error: float = Field(gt=0, le=10, allow_inf_nan=False)
    """Median |ln(predicted / measured)| of power of rows whose model was left out; of other chips, whose chip [1]."""


class PowerSpec(SourcedSpec):
    """Power of boards, and of what is around them."""

    generations: Mapping[str, PowerShares]
    """By generation of chips, those that were measured."""
    otherwise: PowerShares
    """Of any other generation."""
    joules_per_link_byte: float = Field(ge=0, le=1, allow_inf_nan=False)
    """Energy to send a byte of a collective over a link [J/B]."""
    clock_exponent: float = Field(ge=1, le=5, allow_inf_nan=False)
    """Power of energy per operation and clock together: energy per operation goes with the clock to this less 1 [1]."""
    host_watts_at_most: Watts
    """Of a chip's share of host and network, which is provisioned like the chip itself up to here [W]."""
    rack_host_watts_at_most: Watts
    """Power of the host per accelerator in racks whose chips share one link domain of more than a machine [W]."""

    def shares(self, chip: HardwareSpec) -> PowerShares:
        """Power of a chip's generation, or of any other."""
        return self.generations.get(chip.generation, self.otherwise)
