"""One run of a load generator, whoever wrote it: every statistic, the load that it offered, and what it tells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from inference_econ.calibration.measurements._record import Load
from inference_econ.calibration.measurements._rows import UnusableRowError, positive
from inference_econ.errors import InputError
from inference_econ.inputs import percentiles

Json = Mapping[str, Any]
#: Measure (ttft, tpot, e2e) and statistic (mean, p50, p99) to seconds.
Latencies = Mapping[tuple[str, str], float]
#: What programs call the statistics that they do not call as we do.
_OTHER_WORDS = {"median": "p50", "avg": percentiles.MEAN}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredServer:
    """Server of a run, its model, chip and layout: as whoever measured it says, or as a result names it.

    Attributes
    ----------
    hardware : str
        Name, in any usual spelling; empty to take the one in the file, where it has one.
    model : str
        Name; empty to take the one in the file.
    tp, dp, pp : int, optional
        Accelerators that share the attention weights, groups of them with sequences of their own, pipeline stages [1];
        by default as the file says, else 1.
    ep : int, optional
        Expert-parallel ranks [1].
    weights, kv : str
        Number formats; empty: as the name of the model says, or as published.
    engine : str
        Empty to take the one in the file.
    """

    hardware: str = ""
    model: str = ""
    tp: int | None = None
    dp: int | None = None
    pp: int | None = None
    ep: int | None = None
    weights: str = ""
    kv: str = ""
    engine: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRun:
    """Numbers of one run of a load generator.

    Attributes
    ----------
    latencies : mapping
        TTFT, TPOT and request latency by measure and statistic, as far as they were written [s].
    throughput : float
        Output tokens per second of the whole server; NaN where nothing is said of it [tokens/s].
    isl, osl : float
        Mean lengths; NaN where nothing is said of them [tokens].
    load : str
        How requests arrived; see :data:`Load`.
    requests_per_second : float or None
        Offered rate [1/s]; None for a constant number under way.
    concurrency : float or None
        Requests under way at most [1].
    requests : float or None
        Completed in the whole run [1].
    total_throughput : float or None
        Input and output tokens per second of the whole server [tokens/s].
    spread : float or None
        Of output lengths, as in :class:`Measurement` [1].
    cached_share : float
        Of prompt tokens that were found in a prefix cache [1].
    speculation : str
        As in :class:`Measurement`.
    told : MeasuredServer
        What it says of the server.
    remarks : tuple of str
        What was read into it.
    """

    latencies: Latencies
    throughput: float = math.nan
    isl: float = math.nan
    osl: float = math.nan
    load: Load
    requests_per_second: float | None = None
    concurrency: float | None = None
    requests: float | None = None
    total_throughput: float | None = None
    spread: float | None = None
    cached_share: float = 0.0
    speculation: str = "unrecorded"
    told: MeasuredServer = field(default_factory=MeasuredServer)
    remarks: tuple[str, ...] = ()

    @property
    def in_flight(self) -> float | None:
        """Requests under way on average: as many as there were, or by Little's law; None if nobody knows [1]."""
        if self.requests_per_second is None:
            return self.concurrency
        seconds = self.latencies.get(("e2e", "mean"))
        return None if seconds is None else self.requests_per_second * seconds


def by_statistic(measure: str, values: Json, name: str, factor: float = 1.0) -> dict[tuple[str, str], float]:
    """The statistics of one measure that are a mean or a percentile; others are left out.

    Parameters
    ----------
    measure : str
        ``ttft``, ``tpot`` or ``e2e``.
    values : mapping
        By what their writer calls them: ``avg``, ``median``, ``p99``.
    name : str
        What messages call a value, with ``{}`` for its statistic.
    factor : float
        Seconds in their unit [1].

    Raises
    ------
    UnusableRowError
        If one is not positive and finite.
    """
    return {
        (measure, ours): positive(value, name.format(theirs)) * factor
        for theirs, value in values.items()
        if value is not None and (ours := _ours(theirs)) is not None
    }


def _ours(word: str) -> str | None:
    """A statistic as we call it; None of other words."""
    try:
        return percentiles.percentile(_OTHER_WORDS.get(word, word))
    except InputError:
        return None


def offered(rate: Any, concurrency: Any, requests: float | None) -> dict[str, Any]:
    """Load of a run, as fields of a run: at a rate, with a constant number of them under way, or all at once."""
    cap = None if concurrency in (None, "", 0, math.inf) else positive(concurrency, "concurrency")
    if rate not in (None, "", 0) and str(rate).lower() not in ("inf", "infinity"):
        rate_asked = positive(rate, "request_rate")
        return {"load": "rate", "requests_per_second": rate_asked, "concurrency": cap, "requests": requests}
    load = "batch" if cap is None else "concurrency"
    return {"load": load, "concurrency": requests if cap is None else cap, "requests": requests}


def under_way(requests_per_second: float, request_seconds: float | None, requests: float | None) -> dict[str, Any]:
    """Requests under way where only what was completed is known: by Little's law so many were under way on average."""
    if request_seconds is None:
        return {"load": "unknown", "requests": requests}
    return {"load": "concurrency", "concurrency": requests_per_second * request_seconds, "requests": requests}


def needed(run: Json, key: str) -> float:
    """A positive number that a run must have.

    Raises
    ------
    UnusableRowError
        If it has none.
    """
    if run.get(key) is None:
        raise UnusableRowError(f"{key} is missing")
    return positive(run[key], key)


def optional(run: Json, key: str, factor: float = 1.0) -> float | None:
    """A positive number, if a run has it."""
    return None if run.get(key) is None else positive(run[key], key) * factor


def anywhere(value: Any, keys: Iterable[str]) -> Any:
    """The first value under one of the keys, however deep; of a list, its first entry."""
    if isinstance(value, dict):
        for key in keys:
            inner = value.get(key)
            if inner not in (None, "", [], {}) and not isinstance(inner, dict):
                return inner[0] if isinstance(inner, list) else inner
        for below in value.values():
            inner = anywhere(below, keys)
            if inner is not None:
                return inner
    return None


def inside(value: Any, *keys: str) -> Any:
    """Value under keys, one after the other; an empty mapping where anything is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return {} if value is None else value
