"""Choose: the plans that nothing beats in both speed and cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from inference_econ._shown import Shown
from inference_econ._types import Array, Indices, Progress
from inference_econ.engine import (
    Grid,
    Instances,
    Plans,
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
from inference_econ.errors import NothingFitsError
from inference_econ.formulas import money, pareto
from inference_econ.inputs import Traffic
from inference_econ.records.deviations import calibration_record
from inference_econ.records.facts import HEAD, facts
from inference_econ.records.sources import UsedSource, priced_sources, source_records
from inference_econ.search.choosable import Choosable, Metric, Saving
from inference_econ.search.every_plan import PlanTable, every_plan, why_nothing_fits
from inference_econ.search.fastest import fastest_round, token_seconds

#: Every so many sizes and batches make the coarse grid that finds a first frontier.
_COARSE = 12


@dataclass(frozen=True, slots=True)
class Sampling:
    """A logarithmic scan of latency limits instead of the exact frontier.

    Attributes
    ----------
    points : int
        Limits [1].
    decades : float
        Their span [1].
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
        pp, attention ranks, expert-parallel ranks, cut, and draft length [1].
    mfu : float
        Useful arithmetic over the theoretical peak [1].
    bandwidth_utilization : float
        Weights and cache read over what the theoretical memory bandwidth could read in the time [1].
    limited_by : str
        The largest part of a step.
    parts : dict
        Seconds per token by part [s].
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
        """Plain data, for JSON."""
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        parts = dict(record.pop("parts"))
        return {**record, "layout": dict(self.layout), "seconds_per_token": parts}


@dataclass(frozen=True, slots=True, repr=False)
class Frontier(Shown, Choosable[Point]):
    """A cost-speed frontier of decode steps, slowest and cheapest point first.

    Attributes
    ----------
    setup : Setup
        What, on what, how.
    speculation : Speculation or None
        Who proposes tokens, if anybody.
    grid : Grid
        Where the points come from.
    seconds, dollars : ndarray, shape (n,)
        Time per token [s] and cost [USD per 1e6 tokens], both strictly ordered.
    accelerators, batch : ndarray, shape (n,)
        [1]
    max_tokens_per_second : float or None
        Demand, if it is limited [tokens/s].
    traffic : Traffic or None
        What was asked for; None if only the context is known.
    saving : Saving or None
        Of layouts that no engine can start, what they save over those that one can, if that is compared.
    """

    page = "report.frontier:FrontierPage"

    setup: Setup
    speculation: Speculation | None
    grid: Grid
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
        """Speed of one user [tokens/s], shape (n,)."""
        return 1.0 / self.seconds

    @property
    def mfu(self) -> Array:
        """Useful arithmetic over the theoretical peak [1], shape (n,)."""
        return mfu(self.setup, self.accelerators, self.batch, self.seconds)

    def axes(self) -> tuple[Array, Array]:
        """Speed of a user [tokens/s] and cost [USD per 1e6 tokens] of every point, shape (n,) each."""
        return self.tokens_per_second, self.dollars

    def metrics(self) -> dict[Metric, Callable[[], Array | None]]:
        """Functions of what can be held against speed, shape (n,) each; None without watts in the hardware file."""
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
        """Energy of the boards per output token, shape (n,) [J]; None where the hardware file has no watts."""
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
        """Every point with its layout, the fastest last; or some of them, by position."""
        return _describe(self, np.arange(len(self)) if chosen is None else np.asarray(chosen))

    @property
    def dollars_per_accelerator_hour(self) -> float:
        """The price of a chip [USD/h]."""
        return self.setup.dollars_per_accelerator_hour

    def subjects(self, points: Sequence[Point] | None = None) -> tuple[Instances]:
        """Every point as an instance that may be unlike what was measured, or some points of it."""
        shown = self.points() if points is None else points
        sizes, batches = [point.accelerators for point in shown], [point.batch for point in shown]
        layouts = [recorded_key(point.layout) for point in shown]
        isl, osl = (None, None) if self.traffic is None else (self.traffic.isl, self.traffic.osl)
        speculates = self.speculation is not None
        return (Instances(self.setup, sizes, batches, isl, osl, speculates=speculates, layouts=layouts),)

    def plans(self) -> PlanTable:
        """Every feasible plan of the grid, dominated ones included: :func:`inference_econ.search.every_plan`."""
        return every_plan(
            self.setup,
            self.grid,
            speculation=self.speculation,
            max_tokens_per_second=self.max_tokens_per_second,
        )

    def ends(self) -> bounds.Ends:
        """Factors from columns to where measured values of any point probably lie [1]."""
        (instances,) = self.subjects()
        return bounds.ends(instances, bounds.STEP)

    def ends_at(self, index: int) -> bounds.Ends:
        """Return the factors of one point, which are those of all."""
        del index
        return self.ends()

    @property
    def sources(self) -> tuple[UsedSource, ...]:
        """Every source that the frontier rests on."""
        return priced_sources(self.setup, self.speculation)

    def record(self, plans: PlanTable | None = None) -> dict[str, object]:
        """Return every point as plain data, the fastest last; with every plan of its grid, if they are given."""
        (instances,) = self._listed(plans)
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
            listed = [bounds.bounded(plan, factors) for plan in plans.records()]
            record |= {"plans": listed, "infeasible": dict(plans.infeasible)}
        return record | self.saving_record()

    def _listed(self, plans: PlanTable | None) -> tuple[Instances]:
        """Every point of the frontier, or every plan that is listed instead."""
        (points,) = self.subjects()
        if plans is None:
            return (points,)
        (listed,) = plans.subjects()
        return (listed._replace(isl=points.isl, osl=points.osl, speculates=points.speculates),)

    def records(self) -> list[dict[str, object]]:
        """Return one record per point, with low and high beside speed and cost."""
        rows, factors = [], self.ends()
        for point in self.points():
            row = bounds.bounded(point.record(), factors)
            layout, parts = row.pop("layout"), row.pop("seconds_per_token")
            assert isinstance(layout, dict) and isinstance(parts, dict)
            rows.append({**row, **layout, **{f"{name}_seconds": value for name, value in parts.items()}})
        return rows


def compute(
    setup: Setup,
    grid: Grid,
    *,
    speculation: Speculation | None = None,
    max_tokens_per_second: float | None = None,
    sampling: Sampling | None = None,
    traffic: Traffic | None = None,
    progress: Progress | None = None,
) -> Frontier:
    """The frontier of a grid of instances, each in its fastest layout.

    Parameters
    ----------
    setup : Setup
        What, on what, how, at what price.
    grid : Grid
        Instances and layouts to consider.
    speculation : Speculation, optional
        Speculate where it helps.
    max_tokens_per_second : float, optional
        Demand: instances that would sell more are left out [tokens/s].
    sampling : Sampling, optional
        Keep only what a logarithmic scan visits, as the published study does.
    traffic : Traffic, optional
        What the context of the question is the mean of; kept for what is said of the answer.
    progress : callable, optional
        Told the share of the work done.

    Returns
    -------
    Frontier
        Exact for the grid.

    Raises
    ------
    InputError
        If the speculation does not go with the model.
    NothingFitsError
        If no instance is feasible, with the counts of the reasons.

    Notes
    -----
    Cheap bounds first: a coarse part of the grid gives a first frontier; with cost proportional to time, each
    instance has a time above which it is behind that frontier, and layouts whose lower bound is above that time
    are not evaluated. The result is the same as without.
    """
    sizes, batches = grid.pairs()
    search = _FrontierSearch(setup, grid, speculation, max_tokens_per_second)
    for share, what, step in ((0.0, "a coarse grid", _COARSE), (0.1, "all instances", 1)):
        if progress is not None:
            progress(share, what)
        search.evaluate(sizes[::step], batches[:, ::step])
    if progress is not None:
        progress(1.0, "done")
    if search.seconds.size == 0:
        raise NothingFitsError(why_nothing_fits(setup, grid, max_tokens_per_second, speculation))
    chosen = np.arange(search.seconds.size)
    if sampling is not None:
        chosen = pareto.sampled(search.seconds, sampling.points, sampling.decades)
    chosen = chosen[::-1]
    return Frontier(
        setup,
        speculation,
        grid,
        search.seconds[chosen],
        search.dollars[chosen],
        search.accelerators[chosen],
        search.batch[chosen],
        max_tokens_per_second,
        traffic,
    )


class _FrontierSearch:
    """The best points found so far, ascending in seconds."""

    def __init__(
        self,
        setup: Setup,
        grid: Grid,
        speculation: Speculation | None,
        max_tokens_per_second: float | None,
    ) -> None:
        self.setup, self.grid, self.speculation = setup, grid, speculation
        self.price, self.demand = setup.dollars_per_accelerator_hour, max_tokens_per_second
        self.seconds = self.dollars = self.accelerators = self.batch = np.empty(0)

    def evaluate(self, accelerators: Array, batch: Array) -> None:
        """Evaluate instances and merge those that are not behind into the best so far."""
        rate = money.dollars_per_million_tokens(accelerators, 1.0, batch, self.price)
        # A hair above, so that rounding never drops a point of the frontier itself.
        ceiling = pareto.ceiling(self.seconds, self.dollars, rate) * (1.0 + 1e-12)
        seconds = token_seconds(
            self.setup, accelerators, batch, self.grid.layouts, speculation=self.speculation, ceiling=ceiling
        ).seconds
        kept = np.isfinite(seconds)
        if self.demand is not None:
            kept &= batch <= self.demand * seconds
        sizes, batches = (np.broadcast_to(array, kept.shape)[kept] for array in (accelerators, batch))
        dollars = money.dollars_per_million_tokens(sizes, seconds[kept], batches, self.price)
        before = (self.seconds, self.dollars, self.accelerators, self.batch)
        merged = [np.concatenate(pair) for pair in zip(before, (seconds[kept], dollars, sizes, batches), strict=True)]
        best = pareto.undominated(merged[0], merged[1])
        self.seconds, self.dollars, self.accelerators, self.batch = (column[best] for column in merged)


def _describe(front: Frontier, chosen: Indices) -> list[Point]:
    """Layouts and parts of some points: the same search again, on these instances only."""
    sizes, batches = front.accelerators[chosen], front.batch[chosen]
    drafted = token_seconds(front.setup, sizes, batches, front.grid.layouts, speculation=front.speculation).drafted
    points: dict[int, Point] = {}
    for length in np.unique(drafted).tolist():
        points |= _rounds(front, chosen[drafted == length], length)
    return [points[index] for index in chosen.tolist()]


def _rounds(front: Frontier, chosen: Indices, drafted: int) -> Iterator[tuple[int, Point]]:
    """Points of those that draft so many tokens, by position."""
    setup, speculation, tokens = front.setup, front.speculation, 1.0
    if speculation is not None:
        tokens = float(speculation.tokens(setup.assumptions.serving)[drafted])
    sizes, batches = front.accelerators[chosen], front.batch[chosen]
    best, useful = fastest_round(setup, sizes, batches, front.grid.layouts, speculation, drafted), front.mfu
    for number in np.unique(best.cut):
        cut, these = setup.assumptions.layout.tensor_layouts[number], np.flatnonzero(best.cut == number)
        plans = best.plans.at((these,))
        parts = {name: seconds / tokens for name, seconds in evaluate(setup, plans, cut).parts.items()}
        read = _read_seconds(setup, plans) / tokens
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


def _read_seconds(setup: Setup, plans: Plans) -> Array:
    """Time in which the memory would read a step's weights and cache at its theoretical bandwidth [s]."""
    work = setup.work(plans)
    read = sum(
        row.repeats * (row.weight_bytes + row.shared_kv_bytes + row.kv_bytes_per_sequence * work.sequences)
        for row in work.operators
    )
    return np.broadcast_to(read / setup.hardware.hbm_bytes_per_second, plans.shape)
