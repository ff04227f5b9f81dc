"""Opinions about what is paid for: terms of owning chips, how replicas come and go, and what a learner takes."""

from __future__ import annotations

from pydantic import Field

from inference_econ.inputs._base import Fraction, Seconds, SourcedSpec


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
