"""Cost-speed frontier of services: Pareto-optimal layouts and batches under continuous batching."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._answer import Shown
from inference_econ._types import Array, Indices, distinct
from inference_econ.answers.deployments.serving_options import (
    RECIPE,
    Arrangement,
    Candidate,
    Pooling,
    Proposer,
    StateMetrics,
    market,
)
from inference_econ.answers.simplest import LEVELS, SIMPLER, frontier_points, simplest
from inference_econ.answers.slo import (
    LeastAt,
    Likely,
    Targets,
    check_mean,
    kept_states,
    likely_ends,
    why_none_is_kept,
)
from inference_econ.engine import (
    NO_EVIDENCE,
    Evidence,
    Instances,
    Plans,
    Setup,
    Space,
    Speculation,
    bounds,
    evaluate,
    power,
)
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import money, pareto
from inference_econ.inputs import DEFAULT_ISL, DEFAULT_OSL, HardwareSpec, ModelSpec, Requests, Traffic
from inference_econ.inputs.catalog import Name
from inference_econ.records.deviations import SERVED, calibration_record
from inference_econ.records.facts import HEAD, bound, facts
from inference_econ.records.plain import finite_or_none
from inference_econ.records.sources import UsedSource, power_sources, priced_sources, source_records
from inference_econ.search import Choosable, Metric, Saving

#: Largest TPOT on a frontier without a TPOT SLO [s]. Slower services are not offered in practice.
SLOWEST = 0.1
#: Request lengths if none are given. Validating them would build the validator of the class in every process.
_USUAL = Traffic.model_construct(isl=DEFAULT_ISL, osl=DEFAULT_OSL)
Mask = npt.NDArray[np.bool_]
#: Columns that are proportional to the cost of a token.
_COSTS = ("dollars_per_million_output_tokens", "dollars_per_million_tokens")


class _Place(NamedTuple):
    """Position on the frontier: a state of a candidate deployment, or a point between two of its states."""

    number: int
    """Index of the candidate deployment."""
    row: int
    """Row index of the layout among the layouts of the candidate."""
    column: int
    """Column index of the batch; for a position between two batches, index of the smaller batch."""
    dollars: float
    """Cost at the position [USD per 1e6 output tokens]."""


@dataclass(frozen=True, slots=True)
class ServicePoint:
    """Point of a frontier: a deployment with one layout at a constant concurrency.

    Attributes
    ----------
    tokens_per_second_per_user : float
        Output speed of one user, 1 / TPOT [tokens/s]. The TPOT includes prefill of other requests.
    ttft_seconds, tpot_seconds, e2e_seconds, e2e_seconds_per_output_token : float
        Mean latencies without a queue, and E2E latency per output token [s].
    dollars_per_million_output_tokens : float
        Cost divided by output tokens [USD per 1e6 tokens].
    dollars_per_million_tokens : float
        Cost divided by input and output tokens [USD per 1e6 tokens].
    tokens_per_second_per_accelerator : float
        Output tokens per GPU and second [tokens/s].
    tokens_per_second_per_megawatt : float or None
        Output rate divided by the facility power [tokens/s/MW]; None without power data.
    joules_per_output_token : float or None
        Energy of the GPU boards per output token [J]; None without power data.
    requests_per_second, accelerators, concurrency, batch : float
        Values of one instance or prefill/decode group: completed requests [1/s], number of GPUs [1], concurrent
        requests [1], and decode batch [1].
    layout : dict
        Parallelism degrees of the instance, and the engines that can start it. For a disaggregated point, these are the
        degrees of decode instances. The dictionary then also has ``prefill``, ``prefill_instances`` and
        ``decode_instances``.
    recipe : str
        KV-cache format and speculation method, as text.
    kv : str
        KV-cache format.
    speculation : dict or None
        Speculation method as plain data.
    evidence : Evidence
        Calibration data: how similar the measured servers are to the deployment, and how many runs were measured.
    aggregated_dollars_per_million_output_tokens : float or None
        For a disaggregated point, the lowest cost of aggregated deployments at the same speed [USD per 1e6 tokens]. The
        value is None if all aggregated deployments are slower.
    """

    tokens_per_second_per_user: float
    ttft_seconds: float
    tpot_seconds: float
    e2e_seconds: float
    e2e_seconds_per_output_token: float
    dollars_per_million_output_tokens: float
    dollars_per_million_tokens: float
    tokens_per_second_per_accelerator: float
    tokens_per_second_per_megawatt: float | None
    joules_per_output_token: float | None
    requests_per_second: float
    accelerators: float
    concurrency: float
    batch: float
    layout: Mapping[str, float | str]
    recipe: str = ""
    kv: str = ""
    speculation: Mapping[str, object] | None = None
    evidence: Evidence = NO_EVIDENCE
    aggregated_dollars_per_million_output_tokens: float | None = None

    def record(self) -> dict[str, object]:
        """Return the point as plain data for JSON."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return fields | {"layout": dict(self.layout)} | self.evidence.record()


#: Numeric fields of a point. A frontier has one array for each field.
_NUMBERS = ServicePoint.__slots__[: ServicePoint.__slots__.index("layout")]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class _ServiceStates:
    """Steady states of candidate deployments, with metrics such as cost and power.

    All arrays have shape (n,). If all GPUs are of one kind, they have the same price and power. Cost, tokens per GPU
    and tokens per megawatt then give the same ranking.

    Attributes
    ----------
    candidates : tuple of Candidate
        Candidate deployments: engines with their recipes, aggregated or disaggregated.
    which, rows, states : ndarray of int
        For each point: index of the candidate, index of the layout in the candidate, and index of the batch.
    ttft_seconds, tpot_seconds : ndarray
        Mean latencies without a queue [s]. The TPOT includes prefill of other requests.
    requests_per_second, accelerators, concurrency, batch : ndarray
        Values of one instance or prefill/decode group: completed requests [1/s], number of GPUs [1], concurrent
        requests [1], and decode batch [1].
    promises : Targets
        SLOs that every point meets; they apply to means without a queue.
    saving : Saving or None
        Cost that layouts without engine support save, compared with supported layouts; None without this comparison.
    """

    candidates: tuple[Candidate, ...]
    which: Indices
    rows: Indices
    states: Indices
    ttft_seconds: Array
    tpot_seconds: Array
    requests_per_second: Array
    accelerators: Array
    concurrency: Array
    batch: Array
    promises: Targets
    saving: Saving | None = None

    def __len__(self) -> int:
        return self.batch.size

    @property
    def tokens_per_second(self) -> Array:
        """Output speed of one user, 1 / TPOT [tokens/s]."""
        return 1.0 / self.tpot_seconds

    def candidate(self, index: int) -> Candidate:
        """Return the candidate deployment of a point."""
        return self.candidates[int(self.which[index])]

    @property
    def shown(self) -> list[int]:
        """Indices of the candidates that have a point on the frontier."""
        return sorted(set(self.which.tolist()))

    @property
    def requests(self) -> Requests:
        """Requests of the workload."""
        return self.candidates[0].requests

    @property
    def dollars_per_accelerator_hour(self) -> float:
        """Price of a GPU [USD/h]."""
        return self.candidates[0].setup.dollars_per_accelerator_hour

    def axes(self) -> tuple[Array, Array]:
        """Speed of one user [tokens/s], and cost [USD per 1e6 output tokens], at every point; shape (n,) each."""
        return self.tokens_per_second, self.dollars

    @property
    def e2e_seconds(self) -> Array:
        """Mean E2E latency [s]."""
        return self.ttft_seconds + self.requests.decode_steps * self.tpot_seconds

    @property
    def e2e_seconds_per_output_token(self) -> Array:
        """Mean E2E latency divided by the mean number of output tokens [s]."""
        return self.e2e_seconds / self.requests.osl.mean

    @property
    def output_tokens_per_second(self) -> Array:
        """Output rate of an instance or prefill/decode group [tokens/s]."""
        return self.requests_per_second * self.requests.osl.mean

    @property
    def dollars_per_million_tokens(self) -> Array:
        """Cost divided by input and output tokens [USD per 1e6 tokens]."""
        requests = self.requests
        return self.dollars * (requests.osl.mean / (requests.isl.mean + requests.osl.mean))

    @property
    def dollars(self) -> Array:
        """Cost, including prefill, divided by output tokens [USD per 1e6 tokens]."""
        prefill = self._other_prefill_chips
        paid = self.accelerators
        if prefill is not None:
            relative = prefill[0].dollars_per_accelerator_hour / self.dollars_per_accelerator_hour
            paid = paid + (relative - 1.0) * prefill[1]
        return money.dollars_per_million_tokens(
            paid, 1.0, self.output_tokens_per_second, self.dollars_per_accelerator_hour
        )

    @property
    def _other_prefill_chips(self) -> tuple[Setup, Array] | None:
        """Setup of prefill instances on another kind of GPU, and their number of GPUs at every point, shape (n,) [1].

        The value is None if prefill and decode use the same kind of GPU. Otherwise, all candidates use the same two
        kinds of GPUs.
        """
        pools = self.candidates[0].pools
        if pools is None or not pools.pools.prefill_chip:
            return None
        decoding = np.empty(len(self))
        for number in self.shown:
            mine, candidate = self.which == number, self.candidates[number]
            rows, states = self.rows[mine], self.states[mine]
            decoding[mine] = candidate.decoders(rows, states) * candidate.plans.accelerators[rows]
        return pools.pools.prefill.setup, self.accelerators - decoding

    @property
    def tokens_per_second_per_accelerator(self) -> Array:
        """Output tokens per GPU and second [tokens/s]."""
        return np.asarray(self.output_tokens_per_second / self.accelerators)

    @property
    def tokens_per_second_per_megawatt(self) -> Array | None:
        """Output rate divided by the facility power [tokens/s/MW]; None without power data."""
        chip, tokens = self.candidates[0].setup.hardware, self.output_tokens_per_second
        other = self._other_prefill_chips
        if other is None:
            return power.tokens_per_second_per_megawatt(chip, tokens, self.accelerators)
        prefill = power.tokens_per_second_per_megawatt(other[0].hardware, tokens, other[1])
        decode = power.tokens_per_second_per_megawatt(chip, tokens, self.accelerators - other[1])
        return None if prefill is None or decode is None else 1.0 / (1.0 / prefill + 1.0 / decode)

    @property
    def joules_per_output_token(self) -> Array | None:
        """Board energy per output token [J]; None without power data."""
        joules = np.empty(len(self))
        for number in self.shown:
            mine, candidate = np.flatnonzero(self.which == number), self.candidates[number]
            batch, rate = self.batch[mine], self.requests_per_second[mine]
            watts = candidate.board_watts(self.rows[mine], self.states[mine], batch, rate)
            if watts is None:
                return None
            joules[mine] = watts / rate / self.requests.osl.mean
        return joules

    def metrics(self) -> dict[Metric, Callable[[], Array | None]]:
        """Functions that compute each metric that a chart can show against speed, shape (n,) each.

        A function for a metric of power or energy returns None if the GPU has no power data.
        """
        return {
            "cost": lambda: self.dollars,
            "blended": lambda: self.dollars_per_million_tokens,
            "throughput": lambda: self.tokens_per_second_per_accelerator,
            "power": lambda: self.tokens_per_second_per_megawatt,
            "joules": lambda: self.joules_per_output_token,
            "gpus": lambda: self.accelerators,
        }

    def columns(self) -> dict[str, Array | None]:
        """Values of all points by the field names of :class:`ServicePoint`; None for metrics without power data."""
        others = {"tokens_per_second_per_user": "tokens_per_second", "dollars_per_million_output_tokens": "dollars"}
        return {name: getattr(self, others.get(name, name)) for name in _NUMBERS}

    def plan(self, index: int) -> Plans:
        """Return the layout of a point, shape (1,); for a disaggregated point, the layout of a decode instance."""
        at = np.array([index])
        return replace(self.candidate(index).plans.at((self.rows[at],)), batch=self.batch[at])

    def _instances(
        self, number: int, rows: Indices, columns: Indices, concurrency: Array, label: str = ""
    ) -> Instances:
        """Describe states of a candidate as instances, for which prediction errors can be looked up.

        For a disaggregated candidate, the described instances are decode instances. ``concurrency`` is the total
        concurrency of each state [1].
        """
        candidate = self.candidates[number]
        return Instances(
            candidate.setup,
            candidate.plans.accelerators[rows].tolist(),
            (concurrency / candidate.decoders(rows, columns)).tolist(),
            self.requests.isl.mean,
            self.requests.osl.mean,
            speculates=candidate.speculation is not None,
            label=label,
            layouts=candidate.keys(rows),
        )


@dataclass(frozen=True, repr=False, eq=False)
class _SpeedCosts(_ServiceStates):
    """Steady states with the lowest cost at every speed. Costs between two batches are interpolated."""

    _at_speeds: dict[float, Likely | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def at_speed(self, tokens_per_second: float) -> Likely | None:
        """Return the interpolated lowest cost of a service at a speed or above, with the 80% interval of this cost.

        Between two batches of one layout, the interpolated cost is a power function of speed. Costs of different
        layouts are not interpolated. Numbers of prefill and decode instances may differ between two batches, so the
        cost can belong to no single deployment; :meth:`cheapest` returns a deployment with its own cost.

        Parameters
        ----------
        tokens_per_second : float
            Speed of a user [tokens/s].

        Returns
        -------
        Likely or None
            Lowest cost [USD per 1e6 output tokens]; None if no deployment is as fast.
        """
        # A comparison requests the costs at the same speeds several times.
        if tokens_per_second not in self._at_speeds:
            self._at_speeds[tokens_per_second] = self._likely_at(tokens_per_second)
        return self._at_speeds[tokens_per_second]

    def _likely_at(self, tokens_per_second: float) -> Likely | None:
        place = self._place(tokens_per_second)
        if place is None:
            return None
        candidate, at = self.candidates[place.number], (np.array([place.row]), np.array([place.column]))
        instances = self._instances(place.number, *at, candidate.metrics.concurrency[at], candidate.label)
        (low,), (high,) = likely_ends(
            lambda speeds, measured: self.dollars_at(speeds, measured=measured),
            np.array([tokens_per_second]),
            instances,
        )
        lows, highs = self.cost_ends
        low = max(low, np.fmax.reduce(lows[self.tokens_per_second <= tokens_per_second], initial=0.0))
        high = min(high, np.fmin.reduce(highs[self.tokens_per_second >= tokens_per_second], initial=math.inf))
        return Likely(place.dollars, finite_or_none(float(low)), finite_or_none(float(high)), instances)

    @cached_property
    def cost_ends(self) -> tuple[Array, Array]:
        """Low and high ends of the 80% interval of the lowest cost at each point's speed [USD per 1e6 output tokens].

        A deployment can also serve users at lower speeds, so neither end of the interval decreases as speed rises.
        """
        low, high = np.empty(len(self)), np.empty(len(self))
        least = self._least_around(self._same_instances)
        for at, instances in self._same_instances:
            low[at], high[at] = likely_ends(least, self.tokens_per_second[at], instances)
        order = np.argsort(self.tokens_per_second, kind="stable")
        low[order] = np.where(np.isnan(low[order]), np.nan, np.fmax.accumulate(low[order]))
        high[order] = np.where(np.isnan(high[order]), np.nan, np.fmin.accumulate(high[order[::-1]])[::-1])
        return low, high

    def _least_around(self, groups: Sequence[tuple[Indices, Instances]]) -> LeastAt:
        """Compute the lowest costs at all speeds for which :func:`likely_ends` will request a cost.

        One search for all speeds is much faster than one search per group of points with the same layout.
        """
        around = [(self.tokens_per_second[at], bounds.around(instances, "tpot")) for at, instances in groups]
        asked = [own * factor for own, tpot in around if tpot for factor in (1.0, tpot.low, tpot.high)]
        speeds = np.concatenate([*asked, ()])

        @cache
        def costs(measured: bool) -> dict[float, float]:
            return dict(zip(speeds.tolist(), self.dollars_at(speeds, measured=measured).tolist(), strict=True))

        return lambda some, measured: np.array([costs(measured)[speed] for speed in some.tolist()])

    @cached_property
    def _same_instances(self) -> list[tuple[Indices, Instances]]:
        """For each layout on the frontier, the indices of its points, and its instances at these points."""
        groups = []
        for number, row in sorted(set(zip(self.which.tolist(), self.rows.tolist(), strict=True))):
            at = np.flatnonzero((self.which == number) & (self.rows == row))
            groups.append((at, self._instances(number, self.rows[at], self.states[at], self.concurrency[at])))
        return groups

    def dollars_at(self, tokens_per_second: npt.ArrayLike, *, measured: bool = False) -> Array:
        """Return the lowest costs at many speeds; see :meth:`at_speed`.

        Parameters
        ----------
        tokens_per_second : array_like, shape (...)
            Speeds of a user [tokens/s].
        measured : bool
            True to use only the layouts of measured servers.

        Returns
        -------
        ndarray, shape (...)
            Lowest costs [USD per 1e6 output tokens]; infinite where no deployment is as fast.
        """
        speeds = np.asarray(tokens_per_second, dtype=float)
        least = np.full((*speeds.shape, LEVELS), np.inf)
        for candidate in self.candidates:
            curves = 1.0 / candidate.metrics.tpot_seconds, candidate.kept_dollars(self.promises)
            for level in distinct(candidate.complexity).tolist():
                rows = (candidate.complexity == level) & (candidate.measured_rows | (not measured))
                if not rows.any():
                    continue
                costs = pareto.least_at(curves[0][rows], curves[1][rows], speeds)
                np.minimum(least[..., level], costs, out=least[..., level])
        # Use the least complex deployment within the tolerance of the lowest cost.
        near = least <= (1.0 + SIMPLER) * least.min(axis=-1, keepdims=True)
        best = np.take_along_axis(least, near.argmax(axis=-1)[..., None], axis=-1)[..., 0]
        if measured:
            return best
        # A point of the frontier is also used if it is only slightly cheaper than an interpolated position.
        whole = np.append(self.dollars, np.inf)[np.searchsorted(self.tokens_per_second, speeds)]
        return np.asarray(np.minimum(best, whole))

    def _place(self, tokens_per_second: float) -> _Place | None:
        """Find the position with the lowest cost at a speed or above, with a preference for simple deployments."""
        found: list[tuple[float, int, _Place]] = []
        for number, candidate in enumerate(self.candidates):
            speeds = 1.0 / candidate.metrics.tpot_seconds
            costs = candidate.kept_dollars(self.promises)
            for level in distinct(candidate.complexity).tolist():
                rows = np.flatnonzero(candidate.complexity == level)
                least = pareto.least_from(speeds[rows], costs[rows], tokens_per_second)
                if least is None:
                    continue
                dollars, row, place = least
                column = place % speeds.shape[1]
                found.append((dollars, level, _Place(number, int(rows[row]), column, dollars)))
        if not found:
            return None
        best = found[simplest(*zip(*((dollars, level) for dollars, level, _ in found), strict=True))][2]
        # A point of the frontier is also used if it is only slightly cheaper than an interpolated position.
        for at in np.flatnonzero(self.tokens_per_second >= tokens_per_second)[:1].tolist():
            if self.dollars[at] < best.dollars:
                number, row, column = (int(places[at]) for places in (self.which, self.rows, self.states))
                return _Place(number, row, column, float(self.dollars[at]))
        return best


@dataclass(frozen=True, repr=False, eq=False)
class ServiceFrontier(Shown, _SpeedCosts, Choosable[ServicePoint]):
    """Pareto frontier of services in steady state.

    Points are in ascending order of speed and cost.
    """

    page = "report.questions.frontier:FrontierPage"

    @property
    def setup(self) -> Setup:
        """Setup of the preferred point. All points have the same model, GPU, price and weight format."""
        return self.candidate(self.preferred_index()).setup

    @property
    def setups(self) -> Sequence[Setup]:
        """Setups of all candidates that have a point on the frontier."""
        return [setup for number in self.shown for setup in self.candidates[number].setups]

    @property
    def speculation(self) -> Speculation | None:
        """Speculation method of the preferred point; None without speculation."""
        return self.candidate(self.preferred_index()).speculation

    def subjects(self, points: Sequence[ServicePoint] | None = None) -> tuple[Instances, ...]:
        """Describe points as instances, for a comparison with measured servers.

        The result has one entry per candidate. All points are included unless ``points`` is given.
        """
        chosen = np.arange(len(self))
        if points is not None:
            # Points are identified by their speed.
            chosen = np.array([int(np.argmin(np.abs(self.tpot_seconds - point.tpot_seconds))) for point in points])
        shown = distinct(self.which[chosen]).tolist()
        labels = [self.candidates[number].label if len(shown) > 1 else "" for number in shown]
        return tuple(
            self._instances(number, self.rows[at], self.states[at], self.concurrency[at], label)
            for number, label in zip(shown, labels, strict=True)
            for at in (chosen[self.which[chosen] == number],)
        )

    def points(self, chosen: Sequence[int] | None = None) -> list[ServicePoint]:
        """Return points with their layouts, the fastest last. All points are returned unless ``chosen`` has indices."""
        return [self._points[index] for index in (range(len(self)) if chosen is None else chosen)]

    @cached_property
    def _points(self) -> list[ServicePoint]:
        at = np.arange(len(self))
        layouts: dict[int, dict[str, float | str]] = {}
        for number in distinct(self.which[at]).tolist():
            mine = at[self.which[at] == number]
            records = self.candidates[number].layouts(self.rows[mine], self.states[mine])
            layouts.update(zip(mine.tolist(), records, strict=True))
        columns = {name: values for name, values in self.columns().items() if values is not None}
        together = self.aggregated_dollars(at)
        rows = zip(*(values[at].tolist() for values in columns.values()), strict=True)
        none: dict[str, Any] = dict.fromkeys(("tokens_per_second_per_megawatt", "joules_per_output_token"))
        return [
            ServicePoint(
                **(none | dict(zip(columns, row, strict=True))),
                layout=layouts[index],
                recipe=candidate.practice,
                kv=candidate.setup.precision.kv,
                speculation=None if candidate.speculation is None else candidate.speculation.record(),
                evidence=candidate.evidence,
                aggregated_dollars_per_million_output_tokens=aggregated,
            )
            for row, index, candidate, aggregated in zip(
                rows, at.tolist(), map(self.candidate, at.tolist()), together, strict=True
            )
        ]

    def aggregated_dollars(self, at: Indices) -> list[float | None]:
        """Lowest cost of aggregated deployments at the speed of each given point [USD per 1e6 output tokens].

        The cost is None for aggregated points, and for speeds that no aggregated deployment reaches.
        """
        least = np.full(at.size, np.inf)
        for candidate in self.candidates:
            if candidate.pools is None:
                curves = 1.0 / candidate.metrics.tpot_seconds, candidate.kept_dollars(self.promises)
                least = np.minimum(least, pareto.least_at(*curves, self.tokens_per_second[at]))
        beside = [self.candidate(index).pools is not None for index in at.tolist()]
        return [
            cost if shown and np.isfinite(cost) else None for shown, cost in zip(beside, least.tolist(), strict=True)
        ]

    @property
    def sources(self) -> tuple[UsedSource, ...]:
        """Sources of the inputs of the frontier."""
        shown = [self.candidates[number] for number in self.shown]
        priced = [(setup, candidate.speculation) for candidate in shown for setup in candidate.setups]
        every = [used for setup, speculation in priced for used in priced_sources(setup, speculation)]
        drawn = [used for setup in self.candidates[0].setups for used in power_sources(setup.hardware)]
        return tuple(dict.fromkeys([*every, *drawn]))

    def record(self) -> dict[str, Any]:
        """Return all points as plain data, the fastest last. Without power data, power and energy are null."""
        return {
            **facts(
                self.setup,
                *(*HEAD, "weights", "expert_weights", "activations", "kv", "isl", "osl", "cached", "shared_prefix"),
                requests=self.requests,
            ),
            **bound(*self.candidate(self.preferred_index()).setups),
            "dollars_per_accelerator_hour": self.dollars_per_accelerator_hour,
            "speculation": None if self.speculation is None else self.speculation.record(),
            "slos": self.promises.record(),
            "calibration": {instances.label: calibration_record(instances, SERVED) for instances in self.subjects()},
            "summary": self.summary_record(),
            "points": [record for record, _ in self.bounded_points()],
            "sources": source_records(self.sources),
            **self.saving_record(),
        }

    def records(self) -> list[dict[str, Any]]:
        """Return one record per point, with the ends of its 80% intervals."""
        rows = [{**record, **layout} for record, layout in self.bounded_points()]
        return [{name: value for name, value in row.items() if name not in ("layout", "speculation")} for row in rows]

    def bounded_points(self) -> Iterator[tuple[dict[str, object], Mapping[str, float | str]]]:
        """Yield each point as plain data with the ends of its 80% intervals, and the layout of the point."""
        for point, factors in zip(self.points(), self.ends_each, strict=True):
            yield bounds.bounded(point.record(), factors), point.layout

    def ends(self) -> bounds.Ends:
        """Factors that convert a predicted column into the ends of its 80% interval, shape (n,) each [1].

        The factors of a column are None if the prediction error of a point is unknown.
        """
        every_end = self.ends_each
        factors: dict[str, bounds.Factors] = {}
        for name in bounds.FULL:
            pairs = [ends[name] for ends in every_end]
            low, high = (np.array([math.nan if pair[end] is None else pair[end] for pair in pairs]) for end in (0, 1))
            factors[name] = (None, None) if np.isnan(low).any() else (low, high)
        return factors

    @cached_property
    def ends_each(self) -> list[bounds.Ends]:
        """Interval factors of each point.

        The factors of cost describe the lowest cost at the point's speed, not the cost of the point's layout.
        """
        every: list[bounds.Ends] = [{} for _ in range(len(self))]
        low, high = (end / self.dollars for end in self.cost_ends)
        for at, instances in self._same_instances:
            ends = bounds.ends(instances, bounds.FULL)
            for place in at.tolist():
                of_cost = finite_or_none(float(low[place])), finite_or_none(float(high[place]))
                every[place] = {**ends, **dict.fromkeys(_COSTS, of_cost)}
        return every


def frontier(
    setup: Setup | ModelSpec | Name,
    traffic: Traffic | Requests | HardwareSpec | Name = _USUAL,
    space: Space | None = None,
    *,
    speculation: Proposer = RECIPE,
    arrangement: Arrangement = "both",
    pooling: Pooling | None = None,
    promises: Targets | None = None,
    slots: int | None = None,
) -> ServiceFrontier:
    """Compute the cost-speed frontier of services under continuous batching, including prefill.

    Parameters
    ----------
    setup : Setup, or a model
        Model, GPU, formats, price and assumptions. If the engine is not set, all engines that support the model are
        compared, each with its best recipes. You may also pass a model (or its name or path). The next argument is then
        the GPU, and all other inputs have their defaults. Create an :class:`inference_econ.Setup` to change more.
    traffic : Traffic or Requests, or a GPU
        Request lengths; by default 2000 input and 500 output tokens. To set cached or shared tokens, pass a
        ``Requests`` object.
    space : Space, optional
        Instances to search; by default all integer parallelism degrees.
    speculation : Speculation, None or 'recipe'
        Speculation method on the same GPUs; None for no speculation. By default, each recipe sets its own method.
    arrangement : {'both', 'aggregated', 'disaggregated'}
        Aggregated serving, disaggregated serving, or both.
    pooling : Pooling, optional
        Settings of disaggregated serving. If decoding uses a second kind of GPU, the arrangement must be
        ``disaggregated``.
    promises : Targets, optional
        SLOs on mean TTFT and TPOT (percentile ``mean``); points that miss an SLO are left out.
    slots : int, optional
        Maximum concurrent requests per instance [1].

    Returns
    -------
    ServiceFrontier
        Pareto-optimal points, the slowest and cheapest first.

    Raises
    ------
    InputError
        If the price is unknown, the workload has only decode steps, or another input is invalid.
    NothingFitsError
        If no layout fits, or no layout meets the SLOs; the message has the smallest feasible SLOs.

    Examples
    --------
    >>> from inference_econ.engine import Setup, Space
    >>> front = frontier(Setup.of("llama_3_8b", "h100_sxm"), Traffic(isl=1000, osl=200), Space(max_accelerators=2))
    >>> round(1e3 * float(front.fastest().tpot_seconds), 1)
    2.0
    >>> frontier("llama_3_8b", "h100_sxm").fastest().layout["tp"]
    8
    """
    if not isinstance(setup, Setup):
        if space is not None:
            raise InputError(
                f"frontier takes a model and a chip alone, got {reprlib.repr(space)} as well; give whatever else "
                "after a setup: frontier(Setup.of('llama_3_70b', 'h100_sxm'), Traffic(3000, 800), Space(pins))"
            )
        names = (str, PathLike)
        if not (isinstance(traffic, (HardwareSpec, *names)) and isinstance(setup, (ModelSpec, *names))):
            raise InputError(
                f"frontier takes Setup and Traffic objects, or a model and a chip, got {reprlib.repr(setup)} and "
                f"{reprlib.repr(traffic)}; write frontier('llama_3_70b', 'h100_sxm') or "
                "frontier(Setup.of('llama_3_70b', 'h100_sxm'), Traffic(3000, 800))"
            )
        setup, traffic = Setup.of(setup, traffic), _USUAL
    if not isinstance(traffic, (Traffic, Requests)):
        raise InputError(
            f"traffic: got {reprlib.repr(traffic)}; give lengths after a setup, for example Traffic(2000, 500), or a "
            "model and a chip: frontier('llama_3_70b', 'h100_sxm')"
        )
    promised = check_mean(promises)
    offered = market(
        setup, traffic, space, speculation=speculation, arrangement=arrangement, pooling=pooling, slots=slots,
        ttft_seconds=promised.ttft_seconds,
    )  # fmt: skip
    return service_frontier(offered, promised)


def service_frontier(
    candidates: Sequence[Candidate], promises: Targets | None = None, *, ends: bool = True
) -> ServiceFrontier:
    """Compute the frontier over all layouts and batches of candidates in steady states of continuous batching.

    Parameters
    ----------
    candidates : sequence of Candidate
        Candidates of one model on one GPU (:func:`inference_econ.answers.deployments.serving_options.market`).
    promises : Targets, optional
        SLOs on mean TTFT and TPOT (percentile ``mean``); points that miss an SLO are left out.
    ends : bool
        If True, and no TPOT SLO is set, points with a TPOT above 100 ms are left out, unless all points are slower.

    Returns
    -------
    ServiceFrontier
        The frontier is exact for the given layouts and batches, except that simple deployments are preferred
        (:func:`inference_econ.answers.simplest.frontier_points`).

    Raises
    ------
    InputError
        If outputs have one token (TPOT is then undefined), or if an SLO applies to a percentile instead of a mean.
    NothingFitsError
        If no point meets the SLOs; the message has the smallest feasible SLOs.
    """
    requests = candidates[0].requests
    if not requests.decode_steps > 0:
        raise InputError(f"osl must be more than 1 token for a speed, got {requests.osl.mean:g}")
    if len({tuple(setup.hardware.name for setup in candidate.setups) for candidate in candidates}) > 1:
        raise InputError(
            "a frontier is for one kind of GPU, or for prefill and decode pools of the same two kinds; add "
            "--disaggregated, or ask 'recommend' for the cheapest of several",
            option="disaggregated",
        )
    promised = check_mean(promises)
    seen = [candidate.means(promised.given) for candidate in candidates]
    kept = [kept_states(times, promised) for times in seen]
    if ends and "tpot" not in promised.given:
        usual = [mask & (times["tpot"] <= SLOWEST) for mask, times in zip(kept, seen, strict=True)]
        kept = usual if any(mask.any() for mask in usual) else kept
    if not any(mask.any() for mask in kept):
        every = {name: np.concatenate([times[name].ravel() for times in seen]) for name in seen[0]}
        raise NothingFitsError(why_none_is_kept(candidates[0].setup, every, promised))
    best = _undominated(candidates, kept)
    which, rows, columns = (np.array(column, dtype=np.intp) for column in zip(*best, strict=True))
    waits = np.empty(which.size)
    for number in distinct(which).tolist():
        mine = which == number
        waits[mine] = candidates[number].ttft_seconds(rows[mine], columns[mine])
    values = [[column[row, state] for column in candidates[number].metrics] for number, row, state in best]
    states = StateMetrics(*map(np.array, zip(*values, strict=True)))
    return ServiceFrontier(tuple(candidates), which, rows, columns, waits, *states, promised)


def _undominated(candidates: Sequence[Candidate], kept: Sequence[Mask]) -> list[tuple[int, int, int]]:
    """Indices (candidate, layout, batch) of Pareto-optimal states, slowest first; simple deployments are preferred."""
    places: list[tuple[int, int, int]] = []
    times, costs, levels = [], [], []
    for number, (candidate, mask) in enumerate(zip(candidates, kept, strict=True)):
        rows, columns = np.nonzero(mask)
        places += zip([number] * rows.size, rows.tolist(), columns.tolist(), strict=True)
        times.append(candidate.metrics.tpot_seconds[mask])
        costs.append(candidate.paid_chips[mask] / candidate.metrics.requests_per_second[mask])
        levels.append(candidate.complexity[rows])
    best = frontier_points(np.concatenate(times), np.concatenate(costs), np.concatenate(levels))
    return [places[at] for at in best[::-1].tolist()]


#: Name of the part of a step that is prefill of other requests.
PROMPTS = "prefill"
#: Relative rounding tolerance of sums of parts [1]. Parts of exactly 0, such as prefill in decode pools, need none.
_ROUNDING = 1e-9


def token_parts(front: ServiceFrontier) -> Mapping[str, Array]:
    """Divide the TPOT of each point into the parts of a decode step and the prefill of other requests.

    Parameters
    ----------
    front : ServiceFrontier
        Frontier whose points take one step per token, without speculation.

    Returns
    -------
    mapping of str to ndarray, shape (n,)
        Time of each part; the parts add up to the TPOT [s]. The mapping is empty if points use speculation, because
        speculation rounds replace decode steps.
    """
    if any(front.candidates[number].speculation is not None for number in front.shown):
        return {}
    parts: dict[str, Array] = {}
    for number in front.shown:
        at = np.flatnonzero(front.which == number)
        of_points = step_parts(front.candidates[number], front.rows[at], front.batch[at], front.tpot_seconds[at])
        for name, seconds in of_points.items():
            parts.setdefault(name, np.zeros(len(front)))[at] = seconds
    return parts


def step_parts(candidate: Candidate, rows: Indices, batch: Array, tpot_seconds: Array) -> dict[str, Array]:
    """Divide the TPOT of some layouts of a candidate without speculation; see :func:`token_parts`.

    ``batch`` and ``tpot_seconds`` are the batch [1] and the TPOT [s] of each layout.
    """
    setup, plans = candidate.setup, candidate.plans.at((rows,))
    # Every pipeline stage has at least one sequence.
    plans = replace(plans, batch=np.maximum(batch, plans.pp))
    steps = [evaluate(setup, plans, cut) for cut in setup.assumptions.layout.tensor_layouts]
    best = np.argmin([step.seconds for step in steps], axis=0)
    parts = {name: np.choose(best, [step.parts[name] for step in steps]) for name in steps[0].parts}
    rest = tpot_seconds - np.sum(list(parts.values()), axis=0)
    return {**parts, PROMPTS: np.where(rest > _ROUNDING * tpot_seconds, rest, 0.0)}
