"""Uncertainty scenarios: compared series whose inputs are distributions."""

from __future__ import annotations

from typing import Annotated, Literal

from inference_econ.extras.uncertainty.distributions import Distribution, UncertainInput
from inference_econ.inputs._spec import Field, Spec
from inference_econ.inputs.scenario_kinds import Positive, Series, Settings

#: Name of the input for prediction errors, the ratio of measured to predicted times.
PROFILE = "profile"
#: Fewest and most samples of a design [1].
_LEAST, _MOST = 16, 2**20


class UncertainSeries(Series):
    """Compared series, with separate uncertain inputs."""

    inputs: dict[str, UncertainInput] = Field(default_factory=dict)
    """Uncertain inputs of this series only, independent of other series."""


class UncertaintyAsk(Spec):
    """Scenario that computes cost and speed of series whose inputs are distributions."""

    kind: Literal["uncertainty"]
    """Kind of scenario."""
    common: Settings = Field(default_factory=Settings)
    """Settings of all series."""
    series: Annotated[tuple[UncertainSeries, ...], Field(min_length=1, strict=False)]
    """Compared series."""
    inputs: dict[str, UncertainInput] = Field(default_factory=dict)
    """Distributions of inputs that all series share, by name.

    Names are those of numeric settings (``price``, ``hardware.hbm_bytes_per_second``), or ``profile``.
    """
    speed: Positive | None = None
    """User speed at which series are compared [tokens/s]; by default, a round number that all series reach."""
    samples: Annotated[int, Field(ge=_LEAST, le=_MOST)] | None = None
    """Number of points of the quasi-Monte-Carlo design, a power of two [1]. The default is 4,096 points, or 256 points
    if each sample requires a new frontier.
    """
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Seed of the scrambling."""

    def _check_fields(self) -> None:
        if not self.inputs and not any(series.inputs for series in self.series):
            raise ValueError(
                "nothing is uncertain; add inputs, for example 'price: {distribution: lognorm, s: 0.2, relative: true}'"
            )
        if self.samples is not None and self.samples & (self.samples - 1):
            below = 1 << (self.samples.bit_length() - 1)
            raise ValueError(f"samples must be a power of two, {below} or {2 * below}, got {self.samples}")
        for series in self.series:
            twice = sorted(self.inputs.keys() & series.inputs.keys())
            if twice:
                raise ValueError(
                    f"{twice[0]} has two distributions in {series.label!r}: its own, and that of all series"
                )
            chosen = series.settings.model_fields_set | {c.partition("=")[0] for c in series.settings.changes}
            absolute = (n for n, value in self.inputs.items() if isinstance(value, Distribution) and not value.relative)
            name = min(chosen.intersection(absolute), default=None)
            if name is not None:
                raise ValueError(
                    f"{name} has a distribution for all series, and series {series.label!r} sets it itself; make the "
                    "distribution relative, or move it into the inputs of the series"
                )
        for inputs in (self.inputs, *(series.inputs for series in self.series)):
            for key, value in inputs.items():
                _check(key, value)


def _check(name: str, value: UncertainInput) -> None:
    """Reject distributions that are invalid for the named input."""
    if not isinstance(value, Distribution):
        if name != PROFILE:
            raise ValueError(f"{name}: only {PROFILE} has held_out errors; give {name} a distribution")
        return
    if name == PROFILE and not value.relative:
        raise ValueError(f"{name}: a distribution of it is one of measured over predicted times; add relative: true")
    if name == "acceptance" and not value.relative and value.support[1] > 1.0:
        raise ValueError(
            f"{name}: {value.words} reaches {value.support[1]:g}, and a probability is 1 at most; set high: 1"
        )
