"""Profile of a request trace (arrivals, lengths, prefix reuse, sessions), and the workload fitted to the trace."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from inference_econ._answer import Shown
from inference_econ._types import Array
from inference_econ.errors import InputError
from inference_econ.formulas.stack_distance import StackDistances
from inference_econ.inputs import Requests, TrafficSpec
from inference_econ.inputs.workload import traces
from inference_econ.records.plain import attributes

#: Window sizes for the index of dispersion [s], and maximum number of windows of one size [1].
WINDOWS, _MOST_WINDOWS = (1, 10, 60), 600_000
#: Number of requests that are stored [1]: the first ones for replay, and a random sample for lengths.
KEPT = 50_000
#: Maximum number of sessions that are tracked [1]. When the maximum is reached, a random half of the sessions is
#: dropped.
_SESSIONS = 1 << 18
#: Maximum number of invalid lines that are described [1]; all other invalid lines are only counted.
_TOLD = 3
#: Quantiles that separate the rows of the fitted table [1]. They apply to new tokens, and within each group to outputs.
_EDGES = (*np.arange(0.0, 0.9, 0.1), 0.9, 0.95, 0.99, 1.0)
#: Possible intervals of fitted rates, each with the window that separates rates from bursts [s], and minimum mean
#: number of requests per interval [1]. The first interval with this number of requests is used.
_INTERVALS, _LEAST_REQUESTS = ((60, 10), (600, 60), (3600, 60)), 50
_HOUR, _DAY = 3600.0, 86_400.0
#: Windows per interval that are needed to separate a rate from bursts [1].
_LEAST_WINDOWS = 5
#: Largest squared coefficient of variation of interarrival times in a workload [1].
_MOST_SCV = 1000.0
#: Cache sizes for which the hit rate is reported [blocks].
_ROOMS = tuple(round(10 ** (power / 2)) for power in range(2, 17))


class Spread(NamedTuple):
    """Distribution of a request length [tokens]."""

    mean: float
    p50: float
    p90: float
    p99: float
    longest: float

    @classmethod
    def of(cls, tokens: Array) -> Spread:
        """Compute the distribution of a sample of lengths [tokens]."""
        p50, p90, p99 = (float(value) for value in np.quantile(tokens, (0.5, 0.9, 0.99)))
        return cls(float(tokens.mean()), p50, p90, p99, float(tokens.max()))


@dataclass(frozen=True, slots=True)
class TraceSessions:
    """Statistics of the sessions in a trace."""

    count: int
    """Number of sessions [1]."""
    mean_turns: float
    """Mean requests per session [1]."""
    most_turns: int
    """Number of requests in the longest session [1]."""


@dataclass(frozen=True, repr=False)
class TraceProfile(Shown):
    """Profile of a trace.

    Attributes
    ----------
    origin, form : str
        Name of the file, and format of the file.
    requests, broken : int
        Number of valid lines, and of invalid lines [1].
    mistakes : tuple of str
        Descriptions of the first invalid lines of the file, with line numbers.
    seconds : float or None
        Time from the first to the last arrival [s]; None if the times in the trace have no common clock.
    windows : mapping of int to tuple of int
        Number of requests in consecutive windows [1], by window size in seconds.
    times : ndarray, shape (n,)
        Arrival times of the first requests, relative to the first arrival, ascending [s]; empty if unknown.
    first, sample : ndarray, shape (n, 3)
        Input, output and reused input tokens per request [tokens]. ``first`` has the earliest requests, ``sample`` has
        random requests.
    distances : StackDistances
        Reuse distances of blocks; empty if the trace has no block hashes.
    block_tokens : int
        Number of tokens per block [tokens]; 0 without block hashes.
    sessions : TraceSessions or None
        Sessions; None if the trace does not identify them.
    blocks : tuple of tuple of int
        Block numbers of the prompts in ``first``; empty tuples without block hashes.
    longest : tuple of (int, int)
        Line number and context length (input plus output) of the longest request [tokens].
    """

    page = "report.questions.traffic:ProfilePage"

    origin: str
    form: str
    requests: int
    broken: int
    mistakes: tuple[str, ...]
    seconds: float | None
    windows: Mapping[int, tuple[int, ...]]
    times: Array
    first: Array
    sample: Array
    distances: StackDistances
    block_tokens: int
    sessions: TraceSessions | None
    blocks: tuple[tuple[int, ...], ...]
    longest: tuple[int, int]

    @property
    def rate(self) -> float | None:
        """Mean request rate [1/s]; None if times are unknown or all equal."""
        return (self.requests - 1) / self.seconds if self.seconds else None

    @property
    def gap_scv(self) -> float | None:
        """Squared coefficient of variation of the interarrival times [1]."""
        gaps = np.diff(self.times)
        return float(np.var(gaps) / np.mean(gaps) ** 2) if gaps.size and gaps.any() else None

    @property
    def dispersion(self) -> dict[int, float]:
        """Index of dispersion by window size [1]: variance over mean of the requests per window; 1 for Poisson."""
        full = {size: np.array(counts[:-1]) for size, counts in self.windows.items() if len(counts) > _LEAST_WINDOWS}
        return {size: float(np.var(counts) / np.mean(counts)) for size, counts in full.items()}

    @property
    def lengths(self) -> dict[str, Spread]:
        """Distributions of input and output lengths."""
        return {name: Spread.of(self.sample[:, column]) for column, name in enumerate(("isl", "osl"))}

    def quantiles(self, name: str, shares: Sequence[float]) -> list[float]:
        """Quantiles of the input (``isl``) or output (``osl``) lengths at the given shares [tokens]."""
        return [float(value) for value in np.quantile(self.sample[:, ("isl", "osl").index(name)], shares)]

    @property
    def correlation(self) -> float:
        """Correlation of input and output lengths [1]; 0 if the input or output length is constant."""
        first, second = (np.argsort(np.argsort(self.sample[:, column])).astype(float) for column in (0, 1))
        varied = all(np.ptp(self.sample[:, column]) > 0 for column in (0, 1))
        return float(np.corrcoef(first, second)[0, 1]) if varied else 0.0

    @property
    def reused(self) -> float | None:
        """Share of prompt blocks that occurred in earlier requests [1].

        Without block hashes, the share of prompt tokens that were reused.
        """
        if self.block_tokens:
            return self.distances.share
        share = float(self.sample[:, 2].sum() / self.sample[:, 0].sum())
        return share if share > 0.0 else None

    @property
    def found(self) -> dict[int, float]:
        """Hit rate of a cache with least-recently-used eviction, by cache size in blocks [1]."""
        if not self.block_tokens:
            return {}
        rooms = [room for room in _ROOMS if room < self.distances.distinct]
        shares = self.distances.found(rooms)
        return {room: share for room, share in zip(rooms, shares, strict=True) if share > 0.0}

    @cached_property
    def traffic(self) -> TrafficSpec:
        """Workload that is fitted to the trace, with rates, bursts, a table of lengths, and prefix reuse."""
        fitted: dict[str, Any] = {"arrivals": _fitted_arrivals(self), "lengths": _fitted_lengths(self.sample)}
        if self.reused is not None:
            reuse = self.found
            fitted["reuse"] = {"share": round(self.reused, 4)}
            if self.block_tokens:
                fitted["reuse"] |= {"block_tokens": self.block_tokens, "blocks": list(reuse)}
                fitted["reuse"]["found"] = [round(share, 4) for share in reuse.values()]
        where = f"fitted to {self.requests:,} requests of {Path(self.origin).name} ({self.form})"
        sources = {key: {"ref": "user", "where": where, "kind": "derived"} for key in fitted}
        data = {
            "name": Path(self.origin).name.split(".")[0] or "trace",
            "description": f"{where}.",
            **fitted,
            "sources": sources,
        }
        return TrafficSpec.build(data, origin=self.origin)

    @property
    def replay(self) -> Requests:
        """Return the first requests of the trace, with their recorded arrival times, for a replay in the simulator.

        Raises
        ------
        InputError
            If arrival times are unknown.
        """
        if not self.rate or not self.times.size:
            raise InputError(
                f"{self.origin}: cannot be replayed, because it has no different arrival times on one clock; fit a "
                "workload to its lengths with 'inference-econ show traffic FILE -o mine.yaml', and give "
                "--traffic mine.yaml"
            )
        # The first request has no gap before it. It gets the mean gap, which keeps the mean rate of the trace.
        gaps = np.diff(self.times, prepend=self.times[0] - float(np.mean(np.diff(self.times))))
        isl, osl, cached = (tuple(map(float, self.first[:, column])) for column in range(3))
        spec = TrafficSpec.build(
            {
                "name": Path(self.origin).name,
                "arrivals": {"gaps": tuple(map(float, gaps))},
                "lengths": {"isl": isl, "osl": osl, "cached": cached},
                "sources": dict.fromkeys(("arrivals", "lengths"), _SAID),
            },
            origin=self.origin,
        )
        if not self.block_tokens:
            return spec.requests
        return spec.requests.replace(blocks=self.blocks, block_tokens=self.block_tokens)

    def record(self) -> dict[str, Any]:
        """Return the result as plain data."""
        sessions, arrivals = self.sessions, self.traffic.arrivals
        return {
            **attributes(self, "file=origin form requests broken_lines=broken"),
            "mistakes": list(self.mistakes),
            **attributes(self, "span_seconds=seconds request_rate=rate gap_scv"),
            "dispersion": {f"{size}_seconds": value for size, value in self.dispersion.items()},
            "prompts": self.lengths["isl"]._asdict(),
            "answers": self.lengths["osl"]._asdict(),
            "length_correlation": self.correlation,
            "block_tokens": self.block_tokens or None,
            "reused_share": self.reused,
            "reuse": [{"blocks": room, "found_share": share} for room, share in self.found.items()],
            "sessions": None if sessions is None else asdict(sessions),
            "fitted_scv": float(arrivals.scv),
            "fitted_rates": list(arrivals.rates),
            "fitted_interval_seconds": arrivals.interval,
            "minutes": self.records(),
        }

    def records(self) -> list[Mapping[str, Any]]:
        """Return one record per minute of the trace, with the number of requests in this minute."""
        return [{"minute": minute, "requests": count} for minute, count in enumerate(self.windows.get(60, ()))]


_SAID = {"ref": "user", "where": "as recorded", "kind": "measured"}


def trace(path: Path | str) -> TraceProfile:
    """Profile a trace (``inference_econ.trace``).

    Parameters
    ----------
    path : path or str
        Trace file in a format of :func:`inference_econ.inputs.workload.traces.read_trace`.

    Returns
    -------
    TraceProfile
        Profile of the requests in the trace. Run time is proportional to the number of lines. Memory is proportional to
        the number of windows.

    Raises
    ------
    InputError
        If the file cannot be read, or has no request.
    """
    recorded = traces.read_trace(path)
    seen = _TraceCounts()
    for line in recorded.lines:
        seen.take(line)
    if not seen.requests:
        told = "; ".join(seen.mistakes)
        raise InputError(f"{path}: none of its {seen.broken:,} lines is a request of the form {recorded.form}: {told}")
    return seen.profile(str(path), recorded)


class _TraceCounts:
    """Statistics of a trace that are updated line by line."""

    def __init__(self) -> None:
        self.requests = self.broken = self.block_tokens = self.without_time = 0
        self.mistakes: list[str] = []
        self.zero, self.begin, self.end, self.longest = 0.0, math.inf, -math.inf, (0, 0)
        self.windows: dict[int, Counter[int]] = {size: Counter() for size in WINDOWS}
        self.first: list[tuple[float, int, int, int]] = []
        #: Blocks of the stored prompts. Blocks are numbered in order of appearance.
        self.blocks: list[tuple[int, ...]] = []
        self.numbers: dict[Hashable, int] = {}
        self.sample: list[tuple[int, int, int]] = []
        self.distances, self.random = StackDistances(), Random(0)
        self.turns: dict[str, int] = {}
        self.kept_of = 1

    def take(self, line: traces.TraceLine) -> None:
        """Add one line to the statistics."""
        event = line.event
        if isinstance(event, traces.Broken):
            self.broken += 1
            if len(self.mistakes) < _TOLD:
                self.mistakes.append(f"line {line.number}: {event.problem}")
            return
        self.requests += 1
        if event.isl + event.osl > self.longest[1]:
            self.longest = (line.number, event.isl + event.osl)
        cached = event.cached or 0
        if event.block_tokens and event.blocks:
            self.block_tokens = event.block_tokens
            cached = self.distances.use(event.blocks) * event.block_tokens
        row = (event.isl, event.osl, min(cached, event.isl - 1))
        place = self.requests - 1 if self.requests <= KEPT else self.random.randrange(self.requests)
        if place < KEPT:
            self.sample[place : place + 1] = [row]
        if len(self.first) < KEPT:
            self.first.append((event.seconds or 0.0, *row))
            self.blocks.append(tuple(self.numbers.setdefault(name, len(self.numbers)) for name in event.blocks))
        if event.session:
            self._turn(event.session)
        if event.seconds is None:
            self.without_time += 1
            return
        if math.isinf(self.begin):
            self.zero = event.seconds
        self.begin, self.end = min(self.begin, event.seconds), max(self.end, event.seconds)
        for size, counts in list(self.windows.items()):
            counts[math.floor((event.seconds - self.zero) / size)] += 1
            if len(counts) > _MOST_WINDOWS:
                del self.windows[size]

    def _turn(self, session: str) -> None:
        if self.kept_of > 1 and crc32(session.encode(errors="replace")) % self.kept_of:
            return
        self.turns[session] = self.turns.get(session, 0) + 1
        if len(self.turns) > _SESSIONS:
            self.kept_of *= 2
            former, self.turns = self.turns, {}
            for name, turns in former.items():
                if not crc32(name.encode(errors="replace")) % self.kept_of:
                    self.turns[name] = turns

    def profile(self, origin: str, recorded: traces.TraceFile) -> TraceProfile:
        """Compute the profile of all lines that were added."""
        timed = recorded.timed and not self.without_time
        rows = np.array(self.first, dtype=float)
        order = np.argsort(rows[:, 0], kind="stable") if timed else np.arange(len(rows))
        rows = rows[order]
        sessions = None
        if self.turns:
            turns = self.turns.values()
            sessions = TraceSessions(len(turns) * self.kept_of, sum(turns) / len(turns), max(turns))
        # Number of requests in each of the consecutive windows, empty windows included; none for too many windows.
        windows = {
            size: tuple(counts[window] for window in range(min(counts), max(counts) + 1))
            if max(counts) - min(counts) < _MOST_WINDOWS
            else ()
            for size, counts in (self.windows.items() if timed else ())
        }
        return TraceProfile(
            origin,
            recorded.form,
            self.requests,
            self.broken,
            tuple(self.mistakes),
            self.end - self.begin if timed else None,
            windows,
            rows[:, 0] - rows[0, 0] if timed else np.array([]),
            rows[:, 1:],
            np.array(self.sample, dtype=float),
            self.distances,
            self.block_tokens,
            sessions,
            tuple(self.blocks[request] for request in order.tolist()),
            self.longest,
        )


def _fitted_arrivals(profile: TraceProfile) -> dict[str, Any]:
    """Fit a rate per interval, and the variation of interarrival times that reproduces the bursts within intervals.

    For a renewal process, the index of dispersion tends to the squared coefficient of variation of the interarrival
    times: Cox and Lewis (1966), section 4.4.
    """
    span, rate = profile.seconds, profile.rate
    if not span or rate is None:
        return {"scv": 1}
    folded = span > 1.5 * _DAY
    fits = [
        (interval, size)
        for interval, size in _INTERVALS
        if rate * interval >= _LEAST_REQUESTS and span >= 2 * interval and profile.windows.get(size)
    ]
    interval, size = next((fit for fit in fits if not folded or fit[0] == _HOUR), (0, 0))
    if not interval:
        scv = min(1.0 if profile.gap_scv is None else profile.gap_scv, _MOST_SCV)
        return {"scv": round(scv, 3), "rates": [_digits(rate)], "interval": _digits(span)}
    counts, count = np.array(profile.windows[size][:-1], dtype=float), interval // size
    parts = [counts[begin : begin + count] for begin in range(0, counts.size, count)]
    if parts[-1].size < _LEAST_WINDOWS:
        parts.pop()
    scv = sum(float(np.var(part, ddof=1)) for part in parts) / sum(float(part.mean()) for part in parts)
    rates = [float(part.mean()) / size for part in parts]
    if folded:
        day = round(_DAY / interval)
        rates = [float(np.mean(rates[hour::day])) for hour in range(day)]
    return {"scv": round(min(scv, _MOST_SCV), 3), "rates": [_digits(value) for value in rates], "interval": interval}


def _digits(value: float) -> float:
    """Round a number to five significant digits; integral results are returned as int."""
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() else short


def _fitted_lengths(sample: Array) -> dict[str, Any]:
    """Fit a table of mean lengths, with one row per group of similar requests.

    Requests are grouped by quantiles of new input tokens, and within each group by quantiles of output tokens.
    """
    rows: list[tuple[float, float, float, float]] = []
    for prompts in _between(sample, sample[:, 0] - sample[:, 2]):
        for cell in _between(prompts, prompts[:, 1]):
            isl, osl, cached = (_digits(value) for value in cell.mean(axis=0))
            rows.append((isl, osl, min(cached, isl - 1), round(len(cell) / len(sample), 6)))
    columns = dict(zip(("isl", "osl", "cached", "shares"), map(list, zip(*rows, strict=True)), strict=True))
    return columns if any(columns["cached"]) else {key: columns[key] for key in ("isl", "osl", "shares")}


def _between(rows: Array, values: Array) -> Iterable[Array]:
    """Divide rows into groups between the quantiles of a value; empty groups are left out."""
    order = np.argsort(values, kind="stable")
    ends = np.unique(np.rint(np.array(_EDGES) * len(rows)).astype(int))
    return (rows[order[begin:end]] for begin, end in pairwise(ends))
