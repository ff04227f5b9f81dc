"""Latencies of simulated requests, and the statistical error of simulation results."""

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

#: Number of batches in the method of batch means [1].
_BATCHES = 20
#: 97.5% quantile of Student's t distribution, with ``_BATCHES`` - 1 degrees of freedom [1].
_STUDENT = 2.093024054408263


class SimulatedEstimate(NamedTuple):
    """Simulation result with its statistical error."""

    value: float
    """Estimated value."""
    half_width: float
    """Half-width of the 95% confidence interval; NaN if there are too few requests for batch means."""

    def agrees(self, expected: float, slack: float = 0.0) -> bool:
        """Check whether ``expected`` is in the confidence interval, widened by ``slack`` times ``expected``."""
        return abs(self.value - expected) <= self.half_width + slack * abs(expected)


@dataclass(frozen=True, slots=True)
class Trace:
    """Latencies of the measured requests of a run, in order of arrival, and mean loads.

    Attributes
    ----------
    arrival : ndarray, shape (n,)
        Sending time [s].
    wait : ndarray, shape (n,)
        Queueing time before prefill starts [s].
    ttft : ndarray, shape (n,)
        Time to first token [s].
    tpot : ndarray, shape (n,)
        Mean time per output token after the first [s]; NaN for requests with one output token.
    e2e : ndarray, shape (n,)
        End-to-end latency [s].
    output_tokens : ndarray, shape (n,)
        Output length [tokens].
    seconds : float
        Duration of the measurement window, from the first to the last measured arrival [s].
    in_flight_shares : ndarray, shape (slots + 1,)
        Share of the measurement window with 0, 1, ..., slots concurrent requests [1].
    busy : float
        Share of the measurement window in which at least one request is running [1].
    in_flight, waiting : float
        Mean concurrency, and mean length of the queue [1].
    requests_per_second, tokens_per_second : float
        Throughput: completed requests [1/s], and output tokens of these requests [tokens/s].
    backlog : int
        Number of queued requests at the end of the measurement window [1]; a large number indicates saturation.
    preemptions : int
        Number of preemptions of measured requests [1].
    prompt_tokens : ndarray of int, shape (n,)
        Prompt length as sent, before preemptions [tokens].
    found_tokens : mapping of str to ndarray of int, shape (n,)
        Cache hits of each request in GPU memory (``HBM``) and in each offload tier [tokens].
    known_tokens : ndarray of int, shape (n,)
        Cache hits that each request would have in an unlimited cache, in full blocks [tokens].
    tokens_read : int
        Prefill tokens of the whole run, including recomputed tokens [tokens].
    sessions : ndarray of int, shape (n,)
        Session number of each request; -1 without a session.
    written : ndarray of int, shape (n,)
        Number of tokens that each request had generated at the end of the run [tokens]. If the run was stopped early,
        running requests have fewer than ``output_tokens``, and their last token is set to the stopping time.
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
        """Cache hits in GPU memory and in each offload tier, as shares of the prompt tokens [1]."""
        total = max(int(self.prompt_tokens.sum()), 1)
        return {name: int(tokens.sum()) / total for name, tokens in self.found_tokens.items()}

    @property
    def known_share(self) -> float:
        """Cache hits in an unlimited cache, as a share of the prompt tokens [1]."""
        return int(self.known_tokens.sum()) / max(int(self.prompt_tokens.sum()), 1)

    @property
    def e2e_per_output_token(self) -> Array:
        """End-to-end latency divided by the number of output tokens, shape (n,) [s]."""
        return self.e2e / self.output_tokens

    def of_one(self, instances: int) -> Trace:
        """Divide the throughput and mean request numbers of ``instances`` instances by their number."""
        names = ("in_flight", "waiting", "requests_per_second", "tokens_per_second")
        return replace(self, **{name: getattr(self, name) / instances for name in names}) if instances > 1 else self

    def slo_met_share(self, ttft_seconds: float, tpot_seconds: float, e2e_seconds: float) -> float:
        """Share of measured requests that meet all three SLOs [1]; requests with one output token meet any TPOT SLO."""
        slow = np.nan_to_num(self.tpot) > tpot_seconds
        return float(np.mean(~slow & (self.ttft <= ttft_seconds) & (self.e2e <= e2e_seconds)))

    def statistics(self, name: str) -> Statistics:
        """Mean and percentiles of one latency, without confidence intervals [s]."""
        values = getattr(self, name)
        return of_sample(values[~np.isnan(values)])

    def summary(self) -> dict[str, dict[str, SimulatedEstimate]]:
        """Mean and percentiles of all latencies, with 95% confidence intervals [s]."""
        return {
            name: {key: estimate(getattr(self, name), partial(_statistic, key)) for key in STATISTICS}
            for name in ("wait", "ttft", "tpot", "e2e", "e2e_per_output_token")
        }


def _statistic(name: str, values: Array) -> float:
    return of_sample(values)[name]


def estimate(values: Array, statistic: Callable[[Array], float]) -> SimulatedEstimate:
    """Statistic of correlated values, with a confidence interval by the method of batch means.

    Parameters
    ----------
    values : ndarray, shape (n,)
        Values in order of time; NaN values are ignored.
    statistic : callable
        Function that computes the statistic of an array, for example ``numpy.mean``.

    Returns
    -------
    SimulatedEstimate
        Statistic of all values, in their unit. The confidence interval comes from the statistics of 20 batches of
        consecutive values.

    Notes
    -----
    Law, "Simulation Modeling and Analysis" (2015), section 9.5.3, describes the method. Batches must be long compared
    with the correlation time of the values. The correlation time is long near saturation.
    """
    finite = values[~np.isnan(values)]
    if not finite.size:
        return SimulatedEstimate(math.nan, math.nan)
    if finite.size < _BATCHES:
        return SimulatedEstimate(statistic(finite), math.nan)
    batches = [statistic(batch) for batch in np.array_split(finite, _BATCHES)]
    return SimulatedEstimate(statistic(finite), _STUDENT * float(np.std(batches, ddof=1)) / math.sqrt(_BATCHES))


def trace(
    stream: Stream, started: Array, first_token: Array, finished: Array, slots: int, measured: slice, evictions: Counts
) -> Trace:
    """Latencies of the measured requests, and mean load of the server while these requests arrive.

    Parameters
    ----------
    stream : Stream
        Requests to simulate.
    started, first_token, finished : ndarray, shape (n,)
        Times at which prefill starts, the first token arrives, and the last token arrives [s].
    slots : int
        Maximum concurrent requests [1].
    measured : slice
        Slice of the measured requests, by arrival.
    evictions : ndarray of int, shape (n,)
        Number of preemptions of each request [1].

    Returns
    -------
    Trace
        Latencies and loads. The measurement window ends at the last measured arrival; if all requests arrive at once,
        at the last token.
    """
    arrival, osl = stream.arrival, stream.osl
    begin, end = float(arrival[measured][0]), float(arrival[measured][-1])
    window = (begin, end if end > begin else max(float(finished.max()), begin + np.finfo(float).tiny))
    seconds = window[1] - window[0]
    times = np.concatenate((np.clip(started, *window), np.clip(finished, *window)))
    order = np.argsort(times, kind="stable")
    # A slot may be freed and reused at the same time. The order of these two events does not matter, because no time
    # passes between them.
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
    """Table of step times, with linear interpolation in batch and context, and linear extrapolation in context.

    Parameters
    ----------
    batches, contexts : sequence of float
        Numbers of requests [1] and contexts [tokens], both ascending.
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
        # Python floats are faster than arrays for single values.
        self._batches, self._contexts = [float(value) for value in batches], [float(value) for value in contexts]
        self._seconds: list[list[float]] = values.tolist()
        #: Contexts at which slopes change; and a cache by batch, with times at zero context and slopes.
        self._bends = self._contexts[1:-1]
        self._known: dict[float, tuple[list[float], list[float]]] = {}

    def __call__(self, batch: float, context: float) -> float:
        """Step time [s]."""
        lines = self._known.get(batch)
        if lines is None:
            lines = self._lines(batch)
            # Fractional batches come from chunks of prompts and rarely occur twice, so their lines are not cached.
            if batch == int(batch):
                self._known[batch] = lines
        values, slopes = lines
        line = bisect_right(self._bends, context) if self._bends else 0
        return values[line] + slopes[line] * context

    def _lines(self, batch: float) -> tuple[list[float], list[float]]:
        """Times at zero context, and slopes, of the line segments between contexts at a batch."""
        batches, ends = self._batches, self._contexts
        if not batches[0] <= batch <= batches[-1]:
            raise InputError(
                f"the table of step times is for batches from {batches[0]:g} to {batches[-1]:g}, got {batch}"
            )
        # Grid point below the batch, and fraction of the distance to the next grid point.
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
