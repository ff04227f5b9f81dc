"""Frontier of decode steps: the Pareto-optimal plans in speed and cost."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from inference_econ._answer import Shown
from inference_econ._types import Array, Indices, Progress
from inference_econ.engine import (
    InstanceGrid,
    Instances,
    Plans,
    Setup,
    Speculation,
    bounds,
    chip_power,
    evaluate,
    indivisible,
    memory,
    mfu,
    needed_memory,
    power,
    recorded_key,
    token_joules,
)
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import money, pareto
from inference_econ.inputs import TensorLayout, Traffic
from inference_econ.records.deviations import calibration_record
from inference_econ.records.facts import HEAD, facts
from inference_econ.records.sources import UsedSource, priced_sources, source_records
from inference_econ.search.fastest import fastest_round, token_seconds

#: Number of instances that are evaluated together [1].
_CHUNK = 2048


def every_plan(
    setup: Setup, grid: InstanceGrid, speculation: Speculation | None = None
) -> Iterator[tuple[Plans, TensorLayout, Indices]]:
    """Yield all plans of a grid in groups with one pipeline depth and one split of weight matrices.

    Each group has its plans, the split (1D or 2D), and a code for each plan, shape (...). A code is the index in
    :data:`inference_econ.engine.memory.REASONS` of the reason why the plan cannot run; ``memory.FITS`` if it can.
    """
    sizes, batches = grid.pairs()
    shape = (grid.accelerators.size, grid.batch.size)
    model, assumptions = setup.model, setup.assumptions
    for depth in grid.layouts.depths(model, assumptions, sizes, batches):
        index = np.flatnonzero(np.broadcast_to(depth > 0, shape))
        for start in range(0, index.size, _CHUNK):
            part = index[start : start + _CHUNK]
            size, batch, pp = (np.broadcast_to(axis, shape).ravel()[part] for axis in (sizes, batches, depth))
            plans = grid.layouts.variants(model, assumptions, Plans.of(size, batch, pp))
            needed = needed_memory(setup, plans, speculation)
            for cut in assumptions.layout.tensor_layouts:
                yield plans, cut, np.broadcast_to(setup.reasons(plans, cut, needed), plans.shape)


def _reasons(plans: Plans, codes: Indices) -> Counter[str]:
    """Number of infeasible plans by reason, without plans with degrees that do not divide a pipeline stage."""
    if plans.whole:
        made = np.mod(plans.stage, plans.attention_ranks) == 0
        if plans.ep is not None:
            made = made & (np.mod(plans.stage, plans.ep) == 0)
        codes = codes[np.broadcast_to(made, codes.shape)]
    counts = np.bincount(codes.ravel(), minlength=len(memory.REASONS)).tolist()
    return Counter({memory.REASONS[code]: n for code, n in enumerate(counts) if n and code != memory.FITS})


def why_nothing_fits(
    setup: Setup, grid: InstanceGrid, max_tokens_per_second: float | None = None, speculation: Speculation | None = None
) -> str:
    """Error message with the number of infeasible plans by reason, and the smallest sufficient instance size."""
    infeasible: Counter[str] = Counter()
    fitting = 0
    for plans, _, codes in every_plan(setup, grid, speculation):
        infeasible += _reasons(plans, codes)
        fitting += int((codes == memory.FITS).sum())
    listed = [f"{reason}: {infeasible[reason]}" for reason in memory.REASONS if infeasible[reason]]
    if max_tokens_per_second is not None and fitting:
        listed.append(f"{too_much(max_tokens_per_second)}: {fitting}")
    ones = np.ones(1)
    needed = needed_memory(setup, Plans.of(ones, ones, ones), speculation)
    weights, cache, available = needed.of_one_plan()
    message = (
        f"nothing fits: {setup.model.name} ({setup.precision.weights}) on {setup.hardware.name}, "
        f"{infeasible.total() + fitting} plans considered; {'; '.join(listed) or 'the grid is empty'}. "
    )
    if fitting:
        return f"{message}Every deployment that fits in memory produces more than is asked for"
    if available <= 0:
        return message + no_room(setup, needed, 1)
    return (
        f"{message}Weights need {weights / 1e9:.1f} GB, a sequence of {setup.context:g} tokens {cache / 1e9:.2f} GB, "
        f"an accelerator has {available / 1e9:.1f} GB for them: at least {int(np.ceil((weights + cache) / available))} "
        "accelerators are needed"
    )


def no_room(setup: Setup, needed: memory.Memory, accelerators: float) -> str:
    """Error text for a workspace of activations that leaves no memory for weights and KV cache, with advice."""
    workspace = float(np.ravel(needed.workspace_bytes)[0]) / accelerators
    assumed = setup.assumptions
    usable = setup.hardware.hbm_bytes * assumed.capacity.usable_memory
    return (
        f"The workspace of a step of {assumed.capacity.workspace_tokens:g} tokens takes {workspace / 1e9:.3g} GB, and "
        f"an accelerator has {usable / 1e9:.3g} GB: assumptions.capacity.workspace_tokens can be lowered"
    )


def too_much(max_tokens_per_second: float) -> str:
    """Text of the reason that plans produce more tokens than the demand."""
    return f"more than {max_tokens_per_second:g} tokens/s are produced"


def common_problems(setup: Setup, grid: InstanceGrid) -> list[str]:
    """Divisibility rules that every plan of a grid violates; empty if at least one plan meets all rules.

    Parameters
    ----------
    setup : Setup
        Model, chip, formats and assumptions.
    grid : InstanceGrid
        Instance sizes, batches and layouts to evaluate.

    Returns
    -------
    list of str
        Rules that all plans violate. If no single rule is violated by all plans, the rule that most plans violate.
    """
    blocks = setup.precision.blocks
    total, counts = 0, Counter[str]()
    for plans, cut, codes in every_plan(setup, grid):
        problems: dict[str, npt.NDArray[np.bool_]] = {}
        for problem in indivisible(setup.model, plans, cut, setup.assumptions, blocks):
            problems[problem.text] = problem.where | problems.get(problem.text, np.zeros((), dtype=bool))
        if not np.all(np.broadcast_to(functools.reduce(np.logical_or, problems.values()), codes.shape)):
            return []
        total += codes.size
        for text, uneven in problems.items():
            counts[text] += int(np.broadcast_to(uneven, codes.shape).sum())
    if not total:
        return [f"no number of stages divides the {setup.model.layers} layers, the accelerators and the batch"]
    return [text for text, count in counts.items() if count == total] or [counts.most_common(1)[0][0]]


#: Minimum number of points for a fit of three parameters with a meaningful error [1].
_FEWEST_POINTS = 4
#: Search range for ln((top speed - fastest speed) / fastest speed) of the fit [1].
_MARGINS = (-14.0, 3.0)
#: Number of successively finer grids, which find the top speed with a relative precision of 1e-8 [1].
_ROUNDS = 6

#: Ratio of top speed to the fastest point's speed above which the fit is treated as an exponential function [1].
_TOP_IS_SEEN = 2.0


@dataclass(frozen=True, slots=True)
class FrontierSummary:
    """Fit of cost against speed x for the points of a frontier: cost = A (1 - x / x_m)^-beta.

    Attributes
    ----------
    slow_dollars : float
        Cost A as the speed approaches 0 [USD per 1e6 output tokens].
    top_tokens_per_second : float
        Speed limit x_m, at which the cost becomes infinite [tokens/s].
    exponent : float
        Exponent beta of the fit [1].
    slowest_tokens_per_second, fastest_tokens_per_second : float
        Range of speeds in which the fit is valid [tokens/s].
    points : int
        Number of fitted points [1].
    typical_error : float
        Root mean square of ln(cost of a point / fitted cost) [1]; 0.1 is about 10 %.
    largest_error : float
        Largest ratio between the cost of a point and the fitted cost, in either direction, minus one [1].
    """

    slow_dollars: float
    top_tokens_per_second: float
    exponent: float
    slowest_tokens_per_second: float
    fastest_tokens_per_second: float
    points: int
    typical_error: float
    largest_error: float

    @property
    def has_top(self) -> bool:
        """True if the fit has a finite top speed; False if the cost grows as exp(beta x / x_m)."""
        return self.top_tokens_per_second < _TOP_IS_SEEN * self.fastest_tokens_per_second

    def dollars_at(self, tokens_per_second: npt.ArrayLike) -> Array:
        """Fitted cost at speeds [tokens/s] below the top speed, shape (...) [USD per 1e6 output tokens].

        Raises
        ------
        InputError
            If a speed is negative, or not below the top speed.
        """
        speeds = np.asarray(tokens_per_second, dtype=float)
        if not np.all((speeds >= 0) & (speeds < self.top_tokens_per_second)):
            raise InputError(f"speeds must be from 0 to below {self.top_tokens_per_second:.4g} tokens/s, the top speed")
        return pareto.summarised_cost(speeds, self.slow_dollars, self.top_tokens_per_second, self.exponent)

    def record(self) -> dict[str, float]:
        """The fit as plain data."""
        return asdict(self)


def summarise(tokens_per_second: Array, dollars: Array) -> FrontierSummary:
    """Fit cost = A (1 - x / x_m)^-beta to the points of a frontier, by least squares of ln(cost).

    Parameters
    ----------
    tokens_per_second, dollars : ndarray, shape (n,)
        Speed [tokens/s] and cost [USD per 1e6 tokens] of the points.

    Raises
    ------
    InputError
        If there are fewer than four points.

    Notes
    -----
    For a given x_m, ln(cost) is linear in -log(1 - x / x_m), so the fit is a linear regression. Successively finer
    grids of x_m find the smallest residual. The published code of Erdil (2025) maximizes the equivalent likelihood
    numerically in four unknowns.
    """
    speeds, logarithms = np.asarray(tokens_per_second, dtype=float), np.log(dollars)
    if speeds.size < _FEWEST_POINTS:
        raise InputError(
            f"a frontier of {speeds.size} points is its own summary; A (1 - x / x_m)^-beta needs at least "
            f"{_FEWEST_POINTS}"
        )
    fastest = float(speeds.max())
    near = _MARGINS
    for _ in range(_ROUNDS):
        # The first grid is coarse, because the residual may have several minima.
        margins = np.linspace(*near, 69)
        lines = _lines(speeds, logarithms, fastest, margins)
        lowest = int(np.argmin(lines[-1]))
        near = (margins[max(lowest - 1, 0)], margins[min(lowest + 1, margins.size - 1)])
    slow, exponent, left = (float(values[lowest]) for values in lines)
    top = fastest * (1.0 + np.exp(margins[lowest]))
    errors = logarithms - np.log(pareto.summarised_cost(speeds, np.exp(slow), top, exponent))
    return FrontierSummary(
        float(np.exp(slow)),
        float(top),
        float(exponent),
        float(speeds.min()),
        fastest,
        speeds.size,
        float(np.sqrt(left / speeds.size)),
        float(np.expm1(np.max(np.abs(errors)))),
    )


def _lines(speeds: Array, logarithms: Array, fastest: float, margins: Array) -> tuple[Array, Array, Array]:
    """Fit ln(A) and beta, with the sum of squared residuals, for each top speed fastest * (1 + exp(margin))."""
    over = -np.log1p(-speeds / (fastest * (1.0 + np.exp(margins[:, None]))))
    mean = over.mean(axis=-1)
    centred = over - mean[:, None]
    exponent = centred @ logarithms / (centred**2).sum(axis=-1)
    slow = logarithms.mean() - exponent * mean
    left = (logarithms - slow[:, None] - exponent[:, None] * over) ** 2
    return slow, exponent, left.sum(axis=-1)


PointT = TypeVar("PointT")
#: Metrics that can be plotted against speed: cost per million output tokens, and per million input and output tokens;
#: tokens per second per accelerator, and per megawatt of facility power; energy of the boards per output token; number
#: of chips of an instance; MFU.
Metric = Literal["cost", "blended", "throughput", "power", "joules", "gpus", "mfu"]
METRICS: tuple[Metric, ...] = get_args(Metric)
#: Relative tolerance of a requested speed [1]. The speed of the fastest point is accepted with seven printed digits.
_SPEED_TOLERANCE = 1e-6
#: Largest exponent of the preference rule [1]; with a larger one, speed^a overflows.
_LARGEST_EXPONENT = 100


class Choosable(ABC, Generic[PointT]):
    """Cost-speed frontier of decode steps or of services. Points are sorted by speed, the slowest first."""

    __slots__ = ()

    saving: Saving | None

    @abstractmethod
    def axes(self) -> tuple[Array, Array]:
        """Output speed of one user [tokens/s] and cost [USD per 1e6 tokens] of every point, shape (n,) each."""

    @abstractmethod
    def metrics(self) -> Mapping[Metric, Callable[[], Array | None]]:
        """Functions that compute chart metrics, by name; results have shape (n,), or are None without power data."""

    def metric(self, name: Metric) -> Array:
        """Values of a metric at all points, in [USD per 1e6 tokens], [tokens/s], [tokens/s/MW], [J per token] or [1].

        Raises
        ------
        InputError
            If the metric needs power data that the hardware file lacks, or if frontiers of this type do not have the
            metric.
        """
        metrics = self.metrics()
        if name not in metrics:
            counted = "decode steps alone (--decode-only)" if name == "mfu" else "services"
            other = f", which applies to {counted}" if name in METRICS else ""
            raise InputError(f"y: got {name!r}{other}; allowed: {', '.join(metrics)}", option="y")
        values = metrics[name]()
        if values is None:
            raise power.no_watts(
                ", ".join(dict.fromkeys(instances.setup.hardware.name for instances in self.subjects()))
            )
        return values

    @abstractmethod
    def points(self, chosen: Sequence[int] | None = None) -> list[PointT]:
        """Points with their layouts, the fastest last; ``chosen`` selects points by index (default: all points)."""

    @abstractmethod
    def subjects(self, points: Sequence[PointT] | None = None) -> tuple[Instances, ...]:
        """Points as instances for a comparison with measured servers; by default all points."""

    def preferred_subjects(self) -> tuple[Instances, ...]:
        """Point of :meth:`preferred` as an instance, for a comparison with measured servers."""
        return self.subjects([self.preferred()])

    def point(self, index: int) -> PointT:
        """A point with its layout."""
        return self.points([range(self.axes()[0].size)[index]])[0]

    def fastest(self) -> PointT:
        """Fastest point."""
        return self.point(-1)

    def preferred(self, exponent: float = 3.0) -> PointT:
        """Point with the largest speed^exponent / cost (eq. 45 of Erdil, 2025)."""
        return self.point(self.preferred_index(exponent))

    def preferred_index(self, exponent: float = 3.0) -> int:
        """Index of the point that :meth:`preferred` returns.

        Raises
        ------
        InputError
            If the exponent is not from 0 to 100.
        """
        if not 0 <= exponent <= _LARGEST_EXPONENT:
            raise InputError(f"the exponent must be from 0 to {_LARGEST_EXPONENT}, got {exponent:g}")
        return int(np.argmax(money.preference(*self.axes(), exponent)))

    def summary(self) -> FrontierSummary:
        """Fit of cost against speed x, cost = A (1 - x / x_m)^-beta, with the error of the fit.

        Raises
        ------
        InputError
            If the frontier has fewer than four points.
        """
        return summarise(*self.axes())

    def summary_record(self) -> dict[str, float] | None:
        """Parameters and error of the fit as plain data; None if the frontier has too few points."""
        try:
            return self.summary().record()
        except InputError:
            return None

    def saving_record(self) -> dict[str, object]:
        """JSON field with the saving of layouts that no engine can start; empty if the saving was not computed."""
        return {} if self.saving is None else {"any_layout": self.saving._asdict()}

    def cheapest(self, tokens_per_second: float = 0.0) -> PointT:
        """Cheapest point with at least a speed [tokens/s]. The point is one deployment, with its own speed and cost.

        Raises
        ------
        InputError
            If every point is slower than the speed, or the speed is not a number from 0.
        """
        return self.point(self.place(tokens_per_second))

    def fastest_at(self, dollars: float) -> PointT | None:
        """Fastest point with at most this cost [USD per 1e6 output tokens]; None if every point costs more."""
        _, costs = self.axes()
        cheap = np.flatnonzero(costs <= dollars * (1.0 + 1e-9))
        return self.point(int(cheap[-1])) if cheap.size else None

    def place(self, tokens_per_second: float) -> int:
        """Index of the cheapest point with at least this speed; see :meth:`cheapest`."""
        if not isinstance(tokens_per_second, int | float | np.number) or not tokens_per_second >= 0.0:
            raise InputError(f"tokens_per_second: got {tokens_per_second!r}; give a speed per user, 0 or more")
        speeds, _ = self.axes()
        fast_enough = np.flatnonzero(speeds >= tokens_per_second * (1.0 - _SPEED_TOLERANCE))
        if fast_enough.size == 0:
            raise InputError(
                f"no deployment reaches {tokens_per_second:g} tokens/s per user; the fastest has {speeds[-1]:.7g}"
            )
        return int(fast_enough[0])


class Saving(NamedTuple):
    """Largest saving of arbitrary layouts, compared with layouts that engines can start, at equal speed."""

    share: float
    """Saving as a share of the cost [1]; 0 if arbitrary layouts are not cheaper."""
    tokens_per_second: float
    """Speed at which the saving is largest [tokens/s per user]."""


def saved_by(bound: Choosable[Any], startable: Choosable[Any] | None) -> Saving | None:
    """Largest saving of arbitrary layouts (``bound``) over ``startable`` layouts; None without a startable frontier."""
    return None if startable is None else most_saved(*startable.axes(), *bound.axes())


def most_saved(speeds: Array, costs: Array, bound_speeds: Array, bound_costs: Array) -> Saving:
    """Find the speed at which arbitrary layouts save the largest share of the cost of startable layouts.

    Parameters
    ----------
    speeds, costs : ndarray, shape (n,)
        Frontier of layouts that engines can start: speed [tokens/s per user] and cost [USD per 1e6 tokens].
    bound_speeds, bound_costs : ndarray, shape (m,)
        Frontier of arbitrary layouts: speed [tokens/s per user] and cost [USD per 1e6 tokens].

    Examples
    --------
    >>> most_saved(np.array([10.0, 50.0]), np.array([1.0, 4.0]), np.array([12.0, 50.0]), np.array([1.0, 3.0]))
    Saving(share=0.25, tokens_per_second=50.0)
    """
    reached = bound_speeds[None, :] >= speeds[:, None] * (1.0 - 1e-9)
    cheapest = np.where(reached, bound_costs[None, :], np.inf).min(axis=1)
    shares = np.maximum(1.0 - cheapest / costs, 0.0)
    best = int(np.argmax(shares))
    return Saving(float(shares[best]), float(speeds[best]))


#: Stride in instance sizes and batches of the coarse grid that gives the first frontier [1].
_COARSE = 12


@dataclass(frozen=True, slots=True)
class Sampling:
    """Reduction of a frontier to the cheapest points at logarithmically spaced latency limits.

    Attributes
    ----------
    points : int
        Number of latency limits [1].
    decades : float
        Range of the latency limits, in powers of ten [1].
    """

    points: int
    decades: float


@dataclass(frozen=True, slots=True)
class Point:
    """One deployment on a frontier.

    Attributes
    ----------
    tokens_per_second_per_user : float
        Output speed of one user [tokens/s].
    dollars_per_million_output_tokens : float
        Cost [USD per 1e6 tokens].
    accelerators, batch : float
        Number of accelerators in the instance, and number of sequences that it decodes together [1].
    layout : dict
        Pipeline stages, attention ranks, expert-parallel ranks, split of matrices, and draft length [1].
    mfu : float
        Model FLOPs utilization [1].
    bandwidth_utilization : float
        Bytes of weights and KV cache that a step reads, divided by peak memory bandwidth times step time [1].
    limited_by : str
        Part of the step time that takes the longest, for example ``weights``.
    parts : dict
        Time per token by part [s].
    """

    tokens_per_second_per_user: float
    dollars_per_million_output_tokens: float
    accelerators: float
    batch: float
    layout: Mapping[str, float | str]
    mfu: float
    bandwidth_utilization: float
    limited_by: str
    parts: Mapping[str, float]

    def record(self) -> dict[str, object]:
        """The point as plain data."""
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        parts = dict(record.pop("parts"))
        return {**record, "layout": dict(self.layout), "seconds_per_token": parts}


@dataclass(frozen=True, slots=True, repr=False)
class Frontier(Shown, Choosable[Point]):
    """Cost-speed frontier of decode steps; the slowest and cheapest point is the first.

    Attributes
    ----------
    setup : Setup
        Model, chip, formats, assumptions and price.
    speculation : Speculation or None
        Speculation method; None without speculative decoding.
    grid : InstanceGrid
        Grid of instances that was searched.
    seconds, dollars : ndarray, shape (n,)
        Time per token [s] and cost [USD per 1e6 tokens]. Times descend strictly and costs ascend strictly.
    accelerators, batch : ndarray, shape (n,)
        Instance sizes and batches [1].
    max_tokens_per_second : float or None
        Demand, above which an instance is excluded [output tokens/s]; None without a limit.
    traffic : Traffic or None
        Workload of the query; None if only the context is known.
    saving : Saving or None
        Saving of layouts that no engine can start; None if it was not computed.
    """

    page = "report.questions.frontier:FrontierPage"

    setup: Setup
    speculation: Speculation | None
    grid: InstanceGrid
    seconds: Array
    dollars: Array
    accelerators: Array
    batch: Array
    max_tokens_per_second: float | None = None
    traffic: Traffic | None = None
    saving: Saving | None = None

    def __len__(self) -> int:
        return self.seconds.size

    @property
    def tokens_per_second(self) -> Array:
        """Output speed of one user [tokens/s], shape (n,)."""
        return 1.0 / self.seconds

    @property
    def mfu(self) -> Array:
        """Model FLOPs utilization [1], shape (n,)."""
        return mfu(self.setup, self.accelerators, self.batch, self.seconds)

    def axes(self) -> tuple[Array, Array]:
        """Output speed of one user [tokens/s] and cost [USD per 1e6 tokens] of every point, shape (n,) each."""
        return self.tokens_per_second, self.dollars

    def metrics(self) -> dict[Metric, Callable[[], Array | None]]:
        """Functions that compute chart metrics, by name; results have shape (n,), or are None without power data."""
        rate = self.batch / self.seconds
        return {
            "cost": lambda: self.dollars,
            "throughput": lambda: rate / self.accelerators,
            "power": lambda: power.tokens_per_second_per_megawatt(self.setup.hardware, rate, self.accelerators),
            "joules": self._joules,
            "gpus": lambda: self.accelerators,
            "mfu": lambda: self.mfu,
        }

    def _joules(self) -> Array | None:
        """Board energy per output token, shape (n,) [J]; None without power data."""
        setup, chip, joules = self.setup, chip_power(self.setup.hardware), np.zeros(len(self))
        if chip is None:
            return None
        drafted = token_seconds(setup, self.accelerators, self.batch, self.grid.layouts, speculation=self.speculation)
        for length in np.unique(drafted.drafted).tolist():
            chosen = np.flatnonzero(drafted.drafted == length)
            sizes, batches = self.accelerators[chosen], self.batch[chosen]
            plans = fastest_round(setup, sizes, batches, self.grid.layouts, self.speculation, length).plans
            done = token_joules(setup, chip, plans, self.speculation) * batches
            joules[chosen] = sizes * chip.board_watts(done, self.seconds[chosen]) * self.seconds[chosen] / batches
        return joules

    def points(self, chosen: Sequence[int] | None = None) -> list[Point]:
        """Points with their layouts, the fastest last; ``chosen`` selects points by index (default: all points)."""
        places = np.arange(len(self)) if chosen is None else np.asarray(chosen)
        sizes, batches = self.accelerators[places], self.batch[places]
        # The search is repeated for the chosen instances only, because the frontier does not store layouts.
        times = token_seconds(self.setup, sizes, batches, self.grid.layouts, speculation=self.speculation)
        points: dict[int, Point] = {}
        for length in np.unique(times.drafted).tolist():
            points |= _rounds(self, places[times.drafted == length], length)
        return [points[index] for index in places.tolist()]

    @property
    def dollars_per_accelerator_hour(self) -> float:
        """Price of a chip [USD/h]."""
        return self.setup.dollars_per_accelerator_hour

    def subjects(self, points: Sequence[Point] | None = None) -> tuple[Instances]:
        """Points as instances for a comparison with measured servers; by default all points."""
        shown = self.points() if points is None else points
        sizes, batches = [point.accelerators for point in shown], [point.batch for point in shown]
        layouts = [recorded_key(point.layout) for point in shown]
        isl, osl = (None, None) if self.traffic is None else (self.traffic.isl, self.traffic.osl)
        speculates = self.speculation is not None
        return (Instances(self.setup, sizes, batches, isl, osl, speculates=speculates, layouts=layouts),)

    def ends(self) -> bounds.Ends:
        """Ratios of the 80% interval ends to the predicted values, by column, for all points [1]."""
        (instances,) = self.subjects()
        return bounds.ends(instances, bounds.STEP)

    @property
    def ends_each(self) -> list[bounds.Ends]:
        """Ratios of the 80% interval ends to the predicted values, one equal entry per point [1]."""
        return [self.ends()] * len(self)

    @property
    def sources(self) -> tuple[UsedSource, ...]:
        """Sources of all inputs of the frontier."""
        return priced_sources(self.setup, self.speculation)

    def record(self) -> dict[str, object]:
        """Return the frontier as plain data: all points, the fastest last."""
        (instances,) = self.subjects()
        factors = bounds.ends(instances, bounds.STEP)
        formats = "weights", "expert_weights", "activations", "kv", "formats", "math_unit"
        record: dict[str, object] = {
            **facts(self.setup, *HEAD, *formats, "context", *(["contexts"] if self.setup.contexts else [])),
            "dollars_per_accelerator_hour": self.dollars_per_accelerator_hour,
            "speculation": None if self.speculation is None else self.speculation.record(),
            "calibration": calibration_record(instances),
            "summary": self.summary_record(),
            "points": [bounds.bounded(point.record(), factors) for point in self.points()],
            "sources": source_records(self.sources),
        }
        return record | self.saving_record()

    def records(self) -> list[dict[str, object]]:
        """Return one record per point, including the interval ends of speed and cost."""
        rows, factors = [], self.ends()
        for point in self.points():
            row = bounds.bounded(point.record(), factors)
            layout, parts = row.pop("layout"), row.pop("seconds_per_token")
            assert isinstance(layout, dict) and isinstance(parts, dict)
            rows.append({**row, **layout, **{f"{name}_seconds": value for name, value in parts.items()}})
        return rows


def compute(
    setup: Setup,
    grid: InstanceGrid,
    *,
    speculation: Speculation | None = None,
    max_tokens_per_second: float | None = None,
    sampling: Sampling | None = None,
    traffic: Traffic | None = None,
    progress: Progress | None = None,
) -> Frontier:
    """Compute the cost-speed frontier of a grid of instances, each with its fastest layout.

    Parameters
    ----------
    setup : Setup
        Model, chip, formats, assumptions and price.
    grid : InstanceGrid
        Instance sizes, batches and layouts to evaluate.
    speculation : Speculation, optional
        Speculation method, which is used only where it is faster.
    max_tokens_per_second : float, optional
        Demand [tokens/s]. Instances with a higher throughput are left out.
    sampling : Sampling, optional
        Return only the cheapest points at logarithmically spaced latency limits, as in the published study.
    traffic : Traffic, optional
        Workload of the query, whose mean context is the context of ``setup``. The notes of the result use the workload.
    progress : callable, optional
        Function that receives the completed share of the work [1] and the name of the current stage.

    Returns
    -------
    Frontier
        Exact frontier of the grid.

    Raises
    ------
    InputError
        If the model does not support the speculation method.
    NothingFitsError
        If no instance is feasible. The message has the number of infeasible plans by reason.

    Notes
    -----
    A coarse subset of the grid gives a first frontier. The cost of an instance is proportional to its step time. Each
    instance therefore has a step time above which the first frontier dominates it. Layouts with a lower bound above
    this step time are not evaluated. The lower bounds do not change the resulting frontier.
    """
    sizes, batches = grid.pairs()
    price = setup.dollars_per_accelerator_hour
    # Times, costs, accelerators and batches of the best points so far, ascending in time.
    best = [np.empty(0)] * 4
    for share, what, step in ((0.0, "a coarse grid", _COARSE), (0.1, "all instances", 1)):
        if progress is not None:
            progress(share, what)
        size, batch = sizes[::step], batches[:, ::step]
        rate = money.dollars_per_million_tokens(size, 1.0, batch, price)
        # The limit is slightly higher, so that rounding never removes a point of the frontier.
        ceiling = pareto.ceiling(best[0], best[1], rate) * (1.0 + 1e-12)
        if sampling is not None and best[0].size:  # slower points exceed all latency limits
            ceiling = np.minimum(ceiling, best[0][0] * 10.0**sampling.decades * (1.0 + 1e-12))
        seconds = token_seconds(setup, size, batch, grid.layouts, speculation=speculation, ceiling=ceiling).seconds
        kept = np.isfinite(seconds)
        if max_tokens_per_second is not None:
            kept &= batch <= max_tokens_per_second * seconds

        # Instances that may be on the frontier are merged with the best points so far.
        size, batch = (np.broadcast_to(array, kept.shape)[kept] for array in (size, batch))
        dollars = money.dollars_per_million_tokens(size, seconds[kept], batch, price)
        merged = [np.concatenate(pair) for pair in zip(best, (seconds[kept], dollars, size, batch), strict=True)]
        chosen = pareto.undominated(merged[0], merged[1])
        best = [column[chosen] for column in merged]
    if progress is not None:
        progress(1.0, "done")
    if best[0].size == 0:
        raise NothingFitsError(why_nothing_fits(setup, grid, max_tokens_per_second, speculation))
    chosen = np.arange(best[0].size)
    if sampling is not None:
        chosen = pareto.sampled(best[0], sampling.points, sampling.decades)
    seconds, dollars, size, batch = (column[chosen[::-1]] for column in best)
    return Frontier(setup, speculation, grid, seconds, dollars, size, batch, max_tokens_per_second, traffic)


def _rounds(front: Frontier, chosen: Indices, drafted: int) -> Iterator[tuple[int, Point]]:
    """Index and point for the chosen instances, which use ``drafted`` draft tokens per round."""
    setup, speculation, tokens = front.setup, front.speculation, 1.0
    if speculation is not None:
        tokens = float(speculation.tokens(setup.assumptions.serving)[drafted])
    sizes, batches = front.accelerators[chosen], front.batch[chosen]
    best, useful = fastest_round(setup, sizes, batches, front.grid.layouts, speculation, drafted), front.mfu
    for number in np.unique(best.cut):
        cut, these = setup.assumptions.layout.tensor_layouts[number], np.flatnonzero(best.cut == number)
        plans = best.plans.at((these,))
        parts = {name: seconds / tokens for name, seconds in evaluate(setup, plans, cut).parts.items()}
        # Time that the theoretical memory bandwidth would need to read weights and KV cache.
        work = setup.work(plans)
        moved = sum(
            row.repeats * (row.weight_bytes + row.shared_kv_bytes + row.kv_bytes_per_sequence * work.sequences)
            for row in work.operators
        )
        read = np.broadcast_to(moved / setup.hardware.hbm_bytes_per_second, plans.shape) / tokens
        degrees = setup.layout_columns(plans, np.full(these.shape, cut))
        for row, index in enumerate(chosen[these].tolist()):
            seconds, shares = float(front.seconds[index]), {name: float(part[row]) for name, part in parts.items()}
            layout: dict[str, float | str] = {name: values[row] for name, values in degrees.items()}
            if drafted:
                shares["draft"] = seconds - sum(shares.values())
                layout["draft_tokens"] = drafted
            point = Point(
                tokens_per_second_per_user=1.0 / seconds,
                dollars_per_million_output_tokens=float(front.dollars[index]),
                accelerators=float(front.accelerators[index]),
                batch=float(front.batch[index]),
                layout=layout,
                mfu=float(useful[index]),
                bandwidth_utilization=float(read[row]) / seconds,
                limited_by=max(shares, key=shares.__getitem__),
                parts=shares,
            )
            yield index, point
