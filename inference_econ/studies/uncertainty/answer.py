"""The answer to a study of uncertainty: bands, chances, shares, and what it is worth to know an input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from time import process_time

import numpy as np

from inference_econ import _work
from inference_econ._types import Array, Progress
from inference_econ.engine import Setup
from inference_econ.errors import InputError
from inference_econ.formulas import decisions
from inference_econ.inputs import PROFILE, Distribution, Scenario, Settings, UncertaintyAsk
from inference_econ.records.plain import attributes, finite_or_nan, finite_or_none
from inference_econ.records.sources import UsedSource, source_records, spec_sources
from inference_econ.studies.results import AnyFrontier, Study, common_speeds
from inference_econ.studies.settings import frontier_of, number
from inference_econ.studies.uncertainty.design import CHEAP, Design, Shares, Variable, design, shares, variables
from inference_econ.studies.uncertainty.sampling import SampledSeries

#: Points of a design by default: where no sample needs a frontier of its own, and where some do [1].
_MANY, _FEW = 4096, 256
#: Speeds of bands [1].
_STEPS = 60
#: How much faster than the fastest present point bands are drawn to [1].
_FASTER = 1.15
#: Shares of the values of an input between which it is tried once, to see whether anything depends on it [1].
_ENDS = (0.01, 0.99)
#: Shares of samples that bands have as edges and middle [1].
QUANTILES = (0.1, 0.5, 0.9)
#: Bytes of a number, and how many of each cost are held at a time, copies included.
_NUMBER, _COPIES = 8.0, 3.0
#: Points after which a study can be stopped: a share of all, and at least so many [1].
_STEPS_OF_ALL, _LEAST = 32, 16


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Worth of knowing inputs before choosing.

    Attributes
    ----------
    mistakes : Estimate
        How much less often another series would have been cheaper than the chosen one [1].
    dollars : Estimate or None
        How much less the chosen one costs on average [USD per 1e6 output tokens]; None if a series does not reach the
        speed in every sample.
    """

    mistakes: decisions.Estimate
    dollars: decisions.Estimate | None


@dataclass(frozen=True, repr=False)
class Uncertainty(Study):
    """How sure the cost of some series is, and the choice between them.

    Attributes
    ----------
    scenario : Scenario
        What was asked.
    series : tuple of SampledSeries
        What is compared.
    variables : tuple of Variable
        What is uncertain, k of them.
    plan : Design
        The samples.
    speed : float
        At which choices and shares are looked at [tokens/s].
    shown : tuple of float
        Speeds that tables show, ``speed`` among them [tokens/s].
    speeds : ndarray, shape (s,)
        At which costs are known, ascending, those that are shown among them [tokens/s].
    costs : ndarray, shape (rows of the design, s, series)
        Infinite where a speed is not reached [USD per 1e6 output tokens].
    fastest : ndarray, shape (rows of the design, series)
        [tokens/s]
    frontiers : int
        How many were computed.
    """

    page = "report.uncertainty:UncertaintyPage"

    scenario: Scenario
    series: tuple[SampledSeries, ...]
    variables: tuple[Variable, ...]
    plan: Design
    speed: float
    shown: tuple[float, ...]
    speeds: Array
    costs: Array
    fastest: Array
    frontiers: int

    @property
    def ask(self) -> UncertaintyAsk:
        """The question of the scenario."""
        assert isinstance(self.scenario.ask, UncertaintyAsk)
        return self.scenario.ask

    @property
    def used(self) -> tuple[UsedSource, ...]:
        """Sources of the present frontiers."""
        return tuple(dict.fromkeys(used for series in self.series for used in series.present.sources))

    @property
    def labels(self) -> tuple[str, ...]:
        """Of the series."""
        return tuple(series.label for series in self.series)

    @cached_property
    def sampled(self) -> Array:
        """Costs in the independent samples, shape (2 * samples, s, series) [USD per 1e6 output tokens]."""
        return self.plan.both(self.costs)

    @cached_property
    def bands(self) -> Array:
        """Quantiles of the costs, shape (len(QUANTILES), s, series); infinite where too few samples are so fast."""
        return np.asarray(np.quantile(self.sampled, QUANTILES, axis=0, method="inverted_cdf"))

    @cached_property
    def reached(self) -> Array:
        """In which share of the samples a speed is reached, shape (s, series) [1]."""
        return np.asarray(np.isfinite(self.sampled).mean(axis=0))

    @property
    def wrong(self) -> float:
        """In which share of the samples the series that is most often the cheapest at ``speed`` is not [1]."""
        return float(decisions.wrong_choice(self.sampled[:, self.at]).mean(axis=0).min())

    @cached_property
    def chances(self) -> Array:
        """In which share of the samples a series is the cheapest at a speed, shape (s, series) [1]."""
        return np.asarray(decisions.cheapest(self.sampled).mean(axis=0))

    @property
    def at(self) -> int:
        """The position of ``speed`` among the speeds."""
        return int(np.searchsorted(self.speeds, self.speed))

    @property
    def margin(self) -> Array:
        """Ln of the cost of the first series over that of the cheapest other, at ``speed``, in all rows [1]."""
        costs = self.costs[:, self.at]
        with np.errstate(invalid="ignore"):
            return np.asarray(np.log(costs[:, 0]) - np.log(costs[:, 1:].min(axis=1)))

    def outputs(self) -> Mapping[str, Array]:
        """Outputs whose shares are taken at ``speed``: ln of the cost of each series, and the margin between them."""
        costs = {f"cost of {label}": np.log(self.costs[:, self.at, index]) for index, label in enumerate(self.labels)}
        return {MARGIN: self.margin, **costs} if len(self.labels) > 1 else costs

    @cached_property
    def shares(self) -> Mapping[str, Shares]:
        """Sobol shares of the inputs in :meth:`outputs`; of those that are finite in all samples, and vary."""
        finite = {name: values for name, values in self.outputs().items() if np.isfinite(values).all()}
        shares_by_name = {name: shares(self.plan, values, self.ask.seed) for name, values in finite.items()}
        return {name: parts for name, parts in shares_by_name.items() if parts is not None}

    @property
    def all_reach(self) -> float:
        """The fastest speed that all series reach in all samples [tokens/s]."""
        return float(self.fastest.min())

    @cached_property
    def knowledge(self) -> Sequence[Knowledge]:
        """Worth of knowing each input at ``speed``; for the choice between several series."""
        inputs = self.plan.both(self.plan.shares)
        return [self._knowledge(inputs[:, column]) for column in range(len(self.variables))]

    @cached_property
    def all_known(self) -> Knowledge:
        """Worth of knowing all inputs at ``speed``."""
        return self._knowledge(None)

    def _knowledge(self, values: Array | None) -> Knowledge:
        costs = self.sampled[:, self.at]
        finite = bool(np.isfinite(costs).all())
        losses = (decisions.wrong_choice(costs), costs if finite else None)
        mistakes, dollars = (None if loss is None else self._value(values, loss) for loss in losses)
        assert mistakes is not None
        return Knowledge(mistakes, dollars)

    def _value(self, values: Array | None, losses: Array) -> decisions.Estimate:
        if values is None:
            return decisions.value_of_knowing_all(losses)
        return decisions.value_of_knowing(values, losses, self.plan.first_half)

    @cached_property
    def present(self) -> Array:
        """Costs with the present inputs, shape (s, series); infinite where a speed is not reached."""
        return np.stack([series.cost_now(self.speeds) for series in self.series], axis=-1)

    def chance(self, index: int, at: int) -> decisions.Estimate:
        """In which share of the samples a series is the cheapest at one of the speeds."""
        return decisions.share(decisions.cheapest(self.sampled[:, at])[:, index])

    @property
    def setups(self) -> Sequence[Setup]:
        """Setups of all series with present inputs."""
        return [series.present.setup for series in self.series]

    def record(self) -> dict[str, object]:
        """Return bands, chances, shares and the worth of knowing; what is not reached is null."""
        return {
            "scenario": self.scenario.name,
            "description": self.scenario.description,
            "speed": self.speed,
            "samples": self.plan.samples,
            "evaluations": len(self.plan.shares),
            "frontiers": self.frontiers,
            "seed": self.ask.seed,
            "series": [self._series_record(index) for index in range(len(self.labels))],
            "inputs": [self._input_record(column) for column in range(len(self.variables))],
            "shares": {name: self._share_records(shares) for name, shares in self.shares.items()},
            "all_known": self._knowledge_record(None),
            "sources": source_records((*self.used, *spec_sources("scenario", self.scenario))),
        }

    def records(self) -> list[dict[str, object]]:
        """Return bands and chances, one record per series and speed; NaN where a speed is not reached."""
        cost = "dollars_per_million_output_tokens"
        return [
            {
                "series": label,
                "tokens_per_second_per_user": speed,
                cost: finite_or_nan(self.present[at, index]),
                **{f"{cost}_{name}": finite_or_nan(self.bands[level, at, index]) for level, name in enumerate(_NAMES)},
                "reached": self.reached[at, index],
                "cheapest": self.chances[at, index],
            }
            for index, label in enumerate(self.labels)
            for at, speed in enumerate(self.speeds)
        ]

    def _series_record(self, index: int) -> dict[str, object]:
        chance = self.chance(index, self.at)
        bands = {name: _nulls(self.bands[level, :, index]) for level, name in enumerate(_NAMES)}
        return {
            "label": self.labels[index],
            "cheapest_at_speed": {"value": chance.value, "standard_error": chance.standard_error},
            "tokens_per_second_per_user": self.speeds.tolist(),
            "dollars_per_million_output_tokens": {"present": _nulls(self.present[:, index]), **bands},
            "reached": self.reached[:, index].tolist(),
            "cheapest": self.chances[:, index].tolist(),
        }

    def _input_record(self, column: int) -> dict[str, object]:
        variable = self.variables[column]
        series = next(series for series in self.series if series.label in variable.series)
        distribution = variable.given
        return {
            "name": variable.name,
            "series": list(variable.series),
            "distribution": distribution.words if isinstance(distribution, Distribution) else distribution,
            "quantiles": dict(zip(_NAMES, series.quantiles(variable, np.asarray(QUANTILES)).tolist(), strict=True)),
            **(self._knowledge_record(column) or {}),
        }

    def _knowledge_record(self, column: int | None) -> dict[str, object] | None:
        """Record of the worth of knowing an input, or all of them; None if there is nothing to choose."""
        if len(self.labels) == 1:
            return None
        knowledge = self.all_known if column is None else self.knowledge[column]
        dollars = knowledge.dollars
        return {
            "fewer_wrong_choices": knowledge.mistakes._asdict(),
            "saved_dollars_per_million_output_tokens": None if dollars is None else dollars._asdict(),
        }

    def _share_records(self, parts: Shares) -> list[dict[str, object]]:
        shares = attributes(parts, "first first_half_width total total_half_width")
        return [
            {"input": variable.label, **{name: float(values[column]) for name, values in shares.items()}}
            for column, variable in enumerate(self.variables)
        ]


def _nulls(values: Array) -> list[float | None]:
    return [finite_or_none(float(value)) for value in values]


#: Names of the quantiles in data.
_NAMES = ("p10", "median", "p90")
#: What the ratio of costs is called among outputs.
MARGIN = "choice"


def answer(scenario: Scenario, ask: UncertaintyAsk, *, progress: Progress | None = None) -> Uncertainty:
    """Sample the inputs of a study, and count what comes out.

    Parameters
    ----------
    scenario : Scenario
        The study.
    ask : UncertaintyAsk
        Its question: what is compared, and what is uncertain.
    progress : callable, optional
        Told the share of the work done, and what is being done.

    Raises
    ------
    InputError
        If a name, a distribution or a value of one cannot be used, or nothing depends on an input.
    NothingFitsError
        If a series has no frontier with its present inputs.
    """
    every = variables(ask)
    series = tuple(_series(ask, index, every) for index in range(len(ask.series)))
    times = _check_dependence(series, every)
    samples = ask.samples or (_FEW if times else _MANY)
    speed, shown, speeds = _speeds(ask, series)
    needed = sum(sampled.needed(samples) for sampled in series)
    rows = samples * (len(every) + 2)
    _check_work(samples, needed, min(times, default=0.0), rows * speeds.size * len(series))
    plan = design(len(every), samples, ask.seed)
    meter = _Told(progress, rows * len(series))
    # Only frontiers take long; what needs none is sampled in one step.
    plan, costs, fastest = _sampled(
        series, plan, speeds, meter, max(_LEAST, samples // _STEPS_OF_ALL) if times else samples
    )
    frontiers = len(series) + len(times) + sum(sampled.needed(plan.samples) for sampled in series)
    if not np.isfinite(costs[:, int(np.searchsorted(speeds, speed))]).any():
        raise InputError(f"speed: nothing is as fast as {speed:g} tokens/s; the fastest sample has {fastest.max():.4g}")
    return Uncertainty(scenario, series, every, plan, speed, shown, speeds, costs, fastest, frontiers)


def _sampled(
    series: Sequence[SampledSeries], plan: Design, speeds: Array, meter: _Told, points: int
) -> tuple[Design, Array, Array]:
    """Costs and fastest speeds of all series, some points at a time; an interrupt leaves those that are done."""
    steps: list[tuple[Array, Array]] = []
    rows = points * plan.block
    try:
        for shares_of_step in np.split(plan.shares, range(rows, len(plan.shares), rows)):
            sampled = [drawn.costs(shares_of_step, speeds, meter.of(drawn.label)) for drawn in series]
            costs, fastest = (np.stack(parts, axis=-1) for parts in zip(*sampled, strict=True))
            steps.append((costs, fastest))
    except KeyboardInterrupt:
        done = len(steps) * points
        _work.stop(f"{done:,} of {plan.samples:,} points" if done else "")
        plan = Design(plan.shares[: len(steps) * rows], done)
    return plan, np.concatenate([costs for costs, _ in steps]), np.concatenate([fastest for _, fastest in steps])


def _series(ask: UncertaintyAsk, index: int, every: Sequence[Variable]) -> SampledSeries:
    """A series with its inputs, each of which it has a number or a profile for."""
    asked_series = ask.series[index]
    settings = asked_series.settings.over(ask.common)
    inputs = {column: variable for column, variable in enumerate(every) if asked_series.label in variable.series}
    try:
        for variable in inputs.values():
            _check_name(settings, variable)
        series = SampledSeries(asked_series.label, settings, inputs, frontier_of(settings))
        series.check()
    except InputError as error:
        if len(ask.series) == 1 or type(error) is not InputError:
            raise
        raise InputError(f"{asked_series.label}: {error}") from error
    return series


def _check_name(settings: Settings, variable: Variable) -> None:
    """Refuse inputs that a question has no number for, and quantities of another dimension.

    Raises
    ------
    InputError
        As :func:`inference_econ.studies.settings.number` does, or as the specification that has the number does.
    """
    if variable.name == PROFILE:
        return
    number(settings, variable.name)
    assert isinstance(variable.given, Distribution)
    for text in variable.given.with_units:
        change = f"{variable.name}={text}"
        number(
            settings.replace(changes=(*settings.changes, change))
            if "." in variable.name
            else settings.replace(**{variable.name: text}),
            variable.name,
        )


def _check_dependence(series: Sequence[SampledSeries], every: Sequence[Variable]) -> Sequence[float]:
    """Refuse inputs that no series depends on.

    Returns
    -------
    sequence of float
        What each frontier took that was computed to see it [s].

    Raises
    ------
    InputError
        With the first.
    """
    times: list[float] = []

    def tried(sampled: SampledSeries, column: int, share: float) -> AnyFrontier | None:
        # Of this process alone: a busy machine is waited for, and not refused.
        started = process_time()
        front = sampled.frontier({column: share})
        times.append(process_time() - started)
        return front

    for column, variable in enumerate(every):
        if variable.name in CHEAP:
            continue
        having = [sampled for sampled in series if column in sampled.inputs]
        ends = [[tried(sampled, column, share) for share in _ENDS] for sampled in having]
        if not any(_differ(*fronts) for fronts in ends):
            raise InputError(
                f"{variable.label}: cost and speed do not depend on it here, neither at its lowest values nor at its "
                "highest; leave it out"
            )
    return times


def _differ(front: AnyFrontier | None, other: AnyFrontier | None) -> bool:
    if front is None or other is None:
        return front is not other
    return not all(
        np.array_equal(getattr(front, name), getattr(other, name)) for name in ("tokens_per_second", "dollars")
    )


def _speeds(ask: UncertaintyAsk, series: Sequence[SampledSeries]) -> tuple[float, tuple[float, ...], Array]:
    """The speed of the choice, those that tables show, and all that costs are sampled at [tokens/s]."""
    present = [sampled.present.tokens_per_second for sampled in series]
    high = min(float(speeds[-1]) for speeds in present)
    common = [speed for speed in common_speeds(present) if speed <= high] or [high]
    speed = float(ask.speed) if ask.speed is not None else common[len(common) // 2]
    shown = tuple(sorted({*common, speed}))
    ends = min(float(speeds[0]) for speeds in present), _FASTER * max(float(speeds[-1]) for speeds in present)
    return speed, shown, np.unique([*np.linspace(*ends, _STEPS), *shown])


def _check_work(samples: int, frontiers: int, seconds: float, costs: int) -> None:
    """Refuse designs that take too long or too much room, before they are made; each frontier takes some seconds."""
    work = f"{frontiers:,} frontiers of {samples:,} samples" if frontiers else f"{samples:,} samples"
    _work.check(work, seconds=seconds * frontiers, size=_COPIES * _NUMBER * costs, smaller="samples")


class _Told:
    """Progress of the work."""

    def __init__(self, progress: Progress | None, rows: int) -> None:
        self.progress, self.rows, self.done = progress, rows, 0

    def of(self, label: str) -> Callable[[int], None]:
        """Report of progress of samples of a series."""

        def tell(rows: int) -> None:
            self.done += rows
            if self.progress is not None:
                self.progress(self.done / self.rows, label)

        return tell
