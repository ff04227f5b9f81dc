"""All percentiles of one run of a load generator, and the load that it offered."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from inference_econ.calibration.measurements._reports import Json, _anywhere, _load, _needed, _runs, _statistic
from inference_econ.calibration.measurements._rows import UnusableRowError, positive
from inference_econ.errors import InputError
from inference_econ.inputs import percentiles

#: What ``vllm bench serve`` and AIPerf call the statistics that they do not call as we do.
_OTHER_WORDS = {"median": "p50", "avg": percentiles.MEAN}
_AIPERF = {"ttft": "time_to_first_token", "tpot": "inter_token_latency", "e2e": "request_latency"}
#: The same as ``vllm bench serve`` calls them.
_BENCH = {"ttft": "ttft", "tpot": "tpot", "e2e": "e2el"}


@dataclass(frozen=True, slots=True)
class BenchmarkRun:
    """What one run of a load generator says.

    Attributes
    ----------
    latencies : mapping
        TTFT, TPOT and request latency by measure and statistic, as far as they were written [s].
    throughput : float
        Output tokens per second of the whole server [tokens/s].
    isl, osl : float
        Mean lengths [tokens].
    requests_per_second : float or None
        Offered rate [1/s]; None for a constant number under way.
    concurrency : float or None
        Requests under way at most [1].
    """

    latencies: Mapping[tuple[str, str], float]
    throughput: float
    isl: float
    osl: float
    requests_per_second: float | None
    concurrency: float | None


def read_run(path: Path | str) -> BenchmarkRun:
    """The only run of a result file of ``vllm bench serve``, SGLang's ``bench_serving``, genai-perf or AIPerf.

    Raises
    ------
    InputError
        If the file cannot be read, is of another kind, lacks a number, or has several runs.
    """
    runs = _runs(Path(path))
    if len(runs) > 1:
        raise InputError(f"{path}: {len(runs)} runs; one is held against one answer")
    try:
        if "mean_tpot_ms" in runs[0] or "median_tpot_ms" in runs[0]:
            return _bench(runs[0])
        if isinstance(runs[0].get("inter_token_latency"), dict):
            return _aiperf(runs[0])
    except UnusableRowError as error:
        raise InputError(f"{path}: {error}") from error
    raise InputError(
        f"{path}: no result of a known load generator; vllm bench serve and SGLang's bench_serving write mean_tpot_ms, "
        "genai-perf and AIPerf inter_token_latency"
    )


def _ours(word: str) -> str | None:
    """A statistic as we call it; None of other words."""
    try:
        return percentiles.percentile(_OTHER_WORDS.get(word, word))
    except InputError:
        return None


def _bench(run: Json) -> BenchmarkRun:
    completed = _needed(run, "completed")
    _, concurrency, rate = _load(run.get("request_rate"), run.get("max_concurrency"), completed)
    latencies = {
        (measure, ours): positive(run[key], key) / 1e3
        for measure, metric in _BENCH.items()
        for key in run
        if key.endswith(f"_{metric}_ms")
        if (ours := _ours(key.removesuffix(f"_{metric}_ms"))) is not None and run[key] is not None
    }
    isl, osl = (_needed(run, f"total_{way}_tokens") / completed for way in ("input", "output"))
    return BenchmarkRun(latencies, _needed(run, "output_throughput"), isl, osl, rate, concurrency)


def _aiperf(run: Json) -> BenchmarkRun:
    settings = run.get("input_config") or {}
    asked = _anywhere(settings, ("request_rate",)), _anywhere(settings, ("concurrency",))
    _, concurrency, rate = _load(*asked, _statistic(run, "request_count", "avg") or 1.0)
    read = {
        (measure, ours): _statistic(run, metric, theirs)
        for measure, metric in _AIPERF.items()
        for theirs in run.get(metric) or ()
        if (ours := _ours(theirs)) is not None
    }
    latencies = {key: value for key, value in read.items() if value is not None}
    throughput, isl, osl = (
        _statistic(run, metric, "avg") or math.nan
        for metric in ("output_token_throughput", "input_sequence_length", "output_sequence_length")
    )
    return BenchmarkRun(latencies, throughput, isl, osl, rate, concurrency)
