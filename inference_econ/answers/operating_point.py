"""Where a deployment was measured: speed and cost, from a speed and one more number."""

from __future__ import annotations

from dataclasses import dataclass

from inference_econ.engine import Setup, mfu
from inference_econ.errors import InputError
from inference_econ.formulas import money

#: Larger speeds, batches and throughputs are typing errors.
_MOST = 1e9
#: What says how full a deployment is: one of them.
_FULLNESS = ("utilization", "batch", "throughput")
#: Rounding [1].
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """What a deployment does.

    Attributes
    ----------
    accelerators : int
        Chips of the deployment [1].
    tokens_per_second_per_user : float
        Speed [tokens/s].
    batch : float
        Sequences served at the same time [1].
    throughput : float
        Output tokens of the deployment [tokens/s].
    mfu : float
        Useful arithmetic over the dense peak [1].
    dollars_per_million_output_tokens : float
        Cost [USD per 1e6 tokens].
    """

    accelerators: int
    tokens_per_second_per_user: float
    batch: float
    throughput: float
    mfu: float
    dollars_per_million_output_tokens: float

    @property
    def seconds(self) -> float:
        """Time per output token of a user [s]."""
        return 1.0 / self.tokens_per_second_per_user


@dataclass(frozen=True, slots=True)
class Observation:
    """What was observed of a deployment: how fast it is, and one number that says how full it is.

    Attributes
    ----------
    tokens_per_second : float
        Speed of one user [tokens/s].
    accelerators : int
        Chips of the deployment [1].
    utilization : float, optional
        Useful arithmetic over the dense peak (MFU) [1].
    batch : float, optional
        Sequences served at the same time, on average [1].
    throughput : float, optional
        Output tokens of the deployment [tokens/s].

    Raises
    ------
    InputError
        If not exactly one of the last three is given, or a number cannot be.
    """

    tokens_per_second: float
    accelerators: int
    utilization: float | None = None
    batch: float | None = None
    throughput: float | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        known = [name for name in _FULLNESS if getattr(self, name) is not None]
        if len(known) != 1:
            got = " and ".join(known) or "none"
            raise InputError(f"give one of utilization, batch and throughput (the others follow from it), got {got}")
        if self.utilization is not None and not 0.0 < self.utilization <= 1.0:
            raise InputError(f"utilization must be above 0 and at most 1 (0.15 is 15 %), got {self.utilization:g}")
        for name in ("tokens_per_second", *known):
            if not 0.0 < getattr(self, name) <= _MOST:
                raise InputError(f"{name} must be positive and at most {_MOST:g}, got {getattr(self, name):g}")


def operating_point(setup: Setup, observed: Observation) -> OperatingPoint:
    """All of an operating point from what was observed of it.

    Parameters
    ----------
    setup : Setup
        What, on what, how: decides the useful arithmetic of a token, the peak that it is held against, and the price.
    observed : Observation
        Speed, chips, and utilisation, batch or throughput.

    Returns
    -------
    OperatingPoint
        throughput = batch x speed; MFU by :func:`inference_econ.engine.step.mfu`; dollars by eq. (2) of Erdil (2025).

    Raises
    ------
    InputError
        If less than one sequence would be served, or nobody knows the price.
    """
    accelerators, tokens_per_second = observed.accelerators, observed.tokens_per_second
    name, value = next((name, float(value)) for name in _FULLNESS if (value := getattr(observed, name)) is not None)
    one = float(mfu(setup, accelerators, 1.0, 1.0 / tokens_per_second))
    sequences = {"utilization": value / one, "batch": value, "throughput": value / tokens_per_second}[name]
    if sequences < 1.0 - _ROUNDING:
        raise InputError(
            f"{name}={value:g} at {tokens_per_second:g} tokens/s per user on {accelerators} x {setup.hardware.name} "
            f"means a batch of {sequences:.2g}, less than one sequence; a batch of 1 has a throughput of "
            f"{tokens_per_second:g} tokens/s and a utilization of {one:.2g}"
        )
    dollars = money.dollars_per_million_tokens(
        accelerators, 1.0 / tokens_per_second, sequences, setup.dollars_per_accelerator_hour
    )
    return OperatingPoint(
        accelerators, tokens_per_second, sequences, sequences * tokens_per_second, one * sequences, float(dollars)
    )
