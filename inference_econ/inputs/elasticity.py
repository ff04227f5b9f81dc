"""Opinions of how replicas of a fleet come and go: of autoscalers, start-up and spot machines."""

from __future__ import annotations

from pydantic import Field

from inference_econ.inputs._base import Fraction, Seconds, SourcedSpec


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
