"""Economic assumptions: ownership, power, host memory, fleet elasticity, and RL learners."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, NamedTuple

from inference_econ.errors import InputError
from inference_econ.inputs._spec import (
    BytesPerSecond,
    Count,
    Field,
    Fraction,
    Memory,
    Seconds,
    SourcedSpec,
    Spec,
    Watts,
)
from inference_econ.inputs.hardware import HardwareSpec
from inference_econ.inputs.options import rows
from inference_econ.inputs.places import folder

#: Name of GPU memory in lists of memory tiers.
HBM = "HBM"
_Share = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]


class Ownership(SourcedSpec):
    """Terms of owning an accelerator, without its price."""

    lifetime_years: float = Field(gt=0, le=1e3, allow_inf_nan=False)
    """Depreciation period, after which the accelerator has no value [years]."""
    utilisation: Fraction
    """Share of all hours in which the accelerator works [1]."""
    host_watts: float = Field(ge=0, le=1e9, allow_inf_nan=False)
    """Power of the accelerator's share of host and network, drawn at all hours [W]."""
    pue: float = Field(ge=1, le=1e3, allow_inf_nan=False)
    """Power usage effectiveness: power of the facility divided by the power of its servers [1]."""
    dollars_per_kwh: float = Field(ge=0, le=1e9, allow_inf_nan=False)
    """Price of electricity [USD per kWh]."""
    yearly_operations: float = Field(ge=0, le=1e3, allow_inf_nan=False)
    """Yearly operating cost as a share of the purchase price [1]."""
    cost_of_capital: float = Field(ge=0, le=1e3, allow_inf_nan=False)
    """Yearly interest rate [1]."""


class Elasticity(SourcedSpec):
    """Startup time of replicas, autoscaler settings, and interruptions of spot machines."""

    startup_seconds: Seconds
    """Time from the order of a replica until it serves requests; includes machine, image, weights and compilation
    [s]."""
    polling_seconds: float = Field(ge=1, le=3600, allow_inf_nan=False)
    """Polling interval of the autoscaler [s]."""
    tolerance: float = Field(ge=0, lt=1, allow_inf_nan=False)
    """Relative deviation of the metric from its target that the autoscaler ignores [1]."""
    scale_down_seconds: Seconds
    """Stabilization window: a replica that was needed within this time is not removed [s]."""
    interruptions_per_hour: float = Field(ge=0, le=60, allow_inf_nan=False)
    """Interruption rate of a spot machine [1/h]."""
    most_of_peak: float = Field(ge=1, le=1e3, allow_inf_nan=False)
    """Maximum capacity that the autoscaler may order, divided by the target capacity of the busiest hour [1]."""
    spot_share: Fraction
    """Maximum share of spot capacity in a fleet [1]."""


class Learning(SourcedSpec):
    """Assumptions on an RL learner that updates all weights of a model."""

    mfu: float = Field(gt=0, le=1, allow_inf_nan=False)
    """Model FLOPs utilization of the learner, relative to the dense 16-bit peak [1]."""
    flop_per_parameter_and_token: float = Field(gt=0, le=1e3, allow_inf_nan=False)
    """Arithmetic per token and active parameter, forward and backward [FLOP]."""
    state_bytes_per_parameter: float = Field(gt=0, le=1e3, allow_inf_nan=False)
    """Weights, gradients and optimizer state per parameter, summed over all chips of the learner [B]."""


class TierSpec(SourcedSpec):
    """Host memory for the KV cache of one accelerator, which reads it over the host link."""

    bytes_per_accelerator: Memory
    """Capacity for KV cache [B]."""
    read_bytes_per_second: BytesPerSecond | None = None
    """Bandwidth of the memory per accelerator [B/s]; absent if the host link is slower."""
    link_efficiency: Fraction
    """Sustained share of the host link's bandwidth [1]."""
    access: Seconds
    """Latency to the first byte [s]."""


class PowerShares(Spec):
    """Power of a chip when idle, for memory traffic and for arithmetic, as shares of board power.

    The shares for memory and arithmetic apply at their peak rates. If the sum of the shares exceeds 1, the clock is
    reduced. The shares are fitted to measurements of public servers (``data/power.py``).
    """

    chip: str
    """Catalog name of the measured chip. The entry for other generations lists the names of all measured chips."""
    idle: Fraction
    """Share of board power with a model loaded and no kernel running [1]."""
    memory: _Share
    """Additional share with memory traffic at the peak bandwidth [1]."""
    arithmetic: _Share
    """Additional share with arithmetic at the peak of any math unit [1]."""
    rows: Count
    """Number of measurements in the fit [1]."""
    models: Count
    """Number of models in these measurements [1]."""
    median_error: float = Field(gt=0, le=10, allow_inf_nan=False)
    """Median |ln(predicted / measured)| of power for models that the fit did not see [1].

    The entry for other generations has the error for chips that the fit did not see.
    """


class PowerSpec(SourcedSpec):
    """Power assumptions for boards, hosts and links."""

    generations: Mapping[str, PowerShares]
    """Power shares by measured chip generation."""
    otherwise: PowerShares
    """Power shares of all generations without a measured chip."""
    joules_per_link_byte: float = Field(ge=0, le=1, allow_inf_nan=False)
    """Energy to send a byte of a collective over a link [J/B]."""
    clock_exponent: float = Field(ge=1, le=5, allow_inf_nan=False)
    """Exponent of power as a function of the clock.

    Power is proportional to clock**exponent, so the energy per operation is proportional to clock**(exponent - 1) [1].
    """
    host_watts_at_most: Watts
    """Provisioned power of a chip's share of host and network, in addition to board power [W]."""
    rack_host_watts_at_most: Watts
    """Provisioned power of a chip's share of host and network, in racks whose link domain is larger than a machine
    [W]."""

    def shares(self, chip: HardwareSpec) -> PowerShares:
        """Power shares of a chip's generation."""
        return self.generations.get(chip.generation, self.otherwise)


#: Highest accepted carbon intensity; larger values have a wrong unit [g/kWh].
_MOST = 2000.0


class Grid(NamedTuple):
    """Electricity grid of a country, or a carbon intensity that the user gave."""

    name: str
    """Name of the country; ``given`` for a carbon intensity that the user gave."""
    grams_per_kwh: float
    """Life-cycle emissions of generation in CO2 equivalents [g/kWh]."""
    year: str = ""
    """Year of the intensity, which is an annual mean."""
    source: str = ""
    """Key of the reference in ``references.bib``."""

    @property
    def text(self) -> str:
        """Description of the grid in a note."""
        place = f", {self.name} in {self.year} ({self.source})" if self.year else ""
        return f"{self.grams_per_kwh:g} gCO2e/kWh{place}"


@cache
def grids() -> dict[str, Grid]:
    """All known grids by name."""
    table = rows(folder("scenarios") / "measured" / "grids.csv")
    return {row["name"]: Grid(row["name"], float(row["grams_per_kwh"]), row["year"], row["source"]) for row in table}


def grid(text: str) -> Grid:
    """Electricity grid by country, or by carbon intensity.

    Parameters
    ----------
    text : str
        Country (``france``), or CO2 equivalents in g/kWh (``44``).

    Raises
    ------
    InputError
        If the grid is unknown, or the intensity is out of range.

    Examples
    --------
    >>> grid("france").grams_per_kwh, grid("120.5").grams_per_kwh
    (44.0, 120.5)
    """
    name = text.strip().lower().replace(" ", "_")
    if name in grids():
        return grids()[name]
    try:
        grams = float(name)
    except ValueError:
        raise InputError(
            f"unknown grid {text!r}; known: {', '.join(grids())}; or give gCO2e per kWh, for example 120",
            option="carbon",
        ) from None
    if not 0.0 <= grams <= _MOST:
        raise InputError(f"carbon: a grid emits from 0 to {_MOST:g} gCO2e per kWh, got {grams:g}", option="carbon")
    return Grid("given", grams)
