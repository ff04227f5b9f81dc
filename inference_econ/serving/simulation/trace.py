"""Latencies that requests saw of a server, and how sure the numbers of a simulation are."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.errors import InputError
from inference_econ.serving.simulation.arrivals import Counts, Stream
from inference_econ.serving.statistics import STATISTICS, Statistics, of_sample

#: Batches of the method of batch means [1].
_BATCHES = 20
#: What Student's t of one degree of freedom less does not exceed with a chance of 97.5 % [1].
_STUDENT = 2.093024054408263


class SimulatedEstimate(NamedTuple):
    """A number from a simulation with its uncertainty."""

    value: float
    """The estimate."""
    half_width: float
    """Half the width of its 95 % confidence interval; NaN with fewer requests than batches."""

    def agrees(self, expected: float, slack: float = 0.0) -> bool:
        """Return whether a value lies in the interval, widened by a share of that value."""
        return abs(self.value - expected) <= self.half_width + slack * abs(expected)


@dataclass(frozen=True, slots=True)
class Trace:
    """Times of the measured requests, in the order of their arrival.

    Attributes
    ----------
    arrival : ndarray, shape (n,)
        When they were sent [s].
    wait : ndarray, shape (n,)
        From arrival until the prompt is looked at [s].
    ttft : ndarray, shape (n,)
        From arrival to the first token [s].
    tpot : ndarray, shape (n,)
        Mean time between two tokens [s]; NaN for requests of one token.
    e2e : ndarray, shape (n,)
        From arrival to the last token [s].
    output_tokens : ndarray, shape (n,)
        Of the answer [tokens].
    seconds : float
        From the first to the last measured arrival: the window of what follows [s].
    in_flight_shares : ndarray, shape (slots + 1,)
        Share of the window with 0, 1, .. slots requests in flight [1].
    busy : float
        Share of the window with at least one request in flight [1].
    in_flight, waiting : float
        Mean numbers of requests in flight and waiting [1].
    requests_per_second, tokens_per_second : float
        Completed requests [1/s], and their output tokens [tokens/s].
    backlog : int
        Requests that wait when the window ends [1]; many of them show a server that is saturated.
    preemptions : int
        How often memory ran out and a measured request had to be read again [1].
    prompt_tokens : ndarray of int, shape (n,)
        Of the prompts, as they were sent [tokens].
    found_tokens : mapping of str to ndarray of int, shape (n,)
        Those of them that were found in each memory, ``HBM`` first [tokens].
    known_tokens : ndarray of int, shape (n,)
        Those of prompts of sessions that were said before, in whole blocks: a cache that forgets nothing finds them
        [tokens].
    tokens_read : int
        Tokens of all prompts of the run that were read, those that were read again included [tokens].
    sessions : ndarray of int, shape (n,)
        Number of the session of each request; -1 of those that belong to none.
    written : ndarray of int, shape (n,)
        Tokens of each answer that were there when the run ended: fewer than ``output_tokens`` where it was stopped
        before, at which time such requests count as ended [tokens].
    """

    arrival: Array
    wait: Array
    ttft: Array
    tpot: Array
    e2e: Array
    output_tokens: Array
    seconds: float
    in_flight_shares: Array
    busy: float
    in_flight: float
    waiting: float
    requests_per_second: float
    tokens_per_second: float
    backlog: int
    preemptions: int = 0
    prompt_tokens: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    found_tokens: Mapping[str, Counts] = field(default_factory=dict)
    known_tokens: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    tokens_read: int = 0
    sessions: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    written: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def hit_rates(self) -> dict[str, float]:
        """Share of the prompt tokens that was found in each memory [1]."""
        total = max(int(self.prompt_tokens.sum()), 1)
        return {name: int(tokens.sum()) / total for name, tokens in self.found_tokens.items()}

    @property
    def known_share(self) -> float:
        """Share of the prompt tokens that a cache that forgets nothing would find [1]."""
        return int(self.known_tokens.sum()) / max(int(self.prompt_tokens.sum()), 1)

    @property
    def e2e_per_output_token(self) -> Array:
        """From arrival to the last token over the tokens of the answer, shape (n,) [s]."""
        return self.e2e / self.output_tokens

    def of_one(self, instances: int) -> Trace:
        """Trace with the rates and numbers of requests of one of the instances that were played together."""
        names = ("in_flight", "waiting", "requests_per_second", "tokens_per_second")
        return replace(self, **{name: getattr(self, name) / instances for name in names}) if instances > 1 else self

    def slo_met_share(self, ttft_seconds: float, tpot_seconds: float, e2e_seconds: float) -> float:
        """Share of the measured requests that keep three promises [s]; a request of one token has no TPOT to break."""
        slow = np.nan_to_num(self.tpot) > tpot_seconds
        return float(np.mean(~slow & (self.ttft <= ttft_seconds) & (self.e2e <= e2e_seconds)))

    def statistics(self, name: str) -> Statistics:
        """Mean and percentiles of one of these times, without their confidence [s]."""
        values = getattr(self, name)
        return of_sample(values[~np.isnan(values)])

    def summary(self) -> dict[str, dict[str, SimulatedEstimate]]:
        """Mean and percentiles of all times, each with 95 % confidence [s]."""
        return {
            name: {key: estimate(getattr(self, name), partial(_statistic, key)) for key in STATISTICS}
            for name in ("wait", "ttft", "tpot", "e2e", "e2e_per_output_token")
        }


def _statistic(name: str, values: Array) -> float:
    return of_sample(values)[name]


def estimate(values: Array, statistic: Callable[[Array], float]) -> SimulatedEstimate:
    """A statistic of correlated values with its confidence, by the method of batch means.

    Parameters
    ----------
    values : ndarray, shape (n,)
        In the order of time; NaN are left out.
    statistic : callable
        From values to one number.

    Returns
    -------
    Estimate
        The statistic of all values; its interval is that of the mean over 20 batches, in the statistic's unit.

    Notes
    -----
    Law, "Simulation Modeling and Analysis" (2015), section 9.5.3: the batches must be long against the time over
    which values depend on each other, which a nearly saturated server makes long.
    """
    finite = values[~np.isnan(values)]
    if not finite.size:
        return SimulatedEstimate(math.nan, math.nan)
    if finite.size < _BATCHES:
        return SimulatedEstimate(statistic(finite), math.nan)
    batches = [statistic(batch) for batch in np.array_split(finite, _BATCHES)]
    return SimulatedEstimate(statistic(finite), _STUDENT * float(np.std(batches, ddof=1)) / math.sqrt(_BATCHES))


def trace(
    stream: Stream,
    started: Array,
    first_token: Array,
    finished: Array,
    slots: int,
    measured: slice,
    evictions: Counts,
) -> Trace:
    """Return the times of the measured requests, and the work of the server meanwhile.

    Parameters
    ----------
    stream : Stream
        What arrived.
    started, first_token, finished : ndarray, shape (n,)
        When each prompt was looked at, its first token came, and its last [s].
    slots : int
        Requests in flight at most [1].
    measured : slice
        Which requests count, by arrival.
    evictions : ndarray of int, shape (n,)
        How often each had to be read again [1].

    Returns
    -------
    Trace
        The window of the shares and rates ends with the last measured arrival, or, where all arrive at once, with
        the last token.
    """
    arrival, osl = stream.arrival, stream.osl
    begin, end = float(arrival[measured][0]), float(arrival[measured][-1])
    window = (begin, end if end > begin else max(float(finished.max()), begin + np.finfo(float).tiny))
    seconds = window[1] - window[0]
    times = np.concatenate((np.clip(started, *window), np.clip(finished, *window)))
    order = np.argsort(times, kind="stable")
    # A slot that is freed and taken at the same time counts for no time, whatever the order.
    in_flight = np.clip(np.cumsum(np.repeat([1, -1], started.size)[order])[:-1], 0, slots)
    held = np.bincount(in_flight, weights=np.diff(times[order]), minlength=slots + 1)
    held[0] += max(seconds - held.sum(), 0.0)
    shares = np.asarray(held / held.sum())
    done = (finished > window[0]) & (finished <= window[1])
    waiting = np.clip(started, *window) - np.clip(arrival, *window)
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot = np.where(osl > 1, (finished - first_token) / (osl - 1), np.nan)
    return Trace(
        arrival=arrival[measured],
        wait=(started - arrival)[measured],
        ttft=(first_token - arrival)[measured],
        tpot=tpot[measured],
        e2e=(finished - arrival)[measured],
        output_tokens=osl[measured].astype(float),
        seconds=seconds,
        in_flight_shares=shares,
        busy=1.0 - float(shares[0]),
        in_flight=float(shares @ np.arange(slots + 1)),
        waiting=float(waiting.sum() / seconds),
        requests_per_second=float(done.sum() / seconds),
        tokens_per_second=float(osl[done].sum() / seconds),
        backlog=int(((arrival <= window[1]) & (started > window[1])).sum()),
        preemptions=int(evictions[measured].sum()),
    )


class StepTable:
    """Step times between the points of a table: linear in batch and context, and beyond its ends in context.

    Parameters
    ----------
    batches, contexts : sequence of float
        Ascending: requests [1] and tokens.
    seconds : array_like, shape (batches, contexts)
        Step times [s].

    Examples
    --------
    >>> table = StepTable([1, 3], [0, 1000], [[0.010, 0.020], [0.030, 0.060]])
    >>> round(table(2, 500.0), 12)
    0.03
    """

    def __init__(self, batches: Sequence[float], contexts: Sequence[float], seconds: npt.ArrayLike) -> None:
        values = np.asarray(seconds, dtype=float)
        if values.shape != (len(batches), len(contexts)) or not values.size:
            raise InputError(
                f"a table of step times for {len(batches)} batches and {len(contexts)} contexts needs that shape, "
                f"got {values.shape}"
            )
        if (np.diff(batches) <= 0).any() or (np.diff(contexts) <= 0).any():
            raise InputError("the batches and contexts of a table of step times must ascend")
        # Plain numbers: a simulation asks often, for one value at a time.
        self._batches, self._contexts = [float(value) for value in batches], [float(value) for value in contexts]
        self._seconds: list[list[float]] = values.tolist()
        #: Where lines of another slope begin, and of batches that were asked for the lines: their values at no context,
        #: and their slopes.
        self._bends = self._contexts[1:-1]
        self._known: dict[float, tuple[list[float], list[float]]] = {}

    def __call__(self, batch: float, context: float) -> float:
        """Seconds of a step [s]."""
        lines = self._known.get(batch)
        if lines is None:
            lines = self._lines(batch)
            # Parts of prompts give numbers that hardly come again.
            if batch == int(batch):
                self._known[batch] = lines
        values, slopes = lines
        line = bisect_right(self._bends, context) if self._bends else 0
        return values[line] + slopes[line] * context

    def _lines(self, batch: float) -> tuple[list[float], list[float]]:
        """Values at no context, and slopes, of the lines between contexts."""
        batches, ends = self._batches, self._contexts
        if not batches[0] <= batch <= batches[-1]:
            raise InputError(
                f"the table of step times is for batches from {batches[0]:g} to {batches[-1]:g}, got {batch}"
            )
        # The point below the batch, and the share of the way to the next.
        at, share = 0, 0.0
        if len(batches) > 1:
            at = min(bisect_right(batches, batch) - 1, len(batches) - 2)
            share = (batch - batches[at]) / (batches[at + 1] - batches[at])
        row = self._seconds[at]
        if share:
            row = [low + share * (high - low) for low, high in zip(row, self._seconds[at + 1], strict=True)]
        if len(row) == 1:
            return row, [0.0]
        slopes = [(row[k + 1] - row[k]) / (ends[k + 1] - ends[k]) for k in range(len(row) - 1)]
        return [row[k] - slope * ends[k] for k, slope in enumerate(slopes)], slopes
