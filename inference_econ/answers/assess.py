"""Compare a measured deployment with predicted services, or with decode steps if request lengths are unknown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from inference_econ._answer import Shown
from inference_econ._types import Array, Progress
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier, ServicePoint, service_frontier
from inference_econ.answers.deployments.serving_options import Candidate, market
from inference_econ.answers.layout_services import decode_frontier, make_grid, offer
from inference_econ.engine import (
    ContinuousLayouts,
    InstanceGrid,
    Instances,
    Interval,
    Pins,
    Plans,
    Setup,
    Space,
    Subject,
    asked_subject,
    bounds,
    evaluate,
    interval,
    memory,
    mfu,
    recorded_key,
)
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import money, pareto
from inference_econ.inputs import Assumptions, Quantity, Requests, Traffic, catalog
from inference_econ.records.deviations import calibration_record
from inference_econ.records.facts import HEAD, facts, without_unknown_costs
from inference_econ.records.plain import attributes
from inference_econ.records.sources import priced_sources, source_records
from inference_econ.search import Frontier, Point, compute, every_plan
from inference_econ.serving import Service, Services, layouts

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


class RunPrediction(NamedTuple):
    """Prediction of a recorded benchmark run, as ``validate`` makes it: same load, engine version and statistic."""

    assumptions: Assumptions
    """Profile of the measured engine."""
    tpot_seconds: float
    """Time per output token [s]."""
    tpot_likely: Interval | None
    """80% interval of the time per output token [s]; None without an error estimate."""
    ttft_seconds: float
    """Time to first token [s]."""
    ttft_likely: Interval | None
    """80% interval of the time to first token [s]; None without an error estimate."""


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
    """Time to first token, mean or median [s]; by default, the prediction is used."""
    run: RunPrediction | None = None
    """Prediction of the run; by default, the prediction of the steady state at the measured concurrency."""

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


#: Verdict on a measured latency, compared with the predicted latency.
Expected = Literal["faster", "as expected", "slower"]


def _expected(seconds: float, likely: Interval) -> Expected:
    """Compare a measured latency [s] with the interval of its prediction [s]."""
    if seconds > likely.high:
        return "slower"
    return "as expected" if seconds >= likely.low else "faster"


@dataclass(frozen=True, slots=True, repr=False)
class Assessment(Shown):
    """Comparison of a measured deployment with predicted Pareto frontiers and with the ideal hardware bound."""

    page = "report.questions.assess:AssessmentPage"

    setup: Setup
    """Model, GPU, formats, price and fitted assumptions of the comparison."""
    requests: Requests | None
    """Request lengths of the measured service; None if only its decode steps are compared."""
    measured: OperatingPoint
    """Measured operating point: GPUs, speed, batch, throughput and cost."""
    anywhere: Gap
    """Gap between the measured point and deployments of any number of GPUs, under the fitted profile."""
    same_size: Gap
    """Gap between the measured point and deployments with the same number of GPUs, under the fitted profile."""
    ideal: Gap
    """Gap between the measured point and the ``ideal`` bound with the same number of GPUs."""
    predicted: ComparedPoint | None
    """Prediction for the measured GPUs, batch and layout. The fastest layout is used if the layout is not given.

    The value is None if decode steps are compared and the batch does not fit.
    """
    tried: int
    """Number of layouts from which ``predicted`` was selected [1]."""
    parts: tuple[StepPart, ...]
    """Parts of the measured time per output token: predicted step, prefill of other requests, and unexplained time."""
    shortage: Shortage | None
    """Missing memory, if the measured number of concurrent requests does not fit in the predicted layout; else None."""
    ttft_seconds: float | None = None
    """Measured time to first token, mean or median [s]; None if unknown, and for decode steps."""
    run: RunPrediction | None = None
    """Prediction of the measured run; None if the prediction is a steady state."""

    def subjects(self) -> tuple[Instances]:
        """The measured deployment."""
        subject = self.anywhere.subject
        assert subject.accelerators is not None and subject.concurrency is not None
        layouts = [] if self.predicted is None else [recorded_key(self.predicted.layout)]
        size, load = [subject.accelerators], [subject.concurrency]
        return (Instances(self.setup, size, load, subject.isl, subject.osl, layouts=layouts),)

    def _likely(self, seconds: float, quantity: Quantity) -> Interval | None:
        """80% interval of a predicted time [s]; None without an error estimate."""
        factors = bounds.around(*self.subjects(), quantity)
        return None if factors is None else Interval(seconds * factors.low, seconds * factors.high)

    @property
    def likely_seconds(self) -> Interval | None:
        """80% interval of the predicted time per token [s]; None without an error estimate."""
        if self.run is not None:
            return self.run.tpot_likely
        return None if self.predicted_seconds is None else self._likely(self.predicted_seconds, "tpot")

    @property
    def expected(self) -> Expected | None:
        """Verdict on the measured time per token, from the 80% interval of the prediction.

        Without an error estimate, predictions within 2% of the measured time count as expected.
        """
        if (seconds := self.predicted_seconds) is None:
            return None
        likely = self.likely_seconds or Interval((1 - NEAR) * seconds, (1 + NEAR) * seconds)
        return _expected(self.measured.seconds, likely)

    @property
    def expected_ttft(self) -> Expected | None:
        """Verdict on the measured TTFT, from its 80% interval; None without a measurement or an interval."""
        _, likely = self.predicted_ttft
        return None if self.ttft_seconds is None or likely is None else _expected(self.ttft_seconds, likely)

    @property
    def predicted_ttft(self) -> tuple[float | None, Interval | None]:
        """Predicted mean time to first token [s] with its 80% interval; None for decode steps."""
        if not isinstance(self.predicted, SteadyService):
            return None, None
        seconds = self.predicted.ttft_seconds
        return seconds, self._likely(seconds, "ttft") if self.run is None else self.run.ttft_likely

    @property
    def predicted_seconds(self) -> float | None:
        """Predicted time per token [s]; None without a prediction."""
        return None if self.predicted is None else 1.0 / self.predicted.tokens_per_second_per_user

    @property
    def unexplained_seconds(self) -> float | None:
        """Measured minus predicted time per token [s]; None without a prediction."""
        return self.parts[-1].seconds if self.parts else None

    @property
    def gaps(self) -> dict[str, Gap]:
        """Gaps between the measured point and each frontier, by the name of the frontier in records."""
        return {"any_size": self.anywhere, "same_size": self.same_size, "ideal": self.ideal}

    def record(self) -> dict[str, object]:
        """Return the comparison with each frontier, and the parts of the step, as plain data."""
        gaps = self.gaps
        record = {
            **facts(
                self.setup,
                *(*HEAD, "calibration", "weights", "activations", "kv", "context"),
                *(() if self.requests is None else ("isl", "osl", "cached", "shared_prefix")),
                requests=self.requests,
                calibration=calibration_record(*self.subjects()),
            ),
            "dollars_per_accelerator_hour": self.setup.dollars_per_accelerator_hour,
            "verdict": self.verdict_record(),
            "measured": asdict(self.measured),
            "frontiers": {name: _gap_record(gap, fits=self.predicted is not None) for name, gap in gaps.items()},
            "predicted": _point_record(self.predicted, self.same_size),
            "parts": [
                attributes(part, "name seconds ideal_seconds")
                | {f"closes_of_{name}": part.closes(gap) for name, gap in gaps.items()}
                for part in self.parts
            ],
            "unexplained_seconds": self.unexplained_seconds,
            "shortage": asdict(self.shortage) if self.shortage else None,
            "sources": source_records(priced_sources(self.setup)),
        }
        return without_unknown_costs(record, self.setup)

    def verdict_record(self) -> dict[str, object]:
        """Return the verdicts on the measured point as plain data, with the prediction errors behind them."""
        likely, (ttft, likely_ttft) = self.likely_seconds, self.predicted_ttft
        return {
            "compared_with": "decode steps" if self.requests is None else "services",
            "beside_prediction": self.expected,
            "beside_frontier": self.anywhere.verdict,
            "measured_seconds": self.measured.seconds,
            "predicted_seconds": self.predicted_seconds,
            "predicted_seconds_low": None if likely is None else likely.low,
            "predicted_seconds_high": None if likely is None else likely.high,
            "measured_ttft_seconds": self.ttft_seconds,
            "predicted_ttft_seconds": ttft,
            "predicted_ttft_seconds_low": None if likely_ttft is None else likely_ttft.low,
            "predicted_ttft_seconds_high": None if likely_ttft is None else likely_ttft.high,
            "layouts_tried": self.tried,
        }

    def records(self) -> list[dict[str, object]]:
        """Return one record per deployment, the measured point first.

        Each record also has the step time by group of operators.
        """
        measured = asdict(self.measured)
        measured |= {"unexplained_seconds": self.unexplained_seconds}
        rows: list[dict[str, object]] = [{"deployment": "measured", **measured}]
        points = {"predicted": (self.predicted, self.same_size)}
        for name, between in self.gaps.items():
            faster, cheaper = (between.faster, between), (between.cheaper, between)
            points |= {f"{name}_equal_cost": faster, f"{name}_equal_speed": cheaper}
        for name, (point, between) in points.items():
            row = _point_record(point, between)
            if point is None or row is None:
                continue
            del row["layout"], row["seconds_per_token"]
            if isinstance(point, SteadyService):
                row["throughput"] = point.throughput
            parts = {f"{part}_seconds": seconds for part, seconds in point.parts.items()}
            throughput = point.batch * point.tokens_per_second_per_user
            rows.append({"deployment": name, "throughput": throughput, **row, **point.layout, **parts})
        return [without_unknown_costs(row, self.setup) for row in rows]


def _gap_record(gap: Gap, *, fits: bool) -> dict[str, object]:
    likely = gap.likely_seconds if fits else None
    return {
        **attributes(gap, "verdict speed_factor tokens_per_second_lost cost_factor dollars_lost"),
        "gap_seconds": gap.seconds,
        "on_it_seconds": gap.on_it_seconds,
        "on_it_seconds_low": None if likely is None else likely.low,
        "on_it_seconds_high": None if likely is None else likely.high,
        "beyond_uncertainty": gap.certain if fits else None,
        "equal_cost": _point_record(gap.faster, gap),
        "equal_speed": _point_record(gap.cheaper, gap),
    }


def _point_record(point: ComparedPoint | None, gap: Gap) -> dict[str, object] | None:
    if point is None:
        return None
    follows = bounds.FULL if isinstance(point, SteadyService) else bounds.STEP
    return bounds.bounded(point.record(), bounds.ends(gap.instances(point), follows))


#: Number of iterations that compute concurrency and TTFT, which depend on each other [1].
_ROUNDS = 12


class _Flight(NamedTuple):
    """Concurrency and request rate of a measured instance, with the predicted service and its layout."""

    concurrency: float
    """Concurrent requests [1]."""
    requests_per_second: float
    """Completed requests [1/s]."""
    predicted: SteadyService
    """Predicted service at the measured concurrency, or at the largest concurrency that fits."""
    slots: int
    """Largest number of concurrent requests that fits in the predicted layout [1]."""


def assess_service(
    setup: Setup, requests: Requests, observed: Observation, pins: Pins, *, progress: Progress | None
) -> Assessment:
    """Compare a measured service with predicted services; see :func:`inference_econ.answers.assess.assess`.

    Parameters
    ----------
    setup : Setup
        Model, GPU, formats, price and assumptions.
    requests : Requests
        Request lengths.
    observed : Observation
        Speed, GPUs, and one of utilization, concurrent requests and throughput.
    pins : Pins
        Number of GPUs, and parallelism degrees of an instance.
    progress : callable, optional
        Receives the completed share of the work.

    Raises
    ------
    InputError
        If outputs have one token, the price is unknown, or the derived concurrency is below 1.
    NothingFitsError
        If the model does not fit on the GPUs or in the layout.
    """
    if not requests.decode_steps > 0:
        raise InputError(f"osl must be more than 1 token for a speed, got {requests.osl.mean:g}")
    measured_layout = offer(setup, requests, Space(pins))
    served, chips = measured_layout.setup, observed.instance_accelerators
    flight = _flight(measured_layout, observed)
    if observed.run is not None:
        flight = flight._replace(predicted=_of_run(flight.predicted, observed.run))
    instances, rate = observed.instances, flight.requests_per_second * observed.instances
    throughput, useful = rate * requests.osl.mean, rate * useful_seconds(served, requests) / observed.accelerators
    price = served.dollars_per_accelerator_hour
    dollars = float(money.dollars_per_million_tokens(observed.accelerators, 1.0, throughput, price))
    concurrency = flight.concurrency * instances
    measured = OperatingPoint(
        observed.accelerators, observed.tokens_per_second, concurrency, throughput, useful, dollars, instances
    )
    subject = asked_subject(served, requests.isl.mean, requests.osl.mean, float(chips), flight.concurrency)

    def against(share: float, offers: Sequence[Candidate]) -> Gap:
        if progress is not None:
            progress(share, "frontiers")
        front = service_frontier([_with_concurrency(candidate, flight.concurrency) for candidate in offers])
        curve = front.tokens_per_second, front.dollars
        return gap(measured, front.setup, front, curve, lambda index: _point_of(front, index), subject)

    alike = Space(Pins(accelerators=chips))
    bound = replace(setup, assumptions=catalog.assumptions("ideal"), engines=())
    same_size = against(0.0, [Candidate(offer(setup, requests, alike))])
    # These are the same candidates as in the frontier of the setup.
    anywhere = against(0.2, market(setup, requests))
    ideal = against(0.8, [Candidate(offer(bound, requests, alike))])
    best = _fastest(offer(bound, requests, alike), flight.concurrency)
    parts = compared_parts(flight.predicted.parts, best[0].parts, measured.seconds - flight.predicted.tpot_seconds)
    if progress is not None:
        progress(1.0, "done")
    shortage = None
    if flight.concurrency > flight.slots * (1.0 + ROUNDING):
        # The measured concurrent requests do not all fit in the predicted layout.
        plans = replace(flight.predicted.plans, batch=np.array([flight.concurrency]))
        weights, cache, available = served.memory(plans).of_one_plan()
        shortage = Shortage(flight.concurrency, weights + cache, available, flight.slots)
    gaps, count = (anywhere, same_size, ideal), len(measured_layout)
    return Assessment(
        served, requests, measured, *gaps, flight.predicted, count, parts, shortage, observed.ttft_seconds, observed.run
    )


def _of_run(steady: SteadyService, run: RunPrediction) -> SteadyService:
    """Service with the predicted latencies of a run. The parts of its step are scaled from the steady state."""
    slower = run.tpot_seconds / steady.tpot_seconds
    return replace(
        steady, ttft_seconds=run.ttft_seconds, tpot_seconds=run.tpot_seconds,
        decode_seconds=steady.decode_seconds * slower,
    )  # fmt: skip


def _with_concurrency(candidate: Candidate, concurrency: float) -> Candidate:
    """Add a concurrency [1] to the loads of an aggregated candidate; return disaggregated candidates unchanged.

    A frontier has only some concurrencies. Without the measured concurrency, a server between two frontier points could
    appear better than the frontier.
    """
    if candidate.pools is not None:
        return candidate
    states = candidate.services.states
    joined = states.joined(states.of_each_at(concurrency))
    return Candidate(replace(candidate.services, steady=lambda: joined))


def _point_of(front: ServiceFrontier, index: int) -> SteadyService:
    # The time per output token has only two parts: decode steps and prefill.
    state = front.candidate(index)
    tpot, batch = float(front.tpot_seconds[index]), float(front.batch[index])
    plans = front.plan(index)
    step = evaluate(state.setup, plans, state.setup.assumptions.layout.tensor_layouts[0])
    return SteadyService(
        state.setup,
        state.requests,
        replace(plans, batch=np.array([batch])),
        float(front.concurrency[index]),
        float(front.ttft_seconds[index]),
        tpot,
        min(float(step.seconds[0]), tpot),
        float(front.requests_per_second[index]),
        front.point(index),
    )


def _point(service: Service, concurrency: float) -> SteadyService:
    """State of a service at a concurrency; if this concurrency does not fit, at the largest concurrency that fits."""
    state = service.at(concurrency)
    return SteadyService(
        service.setup,
        service.requests,
        replace(service.plans, batch=np.array([float(state.batch)])),
        min(concurrency, service.most_in_flight),
        float(state.ttft_seconds),
        float(state.tpot_seconds),
        float(state.decode_seconds),
        float(state.requests_per_second),
    )


def _fastest(layouts: Services, concurrency: float) -> tuple[SteadyService, int]:
    """Fastest layout at a concurrency, and its maximum concurrency [1].

    If no layout fits the concurrency, the fastest of the layouts with the highest maximum concurrency is used.
    """
    services = [layouts.service(index) for index in range(len(layouts))]
    most = min(concurrency, max(service.slots for service in services))
    holding = [service for service in services if service.slots >= most - ROUNDING]
    points = [(_point(service, concurrency), service.slots) for service in holding]
    return min(points, key=lambda point: point[0].tpot_seconds)


def _flight(layouts: Services, observed: Observation) -> _Flight:
    """Derive concurrency and request rate of one instance from the measured time per output token and the TTFT.

    If the TTFT was not measured, the predicted TTFT is used. Requests that do not fit in memory queue, so they do not
    add to the request rate.
    """
    requests, steps = layouts.requests, layouts.requests.decode_steps
    answering = steps / observed.tokens_per_second
    name, value = observed.fullness
    value /= 1.0 if name == "utilization" else observed.instances
    if name == "batch":
        _check(observed, value)
        point, slots = _fastest(layouts, value)
        ttft = observed.ttft_seconds or point.ttft_seconds
        return _Flight(value, min(value, slots) / (ttft + answering), point, slots)
    useful = useful_seconds(layouts.setup, requests) / observed.instance_accelerators
    rate = value / useful if name == "utilization" else value / requests.osl.mean
    concurrency = rate * answering
    for _ in range(_ROUNDS):
        point, slots = _fastest(layouts, max(concurrency, 1.0))
        concurrency = rate * ((observed.ttft_seconds or point.ttft_seconds) + answering)
    _check(observed, concurrency)
    return _Flight(concurrency, rate, point, slots)


def _check(observed: Observation, concurrency: float) -> None:
    """Raise InputError if the measured values imply less than one concurrent request per instance."""
    if concurrency >= 1.0 - ROUNDING:
        return
    name, value = observed.fullness
    raise InputError(
        f"{name}={value:g} at {observed.tokens_per_second:g} tokens/s per user means {concurrency:.2g} concurrent "
        "requests per instance, less than one; give values that were measured under load"
    )


def assess(
    setup: Setup,
    traffic: Traffic | Requests,
    observed: Observation,
    pins: Pins | None = None,
    *,
    progress: Progress | None = None,
) -> Assessment:
    """Compare a measured deployment with the predicted frontier and the ideal bound (``inference_econ.assess``).

    Parameters
    ----------
    setup : Setup
        Model, GPU, formats, price and assumptions.
    traffic : Traffic or Requests
        If input and output lengths are given, the deployment is compared with services under continuous batching,
        including prefill. If only a context is given, it is compared with decode steps.
    observed : Observation
        Speed, GPUs, and one of utilization, batch and throughput.
    pins : Pins, optional
        Known parallelism degrees of an instance. If degrees are unknown, the fastest layout is assumed.
    progress : callable, optional
        Receives the completed share of the work.

    Returns
    -------
    Assessment
        Gaps in speed and cost, and the parts of the time per token.

    Raises
    ------
    InputError
        If the price is unknown, the layout contradicts the number of GPUs, or the batch would be below 1.
    NothingFitsError
        If the model does not fit on the GPUs or in the layout.

    Examples
    --------
    >>> setup = Setup.of("llama_3_70b", "h100_sxm")
    >>> seen = Observation(tokens_per_second=40, batch=64, accelerators=8)
    >>> steps = assess(setup, Traffic(context=500), seen)
    >>> steps.same_size.verdict, round(steps.measured.throughput)
    ('behind', 2560)
    >>> assess(setup, Traffic(isl=400, osl=200), seen, Pins(tp=8)).requests.isl.mean
    400.0
    """
    pins = replace(Pins() if pins is None else pins, batch=None, accelerators=observed.instance_accelerators)
    pins.check_whole()
    if isinstance(traffic, Requests) or (traffic.isl is not None and traffic.osl is not None):
        return assess_service(setup, Requests.of(traffic), observed, pins, progress=progress)
    if observed.ttft_seconds is not None:
        raise InputError("a TTFT is of services; give input and output lengths (--isl, --osl)", option="isl")
    return _assess_steps(setup, traffic, observed, pins, progress)


def _assess_steps(
    setup: Setup, traffic: Traffic, observed: Observation, pins: Pins, progress: Progress | None
) -> Assessment:
    """Compare measured decode steps at a context with predicted decode steps; see :func:`assess`."""
    accelerators = observed.instance_accelerators
    setup = replace(setup, context=traffic.mean_context, spread=traffic.spread)
    bound = replace(setup, assumptions=catalog.assumptions("ideal"))
    measured = operating_point(setup, observed)
    layout = decode_frontier(setup, traffic.replace(max_tokens_per_second=None), Space(pins))
    # The group with the most sequences determines the step time, so each possible number of groups rounds the batch up.
    chips = measured.instance_accelerators
    groups = [number for number in range(1, chips + 1) if chips % number == 0 and number % pins.groups == 0]
    batches = np.unique([np.ceil(measured.instance_batch / number - ROUNDING) * number for number in groups])
    subject = asked_subject(setup, traffic.isl, traffic.osl, float(accelerators), measured.instance_batch)

    def against(share: float, setting: Setup, grid: InstanceGrid) -> Gap:
        if progress is not None:
            progress(share, "frontiers")
        # The grid includes the measured GPUs and batch. Without these values, the measured point could appear better
        # than the frontier.
        wider = InstanceGrid(np.union1d(grid.accelerators, accelerators), np.union1d(grid.batch, batches), grid.layouts)
        front = compute(setting, wider, traffic=traffic)
        return gap(measured, setting, front, (front.tokens_per_second, front.dollars), front.point, subject)

    alike = make_grid(setup, Space(Pins(accelerators=accelerators)))
    same_size = against(0.0, setup, alike)
    anywhere = against(0.2, setup, make_grid(setup, Space()))
    # The bound splits heads and experts evenly, even if engines cannot do so. Therefore no real server is faster.
    ideal = against(0.8, bound, replace(alike, layouts=ContinuousLayouts(pipeline=False)))
    grid = replace(layout.grid, batch=batches)
    parts: tuple[StepPart, ...] = ()
    shortage = predicted = None
    try:
        predicted = compute(setup, grid).fastest()
    except NothingFitsError:
        shortage = _shortage(setup, grid, measured.instance_batch)
    else:
        single = np.ones(1)
        same = Plans.of(single * predicted.accelerators, single * predicted.batch, single)
        least = {name: float(seconds[0]) for name, seconds in evaluate(bound, same, "1d").parts.items()}
        parts = compared_parts(predicted.parts, least, measured.seconds - 1.0 / predicted.tokens_per_second_per_user)
    if progress is not None:
        progress(1.0, "done")
    tried = layouts(setup, grid).shape[0]
    return Assessment(setup, None, measured, anywhere, same_size, ideal, predicted, tried, parts, shortage)


def _shortage(setup: Setup, grid: InstanceGrid, batch: float) -> Shortage:
    """Missing memory of the infeasible layout that needs the least additional memory."""
    lacking = []
    for every, _, codes in every_plan(setup, grid):
        plans = every.at(np.nonzero((codes == memory.WEIGHTS) | (codes == memory.CACHE)))
        needed = setup.memory(plans)
        arrays = (needed.weight_bytes, needed.kv_bytes, needed.available_bytes, plans.batch)
        lacking.append(np.stack([np.broadcast_to(array, plans.shape) for array in arrays]))
    weights, cache, available, held = np.concatenate(lacking, axis=1)
    least = int(np.argmin(weights + cache - available))
    most = int(max(held[least] * (available[least] - weights[least]) / cache[least], 0.0))
    return Shortage(batch, float(weights[least] + cache[least]), float(available[least]), most)
