"""Opinions beside presets: terms of owning chips, their power, memory of hosts, replicas that come and go, learners."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, NamedTuple

from pydantic import Field

from inference_econ.errors import InputError
from inference_econ.inputs._spec import BytesPerSecond, Count, Fraction, Memory, Seconds, SourcedSpec, Spec, Watts
from inference_econ.inputs.hardware import HardwareSpec
from inference_econ.inputs.places import folder

_Share = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]


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


class Elasticity(SourcedSpec):
    """Times in which replicas start, how an autoscaler looks at them, and how often spot machines are taken away."""

    startup_seconds: Seconds
    """From the order of a replica until it serves: machine, image, weights, compilation [s]."""
    polling_seconds: float = Field(ge=1, le=3600, allow_inf_nan=False)
    """Between two looks of an autoscaler [s]."""
    tolerance: float = Field(ge=0, lt=1, allow_inf_nan=False)
    """Share by which its metric may be off its target before it acts [1]."""
    scale_down_seconds: Seconds
    """It removes no replica that it wanted within this time [s]."""
    interruptions_per_hour: float = Field(ge=0, le=60, allow_inf_nan=False)
    """Interruptions of a spot machine in an hour [1/h]."""
    most_of_peak: float = Field(ge=1, le=1e3, allow_inf_nan=False)
    """Capacity that an autoscaler may order, over what the busiest hour needs at its target [1]."""
    spot_share: Fraction
    """Share of the capacity that may be spot [1]."""


class Learning(SourcedSpec):
    """A learner that updates all weights of a model with trajectories."""

    mfu: float = Field(gt=0, le=1, allow_inf_nan=False)
    """Share of the dense 16-bit peak that it computes with, Model FLOP Utilisation [1]."""
    flop_per_parameter_and_token: float = Field(gt=0, le=1e3, allow_inf_nan=False)
    """For each parameter that a token uses, forwards and backwards [FLOP]."""
    state_bytes_per_parameter: float = Field(gt=0, le=1e3, allow_inf_nan=False)
    """Weights, gradients and the state of the optimiser, over all chips of the learner [B]."""


class TierSpec(SourcedSpec):
    """One kind of memory of the hosts, by accelerator. All of it is read over the link to the host."""

    bytes_per_accelerator: Memory
    """Capacity for caches [B]."""
    read_bytes_per_second: BytesPerSecond | None = None
    """Bandwidth of the memory itself to each accelerator [B/s]; absent if the link to the host is slower."""
    link_efficiency: Fraction
    """Sustained share of the link to the host [1]."""
    access: Seconds
    """From asking to the first byte [s]."""


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


#: More than any power station emits is a slip of the unit [g/kWh].
_MOST = 2000.0


class Grid(NamedTuple):
    """Electricity of a country, or with an intensity of one's own."""

    name: str
    """Of the country; ``given`` if a number was."""
    grams_per_kwh: float
    """Life-cycle emissions of its generation, CO2 equivalents [g/kWh]."""
    year: str = ""
    """Of which the intensity is the mean."""
    source: str = ""
    """Reference: a key of ``references.bib``."""

    @property
    def text(self) -> str:
        """The grid in words."""
        place = f", {self.name} in {self.year} ({self.source})" if self.year else ""
        return f"{self.grams_per_kwh:g} gCO2e/kWh{place}"


@cache
def grids() -> dict[str, Grid]:
    """Every grid that is known, by name."""
    import csv

    with (folder("scenarios") / "measured" / "grids.csv").open(encoding="utf-8", newline="") as file:
        return {
            row["name"]: Grid(row["name"], float(row["grams_per_kwh"]), row["year"], row["source"])
            for row in csv.DictReader(file)
        }


def grid(text: str) -> Grid:
    """A grid by name, or by its carbon intensity.

    Parameters
    ----------
    text : str
        ``france``, or grams of CO2 equivalents per kWh, ``44``.

    Raises
    ------
    InputError
        If there is no such grid, or no electricity emits so much.

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
