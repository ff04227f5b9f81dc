"""The answer to a study of uncertainty: bands, chances, shares, and what it is worth to know an input."""

from __future__ import annotations

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
from inference_econ.extras.uncertainty.scenario_kinds import PROFILE, UncertaintyAsk
from inference_econ.formulas import decisions, special
from inference_econ.inputs import (
    LEVELS,
    Distribution,
    ErrorSpread,
    Quantity,
    Scenario,
    Settings,
    UncertainInput,
    with_defaults,
)
from inference_econ.records.plain import attributes, finite_or_nan, finite_or_none
from inference_econ.records.sources import UsedSource, source_records, spec_sources
from inference_econ.studies.results import AnyFrontier, Study, common_speeds
from inference_econ.studies.settings import frontier_of, number, with_numbers

if TYPE_CHECKING:
    from inference_econ.studies.results import Result
    from inference_econ.studies.scenario import ScenarioRun


#: Inputs that change no frontier: a price scales its costs, errors of a profile its costs and speeds.
CHEAP = ("price", PROFILE)


@dataclass(frozen=True, slots=True)
class Variable:
    """One uncertain input.

    Attributes
    ----------
    name : str
        Of a number, see :func:`inference_econ.studies.settings.number`, or ``profile``.
    series : tuple of str
        Labels of the series that have it, all with the same value.
    given : Distribution or str
        What is known of it.
    label : str
        What tables call it: its name, with its series if not all have it.
    """

    name: str
    series: tuple[str, ...]
    given: UncertainInput
    label: str


def variables(ask: UncertaintyAsk) -> tuple[Variable, ...]:
    """Everything that is uncertain in a study: what all series share, then what each has for itself."""
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
    """Samples of k variables for Sobol shares: two independent sets, and the first with one variable of the second.

    Attributes
    ----------
    shares : ndarray, shape (samples * (k + 2), k)
        Each variable by the share of its values that are lower [1], in the order that SALib analyses.
    samples : int
        Points of each set [1].
    """

    shares: Array
    samples: int

    @property
    def block(self) -> int:
        """Rows of one point: of the first set, one for each variable, and of the second set [1]."""
        return int(self.shares.shape[1]) + 2

    def both(self, values: Array) -> Array:
        """Values of the two independent sets, one point after the other; shape (2 * samples, ...)."""
        return values.reshape(self.samples, self.block, *values.shape[1:])[:, [0, -1]].reshape(-1, *values.shape[1:])

    @property
    def first_half(self) -> npt.NDArray[np.bool_]:
        """Which rows of :meth:`both` are of the first set; bool, shape (2 * samples,)."""
        return np.tile([True, False], self.samples)


def design(count: int, samples: int, seed: int) -> Design:
    """A scrambled Sobol sequence as Saltelli's design.

    Parameters
    ----------
    count : int
        Variables [1].
    samples : int
        Points, a power of two [1].
    seed : int
        Of the scrambling.

    Raises
    ------
    InputError
        If SALib is not installed.

    Notes
    -----
    Saltelli et al. (2010). The sequence is that of :class:`scipy.stats.qmc.Sobol`.
    """
    sobol = salib("sample.sobol")
    sampled = sobol.sample(problem(count), samples, calc_second_order=False, scramble=True, seed=seed)
    return Design(np.asarray(sampled), samples)


def problem(count: int) -> dict[str, Any]:
    """So many variables as SALib describes them, each uniform from 0 to 1."""
    return {"num_vars": count, "names": [f"x{index}" for index in range(count)], "bounds": [[0.0, 1.0]] * count}


def salib(module: str) -> Any:
    """A module of SALib, which is loaded by who needs it.

    Raises
    ------
    InputError
        If it is not installed, with what to type.
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


#: Spreads below this share of the mean are rounding [1].
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of a variance by input.

    Attributes
    ----------
    first, total : ndarray, shape (k,)
        Of each input by itself, and together with all others: the variance that is gone once it is known, and the
        variance that is left if all others are known [1].
    first_half_width, total_half_width : ndarray, shape (k,)
        Half the width of their 95 % confidence intervals, from resampling [1].
    """

    first: Array
    first_half_width: Array
    total: Array
    total_half_width: Array


def shares(plan: Design, output: Array, seed: int) -> Shares | None:
    """Sobol shares of first order, and in total.

    Parameters
    ----------
    plan : Design
        The samples.
    output : ndarray, shape (rows of the design,)
        What is explained, finite [any].
    seed : int
        Of the resampling.

    Returns
    -------
    Shares or None
        None if the output does not vary.

    Notes
    -----
    Saltelli et al. (2010); the variance is that of the design itself, so that shares may be a little below 0 or
    above 1.
    """
    if float(output.std()) <= _ROUNDING * max(float(np.abs(output).max()), 1.0):
        return None
    # SALib takes a seed of 0 for none.
    analysed = salib("analyze.sobol").analyze(
        problem(plan.shares.shape[1]), output, calc_second_order=False, seed=seed + 1
    )
    columns = (np.asarray(analysed[name], dtype=float) for name in ("S1", "S1_conf", "ST", "ST_conf"))
    return Shares(*columns)


#: Promises of services, which errors of a profile decide about.
_PROMISES = ("ttft", "tpot", "e2e")
#: Speeds whose costs are looked for together [1].
_AT_ONCE = 30_000


def cost_at(front: AnyFrontier, speeds: Array) -> Array:
    """Cost of 1e6 tokens at some speeds [tokens/s] over the price of a chip by the hour; infinite beyond all [h].

    Of services at the batch that has the speed, of decode steps alone at the cheapest point that is as fast.
    """
    price, points = front.dollars_per_accelerator_hour, front.tokens_per_second
    if not isinstance(front, ServiceFrontier):
        return np.append(front.dollars / price, np.inf)[np.searchsorted(points, speeds)]
    parts = np.array_split(speeds.ravel(), -(-speeds.size // _AT_ONCE))
    return np.concatenate([front.dollars_at(part) for part in parts]).reshape(speeds.shape) / price


@dataclass(frozen=True)
class SampledSeries:
    """One series with its uncertain inputs.

    Attributes
    ----------
    label : str
        Of the series.
    settings : Settings
        As the study has them.
    inputs : mapping of int to Variable
        By their columns in the design.
    present : ServiceFrontier or Frontier
        The frontier of the settings.
    """

    label: str
    settings: Settings
    inputs: Mapping[int, Variable]
    present: AnyFrontier

    def check(self) -> None:
        """Refuse errors that nobody knows.

        Raises
        ------
        InputError
            If the assumptions were fitted to no server.
        """
        self._errors(np.full((1, max(self.inputs, default=0) + 1), 0.5))

    def cost_now(self, speeds: Array) -> Array:
        """Cost at some speeds with the present inputs; infinite where none is so fast [USD per 1e6 output tokens]."""
        return self.present.dollars_per_accelerator_hour * cost_at(self.present, speeds)

    @property
    def costly(self) -> list[int]:
        """Columns of the inputs that change the frontier."""
        return [column for column, variable in self.inputs.items() if variable.name not in CHEAP]

    def needed(self, samples: int) -> int:
        """Frontiers of a design of so many points [1]: of both sets, and of the first with each input changed."""
        inputs = len(self.costly)
        return 0 if inputs == 0 else samples * (2 if inputs == 1 else inputs + 2)

    def values(self, column: int, shares: Array) -> Array:
        """An input that is a number, by the share of its values that are lower [base units]."""
        variable = self.inputs[column]
        assert isinstance(variable.given, Distribution)
        factor = number(self.settings, variable.name) if variable.given.relative else 1.0
        return factor * variable.given.quantiles(shares)

    def quantiles(self, variable: Variable, shares: Array) -> Array:
        """An input by the share of its values that are lower: in base units, of a profile the error of times [1]."""
        if variable.name == PROFILE:
            return errors_of(variable.given, self.present)(shares).tpot
        return self.values(next(column for column, other in self.inputs.items() if other == variable), shares)

    def frontier(self, shares: Mapping[int, float]) -> AnyFrontier | None:
        """The frontier with some inputs that change it, by the share of their values that are lower.

        Returns
        -------
        ServiceFrontier, Frontier or None
            None where nothing fits. Without promises, if errors of a profile decide whether they are kept.

        Raises
        ------
        InputError
            If a value cannot be, with the value.
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
        """The engines and recipes of the present frontier: those that samples are of."""
        front = self.present
        if not isinstance(front, ServiceFrontier):
            return ()
        return tuple(front.candidates[number].label for number in front.shown)

    @property
    def _promises_are_uncertain(self) -> bool:
        promised = any(getattr(self.settings, name) is not None for name in _PROMISES)
        return promised and self._column(PROFILE) is not None

    def costs(self, shares: Array, speeds: Array, progress: Callable[[int], None]) -> tuple[Array, Array]:
        """Cost at some speeds, and the fastest speed, in every sample.

        Parameters
        ----------
        shares : ndarray, shape (n, k)
            Of the design [1].
        speeds : ndarray, shape (s,)
            Of a user [tokens/s].
        progress : callable
            Told after each frontier how many samples it was of.

        Returns
        -------
        tuple of ndarray
            Costs of shape (n, s), infinite where the speed is not reached [USD per 1e6 output tokens]; fastest speeds
            of shape (n,), 0 where nothing fits [tokens/s].
        """
        costs, fastest = np.full((len(shares), speeds.size), np.inf), np.zeros(len(shares))
        groups: Sequence[Indices] = [np.arange(len(shares))]
        if self.costly:  # samples by the frontier that they need
            _, inverse, counts = np.unique(shares[:, self.costly], axis=0, return_inverse=True, return_counts=True)
            groups = np.split(np.argsort(inverse.ravel(), kind="stable"), np.cumsum(counts)[:-1])
        for rows in groups:
            front = self.frontier({column: float(shares[rows[0], column]) for column in self.costly})
            if front is not None:
                costs[rows], fastest[rows] = self._of_frontier(front, shares[rows], speeds)
            progress(rows.size)
        return costs, fastest

    def _of_frontier(self, front: AnyFrontier, shares: Array, speeds: Array) -> tuple[Array, Array]:
        """Costs, as :meth:`costs`, for samples of one frontier."""
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
        # What keeps the promises differs between samples: times are so many times as long as predicted.
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
        """The column of an input; None where it is certain."""
        return next((column for column, variable in self.inputs.items() if variable.name == name), None)

    def _errors(self, shares: Array) -> Errors:
        """Measured over predicted values in some samples [1]."""
        column = self._column(PROFILE)
        if column is None:
            return _equal(np.ones(len(shares)))
        return errors_of(self.inputs[column].given, self.present)(shares[:, column])


class Errors(NamedTuple):
    """Measured over predicted values; arrays of one shape."""

    tpot: Array
    """Time per output token [1]."""
    ttft: Array
    """Time to the first token [1]."""
    e2e: Array
    """Time to the last token [1]."""
    cost: Array
    """Cost of a token, the inverse of a throughput [1]."""


#: Errors of servers by the share of servers that are faster.
ErrorsOf = Callable[[Array], Errors]


def errors_of(given: UncertainInput, front: AnyFrontier) -> ErrorsOf:
    """The errors of a frontier's predictions.

    Parameters
    ----------
    given : Distribution or str
        Of measured over predicted times, or ``held_out``: those that the profile has for servers as unlike the
        measured ones as these.
    front : ServiceFrontier or Frontier
        What is predicted.

    Returns
    -------
    callable
        From shares of servers that are faster, 0 to 1 [1], to errors.

    Raises
    ------
    InputError
        If the assumptions were fitted to no server.

    Notes
    -----
    One share stands for all quantities of a server: who is slow per token has a low throughput and a late first token,
    since all three are sums of the same steps.
    """
    if isinstance(given, Distribution):
        return lambda slower: _equal(given.quantiles(slower))
    tpot = _spread(front, "tpot")
    if tpot is None:
        raise InputError(
            f"{PROFILE}: {front.setup.assumptions.name} was fitted to no measured server, so that its errors are not "
            f"known; give them: {PROFILE}: {{distribution: lognorm, s: 0.2, relative: true}}"
        )
    # Decode steps alone cost what they take.
    throughput = _spread(front, "throughput") if isinstance(front, ServiceFrontier) else None
    ttft, e2e = _spread(front, "ttft") or tpot, _spread(front, "request") or tpot

    def held_out(slower: Array) -> Errors:
        times, first, last = (np.exp(quantile(spread, slower)) for spread in (tpot, ttft, e2e))
        return Errors(times, first, last, times if throughput is None else np.exp(-quantile(throughput, 1.0 - slower)))

    return held_out


def _equal(times: Array) -> Errors:
    return Errors(times, times, times, times)


def _spread(front: AnyFrontier, quantity: Quantity) -> ErrorSpread | None:
    """The held-out errors of a quantity; None if they are not known."""
    spreads = [
        likely_errors(instances.setup.assumptions, quantity, subjects_of(instances)) for instances in front.subjects()
    ]
    return max((spread for spread in spreads if spread is not None), key=lambda spread: spread.width, default=None)


def quantile(spread: ErrorSpread, shares: Array) -> Array:
    """Errors by the share of errors that are lower.

    Parameters
    ----------
    spread : ErrorSpread
        Quantiles of ln(measured / predicted) at some levels.
    shares : ndarray
        From 0 to 1 [1].

    Returns
    -------
    ndarray
        ln(measured / predicted) [1].

    Notes
    -----
    Between the levels straight over the scores of a normal distribution, and beyond the outermost straight on: exact
    for normal errors. Nothing is known of the tails beyond 5 and 95 %.
    """
    score, levels = (
        special.normal_quantiles(share) for share in (np.clip(shares, 1e-9, 1.0 - 1e-9), np.asarray(LEVELS))
    )
    values = np.asarray(spread.quantiles)
    slopes = np.diff(values) / np.diff(levels)
    piece = np.clip(np.searchsorted(levels, score) - 1, 0, slopes.size - 1)
    return np.asarray(values[piece] + slopes[piece] * (score - levels[piece]))


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
        """Worth of knowing an input by its values in the samples, or of knowing all inputs."""

        def value(losses: Array) -> decisions.Estimate:
            if values is None:
                return decisions.value_of_knowing_all(losses)
            return decisions.value_of_knowing(values, losses, self.plan.first_half)

        costs = self.sampled[:, self.at]
        return Knowledge(value(decisions.wrong_choice(costs)), value(costs) if np.isfinite(costs).all() else None)

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
    done = 0

    def tell(label: str, sampled_rows: int) -> None:
        nonlocal done
        done += sampled_rows
        if progress is not None:
            progress(done / (rows * len(series)), label)

    # Only frontiers take long; what needs none is sampled in one step.
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
    """Costs and fastest speeds of all series, some points at a time; an interrupt leaves those that are done."""
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
    pairs = zip(front.axes(), other.axes(), strict=True)
    return not all(np.array_equal(*pair) for pair in pairs)


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


def answer_scenario(run: ScenarioRun, ask: UncertaintyAsk) -> Result:
    """Answer a scenario of this kind."""
    study = answer(run.scenario, ask, progress=run.progress)
    return run.result(study.used, study=study)
