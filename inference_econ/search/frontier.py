"""Frontier of decode steps: the Pareto-optimal plans in speed and cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
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
    Setup,
    Speculation,
    bounds,
    chip_power,
    evaluate,
    mfu,
    power,
    recorded_key,
    token_joules,
)
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import money, pareto
from inference_econ.inputs import Traffic
from inference_econ.records.deviations import calibration_record
from inference_econ.records.facts import HEAD, facts
from inference_econ.records.sources import UsedSource, priced_sources, source_records
from inference_econ.search.every_plan import PlanTable, every_plan, why_nothing_fits
from inference_econ.search.fastest import fastest_round, token_seconds

#: Fewest points for a fit of three parameters with a meaningful error [1].
_FEWEST_POINTS = 4
#: Search range of the top speed's distance from the fastest point, as exponents of e [1].
_MARGINS = (-14.0, 3.0)
#: Number of successively finer grids of that distance, for a precision of 1e-8 [1].
_ROUNDS = 6

#: Ratio of top speed to fastest point above which the points are treated as an exponential [1].
_TOP_IS_SEEN = 2.0


@dataclass(frozen=True, slots=True)
class FrontierSummary:
    """Function A (1 - x / x_m)^-beta, fitted to the points of a frontier.

    Attributes
    ----------
    slow_dollars : float
        Cost A in the limit of speed 0 [USD per 1e6 output tokens].
    top_tokens_per_second : float
        Speed limit x_m, at which cost diverges [tokens/s].
    exponent : float
        beta [1].
    slowest_tokens_per_second, fastest_tokens_per_second : float
        Validity range [tokens/s].
    points : int
        Number of fitted points [1].
    typical_error : float
        Root mean square of ln(cost of a point / fitted cost) [1]; 0.1 is about 10 %.
    largest_error : float
        Largest of these ratios or their inverses, minus one [1].
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
        """True if the points show a top speed; otherwise cost grows as exp(beta x / x_m)."""
        return self.top_tokens_per_second < _TOP_IS_SEEN * self.fastest_tokens_per_second

    def dollars_at(self, tokens_per_second: npt.ArrayLike) -> Array:
        """Cost at speeds below the top speed [tokens/s], shape (...) [USD per 1e6 output tokens].

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
        """Plain data for JSON."""
        return asdict(self)


def summarise(tokens_per_second: Array, dollars: Array) -> FrontierSummary:
    """Fit the three parameters, with equal relative errors of the points' costs.

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
    For a given x_m, ln(cost) is linear in -log(1 - x / x_m), and the fit is a linear regression. x_m is found on
    successively finer grids that minimize the residual. The published code of Erdil (2025) maximizes the same
    likelihood numerically in four unknowns.
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
        # Coarse first, because the residual may have several minima.
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
    """ln(A), beta and sum of squared residuals for top speeds that exceed the fastest point by e^margin."""
    over = -np.log1p(-speeds / (fastest * (1.0 + np.exp(margins[:, None]))))
    mean = over.mean(axis=-1)
    centred = over - mean[:, None]
    exponent = centred @ logarithms / (centred**2).sum(axis=-1)
    slow = logarithms.mean() - exponent * mean
    left = (logarithms - slow[:, None] - exponent[:, None] * over) ** 2
    return slow, exponent, left.sum(axis=-1)


PointT = TypeVar("PointT")
#: Quantities to compare with speed: dollars per million output tokens, or per million of input and output; tokens per
#: second of an accelerator, or per megawatt of facility power; joules of the boards per output token; chips of an
#: instance; MFU.
Metric = Literal["cost", "blended", "throughput", "power", "joules", "gpus", "mfu"]
METRICS: tuple[Metric, ...] = get_args(Metric)
#: Largest exponent of the preference rule; beyond it, speed^a overflows.
_LARGEST_EXPONENT = 100


class Choosable(ABC, Generic[PointT]):
    """Frontier of decode steps or of services: its points, slowest and cheapest first."""

    __slots__ = ()

    saving: Saving | None

    @abstractmethod
    def axes(self) -> tuple[Array, Array]:
        """Speed per user [tokens/s] and cost [USD per 1e6 tokens] of every point, shape (n,) each."""

    @abstractmethod
    def metrics(self) -> Mapping[Metric, Callable[[], Array | None]]:
        """Functions that compute the quantities to compare with speed, shape (n,) each; None without power data."""

    def metric(self, name: Metric) -> Array:
        """Values of a quantity [USD per 1e6 tokens], [tokens/s], [tokens/s/MW], [J per token] or [1].

        Raises
        ------
        InputError
            If it requires power data that the hardware file lacks, or does not exist for such points.
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
        """Every point with its layout, the fastest last; or selected ones, by position."""

    @abstractmethod
    def subjects(self, points: Sequence[PointT] | None = None) -> tuple[Instances, ...]:
        """Every point, or selected points, as an instance for the comparison with measurements."""

    def preferred_subjects(self) -> tuple[Instances, ...]:
        """The preferred point as an instance for the comparison with measurements."""
        return self.subjects([self.preferred()])

    def point(self, index: int) -> PointT:
        """One point with its layout."""
        return self.points([range(self.axes()[0].size)[index]])[0]

    def fastest(self) -> PointT:
        """Fastest point."""
        return self.point(-1)

    def preferred(self, exponent: float = 3.0) -> PointT:
        """Point that maximizes speed^exponent / cost (eq. 45)."""
        return self.point(self.preferred_index(exponent))

    def preferred_index(self, exponent: float = 3.0) -> int:
        """Position of :meth:`preferred`.

        Raises
        ------
        InputError
            If the exponent is not from 0 to 100.
        """
        if not 0 <= exponent <= _LARGEST_EXPONENT:
            raise InputError(f"the exponent must be from 0 to {_LARGEST_EXPONENT}, got {exponent:g}")
        return int(np.argmax(money.preference(*self.axes(), exponent)))

    def summary(self) -> FrontierSummary:
        """Fit of the frontier in three parameters: A (1 - x / x_m)^-beta, with its error.

        Raises
        ------
        InputError
            If it has fewer than four points.
        """
        return summarise(*self.axes())

    def summary_record(self) -> dict[str, float] | None:
        """The fit as plain data; None if the frontier has too few points."""
        try:
            return self.summary().record()
        except InputError:
            return None

    def saving_record(self) -> dict[str, object]:
        """Savings of arbitrary layouts as part of a record; empty if they were not computed."""
        return {} if self.saving is None else {"any_layout": self.saving._asdict()}

    def cheapest(self, tokens_per_second: float = 0.0) -> PointT:
        """Cheapest point at or above a speed.

        Raises
        ------
        InputError
            If no point is that fast.
        """
        return self.point(self.place(tokens_per_second))

    def fastest_at(self, dollars: float) -> PointT | None:
        """Fastest point at or below a cost [USD per 1e6 output tokens]; None if no point is that cheap."""
        _, costs = self.axes()
        cheap = np.flatnonzero(costs <= dollars * (1.0 + 1e-9))
        return self.point(int(cheap[-1])) if cheap.size else None

    def place(self, tokens_per_second: float) -> int:
        """Position of the cheapest point at or above a speed; see :meth:`cheapest`."""
        speeds, _ = self.axes()
        fast_enough = np.flatnonzero(speeds >= tokens_per_second * (1.0 - 1e-9))
        if fast_enough.size == 0:
            raise InputError(
                f"no deployment reaches {tokens_per_second:g} tokens/s per user; the fastest has {speeds[-1]:.1f}"
            )
        return int(fast_enough[0])


class Saving(NamedTuple):
    """Largest saving of arbitrary layouts over layouts that engines can start, at equal speed."""

    share: float
    """Share of the cost [1]; 0 if nothing is saved."""
    tokens_per_second: float
    """Speed of the largest saving [tokens/s per user]."""


def saved_by(bound: Choosable[Any], startable: Choosable[Any] | None) -> Saving | None:
    """Saving of arbitrary layouts (``bound``) over startable ones; None without a frontier of startable layouts."""
    return None if startable is None else most_saved(*startable.axes(), *bound.axes())


def most_saved(speeds: Array, costs: Array, bound_speeds: Array, bound_costs: Array) -> Saving:
    """Compare a frontier of startable layouts with one of arbitrary layouts.

    Parameters
    ----------
    speeds, costs : ndarray, shape (n,)
        Startable layouts: speed [tokens/s per user] and cost [USD per 1e6 tokens].
    bound_speeds, bound_costs : ndarray, shape (m,)
        Arbitrary layouts: speed [tokens/s per user] and cost [USD per 1e6 tokens].

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


#: Stride in sizes and batches of the coarse grid for the first frontier.
_COARSE = 12


@dataclass(frozen=True, slots=True)
class Sampling:
    """Logarithmic scan of latency limits instead of the exact frontier.

    Attributes
    ----------
    points : int
        Number of limits [1].
    decades : float
        Span of the limits [1].
    """

    points: int
    decades: float


@dataclass(frozen=True, slots=True)
class Point:
    """One deployment on a frontier.

    Attributes
    ----------
    tokens_per_second_per_user : float
        Speed [tokens/s].
    dollars_per_million_output_tokens : float
        Cost [USD per 1e6 tokens].
    accelerators, batch : float
        Instance size and sequences served together [1].
    layout : dict
        Pipeline stages, attention ranks, expert-parallel ranks, split, and draft length [1].
    mfu : float
        Model FLOPs utilization [1].
    bandwidth_utilization : float
        Weights and cache that a step reads, divided by what the theoretical memory bandwidth could read [1].
    limited_by : str
        Largest part of a step.
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
        """Plain data for JSON."""
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        parts = dict(record.pop("parts"))
        return {**record, "layout": dict(self.layout), "seconds_per_token": parts}


@dataclass(frozen=True, slots=True, repr=False)
class Frontier(Shown, Choosable[Point]):
    """Cost-speed frontier of decode steps, slowest and cheapest point first.

    Attributes
    ----------
    setup : Setup
        Model, chip, formats, assumptions and price.
    speculation : Speculation or None
        Speculation method; None without speculative decoding.
    grid : InstanceGrid
        Grid of the points.
    seconds, dollars : ndarray, shape (n,)
        Time per token [s] and cost [USD per 1e6 tokens], both strictly ordered.
    accelerators, batch : ndarray, shape (n,)
        Instance sizes and batches [1].
    max_tokens_per_second : float or None
        Limit of the demand [tokens/s].
    traffic : Traffic or None
        Workload of the query; None if only the context is known.
    saving : Saving or None
        Savings of layouts that no engine can start, if computed.
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

    @property
    def setups(self) -> Sequence[Setup]:
        """Setup of the preferred point."""
        return [self.setup]

    def __len__(self) -> int:
        return self.seconds.size

    @property
    def tokens_per_second(self) -> Array:
        """Speed per user [tokens/s], shape (n,)."""
        return 1.0 / self.seconds

    @property
    def mfu(self) -> Array:
        """Model FLOPs utilization [1], shape (n,)."""
        return mfu(self.setup, self.accelerators, self.batch, self.seconds)

    def axes(self) -> tuple[Array, Array]:
        """Speed per user [tokens/s] and cost [USD per 1e6 tokens] of every point, shape (n,) each."""
        return self.tokens_per_second, self.dollars

    def metrics(self) -> dict[Metric, Callable[[], Array | None]]:
        """Functions that compute the quantities to compare with speed, shape (n,) each; None without power data."""
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
        """Energy of the boards per output token, shape (n,) [J]; None without power data."""
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
        """Every point with its layout, the fastest last; or selected ones, by position."""
        places = np.arange(len(self)) if chosen is None else np.asarray(chosen)
        sizes, batches = self.accelerators[places], self.batch[places]
        # The same search again, limited to these instances.
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
        """Every point, or selected points, as an instance for the comparison with measurements."""
        shown = self.points() if points is None else points
        sizes, batches = [point.accelerators for point in shown], [point.batch for point in shown]
        layouts = [recorded_key(point.layout) for point in shown]
        isl, osl = (None, None) if self.traffic is None else (self.traffic.isl, self.traffic.osl)
        speculates = self.speculation is not None
        return (Instances(self.setup, sizes, batches, isl, osl, speculates=speculates, layouts=layouts),)

    def plans(self) -> PlanTable:
        """Every feasible plan of the grid, including dominated ones: :func:`inference_econ.search.every_plan`."""
        return every_plan(
            self.setup,
            self.grid,
            speculation=self.speculation,
            max_tokens_per_second=self.max_tokens_per_second,
        )

    def ends(self) -> bounds.Ends:
        """Factors from columns to the bounds of measured values, for all points [1]."""
        (instances,) = self.subjects()
        return bounds.ends(instances, bounds.STEP)

    def ends_each(self) -> list[bounds.Ends]:
        """Factors of every point, which are equal for all points."""
        return [self.ends()] * len(self)

    @property
    def sources(self) -> tuple[UsedSource, ...]:
        """All sources that the frontier is based on."""
        return priced_sources(self.setup, self.speculation)

    def record(self, plans: PlanTable | None = None) -> dict[str, object]:
        """Plain data of every point, the fastest last; with every plan of its grid, if given."""
        (instances,) = self.subjects()
        if plans is not None:
            # The list of plans replaces the points.
            (listed,) = plans.subjects()
            instances = listed._replace(isl=instances.isl, osl=instances.osl, speculates=instances.speculates)
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
        if plans is not None:
            rows = [bounds.bounded(plan, factors) for plan in plans.records()]
            record |= {"plans": rows, "infeasible": dict(plans.infeasible)}
        return record | self.saving_record()

    def records(self) -> list[dict[str, object]]:
        """One record per point, including bounds of speed and cost."""
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
    """Frontier of a grid of instances, each in its fastest layout.

    Parameters
    ----------
    setup : Setup
        Model, chip, formats, assumptions and price.
    grid : InstanceGrid
        Instances and layouts.
    speculation : Speculation, optional
        Speculation method, used where it helps.
    max_tokens_per_second : float, optional
        Demand: instances that produce more are omitted [tokens/s].
    sampling : Sampling, optional
        Return only the points that a logarithmic scan visits, as in the published study.
    traffic : Traffic, optional
        Workload whose mean is the context of the query; stored for the notes of the result.
    progress : callable, optional
        Called with the share of the work done.

    Returns
    -------
    Frontier
        Exact frontier of the grid.

    Raises
    ------
    InputError
        If the model does not support the speculation method.
    NothingFitsError
        If no instance is feasible, with the number of plans for each reason.

    Notes
    -----
    A coarse part of the grid gives a first frontier. Cost is proportional to time, so each instance has a time above
    which it lies behind that frontier. Layouts with a lower bound above that time are not evaluated. The result is the
    same as without bounds.
    """
    sizes, batches = grid.pairs()
    price = setup.dollars_per_accelerator_hour
    # Seconds, dollars, accelerators and batches of the best points so far, ascending in seconds.
    best = [np.empty(0)] * 4
    for share, what, step in ((0.0, "a coarse grid", _COARSE), (0.1, "all instances", 1)):
        if progress is not None:
            progress(share, what)
        size, batch = sizes[::step], batches[:, ::step]
        rate = money.dollars_per_million_tokens(size, 1.0, batch, price)
        # Slightly higher, so that rounding never drops a point of the frontier itself.
        ceiling = pareto.ceiling(best[0], best[1], rate) * (1.0 + 1e-12)
        seconds = token_seconds(setup, size, batch, grid.layouts, speculation=speculation, ceiling=ceiling).seconds
        kept = np.isfinite(seconds)
        if max_tokens_per_second is not None:
            kept &= batch <= max_tokens_per_second * seconds

        # Instances that are not behind are merged into the best.
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
    """Points with ``drafted`` draft tokens, by position."""
    setup, speculation, tokens = front.setup, front.speculation, 1.0
    if speculation is not None:
        tokens = float(speculation.tokens(setup.assumptions.serving)[drafted])
    sizes, batches = front.accelerators[chosen], front.batch[chosen]
    best, useful = fastest_round(setup, sizes, batches, front.grid.layouts, speculation, drafted), front.mfu
    for number in np.unique(best.cut):
        cut, these = setup.assumptions.layout.tensor_layouts[number], np.flatnonzero(best.cut == number)
        plans = best.plans.at((these,))
        parts = {name: seconds / tokens for name, seconds in evaluate(setup, plans, cut).parts.items()}
        # Time in which the theoretical bandwidth would read weights and cache.
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
