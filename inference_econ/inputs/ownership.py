"""On what terms an accelerator is owned: opinions, beside what its file says of its price and power."""

from __future__ import annotations

from pydantic import Field

from inference_econ.inputs._base import Fraction, SourcedSpec


class Ownership(SourcedSpec):
    """Terms of owning an accelerator, whatever it cost."""

    lifetime_years: float = Field(gt=0, le=1e3, allow_inf_nan=False)
    """Until it is worth nothing [years]."""
    utilisation: Fraction
    """Share of all hours in which it works [1]."""
    host_watts: float = Field(ge=0, le=1e9, allow_inf_nan=False)
    """Power of its share of the host and network, drawn at all hours [W]."""
    pue: float = Field(ge=1, le=1e3, allow_inf_nan=False)
    """Power of the whole building over that of the computers [1]."""
    dollars_per_kwh: float = Field(ge=0, le=1e9, allow_inf_nan=False)
    """Price of electricity [USD per kWh]."""
    yearly_operations: float = Field(ge=0, le=1e3, allow_inf_nan=False)
    """Yearly cost of running it as a share of the purchase price [1]."""
    cost_of_capital: float = Field(ge=0, le=1e3, allow_inf_nan=False)
    """Yearly interest [1]."""
