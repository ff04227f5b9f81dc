"""What a server of vLLM or SGLang says of itself at ``/metrics``, in Prometheus' text exposition format."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from inference_econ.calibration.measurements._rows import UnusableRowError
from inference_econ.calibration.measurements._run import BenchmarkRun, Told

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


def is_scrape(text: str) -> bool:
    """Whether a text is one of these, by its first words."""
    start = text.lstrip()[:4096]
    return start.startswith(("# HELP", "# TYPE")) or any(f"{engine}:" in start for engine in _ENGINES)


def read_scrape(text: str) -> BenchmarkRun:
    """What a server did since it was started, on average, and how many requests it holds now.

    Means are sums of histograms over their counts, of all engines and ranks of the page together; lengths are those
    of the requests that were completed.

    Raises
    ------
    UnusableRowError
        If a line cannot be read, several models are served, or nothing was completed yet.
    """
    engine, samples, models = _samples(text)
    if len(models) > 1:
        raise UnusableRowError(f"it is about {len(models)} models, {', '.join(sorted(models))}; give the page of one")

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
        told=Told(model=next(iter(models), ""), engine=engine),
        cached_share=cached,
        remarks=(f"{100 * cached:.0f} % of prompt tokens were found in the prefix cache",) if cached >= 0.01 else (),
    )


def _samples(text: str) -> tuple[str, Mapping[str, float], set[str]]:
    """The engine, its samples by name without the engine, added up, and the models that they are about."""
    found: Mapping[str, dict[str, float]] = {engine: defaultdict(float) for engine in _ENGINES}
    models = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _SAMPLE.match(line)
        if match is None:
            raise UnusableRowError(f"line {number} is no sample of Prometheus: {line[:60]!r}")
        engine, _, name = match[1].partition(":")
        if engine not in found or name.endswith("_bucket"):
            continue
        labels: dict[str, Any] = dict(_LABEL.findall(match[2] or ""))
        models |= {labels["model_name"]} if labels.get("model_name") else set()
        found[engine][name] += float(match[3])
    engine = max(found, key=lambda name: len(found[name]))
    if not found[engine]:
        raise UnusableRowError("no metric of vLLM (vllm:...) or SGLang (sglang:...) in it")
    return engine, found[engine], models


def _per(samples: Mapping[str, float], name: str, requests: float) -> float:
    return samples[name] / requests if samples.get(name) and requests > 0 else math.nan


def _cached(samples: Mapping[str, float]) -> float:
    """How much of the prompts was found in the prefix cache [1]."""
    asked, hits = samples.get("prefix_cache_queries_total", 0.0), samples.get("prefix_cache_hits_total", 0.0)
    return hits / asked if asked else samples.get("cache_hit_rate", 0.0)
