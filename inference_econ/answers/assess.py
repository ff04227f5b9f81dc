"""A measured deployment held against what could be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from inference_econ._types import Progress
from inference_econ.answers.frontier import decode_frontier, make_grid
from inference_econ.answers.operating_point import Observation, OperatingPoint, operating_point
from inference_econ.engine import (
    ContinuousLayouts,
    Grid,
    Instances,
    Interval,
    Pins,
    Plans,
    Setup,
    Space,
    Subject,
    asked_subject,
    evaluate,
    interval,
    memory,
)
from inference_econ.engine.prefill import prefill
from inference_econ.errors import NothingFitsError
from inference_econ.formulas import pareto
from inference_econ.inputs import Traffic, catalog
from inference_econ.search import Frontier, Point, candidates, compute

Array = npt.NDArray[np.float64]

#: Rounding [1].
_ROUNDING = 1e-9
#: Measurements are not better than this: so near to a frontier a point is on it [1].
NEAR = 0.02

Verdict = Literal["behind", "on", "ahead"]


@dataclass(frozen=True, slots=True)
class Gap:
    """The measured point beside one frontier.

    Attributes
    ----------
    measured : OperatingPoint
        The point.
    frontier : Frontier
        With the measured batch among those that were tried.
    faster : Point or None
        The fastest deployment that costs no more; None if none is as cheap.
    cheaper : Point or None
        The cheapest deployment that is at least as fast; None if none is as fast.
    on_it_seconds : float
        Time per token with which the measured chips and batch would lie on the frontier [s].
    subject : Subject
        What was measured.
    """

    measured: OperatingPoint
    frontier: Frontier
    faster: Point | None
    cheaper: Point | None
    on_it_seconds: float
    subject: Subject

    @property
    def speed_factor(self) -> float | None:
        """Speed at equal cost over the measured one [1]: above 1 it is lost; None if nothing is as cheap."""
        if self.faster is None:
            return None
        return self.faster.tokens_per_second_per_user / self.measured.tokens_per_second_per_user

    @property
    def cost_factor(self) -> float | None:
        """Measured cost over that at equal speed [1]: above 1 it is lost; None if nothing is as fast."""
        if self.cheaper is None:
            return None
        return self.measured.dollars_per_million_output_tokens / self.cheaper.dollars_per_million_output_tokens

    @property
    def speed_lost(self) -> float | None:
        """Speed at equal cost beyond the measured one [tokens/s], negative if the point is ahead."""
        if self.faster is None:
            return None
        return self.faster.tokens_per_second_per_user - self.measured.tokens_per_second_per_user

    @property
    def dollars_lost(self) -> float | None:
        """Measured cost beyond that at equal speed [USD per 1e6 tokens], negative if the point is ahead."""
        if self.cheaper is None:
            return None
        return self.measured.dollars_per_million_output_tokens - self.cheaper.dollars_per_million_output_tokens

    @property
    def seconds(self) -> float:
        """Measured time per token beyond that on the frontier with the same chips and batch [s]."""
        return self.measured.seconds - self.on_it_seconds

    @property
    def likely_seconds(self) -> Interval | None:
        """Where 80 % of times per token lie that are predicted on the frontier [s]; None if nobody knows."""
        return interval(self.on_it_seconds, self.frontier.setup.assumptions, subjects=[self.subject])

    @property
    def certain(self) -> bool | None:
        """Whether the point differs from the frontier by more than predictions usually do; None if nobody knows."""
        likely = self.likely_seconds
        return None if likely is None else not likely.low <= self.measured.seconds <= likely.high

    @property
    def verdict(self) -> Verdict:
        """Where the point lies: behind the frontier, on it (within 2 %), or ahead of it."""
        # Both factors are above 1, or neither is.
        most = max(self.speed_factor or 0.0, self.cost_factor or 0.0)
        if most > 1.0 + NEAR:
            return "behind"
        return "on" if most >= 1.0 - NEAR else "ahead"


@dataclass(frozen=True, slots=True)
class StepPart:
    """One part of the step of the measured deployment.

    Attributes
    ----------
    name : str
        One of :data:`inference_econ.engine.step.PARTS`, or ``unexplained``.
    seconds : float
        Under the profile [s]; the unexplained time is what was measured beyond all parts, negative if less.
    ideal_seconds : float
        The same part of the ideal step with the same chips and batch [s].
    """

    name: str
    seconds: float
    ideal_seconds: float

    def closes(self, gap: Gap) -> float:
        """Share of a gap that is closed if this part alone shrinks to the ideal one [1]; 0 if there is no gap."""
        if gap.seconds <= 0.0:
            return 0.0
        return min(max(self.seconds - self.ideal_seconds, 0.0) / gap.seconds, 1.0)


@dataclass(frozen=True, slots=True)
class Shortage:
    """A measured batch that the memory cannot hold.

    Attributes
    ----------
    batch : float
        Sequences [1].
    needed_bytes, available_bytes : float
        Weights and cache of the deployment, in the layout that lacks least, and what it has [B].
    most : int
        Sequences that fit in that layout [1].
    """

    batch: float
    needed_bytes: float
    available_bytes: float
    most: int


@dataclass(frozen=True, slots=True)
class Assessment:
    """A measured deployment held against frontiers and a bound.

    Attributes
    ----------
    setup : Setup
        What, on what, how: under the profile.
    traffic : Traffic
        Lengths.
    measured : OperatingPoint
        The measured point.
    anywhere : Gap
        Against deployments of any number of chips, under the profile.
    same_size : Gap
        Against deployments of the same number of chips, under the profile.
    ideal : Gap
        Against the bound ``ideal`` for the same number of chips.
    predicted : Point or None
        The measured chips, batch and layout (the fastest one, where it is open) as the profile predicts them; None
        if the batch does not fit.
    parts : tuple of StepPart
        The predicted step by part and the unexplained time, which add up to the measured time per token.
    shortage : Shortage or None
        Why there is no prediction.
    prompt_seconds : float or None
        Time per output token that prompts would take on the same chips, which no part counts [s]; None if the
        length of prompts is not known.
    """

    setup: Setup
    traffic: Traffic
    measured: OperatingPoint
    anywhere: Gap
    same_size: Gap
    ideal: Gap
    predicted: Point | None
    parts: tuple[StepPart, ...]
    shortage: Shortage | None
    prompt_seconds: float | None

    def subjects(self) -> tuple[Instances]:
        """The measured deployment."""
        subject = self.anywhere.subject
        assert subject.accelerators is not None and subject.concurrency is not None
        return (Instances(self.setup, [subject.accelerators], [subject.concurrency], subject.isl, subject.osl),)

    @property
    def likely_seconds(self) -> Interval | None:
        """Where 80 % of times per token lie that are predicted as this one is [s]; None if nobody knows."""
        if self.predicted is None:
            return None
        predicted = 1.0 / self.predicted.tokens_per_second_per_user
        return interval(predicted, self.setup.assumptions, subjects=[self.anywhere.subject])

    @property
    def unexplained_seconds(self) -> float | None:
        """Measured time per token beyond the predicted one [s], negative if it is less; None without a prediction."""
        return self.parts[-1].seconds if self.parts else None


def assess(
    setup: Setup,
    traffic: Traffic,
    observed: Observation,
    pins: Pins | None = None,
    *,
    progress: Progress | None = None,
) -> Assessment:
    """Hold a measured deployment against the frontier of a profile and the ideal bound (``inference_econ.assess``).

    Parameters
    ----------
    setup : Setup
        What is served, on what, how; at the mean context of the traffic.
    traffic : Traffic
        Lengths.
    observed : Observation
        Speed, chips, and utilisation, batch or throughput.
    pins : Pins, optional
        The layout of the deployment, as far as it is known; the fastest one is taken for the rest.
    progress : callable, optional
        Told the share of the work done.

    Returns
    -------
    Assessment
        Gaps in speed and cost, and the step taken apart.

    Raises
    ------
    InputError
        If nobody knows the price, the layout contradicts the number of chips, or less than one sequence would be
        served.
    NothingFitsError
        If the model does not fit on so many chips, or in the layout.

    Examples
    --------
    >>> setup = Setup.of("llama_3_70b", "h100_sxm")
    >>> found = assess(setup, Traffic(context=500), Observation(tokens_per_second=40, batch=64, accelerators=8))
    >>> found.same_size.verdict, round(found.measured.throughput)
    ('behind', 2560)
    """
    accelerators = observed.accelerators
    pins = replace(Pins() if pins is None else pins, batch=None, accelerators=accelerators)
    pins.check_whole()
    setup = replace(setup, context=traffic.mean_context, spread=traffic.spread)
    bound = replace(setup, assumptions=catalog.assumptions("ideal"))
    measured = operating_point(setup, observed)
    layout = decode_frontier(setup, traffic.replace(max_tokens_per_second=None), Space(pins))
    batches = _batches(measured, pins)

    def against(share: float, setting: Setup, grid: Grid) -> Gap:
        if progress is not None:
            progress(share, "frontiers")
        # The measured chips and batch need not be on the grid, and must not look better for it.
        wider = Grid(np.union1d(grid.accelerators, accelerators), np.union1d(grid.batch, batches), grid.layouts)
        return _gap(measured, compute(setting, wider, traffic=traffic), traffic)

    alike = make_grid(setup, Space(Pins(accelerators=accelerators)))
    same_size = against(0.0, setup, alike)
    anywhere = against(0.2, setup, make_grid(setup, Space()))
    # No server splits heads or experts better than evenly, whether that is possible or not.
    ideal = against(0.8, bound, replace(alike, layouts=ContinuousLayouts(pipeline=False)))
    grid = replace(layout.grid, batch=batches)
    parts: tuple[StepPart, ...] = ()
    prompts = shortage = predicted = None
    try:
        predicted = compute(setup, grid).fastest()
    except NothingFitsError:
        shortage = _shortage(setup, grid, measured.batch)
    else:
        parts = _parts(predicted, bound, measured)
        prompts = _prompt_seconds(setup, traffic, measured, predicted)
    if progress is not None:
        progress(1.0, "done")
    return Assessment(setup, traffic, measured, anywhere, same_size, ideal, predicted, parts, shortage, prompts)


def _batches(measured: OperatingPoint, pins: Pins) -> Array:
    """The measured batch as whole sequences that groups of chips can share: the fullest group sets the pace."""
    chips = measured.accelerators
    groups = [number for number in range(1, chips + 1) if chips % number == 0 and number % pins.groups == 0]
    return np.unique([np.ceil(measured.batch / number - _ROUNDING) * number for number in groups])


def _gap(measured: OperatingPoint, front: Frontier, traffic: Traffic) -> Gap:
    speed, dollars = measured.tokens_per_second_per_user, measured.dollars_per_million_output_tokens
    as_cheap = np.flatnonzero(front.dollars <= dollars * (1.0 + _ROUNDING))
    as_fast = np.flatnonzero(front.tokens_per_second >= speed * (1.0 - _ROUNDING))
    faster = front.point(int(as_cheap[-1])) if as_cheap.size else None
    cheaper = front.point(int(as_fast[0])) if as_fast.size else None
    # With chips and batch as they are, cost is proportional to time.
    on_it = pareto.ceiling(front.seconds[::-1], front.dollars[::-1], dollars * speed)
    subject = asked_subject(front.setup, traffic.isl, traffic.osl, float(measured.accelerators), measured.batch)
    return Gap(measured, front, faster, cheaper, float(on_it), subject)


def _parts(predicted: Point, bound: Setup, measured: OperatingPoint) -> tuple[StepPart, ...]:
    """The predicted step, largest part first, and what is left of the measured time."""
    one = np.ones(1)
    ideal = evaluate(bound, Plans.of(one * predicted.accelerators, one * predicted.batch, one), "1d").parts
    parts = [
        StepPart(name, seconds, float(ideal[name][0]))
        for name, seconds in sorted(predicted.parts.items(), key=lambda item: -item[1])
        if seconds > 0.0 or ideal[name][0] > 0.0
    ]
    left = measured.seconds - 1.0 / predicted.tokens_per_second_per_user
    return (*parts, StepPart("unexplained", left, 0.0))


def _shortage(setup: Setup, grid: Grid, batch: float) -> Shortage:
    """What is missing in the layout that lacks least."""
    lacking = []
    for some in candidates(setup, grid):
        short = np.nonzero((some.codes == memory.WEIGHTS) | (some.codes == memory.CACHE))
        plans = some.plans.at(short)
        needed = setup.memory(plans)
        arrays = (needed.weight_bytes, needed.kv_bytes, needed.available_bytes, plans.batch)
        lacking.append(np.stack([np.broadcast_to(array, plans.shape) for array in arrays]))
    weights, cache, available, held = np.concatenate(lacking, axis=1)
    least = int(np.argmin(weights + cache - available))
    most = int(max(held[least] * (available[least] - weights[least]) / cache[least], 0.0))
    return Shortage(batch, float(weights[least] + cache[least]), float(available[least]), most)


def _prompt_seconds(setup: Setup, traffic: Traffic, measured: OperatingPoint, predicted: Point) -> float | None:
    """Each request brings a prompt, and its tokens share the time that it takes of the chips."""
    if not traffic.isl or not traffic.osl:
        return None
    one, layout = np.ones(1), predicted.layout
    ep = one * float(layout["ep"]) if "ep" in layout else None
    pp, tp = (one * float(layout[name]) for name in ("pp", "tp"))
    plans = Plans(one * predicted.accelerators, one * predicted.batch, pp, tp, ep, whole=True)
    return float(prefill(setup, plans, traffic.isl).full_seconds[0] * measured.batch / traffic.osl)
