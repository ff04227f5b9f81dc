"""Metrics of a server of vLLM or SGLang at ``/metrics``, in Prometheus' text exposition format."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from inference_econ.calibration.measurements._rows import UnusableRowError
from inference_econ.calibration.measurements._run import BenchmarkRun, MeasuredServer

#: A sample: name, labels, value; a time after it is left out.
_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+([-+]?(?:[\d.]+(?:[eE][-+]?\d+)?|Inf|NaN))(?:\s+-?\d+)?\s*$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
#: What engines call a histogram of each measure, the name to look for first first: per request before per token.
_HISTOGRAMS: Mapping[str, tuple[str, ...]] = {
    "ttft": ("time_to_first_token_seconds",),
    "tpot": ("request_time_per_output_token_seconds", "inter_token_latency_seconds", "time_per_output_token_seconds"),
    "e2e": ("e2e_request_latency_seconds",),
}
_ENGINES = ("vllm", "sglang")
#: How names of samples end that only grow while a server runs.
_GROWING = ("_sum", "_count", "_total")
#: Requests that have got all of their tokens; their first one, where an engine counts no others.
_COMPLETED = ("e2e_request_latency_seconds_count", "time_to_first_token_seconds_count")


@dataclass(frozen=True, slots=True)
class Scrape:
    """One reading of the metrics of a server.

    Attributes
    ----------
    engine : str
        ``vllm`` or ``sglang``.
    model : str
        Name under which it serves; empty where no metric has one.
    samples : mapping of str to float
        By name without the engine, those of all engines and ranks of the page added up; no buckets.
    """

    engine: str
    model: str
    samples: Mapping[str, float]


def is_scrape(text: str) -> bool:
    """Whether a text is one of these, by its first words."""
    start = text.lstrip()[:4096]
    return start.startswith(("# HELP", "# TYPE")) or any(f"{engine}:" in start for engine in _ENGINES)


def read_scrape(text: str) -> BenchmarkRun:
    """Return what a server did since it was started, on average, and how many requests it holds now.

    Raises
    ------
    UnusableRowError
        If a line cannot be read, several models are served, or nothing was completed yet.
    """
    return _run(scrape(text))


def window(before: Scrape, after: Scrape, seconds: float) -> BenchmarkRun:
    """Return what a server did between two readings of its metrics, as a run at the rate that it completed.

    Parameters
    ----------
    before, after : Scrape
        Of the same server.
    seconds : float
        Between them [s].

    Raises
    ------
    UnusableRowError
        If the server is another one or was started again, or completed no request meanwhile.
    """
    if (before.engine, before.model) != (after.engine, after.model) and before.model:
        was, now = (f"{reading.model or 'no model'} on {reading.engine}" for reading in (before, after))
        raise UnusableRowError(f"another server answers: {was} before, {now} now")
    samples = dict(after.samples)
    for name in filter(lambda name: name.endswith(_GROWING), before.samples):
        samples[name] = after.samples.get(name, 0.0) - before.samples[name]
        if samples[name] < 0.0:
            raise UnusableRowError(f"{name} went backwards: the engine was started again")
    completed = next((samples[name] for name in _COMPLETED if name in samples), 0.0)
    if completed < 1.0:
        raise UnusableRowError(f"no request was completed in {seconds:.3g} s")
    run = _run(Scrape(after.engine, after.model, samples))
    generated = samples.get("generation_tokens_total", run.osl * completed)
    rate = completed / seconds
    return replace(run, load="rate", requests=completed, requests_per_second=rate, throughput=generated / seconds)


def _run(reading: Scrape) -> BenchmarkRun:
    """Means of a page: sums of histograms over their counts; lengths are those of the requests that were completed."""
    samples = reading.samples

    def mean(*names: str) -> float | None:
        for name in names:
            count, total = samples.get(f"{name}_count", 0.0), samples.get(f"{name}_sum", 0.0)
            if count > 0 and total > 0:
                return total / count
        return None

    latencies = {
        (measure, "mean"): value for measure, names in _HISTOGRAMS.items() if (value := mean(*names)) is not None
    }
    if ("tpot", "mean") not in latencies:
        raise UnusableRowError("no time per output token in it yet; scrape a server that has answered requests")
    completed = samples.get("e2e_request_latency_seconds_count", 0.0)
    running = samples.get("num_requests_running", samples.get("num_running_reqs", 0.0))
    waiting = samples.get("num_requests_waiting", samples.get("num_queue_reqs", 0.0))
    cached = _cached(samples)
    return BenchmarkRun(
        latencies=latencies,
        throughput=samples.get("gen_throughput") or math.nan,
        isl=mean("request_prompt_tokens") or _per(samples, "prompt_tokens_total", completed),
        osl=mean("request_generation_tokens") or _per(samples, "generation_tokens_total", completed),
        load="unknown" if not running else "saturated" if waiting > running else "concurrency",
        concurrency=running or None,
        told=MeasuredServer(model=reading.model, engine=reading.engine),
        cached_share=cached,
        remarks=(f"{100 * cached:.0f} % of prompt tokens were found in the prefix cache",) if cached >= 0.01 else (),
    )


def scrape(text: str) -> Scrape:
    """Read a page of metrics.

    Raises
    ------
    UnusableRowError
        If a line cannot be read, there is no metric of a known engine, or several models are served.
    """
    samples_by_engine: Mapping[str, dict[str, float]] = {engine: defaultdict(float) for engine in _ENGINES}
    models = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _SAMPLE.match(line)
        if match is None:
            raise UnusableRowError(f"line {number} is no sample of Prometheus: {line[:60]!r}")
        engine, _, name = match[1].partition(":")
        if engine not in samples_by_engine or name.endswith("_bucket"):
            continue
        labels: dict[str, Any] = dict(_LABEL.findall(match[2] or ""))
        models |= {labels["model_name"]} if labels.get("model_name") else set()
        samples_by_engine[engine][name] += float(match[3])
    engine = max(samples_by_engine, key=lambda name: len(samples_by_engine[name]))
    if not samples_by_engine[engine]:
        raise UnusableRowError("no metric of vLLM (vllm:...) or SGLang (sglang:...) in it")
    if len(models) > 1:
        raise UnusableRowError(f"it is about {len(models)} models, {', '.join(sorted(models))}; give the page of one")
    return Scrape(engine, next(iter(models), ""), samples_by_engine[engine])


def _per(samples: Mapping[str, float], name: str, requests: float) -> float:
    return samples[name] / requests if samples.get(name) and requests > 0 else math.nan


def _cached(samples: Mapping[str, float]) -> float:
    """Share of the prompts that was found in the prefix cache [1]."""
    queries, hits = samples.get("prefix_cache_queries_total", 0.0), samples.get("prefix_cache_hits_total", 0.0)
    return hits / queries if queries else samples.get("cache_hit_rate", 0.0)
