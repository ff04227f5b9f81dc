"""Uncertainty study: cost intervals, probabilities, Sobol indices, and the value of knowing an input exactly."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ import _work
from inference_econ._types import Array, Indices, Progress
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier, service_frontier
from inference_econ.answers.settings import promises_of
from inference_econ.engine import Setup, likely_errors
from inference_econ.engine.bounds import subjects_of
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.uncertainty import decisions
from inference_econ.extras.uncertainty.distributions import HELD_OUT, Distribution, UncertainInput
from inference_econ.extras.uncertainty.scenario_kinds import PROFILE, UncertaintyAsk
from inference_econ.formulas import special
from inference_econ.inputs import (
    LEVELS,
    ErrorSpread,
    FrontierAsk,
    Quantity,
    Scenario,
    Settings,
    parsed_value,
    with_defaults,
)
from inference_econ.records.plain import attributes, finite_or_nan, finite_or_none
from inference_econ.records.sources import UsedSource, source_records, spec_sources
from inference_econ.studies.compare import Rate, asked_scenario
from inference_econ.studies.results import AnyFrontier, Study, common_speeds
from inference_econ.studies.settings import frontier_of, number, with_numbers

if TYPE_CHECKING:
    from inference_econ.studies.results import Result
    from inference_econ.studies.scenario import ScenarioRun


#: Inputs that require no new frontier: a price scales costs, and profile errors scale costs and speeds.
CHEAP = ("price", PROFILE)


@dataclass(frozen=True, slots=True)
class Variable:
    """Uncertain input.

    Attributes
    ----------
    name : str
        Name of an input (see :func:`inference_econ.studies.settings.number`), or ``profile`` for prediction errors.
    series : tuple of str
        Labels of the series (compared configurations) in which the input has the same value.
    given : Distribution or str
        Distribution of the input.
    label : str
        Label in tables, with the names of the series if the input applies to some series only.
    """

    name: str
    series: tuple[str, ...]
    given: UncertainInput
    label: str


def variables(ask: UncertaintyAsk) -> tuple[Variable, ...]:
    """Uncertain inputs of a study: first inputs that all series share, then the inputs of each series."""
    labels = tuple(series.label for series in ask.series)
    shared = [Variable(name, labels, distribution, name) for name, distribution in ask.inputs.items()]
    separate = [
        Variable(name, (series.label,), distribution, f"{name} of {series.label}" if len(labels) > 1 else name)
        for series in ask.series
        for name, distribution in series.inputs.items()
    ]
    return (*shared, *separate)


@dataclass(frozen=True, slots=True)
class Design:
    """Saltelli design of k variables: two independent sets of sample points, and combinations of both sets.

    Attributes
    ----------
    shares : ndarray, shape (samples * (k + 2), k)
        Quantile of each variable [1], in SALib's order.
    samples : int
        Number of points in each of the two sets [1].
    """

    shares: Array
    samples: int

    @property
    def block(self) -> int:
        """Number of rows per point: one of the first set, one per variable, and one of the second set [1]."""
        return int(self.shares.shape[1]) + 2

    def both(self, values: Array) -> Array:
        """Rows of ``values`` that belong to the two independent sets, alternating; shape (2 * samples, ...)."""
        return values.reshape(self.samples, self.block, *values.shape[1:])[:, [0, -1]].reshape(-1, *values.shape[1:])

    @property
    def first_half(self) -> npt.NDArray[np.bool_]:
        """True for rows of :meth:`both` that belong to the first set; bool, shape (2 * samples,)."""
        return np.tile([True, False], self.samples)


def design(count: int, samples: int, seed: int) -> Design:
    """Create a Saltelli design from a scrambled Sobol sequence.

    Parameters
    ----------
    count : int
        Number of variables [1].
    samples : int
        Number of points in each set, a power of two [1].
    seed : int
        Seed of the scrambling.

    Raises
    ------
    InputError
        If SALib is not installed.

    Notes
    -----
    The design is that of Saltelli et al. (2010). The sequence is :class:`scipy.stats.qmc.Sobol`.
    """
    sobol = salib("sample.sobol")
    sampled = sobol.sample(problem(count), samples, calc_second_order=False, scramble=True, seed=seed)
    return Design(np.asarray(sampled), samples)


def problem(count: int) -> dict[str, Any]:
    """SALib problem with uniform variables from 0 to 1."""
    return {"num_vars": count, "names": [f"x{index}" for index in range(count)], "bounds": [[0.0, 1.0]] * count}


def salib(module: str) -> Any:
    """Import a module of SALib on use.

    Raises
    ------
    InputError
        If SALib is not installed, with the command to install it.
    """
    from importlib import import_module

    try:
        return import_module(f"SALib.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "SALib":
            raise
        raise InputError(
            "SALib is not installed, which studies of uncertainty need: pip install 'inference-econ[studies]'"
        ) from error


#: Maximum relative spread of an output that is treated as constant, because rounding explains it [1].
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Shares:
    """Sobol shares of a variance by input.

    Attributes
    ----------
    first, total : ndarray, shape (k,)
        First-order share: part of the variance that disappears if the input is known. Total share: part that remains if
        all other inputs are known [1].
    first_half_width, total_half_width : ndarray, shape (k,)
        Half-widths of the bootstrapped 95% confidence intervals [1].
    """

    first: Array
    first_half_width: Array
    total: Array
    total_half_width: Array


def shares(plan: Design, output: Array, seed: int) -> Shares | None:
    """Calculate first-order and total Sobol shares.

    Parameters
    ----------
    plan : Design
        Sampling design.
    output : ndarray, shape (rows of the design,)
        Finite values of the output, in any unit.
    seed : int
        Seed of the bootstrap.

    Returns
    -------
    Shares or None
        Shares by input; None if the output is constant.

    Notes
    -----
    The estimators are those of Saltelli et al. (2010). The variance is that of the design, so shares can be slightly
    below 0 or above 1.
    """
    if float(output.std()) <= _ROUNDING * max(float(np.abs(output).max()), 1.0):
        return None
    # SALib ignores a seed of 0.
    analysed = salib("analyze.sobol").analyze(
        problem(plan.shares.shape[1]), output, calc_second_order=False, seed=seed + 1
    )
    columns = (np.asarray(analysed[name], dtype=float) for name in ("S1", "S1_conf", "ST", "ST_conf"))
    return Shares(*columns)


#: SLOs of services, which profile errors can violate.
_PROMISES = ("ttft", "tpot", "e2e")
#: Number of speeds per vectorized evaluation of costs [1].
_AT_ONCE = 30_000


def cost_at(front: AnyFrontier, speeds: Array) -> Array:
    """Cost of 1e6 tokens at given speeds [tokens/s], divided by the hourly price of a chip [h]; infinite if too fast.

    For services, the batch is interpolated to have exactly the given speed. For decode steps, the cheapest point that
    is fast enough is used.
    """
    price, points = front.dollars_per_accelerator_hour, front.tokens_per_second
    if not isinstance(front, ServiceFrontier):
        return np.append(front.dollars / price, np.inf)[np.searchsorted(points, speeds)]
    parts = np.array_split(speeds.ravel(), -(-speeds.size // _AT_ONCE))
    return np.concatenate([front.dollars_at(part) for part in parts]).reshape(speeds.shape) / price


@dataclass(frozen=True)
class SampledSeries:
    """Compared series (configuration) with its uncertain inputs.

    Attributes
    ----------
    label : str
        Label of the series.
    settings : Settings
        Settings of the study.
    inputs : mapping of int to Variable
        Inputs by column of the design.
    present : ServiceFrontier or Frontier
        Frontier at the nominal settings.
    """

    label: str
    settings: Settings
    inputs: Mapping[int, Variable]
    present: AnyFrontier

    def check(self) -> None:
        """Reject the input ``profile`` if the prediction errors are unknown.

        Raises
        ------
        InputError
            If the assumptions were not fitted to any server.
        """
        self._errors(np.full((1, max(self.inputs, default=0) + 1), 0.5))

    @property
    def costly(self) -> list[int]:
        """Design columns of the inputs that require a new frontier for each sample."""
        return [column for column, variable in self.inputs.items() if variable.name not in CHEAP]

    def needed(self, samples: int) -> int:
        """Number of frontiers in a design [1]: both sets of samples, and the first set with each input replaced."""
        inputs = len(self.costly)
        return 0 if inputs == 0 else samples * (2 if inputs == 1 else inputs + 2)

    def values(self, column: int, shares: Array) -> Array:
        """Values of a numeric input at given quantiles [base units]."""
        variable = self.inputs[column]
        assert isinstance(variable.given, Distribution)
        factor = number(self.settings, variable.name) if variable.given.relative else 1.0
        return factor * variable.given.quantiles(shares)

    def quantiles(self, variable: Variable, shares: Array) -> Array:
        """Values of an input at given quantiles [base units]; for ``profile``, measured over predicted times [1]."""
        if variable.name == PROFILE:
            return errors_of(variable.given, self.present)(shares).tpot
        return self.values(next(column for column, other in self.inputs.items() if other == variable), shares)

    def frontier(self, shares: Mapping[int, float]) -> AnyFrontier | None:
        """Frontier of one sample, with given quantiles of the inputs that change it.

        Returns
        -------
        ServiceFrontier, Frontier or None
            Frontier; None if no layout fits. SLOs are removed if profile errors determine whether the SLOs are met.

        Raises
        ------
        InputError
            If a value is out of range.
        """
        numbers = {
            self.inputs[column].name: float(self.values(column, np.asarray(share))) for column, share in shares.items()
        }
        settings = self.settings
        if self._promises_are_uncertain:
            settings = settings.replace(**dict.fromkeys(_PROMISES))
        try:
            return frontier_of(with_numbers(settings, numbers), self.practices)
        except NothingFitsError:
            return None
        except InputError as error:
            shown = ", ".join(f"{name} = {value:.4g}" for name, value in numbers.items())
            raise InputError(f"{self.label} with {shown}: {error}; leave such values out with low and high") from error

    @property
    def practices(self) -> tuple[str, ...]:
        """Engines and recipes on the nominal frontier. Frontiers of samples use the same engines and recipes."""
        front = self.present
        if not isinstance(front, ServiceFrontier):
            return ()
        return tuple(front.candidates[number].label for number in front.shown)

    @property
    def _promises_are_uncertain(self) -> bool:
        promised = any(getattr(self.settings, name) is not None for name in _PROMISES)
        return promised and self._column(PROFILE) is not None

    def costs(self, shares: Array, speeds: Array, progress: Callable[[int], None]) -> tuple[Array, Array]:
        """Cost at given speeds, and highest speed, in every sample.

        Parameters
        ----------
        shares : ndarray, shape (n, k)
            Quantiles of the design [1].
        speeds : ndarray, shape (s,)
            Speeds of a user [tokens/s].
        progress : callable
            Function that receives the number of samples after each frontier.

        Returns
        -------
        tuple of ndarray
            Costs of shape (n, s), infinite for speeds that are not reached [USD per 1e6 output tokens]. Highest speeds
            of shape (n,), 0 if no layout fits [tokens/s].
        """
        costs, fastest = np.full((len(shares), speeds.size), np.inf), np.zeros(len(shares))
        groups: Sequence[Indices] = [np.arange(len(shares))]
        if self.costly:  # Samples with equal inputs share a frontier.
            _, inverse, counts = np.unique(shares[:, self.costly], axis=0, return_inverse=True, return_counts=True)
            groups = np.split(np.argsort(inverse.ravel(), kind="stable"), np.cumsum(counts)[:-1])
        for rows in groups:
            front = self.frontier({column: float(shares[rows[0], column]) for column in self.costly})
            if front is not None:
                costs[rows], fastest[rows] = self._of_frontier(front, shares[rows], speeds)
            progress(rows.size)
        return costs, fastest

    def _of_frontier(self, front: AnyFrontier, shares: Array, speeds: Array) -> tuple[Array, Array]:
        """Costs and highest speeds as in :meth:`costs`, for samples with the same frontier."""
        errors = self._errors(shares)
        price = np.full(len(shares), front.dollars_per_accelerator_hour)
        column = self._column("price")
        if column is not None:
            distribution = self.inputs[column].given
            assert isinstance(distribution, Distribution)
            price = (price if distribution.relative else 1.0) * distribution.quantiles(shares[:, column])
        if not self._promises_are_uncertain:
            hours, fastest = cost_at(front, np.outer(errors.tpot, speeds)), front.tokens_per_second[-1] / errors.tpot
            return (price * errors.cost)[:, None] * hours, fastest
        # Different points meet the SLOs in different samples, because errors scale the predicted times.
        assert isinstance(front, ServiceFrontier)
        promised = promises_of(with_defaults(self.settings))
        hours, fastest = np.full((len(shares), speeds.size), np.inf), np.zeros(len(shares))
        for row, (tpot, ttft, e2e) in enumerate(zip(errors.tpot, errors.ttft, errors.e2e, strict=True)):
            scaled = replace(
                promised,
                ttft_seconds=promised.ttft_seconds / ttft,
                tpot_seconds=promised.tpot_seconds / tpot,
                e2e_seconds=promised.e2e_seconds / e2e,
            )
            with suppress(NothingFitsError):
                kept = service_frontier(front.candidates, scaled)
                hours[row], fastest[row] = cost_at(kept, speeds * tpot), kept.tokens_per_second[-1] / tpot
        return (price * errors.cost)[:, None] * hours, fastest

    def _column(self, name: str) -> int | None:
        """Design column of an input; None if the input is not uncertain."""
        return next((column for column, variable in self.inputs.items() if variable.name == name), None)

    def _errors(self, shares: Array) -> Errors:
        """Ratios of measured to predicted values in given samples [1]."""
        column = self._column(PROFILE)
        if column is None:
            return _equal(np.ones(len(shares)))
        return errors_of(self.inputs[column].given, self.present)(shares[:, column])


class Errors(NamedTuple):
    """Ratios of measured to predicted values, as arrays of equal shape."""

    tpot: Array
    """Ratio of measured to predicted TPOT [1]."""
    ttft: Array
    """Ratio of measured to predicted TTFT [1]."""
    e2e: Array
    """Ratio of measured to predicted end-to-end latency [1]."""
    cost: Array
    """Ratio of measured to predicted cost per token, the inverse of the throughput ratio [1]."""


#: Function from quantiles of servers, fastest to slowest, to prediction errors.
ErrorsOf = Callable[[Array], Errors]


def errors_of(given: UncertainInput, front: AnyFrontier) -> ErrorsOf:
    """Distribution of a frontier's prediction errors.

    Parameters
    ----------
    given : Distribution or str
        Distribution of the ratio of measured to predicted times, or ``held_out`` for the cross-validated errors of the
        profile.
    front : ServiceFrontier or Frontier
        Predicted frontier.

    Returns
    -------
    callable
        Function from quantiles, 0 (fastest) to 1 [1], to errors.

    Raises
    ------
    InputError
        If the assumptions were not fitted to any server.

    Notes
    -----
    One quantile applies to all quantities of a server. A server with a longer TPOT than predicted also has a longer
    TTFT and a lower throughput, because all quantities depend on the same steps.
    """
    if isinstance(given, Distribution):
        return lambda slower: _equal(given.quantiles(slower))
    tpot = _spread(front, "tpot")
    if tpot is None:
        raise InputError(
            f"{PROFILE}: {front.setup.assumptions.name} was fitted to no measured server, so that its errors are not "
            f"known; give them: {PROFILE}: {{distribution: lognorm, s: 0.2, relative: true}}"
        )
    # The cost of decode steps is proportional to their time.
    throughput = _spread(front, "throughput") if isinstance(front, ServiceFrontier) else None
    ttft, e2e = _spread(front, "ttft") or tpot, _spread(front, "request") or tpot

    def held_out(slower: Array) -> Errors:
        times, first, last = (np.exp(quantile(spread, slower)) for spread in (tpot, ttft, e2e))
        return Errors(times, first, last, times if throughput is None else np.exp(-quantile(throughput, 1.0 - slower)))

    return held_out


def _equal(times: Array) -> Errors:
    return Errors(times, times, times, times)


def _spread(front: AnyFrontier, quantity: Quantity) -> ErrorSpread | None:
    """Widest cross-validated error spread of a quantity; None if unknown."""
    spreads = [
        likely_errors(instances.setup.assumptions, quantity, subjects_of(instances)) for instances in front.subjects()
    ]
    return max((spread for spread in spreads if spread is not None), key=lambda spread: spread.width, default=None)


def quantile(spread: ErrorSpread, shares: Array) -> Array:
    """Errors at given quantiles, interpolated between the stored quantiles.

    Parameters
    ----------
    spread : ErrorSpread
        Quantiles of ln(measured / predicted) at fixed levels.
    shares : ndarray
        Quantiles from 0 to 1 [1].

    Returns
    -------
    ndarray
        ln(measured / predicted) [1].

    Notes
    -----
    Interpolation and extrapolation are linear in the normal score, which is exact for normal errors. The tails below 5%
    and above 95% are unknown.
    """
    score, levels = (
        special.normal_quantiles(share) for share in (np.clip(shares, 1e-9, 1.0 - 1e-9), np.asarray(LEVELS))
    )
    values = np.asarray(spread.quantiles)
    slopes = np.diff(values) / np.diff(levels)
    piece = np.clip(np.searchsorted(levels, score) - 1, 0, slopes.size - 1)
    return np.asarray(values[piece] + slopes[piece] * (score - levels[piece]))


#: Default number of points of a design, without and with a frontier per sample [1].
_MANY, _FEW = 4096, 256
#: Number of speeds of interval curves [1].
_STEPS = 60
#: Upper end of interval curves, relative to the highest nominal speed [1].
_FASTER = 1.15
#: Two quantiles of each input. If the result is equal at both, it does not depend on the input [1].
_ENDS = (0.01, 0.99)
#: Quantiles of interval curves: ends and median [1].
QUANTILES = (0.1, 0.5, 0.9)
#: Bytes per number [B], and number of copies of each cost in memory [1].
_NUMBER, _COPIES = 8.0, 3.0
#: Number of steps of a study, which can be stopped after each step, and minimum number of points per step [1].
_STEPS_OF_ALL, _LEAST = 32, 16


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Value of knowing inputs exactly before the choice between series (expected value of perfect information).

    Attributes
    ----------
    mistakes : Estimate
        Reduction of the probability that the chosen series is not the cheapest [1].
    dollars : Estimate or None
        Reduction of the mean cost of the chosen series [USD per 1e6 output tokens]; None if a series does not reach the
        speed in every sample.
    """

    mistakes: decisions.Estimate
    dollars: decisions.Estimate | None


@dataclass(frozen=True, repr=False)
class Uncertainty(Study):
    """Uncertainty of the costs of several series (compared configurations), and of the choice between the series.

    Attributes
    ----------
    scenario : Scenario
        Scenario.
    series : tuple of SampledSeries
        Compared series.
    variables : tuple of Variable
        The k uncertain inputs.
    plan : Design
        Sampling design.
    speed : float
        Speed at which series are compared and Sobol shares are computed [tokens/s].
    shown : tuple of float
        Speeds in tables, including ``speed`` [tokens/s].
    speeds : ndarray, shape (s,)
        Ascending speeds for which costs were computed, including ``shown`` [tokens/s].
    costs : ndarray, shape (rows of the design, s, series)
        Costs [USD per 1e6 output tokens]; infinite for speeds that are not reached.
    fastest : ndarray, shape (rows of the design, series)
        Highest speed of each series in each sample [tokens/s].
    frontiers : int
        Number of computed frontiers.
    """

    page = "extras.uncertainty.page:UncertaintyPage"

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
        """Query of the scenario."""
        assert isinstance(self.scenario.ask, UncertaintyAsk)
        return self.scenario.ask

    @property
    def used(self) -> tuple[UsedSource, ...]:
        """Sources of the nominal frontiers."""
        return tuple(dict.fromkeys(used for series in self.series for used in series.present.sources))

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the series."""
        return tuple(series.label for series in self.series)

    @cached_property
    def sampled(self) -> Array:
        """Costs in the independent samples, shape (2 * samples, s, series) [USD per 1e6 output tokens]."""
        return self.plan.both(self.costs)

    @cached_property
    def bands(self) -> Array:
        """Quantiles of the costs, shape (len(QUANTILES), s, series); infinite if too few samples reach the speed."""
        return np.asarray(np.quantile(self.sampled, QUANTILES, axis=0, method="inverted_cdf"))

    @cached_property
    def reached(self) -> Array:
        """Share of samples in which each series reaches each speed, shape (s, series) [1]."""
        return np.asarray(np.isfinite(self.sampled).mean(axis=0))

    @property
    def wrong(self) -> float:
        """Probability that the series that is most often the cheapest at ``speed`` is not the cheapest [1]."""
        return float(decisions.wrong_choice(self.sampled[:, self.at]).mean(axis=0).min())

    @cached_property
    def chances(self) -> Array:
        """Probability that each series is the cheapest at each speed, shape (s, series) [1]."""
        return np.asarray(decisions.cheapest(self.sampled).mean(axis=0))

    @property
    def at(self) -> int:
        """Index of ``speed`` in ``speeds``."""
        return int(np.searchsorted(self.speeds, self.speed))

    @property
    def margin(self) -> Array:
        """Log cost ratio of the first series to the cheapest other series at ``speed``, for each sample [1]."""
        costs = self.costs[:, self.at]
        with np.errstate(invalid="ignore"):
            return np.asarray(np.log(costs[:, 0]) - np.log(costs[:, 1:].min(axis=1)))

    def outputs(self) -> Mapping[str, Array]:
        """Outputs for Sobol indices, at ``speed``: log cost of each series, and :attr:`margin`."""
        costs = {f"cost of {label}": np.log(self.costs[:, self.at, index]) for index, label in enumerate(self.labels)}
        return {MARGIN: self.margin, **costs} if len(self.labels) > 1 else costs

    @cached_property
    def shares(self) -> Mapping[str, Shares]:
        """Sobol shares of those :meth:`outputs` that are finite in all samples and not constant."""
        finite = {name: values for name, values in self.outputs().items() if np.isfinite(values).all()}
        shares_by_name = {name: shares(self.plan, values, self.ask.seed) for name, values in finite.items()}
        return {name: parts for name, parts in shares_by_name.items() if parts is not None}

    @property
    def all_reach(self) -> float:
        """Highest speed that all series reach in all samples [tokens/s]."""
        return float(self.fastest.min())

    @cached_property
    def knowledge(self) -> Sequence[Knowledge]:
        """Value of knowing each input exactly, for the choice between series at ``speed``."""
        inputs = self.plan.both(self.plan.shares)
        return [self._knowledge(inputs[:, column]) for column in range(len(self.variables))]

    @cached_property
    def all_known(self) -> Knowledge:
        """Value of knowing all inputs exactly, for the choice between series at ``speed``."""
        return self._knowledge(None)

    def _knowledge(self, values: Array | None) -> Knowledge:
        """Value of knowing the input with the sampled ``values``, or all inputs if ``values`` is None."""

        def value(losses: Array) -> decisions.Estimate:
            if values is None:
                return decisions.value_of_knowing_all(losses)
            return decisions.value_of_knowing(values, losses, self.plan.first_half)

        costs = self.sampled[:, self.at]
        return Knowledge(value(decisions.wrong_choice(costs)), value(costs) if np.isfinite(costs).all() else None)

    @cached_property
    def present(self) -> Array:
        """Nominal costs, shape (s, series); infinite if a speed is not reached."""
        fronts = [series.present for series in self.series]
        costs = [front.dollars_per_accelerator_hour * cost_at(front, self.speeds) for front in fronts]
        return np.stack(costs, axis=-1)

    def chance(self, index: int, at: int) -> decisions.Estimate:
        """Probability that a series is the cheapest at one of the speeds."""
        return decisions.share(decisions.cheapest(self.sampled[:, at])[:, index])

    @property
    def setups(self) -> Sequence[Setup]:
        """Nominal setups of all series."""
        return [series.present.setup for series in self.series]

    def record(self) -> dict[str, object]:
        """Intervals, probabilities, Sobol shares and values of knowing inputs; unreached speeds are null."""
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
            "shares": {
                name: [
                    {"input": variable.label} | {field: float(values[column]) for field, values in fields.items()}
                    for column, variable in enumerate(self.variables)
                ]
                for name, parts in self.shares.items()
                if (fields := attributes(parts, "first first_half_width total total_half_width"))
            },
            "all_known": self._knowledge_record(None),
            "sources": source_records((*self.used, *spec_sources("scenario", self.scenario))),
        }

    def records(self) -> list[dict[str, object]]:
        """One record per series and speed, with intervals and probabilities; NaN if a speed is not reached."""
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
        """Value of knowing an input, or all inputs, as plain data; None if there is a single series."""
        if len(self.labels) == 1:
            return None
        knowledge = self.all_known if column is None else self.knowledge[column]
        dollars = knowledge.dollars
        return {
            "fewer_wrong_choices": knowledge.mistakes._asdict(),
            "saved_dollars_per_million_output_tokens": None if dollars is None else dollars._asdict(),
        }


def _nulls(values: Array) -> list[float | None]:
    return [finite_or_none(float(value)) for value in values]


#: Names of the quantiles in records.
_NAMES = ("p10", "median", "p90")
#: Name of the cost ratio among the outputs.
MARGIN = "choice"


def answer(scenario: Scenario, ask: UncertaintyAsk, *, progress: Progress | None = None) -> Uncertainty:
    """Run an uncertainty study.

    Parameters
    ----------
    scenario : Scenario
        Scenario.
    ask : UncertaintyAsk
        Query of the scenario: series and uncertain inputs.
    progress : callable, optional
        Function that receives the completed share of the work [1] and a description.

    Raises
    ------
    InputError
        If a name, distribution or value is invalid, or no result depends on an input.
    NothingFitsError
        If a series has no nominal frontier.
    """
    every = variables(ask)
    series = tuple(_series(ask, index, every) for index in range(len(ask.series)))
    times = _check_dependence(series, every)
    samples = ask.samples or (_FEW if times else _MANY)
    speed, shown, speeds = _speeds(ask, series)
    needed = sum(sampled.needed(samples) for sampled in series)
    rows = samples * (len(every) + 2)
    work = f"{needed:,} frontiers of {samples:,} samples" if needed else f"{samples:,} samples"
    size = _COPIES * _NUMBER * rows * speeds.size * len(series)
    _work.check(work, seconds=min(times, default=0.0) * needed, size=size, smaller="samples")
    plan = design(len(every), samples, ask.seed)
    done = 0

    def tell(label: str, sampled_rows: int) -> None:
        nonlocal done
        done += sampled_rows
        if progress is not None:
            progress(done / (rows * len(series)), label)

    # Only new frontiers take long. If no input requires new frontiers, one step computes all samples.
    plan, costs, fastest = _sampled(
        series, plan, speeds, tell, max(_LEAST, samples // _STEPS_OF_ALL) if times else samples
    )
    frontiers = len(series) + len(times) + sum(sampled.needed(plan.samples) for sampled in series)
    if not np.isfinite(costs[:, int(np.searchsorted(speeds, speed))]).any():
        raise InputError(f"speed: nothing is as fast as {speed:g} tokens/s; the fastest sample has {fastest.max():.4g}")
    return Uncertainty(scenario, series, every, plan, speed, shown, speeds, costs, fastest, frontiers)


def _sampled(
    series: Sequence[SampledSeries], plan: Design, speeds: Array, tell: Callable[[str, int], None], points: int
) -> tuple[Design, Array, Array]:
    """Compute costs and highest speeds of all series in steps. After an interrupt, completed steps are returned."""
    steps: list[tuple[Array, Array]] = []
    rows = points * plan.block
    try:
        for shares_of_step in np.split(plan.shares, range(rows, len(plan.shares), rows)):
            sampled = [drawn.costs(shares_of_step, speeds, partial(tell, drawn.label)) for drawn in series]
            costs, fastest = (np.stack(parts, axis=-1) for parts in zip(*sampled, strict=True))
            steps.append((costs, fastest))
    except KeyboardInterrupt:
        done = len(steps) * points
        _work.stop(f"{done:,} of {plan.samples:,} points" if done else "")
        plan = Design(plan.shares[: len(steps) * rows], done)
    return plan, np.concatenate([costs for costs, _ in steps]), np.concatenate([fastest for _, fastest in steps])


def _series(ask: UncertaintyAsk, index: int, every: Sequence[Variable]) -> SampledSeries:
    """Create a series with its uncertain inputs, and check that the inputs exist in its settings."""
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
    """Reject inputs that the settings lack, and inputs whose distribution has another dimension.

    Raises
    ------
    InputError
        If an input does not exist, or its value is invalid; see :func:`inference_econ.studies.settings.number`.
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
    """Reject inputs that affect no series.

    Returns
    -------
    sequence of float
        Times of the frontiers computed for this check [s].

    Raises
    ------
    InputError
        If an input affects no series; the message names the first such input.
    """
    times: list[float] = []

    def tried(sampled: SampledSeries, column: int, share: float) -> AnyFrontier | None:
        # CPU time is measured, so that a busy machine does not lead to a rejection of the study.
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
    pairs = zip(front.axes(), other.axes(), strict=True)
    return not all(np.array_equal(*pair) for pair in pairs)


def _speeds(ask: UncertaintyAsk, series: Sequence[SampledSeries]) -> tuple[float, tuple[float, ...], Array]:
    """Speed at which series are compared, speeds in tables, and all sampled speeds [tokens/s]."""
    present = [sampled.present.tokens_per_second for sampled in series]
    high = min(float(speeds[-1]) for speeds in present)
    common = [speed for speed in common_speeds(present) if speed <= high] or [high]
    speed = float(ask.speed) if ask.speed is not None else common[len(common) // 2]
    shown = tuple(sorted({*common, speed}))
    ends = min(float(speeds[0]) for speeds in present), _FASTER * max(float(speeds[-1]) for speeds in present)
    return speed, shown, np.unique([*np.linspace(*ends, _STEPS), *shown])


def answer_scenario(run: ScenarioRun, ask: UncertaintyAsk) -> Result:
    """Run a scenario of this kind."""
    study = answer(run.scenario, ask, progress=run.progress)
    return run.result(study.used, study=study)


#: Distribution as text, ``"lognorm(s=0.2, relative)"``, or as an equivalent mapping.
Given = str | Mapping[str, object]
_CALL = re.compile(r"\s*(\w+)\s*\(([^()]*)\)\s*")
#: Name of studies that are created by one call.
_NAME = "Uncertainty"


def uncertainty(
    model: str,
    hardware: str | Sequence[str],
    vary: Mapping[str, Given],
    *,
    speed: float | None = None,
    samples: int | None = None,
    seed: int = 0,
    price: Rate | Mapping[str, Rate] | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Uncertainty:
    """Compute the uncertainty of costs, and of the choice between chips (``inference_econ.uncertainty``).

    Parameters
    ----------
    model : str
        Name or path of the model.
    hardware : str or sequence of str
        Name or path of a chip, or of several chips to compare.
    vary : mapping of str to str or mapping
        Distributions by input. ``{"price": "lognorm(s=0.2, relative)"}`` applies to all chips, and ``{"b200: price":
        ...}`` to one. ``{"profile": "held_out"}`` uses the cross-validated errors of the profile.
    speed : float, optional
        Speed at which chips are compared [tokens/s per user]; by default, a round number that all chips reach.
    samples : int, optional
        Points of the design, a power of two [1].
    seed : int
        Seed of the scrambling.
    price : float or str, or mapping of str to these, optional
        See :func:`inference_econ.compare`.
    progress : callable, optional
        Function that receives the completed share of the work [1].
    **settings
        Fields of :class:`inference_econ.inputs.scenario_kinds.Settings`, for all chips.

    Returns
    -------
    Uncertainty
        Intervals, probabilities, Sobol shares, and the value of knowing an input.

    Raises
    ------
    InputError
        If a name, setting or distribution is invalid, or no result depends on an input.
    NothingFitsError
        If a chip has no nominal frontier.

    Examples
    --------
    >>> study = uncertainty("llama_3_8b", "h100_sxm", {"price": "lognorm(s=0.2, relative)"}, tp=1, dp=1, pp=1)
    >>> low, middle, high = study.bands[:, study.at, 0] / study.present[study.at, 0]
    >>> print(f"{low:.3f} {middle:.3f} {high:.3f}")
    0.774 1.000 1.292
    """
    choices = {name: value for name, value in (("speed", speed), ("samples", samples)) if value is not None}
    scenario = asked(model, hardware, vary, price, {**choices, "seed": seed}, settings)
    return answer(scenario, scenario.ask, progress=progress)


def asked(
    model: str,
    hardware: str | Sequence[str],
    vary: Mapping[str, Given],
    price: Rate | Mapping[str, Rate] | None,
    choices: Mapping[str, object],
    settings: Mapping[str, Any],
) -> Scenario:
    """Create the scenario for the parameters of :func:`uncertainty`; ``choices`` are fields of the query."""
    compared = asked_scenario(model, hardware, price, None, settings).ask
    assert isinstance(compared, FrontierAsk)
    series = [curve.model_dump(exclude_unset=True) for curve in compared.series]
    # Split distributions into inputs that all series share, and inputs of single series by label.
    labels, shared = [curve.label for curve in compared.series], dict[str, object]()
    inputs_of: dict[str, dict[str, object]] = {}
    for key, text in vary.items():
        label, colon, name = (part.strip() for part in key.rpartition(":"))
        if colon and label not in labels:
            raise InputError(f"vary {key!r}: {label!r} is none of what is compared: {', '.join(labels)}")
        inputs = inputs_of.setdefault(label, {}) if colon else shared
        inputs[name] = parsed(text) if isinstance(text, str) else dict(text)
    data = {
        "name": _NAME,
        "ask": {
            "kind": "uncertainty",
            "common": compared.common.model_dump(exclude_unset=True),
            "series": [{**curve, "inputs": inputs_of.get(str(curve["label"]), {})} for curve in series],
            "inputs": shared,
            **choices,
        },
        "sources": {"ask": {"ref": "user", "where": "the study that was asked for", "kind": "assumed"}},
    }
    return Scenario.build(data, origin="vary")


def parsed(text: str) -> object:
    """Parse a distribution.

    Parameters
    ----------
    text : str
        For example ``lognorm(s=0.2, scale=2.5 USD/h)``, with ``relative`` for factors; ``held_out`` for profile errors.

    Raises
    ------
    InputError
        If the text is neither a distribution nor ``held_out``.

    Examples
    --------
    >>> parsed("lognorm(s=0.2, relative)")
    {'distribution': 'lognorm', 's': 0.2, 'relative': True}
    """
    if text.strip() == HELD_OUT:
        return HELD_OUT
    match = _CALL.fullmatch(text)
    if match is None:
        raise InputError(
            f"{text!r} is not a distribution; write NAME(PARAMETER=VALUE, ...) as in scipy.stats, for example "
            f"'lognorm(s=0.2, relative)', or for {PROFILE} {HELD_OUT!r}"
        )
    arguments: dict[str, object] = {"distribution": match[1]}
    for part in filter(None, (part.strip() for part in match[2].split(","))):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if name in arguments or not (value or (name == "relative" and not sign)):
            raise InputError(f"{text!r}: write each parameter once, as NAME=VALUE; got {part!r}")
        arguments[name] = parsed_value(value, name) if sign else True
    return arguments
