"""Streams of requests: how they arrive, when, and how long they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.errors import InputError
from inference_econ.formulas import queueing
from inference_econ.inputs import Requests
from inference_econ.serving.simulation.prefixes import Parts

Counts = npt.NDArray[np.int64]
#: Lengths of some requests [tokens], from how many there are and a source of randomness.
LengthLaw = Callable[[int, "np.random.Generator"], Counts]


class Arrivals(Protocol):
    """Arrivals of requests, whatever their rate."""

    @property
    def scv(self) -> float:
        """Squared coefficient of variation of the times between arrivals, all that closed forms know of them [1]."""

    def times(self, count: int, requests_per_second: float, random: np.random.Generator) -> Array:
        """Return times of arrival at a mean rate [1/s], ascending, shape (count,) [s]."""

    def among(self, instances: float) -> Arrivals:
        """Return those at one of some instances that they are dealt to at random [1]; of 1 / n all that n get."""


@dataclass(frozen=True, slots=True)
class Gamma:
    """Arrivals that do not know of each other, after gamma-distributed times: Poisson if nothing else is said.

    Attributes
    ----------
    scv : float
        Squared coefficient of variation of the times between arrivals [1]: 1 makes them Poisson, 0 regular, more
        bursty.

    Raises
    ------
    InputError
        If it is negative or not finite.
    """

    scv: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is no variation."""
        if not 0.0 <= self.scv < math.inf:
            raise InputError(f"arrival_scv must be a number >= 0, got {self.scv:g}")

    def gaps(self, count: int, random: np.random.Generator) -> Array:
        """Return times between arrivals, shape (count,), 1 on average [1]."""
        return np.full(count, 1.0) if self.scv == 0.0 else random.gamma(1.0 / self.scv, self.scv, count)

    def times(self, count: int, requests_per_second: float, random: np.random.Generator) -> Array:
        """Return times of arrival at a mean rate [1/s], shape (count,) [s]."""
        return np.asarray(np.cumsum(self.gaps(count, random)) / requests_per_second)

    def among(self, instances: float) -> Gamma:
        """Return those at one of some instances [1]; see :func:`inference_econ.formulas.queueing.split_scv`."""
        return Gamma(float(queueing.split_scv(self.scv, instances)))


#: Arrivals of many users who do not know of each other.
POISSON = Gamma()


@dataclass(frozen=True, slots=True)
class Recorded:
    """Arrivals as somebody recorded them, again and again.

    Attributes
    ----------
    seconds : tuple of float
        Times between arrivals in the order in which they occurred [s].

    Raises
    ------
    InputError
        If one is negative or not finite, or none is positive.
    """

    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse what was never recorded."""
        if not all(0.0 <= gap < math.inf for gap in self.seconds) or not sum(self.seconds) > 0.0:
            raise InputError("times between arrivals must be numbers >= 0, at least one of them positive")

    @property
    def scv(self) -> float:
        """Squared coefficient of variation of the times between arrivals [1]."""
        return float(np.var(self.seconds) / np.mean(self.seconds) ** 2)

    def gaps(self, count: int, random: np.random.Generator) -> Array:
        """Return times between arrivals as they were recorded, shape (count,), 1 on average [1]."""
        del random  # nothing is left to chance
        return np.resize(np.array(self.seconds) / np.mean(self.seconds), count)

    def times(self, count: int, requests_per_second: float, random: np.random.Generator) -> Array:
        """Return times of arrival, recorded ones stretched to a mean rate [1/s], shape (count,) [s]."""
        return np.asarray(np.cumsum(self.gaps(count, random)) / requests_per_second)

    def among(self, instances: float) -> Recorded:
        """Return the same: of a lower rate fewer of the recorded requests are played."""
        del instances
        return self


@dataclass(frozen=True, slots=True)
class Changing:
    """Arrivals whose rate follows a curve, again and again: more users make it higher, and no quicker.

    Attributes
    ----------
    whole_scv : float
        Squared coefficient of variation of gaps while the rate stays the same, of the whole traffic [1].
    rates : tuple of float
        Of each interval, of the whole traffic [1/s].
    interval : float
        How long each is [s]; shorter in a run that would end before the last.
    """

    whole_scv: float
    rates: tuple[float, ...]
    interval: float

    @property
    def scv(self) -> float:
        """As if the rate of each gap were drawn anew: a lower bound of how bursty the whole traffic is [1]."""
        return self.whole_scv + float(np.var(self.rates) / np.mean(self.rates) ** 2)

    def times(self, count: int, requests_per_second: float, random: np.random.Generator) -> Array:
        """Return times of arrival at a mean rate [1/s], shape (count,) [s].

        Of a lower rate than that of the whole traffic they are a random part of it, whose index of dispersion is nearer
        to 1: Cox and Isham (1980), section 4.3. A higher one is that of several such traffics.
        """
        part = min(requests_per_second / float(np.mean(self.rates)), 1.0)
        within = Gamma(1.0 + part * (self.whole_scv - 1.0))
        interval = min(self.interval, count / requests_per_second / len(self.rates))
        period, ends = len(self.rates) * interval, np.arange(len(self.rates) + 1) * interval
        through = np.concatenate(([0.0], np.cumsum(self.rates))) / np.sum(self.rates)
        # In units of the requests of a period.
        passed = np.cumsum(within.gaps(count, random)) / (requests_per_second * period)
        return np.asarray(np.floor(passed) * period + np.interp(passed % 1.0, through, ends))

    def among(self, instances: float) -> Changing:
        """Return the same: :meth:`times` of a lower rate are a random part."""
        del instances
        return self


def arrivals_of(requests: Requests, scv: float) -> Arrivals:
    """Return how all of some requests arrive: as their traffic says, else independently with some variation [1]."""
    arrivals = requests.arrivals
    if arrivals is None:
        return Gamma(scv)
    if arrivals.gaps:
        return Recorded(tuple(map(float, arrivals.gaps)))
    if not arrivals.rates or (arrivals.is_steady and arrivals.scv == 1):
        return Gamma(float(arrivals.scv))
    return Changing(float(arrivals.scv), tuple(map(float, arrivals.rates)), arrivals.interval)


def calmest(requests: Requests, scv: float) -> Arrivals:
    """Return arrivals that are no burstier, from which closed forms begin that are corrected by playing the others."""
    arrivals = arrivals_of(requests, scv)
    return arrivals if requests.arrivals is None else Gamma(min(arrivals.scv, 1.0))


@dataclass(frozen=True, slots=True)
class Stream:
    """Requests that arrive one after the other.

    Attributes
    ----------
    arrival : ndarray, shape (n,)
        Times of arrival, ascending [s].
    isl, osl : ndarray of int, shape (n,)
        Prompt tokens, and output tokens, at least 1 each [tokens].
    parts : sequence of Parts, optional
        What each prompt consists of, if prompts repeat what others had: all of the whole blocks of it.
    """

    arrival: Array
    isl: Counts
    osl: Counts
    parts: Sequence[Parts] | None = None

    def __post_init__(self) -> None:
        """Refuse what is no stream of requests."""
        if not self.arrival.shape == self.isl.shape == self.osl.shape or self.arrival.ndim != 1:
            raise InputError(
                "arrival, isl and osl must be lists of the same length, got the shapes "
                f"{self.arrival.shape}, {self.isl.shape} and {self.osl.shape}"
            )
        if not np.isfinite(self.arrival).all() or (np.diff(self.arrival) < 0.0).any():
            raise InputError("times of arrival must be finite and ascending")
        _check_lengths(self.isl, self.osl)


@dataclass(frozen=True, slots=True)
class Loop:
    """A closed loop: some clients, each of which sends its next request when its last one has ended.

    Attributes
    ----------
    clients : int
        Requests at a time, all of which are sent at once when the run begins [1].
    isl, osl : ndarray of int, shape (n,)
        Prompt tokens, and output tokens, at least 1 each, in the order in which requests are sent [tokens].
    pause_seconds : float
        From the last token of a request until the server has the client's next one, and from the beginning of the run
        until it has the first ones [s].
    parts : sequence of Parts, optional
        See :class:`Stream`.
    """

    clients: int
    isl: Counts
    osl: Counts
    pause_seconds: float = 0.0
    parts: Sequence[Parts] | None = None

    def __post_init__(self) -> None:
        """Refuse what is no closed loop."""
        if self.clients < 1:
            raise InputError(f"a closed loop needs at least 1 client, got {self.clients}")
        if self.isl.shape != self.osl.shape or self.isl.ndim != 1:
            raise InputError(
                f"isl and osl must be lists of the same length, got the shapes {self.isl.shape} and {self.osl.shape}"
            )
        if not 0.0 <= self.pause_seconds < math.inf:
            raise InputError(f"pause_seconds must be a number >= 0, got {self.pause_seconds:g}")
        _check_lengths(self.isl, self.osl)


def _check_lengths(isl: Counts, osl: Counts) -> None:
    for name, lengths in (("isl", isl), ("osl", osl)):
        if lengths.size and lengths.min() < 1:
            raise InputError(f"{name} must be at least 1 token, got {lengths.min()}")


def fixed(tokens: int) -> LengthLaw:
    """Every request alike."""
    return lambda count, _: np.full(count, tokens, dtype=np.int64)


def draw(
    count: int,
    requests_per_second: float,
    isl: LengthLaw,
    osl: LengthLaw,
    *,
    arrivals: Arrivals = POISSON,
    seed: int = 0,
) -> Stream:
    """Draw a stream of requests, the same for the same seed.

    Parameters
    ----------
    count : int
        Requests [1].
    requests_per_second : float
        Arrivals, on average [1/s].
    isl, osl : callable
        Laws of the lengths, such as :func:`fixed`.
    arrivals : Arrivals
        How they arrive.
    seed : int
        Of the random numbers.

    Returns
    -------
    Stream
        For :func:`inference_econ.serving.simulation.events.simulate`.

    Raises
    ------
    InputError
        If a number is not allowed.
    """
    if count < 1:
        raise InputError(f"count must be at least 1 request, got {count}")
    if not (0.0 < requests_per_second < math.inf):
        raise InputError(f"requests_per_second must be a positive number, got {requests_per_second:g}")
    times, prompts, outputs = (np.random.default_rng([seed, stream]) for stream in range(3))
    return Stream(arrivals.times(count, requests_per_second, times), isl(count, prompts), osl(count, outputs))
