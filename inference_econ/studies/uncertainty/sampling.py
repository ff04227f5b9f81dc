"""Cost and fastest speed of one series in every sample, with as few frontiers as its inputs need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from inference_econ._types import Array, Indices
from inference_econ.answers.serving_frontier import ServiceFrontier, service_frontier
from inference_econ.answers.settings import promises_of
from inference_econ.engine import likely_errors
from inference_econ.engine.bounds import subjects_of
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import special
from inference_econ.inputs import (
    LEVELS,
    PROFILE,
    Distribution,
    ErrorSpread,
    Quantity,
    Settings,
    UncertainInput,
    with_defaults,
)
from inference_econ.studies.results import AnyFrontier
from inference_econ.studies.settings import frontier_of, number, with_numbers
from inference_econ.studies.uncertainty.design import CHEAP, Variable

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


def _fastest(front: AnyFrontier) -> float:
    return float(front.tokens_per_second[-1])


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
        return (
            tuple(front.candidates[number].label for number in front.shown)
            if isinstance(front, ServiceFrontier)
            else ()
        )

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
        for rows in self.groups(shares):
            front = self.frontier({column: float(shares[rows[0], column]) for column in self.costly})
            if front is not None:
                costs[rows], fastest[rows] = self._of_frontier(front, shares[rows], speeds)
            progress(rows.size)
        return costs, fastest

    def groups(self, shares: Array) -> Sequence[Indices]:
        """Samples by the frontier that they need."""
        if not self.costly:
            return [np.arange(len(shares))]
        _, inverse, counts = np.unique(shares[:, self.costly], axis=0, return_inverse=True, return_counts=True)
        return np.split(np.argsort(inverse.ravel(), kind="stable"), np.cumsum(counts)[:-1])

    def _of_frontier(self, front: AnyFrontier, shares: Array, speeds: Array) -> tuple[Array, Array]:
        """Costs, as :meth:`costs`, for samples of one frontier."""
        prices, errors = self._prices(front, shares), self._errors(shares)
        if self._promises_are_uncertain:
            kept = [self._kept(front, *times) for times in zip(errors.tpot, errors.ttft, errors.e2e, strict=True)]
            none = np.full(speeds.size, np.inf)
            hours = np.stack(
                [
                    none if points is None else cost_at(points, speeds * tpot)
                    for points, tpot in zip(kept, errors.tpot, strict=True)
                ]
            )
            fastest = np.array([0.0 if points is None else _fastest(points) for points in kept])
        else:
            hours, fastest = cost_at(front, np.outer(errors.tpot, speeds)), np.full(len(shares), _fastest(front))
        return (prices * errors.cost)[:, None] * hours, fastest / errors.tpot

    def _kept(self, front: AnyFrontier, tpot: float, ttft: float, e2e: float) -> ServiceFrontier | None:
        """The frontier of what keeps the promises if times are so many times as long as predicted; None of nothing."""
        assert isinstance(front, ServiceFrontier)
        promised = promises_of(with_defaults(self.settings))
        scaled = replace(
            promised,
            ttft_seconds=promised.ttft_seconds / ttft,
            tpot_seconds=promised.tpot_seconds / tpot,
            e2e_seconds=promised.e2e_seconds / e2e,
        )
        try:
            return service_frontier(front.candidates, scaled)
        except NothingFitsError:
            return None

    def _column(self, name: str) -> int | None:
        """The column of an input; None where it is certain."""
        return next((column for column, variable in self.inputs.items() if variable.name == name), None)

    def _prices(self, front: AnyFrontier, shares: Array) -> Array:
        """The price of a chip in some samples [USD/h]."""
        present = front.dollars_per_accelerator_hour
        column = self._column("price")
        if column is None:
            return np.full(len(shares), present)
        distribution = self.inputs[column].given
        assert isinstance(distribution, Distribution)
        return (present if distribution.relative else 1.0) * distribution.quantiles(shares[:, column])

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
