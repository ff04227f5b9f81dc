"""Operating point of a measured deployment, and the gap between this point and a frontier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from inference_econ._types import Array
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier, ServicePoint
from inference_econ.engine import (
    Instances,
    Interval,
    Pins,
    Plans,
    Setup,
    Subject,
    evaluate,
    interval,
    mfu,
    recorded_key,
)
from inference_econ.errors import InputError
from inference_econ.formulas import money, pareto
from inference_econ.inputs import Requests
from inference_econ.records.plain import attributes
from inference_econ.search import Frontier, Point

#: Largest accepted speed, batch and throughput.
_MOST = 1e9
#: Quantities that describe the load. An observation has exactly one of these quantities.
_FULLNESS = ("utilization", "batch", "throughput")
#: Rounding tolerance [1].
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """Operating point of a deployment under load."""

    accelerators: int
    """Number of GPUs [1]."""
    tokens_per_second_per_user: float
    """Output speed of one user [tokens/s]."""
    batch: float
    """Concurrent sequences on all GPUs [1]; for a service, concurrent requests."""
    throughput: float
    """Output rate of all users [tokens/s]."""
    mfu: float
    """Useful arithmetic divided by the dense peak (MFU) [1]."""
    dollars_per_million_output_tokens: float
    """Cost of output tokens [USD per 1e6 tokens]."""
    instances: int = 1
    """Number of equal instances that share the GPUs [1]."""

    @property
    def instance_accelerators(self) -> int:
        """Number of GPUs of one instance [1]."""
        return self.accelerators // self.instances

    @property
    def instance_batch(self) -> float:
        """Concurrent sequences of one instance [1]."""
        return self.batch / self.instances

    @property
    def seconds(self) -> float:
        """Time per output token of one user [s]."""
        return 1.0 / self.tokens_per_second_per_user


@dataclass(frozen=True, slots=True)
class Observation:
    """Measured speed of a deployment, with one of utilization, batch and throughput.

    Raises
    ------
    InputError
        If not exactly one of utilization, batch and throughput is given, or a number is out of range.
    """

    tokens_per_second: float
    """Output speed of one user [tokens/s]."""
    accelerators: int
    """Number of GPUs [1]."""
    utilization: float | None = None
    """Useful arithmetic divided by the dense peak (MFU) [1].

    Useful arithmetic is the arithmetic for output tokens. For a service, useful arithmetic includes prompts.
    """
    batch: float | None = None
    """Mean number of concurrent sequences on all GPUs [1]; for a service, concurrent requests."""
    throughput: float | None = None
    """Output rate of all GPUs [tokens/s]."""
    instances: int = 1
    """Number of equal instances that share the GPUs [1]."""
    ttft_seconds: float | None = None
    """Mean time to first token [s]; by default, the prediction is used."""

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
        ttft_seconds: float | None = None,
    ) -> Observation:
        """Create an observation. If the speed is missing, it follows from throughput and batch.

        Raises
        ------
        InputError
            If the speed is not given and cannot be derived.
        """
        if tokens_per_second is not None:
            return cls(tokens_per_second, accelerators, utilization, batch, throughput, instances, ttft_seconds)
        if batch is None or throughput is None or utilization is not None:
            raise InputError(
                "how fast is a user served? give tokens_per_second (1 / TPOT), or throughput and batch, whose quotient "
                "it is",
                option="tokens_per_second",
            )
        if not 0.0 < batch <= _MOST:
            raise InputError(f"batch must be positive and at most {_MOST:g}, got {batch:g}", option="batch")
        return cls(throughput / batch, accelerators, batch=batch, instances=instances, ttft_seconds=ttft_seconds)

    def __post_init__(self) -> None:
        measured = [name for name in _FULLNESS if getattr(self, name) is not None]
        if len(measured) != 1:
            got = " and ".join(measured) or "none"
            raise InputError(f"give one of utilization, batch and throughput (the others follow from it), got {got}")
        if self.utilization is not None and not 0.0 < self.utilization <= 1.0:
            raise InputError(f"utilization must be above 0 and at most 1 (0.15 is 15 %), got {self.utilization:g}")
        first = [] if self.ttft_seconds is None else ["ttft_seconds"]
        for name in ("tokens_per_second", *measured, *first):
            if not 0.0 < getattr(self, name) <= _MOST:
                raise InputError(f"{name} must be positive and at most {_MOST:g}, got {getattr(self, name):g}")
        if self.instances != 1 and (self.instances < 1 or self.accelerators % self.instances):
            raise InputError(f"{self.accelerators} accelerators are no {self.instances} equal instances")

    @property
    def instance_accelerators(self) -> int:
        """Number of GPUs of one instance [1]."""
        return self.accelerators if self.instances == 1 else self.accelerators // self.instances

    @property
    def fullness(self) -> tuple[str, float]:
        """Name and value of the observed load: utilization, batch or throughput."""
        return next((name, float(value)) for name in _FULLNESS if (value := getattr(self, name)) is not None)


def instance_count(accelerators: int, pins: Pins) -> int:
    """Number of equal instances on some GPUs [1].

    The number is 1 unless fixed parallelism degrees determine the instance size.

    Raises
    ------
    InputError
        If the GPUs are not a multiple of the instance size.

    Examples
    --------
    >>> instance_count(8, Pins(tp=4)), instance_count(8, Pins(tp=4, dp="any"))
    (2, 1)
    """
    size = pins.size
    if size is None:
        return 1
    if accelerators % size or accelerators < size:
        raise InputError(
            f"{accelerators} GPUs are not a multiple of the instance size {size:g} ({pins.text}); give all GPUs of the "
            "measured deployment, and the degrees or the size of one instance"
        )
    return round(accelerators / size)


def operating_point(setup: Setup, observed: Observation) -> OperatingPoint:
    """Compute the operating point from an observation.

    Parameters
    ----------
    setup : Setup
        Setup, which determines the useful arithmetic per token, the peak and the price.
    observed : Observation
        Speed, GPUs, and one of utilization, batch and throughput.

    Returns
    -------
    OperatingPoint
        Operating point. The throughput is batch x speed, :func:`inference_econ.engine.step.mfu` computes the MFU, and
        the cost follows eq. (2) of Erdil (2025).

    Raises
    ------
    InputError
        If the batch is below 1, or the price is unknown.
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


#: Relative distance within which a point counts as on the frontier [1]. Measurements are not more precise than this.
NEAR = 0.02

Verdict = Literal["behind", "on", "ahead"]


def useful_seconds(setup: Setup, requests: Requests) -> float:
    """Time of the useful arithmetic of one request (prompt and output) on one GPU at its peak rates [s]."""
    reading = replace(setup, context=requests.cached, spread=0.0, shared_prefix=0.0)
    prompt = float(mfu(reading, 1.0, 1.0, 1.0, prompt=requests.new_tokens))
    return prompt + requests.decode_steps * float(mfu(setup, 1.0, 1.0, 1.0))


@dataclass(frozen=True, slots=True)
class SteadyService:
    """Predicted service at a constant concurrency, with the quantities of a measured service."""

    setup: Setup
    """Model, GPU, formats, price and assumptions, at the mean context of the requests."""
    requests: Requests
    """Request lengths."""
    plans: Plans
    """Layout, shape (1,), with the batch of its decode steps."""
    batch: float
    """Concurrent requests [1]."""
    ttft_seconds: float
    """Time to first token [s]."""
    tpot_seconds: float
    """Time per output token after the first [s]."""
    decode_seconds: float
    """Time of a decode step without prefill [s]."""
    requests_per_second: float
    """Completed requests [1/s]."""
    deployed: ServicePoint | None = None
    """Frontier point of the service; None if the service is not a point of a frontier.

    For a disaggregated point, ``plans`` has the layout of decode instances.
    """

    @property
    def accelerators(self) -> float:
        """Number of GPUs of the instance, or of the whole disaggregated deployment [1]."""
        return float(self.plans.accelerators[0]) if self.deployed is None else self.deployed.accelerators

    @property
    def tokens_per_second_per_user(self) -> float:
        """Output speed of one user [tokens/s]."""
        return 1.0 / self.tpot_seconds

    @property
    def throughput(self) -> float:
        """Output rate of the instance [tokens/s]."""
        return self.requests_per_second * self.requests.osl.mean

    @property
    def dollars_per_million_output_tokens(self) -> float:
        """Cost divided by output tokens [USD per 1e6 tokens]."""
        rate = self.setup.dollars_per_accelerator_hour
        return float(money.dollars_per_million_tokens(self.accelerators, 1.0, self.throughput, rate))

    @property
    def mfu(self) -> float:
        """Useful arithmetic of prompts and outputs, divided by the theoretical peak (MFU) [1]."""
        return self.requests_per_second * useful_seconds(self.setup, self.requests) / self.accelerators

    @property
    def layout(self) -> Mapping[str, float | str]:
        """Parallelism degrees by the names of their options."""
        if self.deployed is not None:
            return self.deployed.layout
        return self.setup.layout_record(self.plans, self.setup.assumptions.layout.tensor_layouts[0])

    @property
    def parts(self) -> Mapping[str, float]:
        """Time per token by part: decode step, and prefill of other requests [s]."""
        plans = replace(self.plans, batch=np.maximum(self.plans.batch, self.plans.pp))
        step = evaluate(self.setup, plans, self.setup.assumptions.layout.tensor_layouts[0])
        # The steady state is interpolated, so the parts are scaled to its decode time.
        scale = self.decode_seconds / float(step.seconds[0])
        decode = {name: scale * float(seconds[0]) for name, seconds in step.parts.items()}
        return {**decode, "prompts": self.tpot_seconds - self.decode_seconds}

    def record(self) -> dict[str, object]:
        """Return the service as plain data for JSON."""
        return {
            **attributes(self, "tokens_per_second_per_user dollars_per_million_output_tokens accelerators batch"),
            "layout": dict(self.layout),
            **attributes(self, "mfu ttft_seconds tpot_seconds requests_per_second"),
            "seconds_per_token": dict(self.parts),
        }


#: Deployment that a measured point is compared with: a decode step of an instance, or a service.
ComparedPoint = Point | SteadyService


@dataclass(frozen=True, slots=True)
class Gap:
    """Comparison of the measured point with one frontier."""

    measured: OperatingPoint
    """Measured operating point."""
    setup: Setup
    """Setup of the frontier; it has the assumptions of the fitted profile or of the ideal bound."""
    frontier: Frontier | ServiceFrontier
    """Frontier that the measured point is compared with. The search included the measured batch or concurrency."""
    speeds: Array
    """Speeds of the frontier's points, shape (n,) [tokens/s]."""
    dollars: Array
    """Costs of the frontier's points, shape (n,) [USD per 1e6 tokens]."""
    faster: ComparedPoint | None
    """Fastest deployment of the frontier at the measured cost or below; None if no deployment is as cheap."""
    cheaper: ComparedPoint | None
    """Cheapest deployment of the frontier at the measured speed or above; None if no deployment is as fast."""
    on_it_seconds: float
    """Time per output token at which the measured deployment would be on the frontier, with its GPUs and batch [s]."""
    subject: Subject
    """The measured deployment."""

    def instances(self, deployment: ComparedPoint) -> Instances:
        """Describe a deployment of the frontier as instances, for a comparison with measured servers."""
        size, load, key = deployment.accelerators, deployment.batch, recorded_key(deployment.layout)
        return Instances(self.setup, [size], [load], self.subject.isl, self.subject.osl, layouts=[key])

    @property
    def speed_factor(self) -> float | None:
        """Frontier speed divided by measured speed, at equal cost [1]; None if no deployment is as cheap."""
        if self.faster is None:
            return None
        return self.faster.tokens_per_second_per_user / self.measured.tokens_per_second_per_user

    @property
    def cost_factor(self) -> float | None:
        """Measured cost divided by frontier cost, at equal speed [1]; None if no deployment is as fast."""
        if self.cheaper is None:
            return None
        return self.measured.dollars_per_million_output_tokens / self.cheaper.dollars_per_million_output_tokens

    @property
    def tokens_per_second_lost(self) -> float | None:
        """Frontier speed minus measured speed, at equal cost [tokens/s]; negative if the measured point is better."""
        if self.faster is None:
            return None
        return self.faster.tokens_per_second_per_user - self.measured.tokens_per_second_per_user

    @property
    def dollars_lost(self) -> float | None:
        """Measured cost minus frontier cost, at equal speed [USD per 1e6 tokens].

        The difference is negative if the measured point is better.
        """
        if self.cheaper is None:
            return None
        return self.measured.dollars_per_million_output_tokens - self.cheaper.dollars_per_million_output_tokens

    @property
    def seconds(self) -> float:
        """Measured time per output token minus the time on the frontier with the same GPUs and batch [s]."""
        return self.measured.seconds - self.on_it_seconds

    @property
    def likely_seconds(self) -> Interval | None:
        """80% interval of the predicted time per output token on the frontier [s]; None without an error estimate."""
        return interval(self.on_it_seconds, self.setup.assumptions, subjects=[self.subject])

    @property
    def certain(self) -> bool | None:
        """True if the measured time is outside the 80% interval of the frontier; None without an error estimate."""
        likely = self.likely_seconds
        return None if likely is None else not likely.low <= self.measured.seconds <= likely.high

    @property
    def verdict(self) -> Verdict:
        """Position of the measured point relative to the frontier: ``behind``, ``on`` (within 2%) or ``ahead``."""
        # Both factors are above 1, or both factors are below 1.
        most = max(self.speed_factor or 0.0, self.cost_factor or 0.0)
        if most > 1.0 + NEAR:
            return "behind"
        return "on" if most >= 1.0 - NEAR else "ahead"


@dataclass(frozen=True, slots=True)
class StepPart:
    """One part of the decode step of the measured deployment."""

    name: str
    """Name of the part: an entry of :data:`inference_econ.engine.step.PARTS`, or ``unexplained``."""
    seconds: float
    """Time of the part under the fitted profile [s].

    The unexplained time is the measured time minus all other parts; it may be negative.
    """
    ideal_seconds: float
    """Time of the part in the ideal step, with the same GPUs and batch [s]."""

    def closes(self, gap: Gap) -> float:
        """Share of a gap that would disappear if this part alone took its ideal time [1]; 0 without a gap."""
        if gap.seconds <= 0.0:
            return 0.0
        return min(max(self.seconds - self.ideal_seconds, 0.0) / gap.seconds, 1.0)


@dataclass(frozen=True, slots=True)
class Shortage:
    """Memory that is missing for the measured batch."""

    batch: float
    """Measured number of sequences [1]."""
    needed_bytes: float
    """Memory for weights and KV cache in the layout that comes closest to fitting [B]."""
    available_bytes: float
    """Available memory in the layout that comes closest to fitting [B]."""
    most: int
    """Number of sequences that fit in the layout that comes closest to fitting [1]."""


def compared_parts(parts: Mapping[str, float], ideal: Mapping[str, float], unexplained: float) -> tuple[StepPart, ...]:
    """Parts of a predicted step with their ideal times, the largest first; the unexplained time is last [s]."""
    shown = [
        StepPart(name, seconds, ideal[name])
        for name, seconds in sorted(parts.items(), key=lambda item: -item[1])
        if seconds > 0.0 or ideal[name] > 0.0
    ]
    return (*shown, StepPart("unexplained", unexplained, 0.0))


def gap(
    measured: OperatingPoint,
    setup: Setup,
    front: Frontier | ServiceFrontier,
    curve: tuple[Array, Array],
    point: Callable[[int], ComparedPoint],
    subject: Subject,
) -> Gap:
    """Compare the measured point with a frontier.

    Parameters
    ----------
    measured : OperatingPoint
        Measured operating point.
    setup : Setup
        Setup of the frontier.
    front : Frontier or ServiceFrontier
        Frontier.
    curve : tuple of ndarray, shape (n,)
        Speeds of the frontier [tokens/s], ascending, and their costs [USD per 1e6 tokens].
    point : callable
        Function that returns the deployment at an index of the frontier.
    subject : Subject
        The measured deployment.
    """
    speeds, costs = curve
    speed, dollars = measured.tokens_per_second_per_user, measured.dollars_per_million_output_tokens
    as_cheap = np.flatnonzero(costs <= dollars * (1.0 + ROUNDING))
    as_fast = np.flatnonzero(speeds >= speed * (1.0 - ROUNDING))
    faster = point(int(as_cheap[-1])) if as_cheap.size else None
    cheaper = point(int(as_fast[0])) if as_fast.size else None
    # If GPUs and batch are constant, cost is proportional to time.
    on_it = pareto.ceiling(1.0 / speeds[::-1], costs[::-1], dollars * speed)
    return Gap(measured, setup, front, speeds, costs, faster, cheaper, float(on_it), subject)
