"""Where a deployment was measured: speed and cost, from a speed and one more number."""

from __future__ import annotations

from dataclasses import dataclass

from inference_econ.engine import Pins, Setup, mfu
from inference_econ.errors import InputError
from inference_econ.formulas import money

#: Larger speeds, batches and throughputs are typing errors.
_MOST = 1e9
#: What says how full a deployment is: one of them.
_FULLNESS = ("utilization", "batch", "throughput")
#: Rounding [1].
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """State of a deployment under a load.

    Attributes
    ----------
    accelerators : int
        All chips [1].
    tokens_per_second_per_user : float
        Speed [tokens/s].
    batch : float
        Sequences served at the same time by all of them [1]; of a service its requests in flight.
    throughput : float
        Output tokens of all [tokens/s].
    mfu : float
        Useful arithmetic over the dense peak [1].
    dollars_per_million_output_tokens : float
        Cost [USD per 1e6 tokens].
    instances : int
        Equal instances that these chips are [1].
    """

    accelerators: int
    tokens_per_second_per_user: float
    batch: float
    throughput: float
    mfu: float
    dollars_per_million_output_tokens: float
    instances: int = 1

    @property
    def instance_accelerators(self) -> int:
        """Chips of one instance [1]."""
        return self.accelerators // self.instances

    @property
    def instance_batch(self) -> float:
        """Sequences that one instance serves at the same time [1]."""
        return self.batch / self.instances

    @property
    def seconds(self) -> float:
        """Time per output token of a user [s]."""
        return 1.0 / self.tokens_per_second_per_user


@dataclass(frozen=True, slots=True)
class Observation:
    """Observation of a deployment: how fast it is, and one number that says how full it is.

    Attributes
    ----------
    tokens_per_second : float
        Speed of one user [tokens/s].
    accelerators : int
        All chips of what was measured [1].
    utilization : float, optional
        Useful arithmetic over the dense peak (MFU) [1]: of output tokens, and of a service of its prompts too.
    batch : float, optional
        Sequences served at the same time by all chips, on average [1]: of a service its requests in flight.
    throughput : float, optional
        Output tokens of all chips [tokens/s].
    instances : int
        Equal instances that the chips are [1].

    Raises
    ------
    InputError
        If not exactly one of utilization, batch and throughput is given, or a number cannot be.
    """

    tokens_per_second: float
    accelerators: int
    utilization: float | None = None
    batch: float | None = None
    throughput: float | None = None
    instances: int = 1

    @classmethod
    def of(
        cls,
        accelerators: int,
        *,
        tokens_per_second: float | None = None,
        utilization: float | None = None,
        batch: float | None = None,
        throughput: float | None = None,
        instances: int = 1,
    ) -> Observation:
        """An observation whose speed may follow from throughput and batch together; see the class.

        Raises
        ------
        InputError
            If the speed is not given and does not follow.
        """
        if tokens_per_second is not None:
            return cls(tokens_per_second, accelerators, utilization, batch, throughput, instances)
        if batch is None or throughput is None or utilization is not None:
            raise InputError(
                "how fast is a user served? give tokens_per_second (1 / TPOT), or throughput and batch, whose quotient "
                "it is",
                option="tokens_per_second",
            )
        if not 0.0 < batch <= _MOST:
            raise InputError(f"batch must be positive and at most {_MOST:g}, got {batch:g}", option="batch")
        return cls(throughput / batch, accelerators, batch=batch, instances=instances)

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        measured = [name for name in _FULLNESS if getattr(self, name) is not None]
        if len(measured) != 1:
            got = " and ".join(measured) or "none"
            raise InputError(f"give one of utilization, batch and throughput (the others follow from it), got {got}")
        if self.utilization is not None and not 0.0 < self.utilization <= 1.0:
            raise InputError(f"utilization must be above 0 and at most 1 (0.15 is 15 %), got {self.utilization:g}")
        for name in ("tokens_per_second", *measured):
            if not 0.0 < getattr(self, name) <= _MOST:
                raise InputError(f"{name} must be positive and at most {_MOST:g}, got {getattr(self, name):g}")
        if self.instances != 1 and (self.instances < 1 or self.accelerators % self.instances):
            raise InputError(f"{self.accelerators} accelerators are no {self.instances} equal instances")

    @property
    def instance_accelerators(self) -> int:
        """Chips of one instance [1]."""
        return self.accelerators if self.instances == 1 else self.accelerators // self.instances

    @property
    def fullness(self) -> tuple[str, float]:
        """Quantity that says how full the deployment is, and its number."""
        return next((name, float(value)) for name in _FULLNESS if (value := getattr(self, name)) is not None)


def instances_of(accelerators: int, pins: Pins) -> int:
    """Equal instances that some chips are [1]: one, unless what is pinned decides the size.

    Raises
    ------
    InputError
        If they are no whole number of them.

    Examples
    --------
    >>> instances_of(8, Pins(tp=4)), instances_of(8, Pins(tp=4, dp="any"))
    (2, 1)
    """
    size = pins.size
    if size is None:
        return 1
    if accelerators % size or accelerators < size:
        raise InputError(
            f"{accelerators} GPUs are no whole number of instances of {size:g} ({pins.text}); give all chips of what "
            "was measured, and the degrees or the size of one instance"
        )
    return round(accelerators / size)


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
    name, value = observed.fullness
    single = float(mfu(setup, accelerators, 1.0, 1.0 / tokens_per_second))
    sequences = {"utilization": value / single, "batch": value, "throughput": value / tokens_per_second}[name]
    least = observed.instances
    if sequences < least * (1.0 - ROUNDING):
        every = " for every instance" if least > 1 else ""
        raise InputError(
            f"{name}={value:g} at {tokens_per_second:g} tokens/s per user on {accelerators} x {setup.hardware.name} "
            f"means a batch of {sequences:.2g}, less than one sequence{every}; a batch of {least} has a throughput of "
            f"{least * tokens_per_second:g} tokens/s and a utilization of {least * single:.2g}"
        )
    dollars = money.dollars_per_million_tokens(
        accelerators, 1.0 / tokens_per_second, sequences, setup.dollars_per_accelerator_hour
    )
    throughput, useful = sequences * tokens_per_second, single * sequences
    return OperatingPoint(
        accelerators, tokens_per_second, sequences, throughput, useful, float(dollars), observed.instances
    )
