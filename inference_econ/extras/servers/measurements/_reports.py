"""Readers of result files: output of load generators, collections of such files, and metrics pages of servers."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from inference_econ.errors import InputError
from inference_econ.extras.servers.measurements import _record
from inference_econ.extras.servers.measurements._record import Load, Measurement, Skipped, UnusableRowError
from inference_econ.inputs import foreign_yaml, read_text
from inference_econ.inputs.workload import percentiles
from inference_econ.records.plain import finite_or_none

Json = Mapping[str, Any]
#: Seconds by measure (ttft, tpot, e2e) and statistic (mean, p50, p99).
Latencies = Mapping[tuple[str, str], float]
#: Names of statistics that differ between result files and this package.
_OTHER_WORDS = {"median": "p50", "avg": percentiles.MEAN}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredServer:
    """Server of a run: model, chip and layout, as given by the user or by the result.

    Attributes
    ----------
    hardware : str
        Name of the GPU in any spelling; if empty, the GPU in the file is used.
    model : str
        Model name; if empty, the model in the file is used.
    tp, dp, pp : int, optional
        Tensor-parallel, attention-DP and pipeline degrees [1]; by default as in the file, else 1.
    ep : int, optional
        Expert-parallel ranks [1].
    weights, kv : str
        Number formats. Empty formats are replaced by the format in the model's name, or else by that of the published
        checkpoint.
    engine : str
        Engine name; if empty, the engine in the file is used.
    draft_tokens : int, optional
        Draft tokens per speculation round [1].
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
    draft_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRun:
    """Results of one run of a load generator.

    Attributes
    ----------
    latencies : mapping
        Available TTFT, TPOT and request latencies by measure and statistic [s].
    throughput : float
        Output throughput of the server; NaN if missing [tokens/s].
    isl, osl : float
        Mean input and output length; NaN if missing [tokens].
    load : str
        Arrival pattern; see :data:`Load`.
    requests_per_second : float or None
        Offered rate [1/s]; None for a fixed concurrency.
    concurrency : float or None
        Maximum concurrency [1].
    requests : float or None
        Completed requests of the run [1].
    total_throughput : float or None
        Input and output throughput of the server [tokens/s].
    spread : float or None
        Spread of output lengths, as in :class:`Measurement` [1].
    cached_share : float
        Prefix-cache hit rate of prompt tokens [1].
    speculation : str
        See :class:`Measurement` for the values.
    tokens_per_round : float or None
        Mean acceptance length, as in :class:`Measurement` [1].
    told : MeasuredServer
        Facts about the server that the result contains.
    remarks : tuple of str
        Notes on interpretations by the reader.
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
    tokens_per_round: float | None = None
    told: MeasuredServer = field(default_factory=MeasuredServer)
    remarks: tuple[str, ...] = ()

    @property
    def in_flight(self) -> float | None:
        """Mean concurrency, as recorded or by Little's law; None if unknown [1]."""
        if self.requests_per_second is None:
            return self.concurrency
        seconds = self.latencies.get(("e2e", "mean"))
        return None if seconds is None else self.requests_per_second * seconds


def by_statistic(measure: str, values: Json, name: str, factor: float = 1.0) -> dict[tuple[str, str], float]:
    """Means and percentiles of one measure; other statistics are ignored.

    Parameters
    ----------
    measure : str
        ``ttft``, ``tpot`` or ``e2e``.
    values : mapping
        Values by the file's name of the statistic, such as ``avg``, ``median`` or ``p99``.
    name : str
        Name of a value in messages, with ``{}`` for its statistic.
    factor : float
        Seconds per unit [1].

    Raises
    ------
    UnusableRowError
        If a value is not positive and finite.
    """
    latencies: dict[tuple[str, str], float] = {}
    for theirs, value in values.items():
        if value is not None:
            with suppress(InputError):  # unknown statistic
                ours = percentiles.percentile(_OTHER_WORDS.get(theirs, theirs))
                latencies[measure, ours] = _record.positive(value, name.format(theirs)) * factor
    return latencies


def offered(rate: Any, concurrency: Any, requests: float | None) -> dict[str, Any]:
    """Fields for the load of a run: a rate, a fixed concurrency, or all requests at once if the rate is infinite.

    Raises
    ------
    UnusableRowError
        If there is no rate and no concurrency.
    """
    cap = None if concurrency in (None, "", 0, math.inf) else _record.positive(concurrency, "concurrency")
    burst = str(rate).lower() in ("inf", "infinity")
    if rate not in (None, "", 0) and not burst:
        rate_asked = _record.positive(rate, "request_rate")
        return {"load": "rate", "requests_per_second": rate_asked, "concurrency": cap, "requests": requests}
    if cap is None and not burst:
        raise UnusableRowError("no request rate and no concurrency in it, so the load is unknown")
    load = "batch" if cap is None else "concurrency"
    return {"load": load, "concurrency": requests if cap is None else cap, "requests": requests}


def check_failures(failed: float | None, total: float | None) -> None:
    """Reject a run in which many requests failed, because its load and latencies do not match the settings.

    Raises
    ------
    UnusableRowError
        If more than 5% of the requests failed.
    """
    if failed and total and failed > _MOST_FAILURES * total:
        raise UnusableRowError(f"{failed / total:.0%} of {total:,.0f} requests failed")


def under_way(requests_per_second: float, request_seconds: float | None, requests: float | None) -> dict[str, Any]:
    """Fields for the load of a run in which only completions are known: the mean concurrency by Little's law."""
    if request_seconds is None:
        return {"load": "unknown", "requests": requests}
    return {"load": "concurrency", "concurrency": requests_per_second * request_seconds, "requests": requests}


def needed(run: Json, key: str) -> float:
    """Positive number under a key that must exist.

    Raises
    ------
    UnusableRowError
        If the key is missing.
    """
    if run.get(key) is None:
        raise UnusableRowError(f"{key} is missing")
    return _record.positive(run[key], key)


def optional(run: Json, path: str, factor: float = 1.0) -> float | None:
    """Positive number under a dotted path; None if missing. For an object with a unit: the mean in base units."""
    *_, name = keys = path.split(".")
    value: Any = nested_value(run, *keys)
    if isinstance(value, dict):
        block, value = value, value.get("avg", value.get("mean"))
        factor *= 1.0 if value is None else _unit(name, block)
    return None if value is None else _record.positive(value, name) * factor


def degree(run: Json, key: str) -> int | None:
    """Number of ranks or replicas [1]; None if missing or 0. See :func:`needed` for the errors."""
    return int(needed(run, key)) if run.get(key) else None


def numbers(run: Json, **paths: str) -> dict[str, Any]:
    """Fields of a run from dotted paths; see :func:`optional`."""
    return {field: value for field, path in paths.items() if (value := optional(run, path)) is not None}


def anywhere(value: Any, keys: Iterable[str]) -> Any:
    """First value under one of the keys, at any depth. If the value is a list, its first entry is returned."""
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


def nested_value(value: Any, *keys: str) -> Any:
    """Value under nested keys; an empty mapping if a key is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return {} if value is None else value


#: Largest share of failed requests in a usable run [1].
_MOST_FAILURES = 0.05
#: Units of AIPerf and llm-d in base units.
_UNITS = {
    "s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "tokens/sec": 1.0, "tokens/s": 1.0, "tokens": 1.0,
    "s/token": 1.0, "ms/token": 1e-3, "count": 1.0,
}  # fmt: skip
#: Engines in images named after llm-d, whose tags are llm-d versions.
_LLM_D = {"llm-d": "vllm"}


class Generator(NamedTuple):
    """Format of result files."""

    title: str
    """Program that writes files in this format."""
    keys: str
    """Keys of objects in this format, with alternatives after a bar and nested keys after a dot."""
    read: Callable[[Json], BenchmarkRun]
    """Reader of one object; raises :class:`UnusableRowError` for unusable runs."""

    @property
    def described(self) -> str:
        """Title and keys as text."""
        choices = (" and ".join(choice.split()) for choice in self.keys.split("|"))
        return f"{self.title}: {' or '.join(choices)}"

    def matches(self, run: Json) -> bool:
        """Check whether an object has this format."""

        def has(value: Any, key: str) -> bool:
            first, _, below = key.partition(".")
            return isinstance(value, dict) and first in value and (not below or has(value[first], below))

        return any(all(has(run, key) for key in choice.split()) for choice in self.keys.split("|"))


def _flat(run: Json, ttft: str, tpot: str, e2e: str, factor: float = 1.0) -> dict[tuple[str, str], float]:
    """Statistics in flat keys such as ``p99_ttft_ms``; each measure has its own suffix."""
    latencies: dict[tuple[str, str], float] = {}
    for measure, ending in (("ttft", ttft), ("tpot", tpot), ("e2e", e2e)):
        values = {key.removesuffix(ending): value for key, value in run.items() if key.endswith(ending)}
        latencies |= by_statistic(measure, values, f"{{}}{ending}", factor)
    return latencies


def _blocks(
    metrics: Json, tpot: str, factor: float | None = None, ttft: str = "time_to_first_token"
) -> dict[tuple[str, str], float]:
    """Statistics in one object per metric; the unit is stated in the object unless ``factor`` is given."""
    latencies: dict[tuple[str, str], float] = {}
    for measure, metric in (("ttft", ttft), ("tpot", tpot), ("e2e", "request_latency")):
        block = metrics.get(metric)
        if isinstance(block, dict):
            latencies |= by_statistic(measure, block, metric, _unit(metric, block) if factor is None else factor)
    return latencies


def _unit(metric: str, block: Json) -> float:
    unit = str(block.get("unit", block.get("units", ""))).lower()
    if unit not in _UNITS:
        raise UnusableRowError(f"unit {unit!r} of {metric} is not convertible")
    return _UNITS[unit]


def _told(run: Json) -> MeasuredServer:
    """Model and engine in results that contain no other facts about the server."""
    return MeasuredServer(
        model=str(anywhere(run, ("model_id", "model_names", "model_name", "model")) or ""),
        engine=str(run.get("backend") or run.get("endpoint_type") or ""),
    )


def _bench(run: Json) -> BenchmarkRun:
    """Read results of ``vllm bench serve`` and programs with the same format: flat keys, latencies in ms."""
    completed = needed(run, "completed")
    accepted = run.get("accept_length")
    return BenchmarkRun(
        latencies=_flat(run, "_ttft_ms", "_tpot_ms", "_e2el_ms", 1e-3),
        **numbers(run, throughput="output_throughput", total_throughput="total_token_throughput"),
        isl=needed(run, "total_input_tokens") / completed,
        osl=needed(run, "total_output_tokens") / completed,
        **offered(run.get("request_rate"), run.get("max_concurrency"), completed),
        speculation="unrecorded" if accepted is None else f"{accepted} tokens accepted",
        tokens_per_round=None if accepted is None else _record.positive(accepted, "accept_length"),
        told=_told(run),
    )


def _aiperf(run: Json) -> BenchmarkRun:
    """Read genai-perf and AIPerf: an object with unit and statistics per metric, and the settings."""
    if run.get("was_cancelled"):
        raise UnusableRowError(f"the run was cancelled ({run.get('incomplete_reason') or 'no reason is given'})")
    settings = run.get("input_config") or {}
    # Since AIPerf 0.13, settings have phases, of which the last phase is measured.
    phases = settings.get("phases") or [settings]
    requests, failed, running = (
        _mean(run, name) for name in ("request_count", "error_request_count", "effective_concurrency")
    )
    check_failures(failed, (requests or 0.0) + (failed or 0.0))
    rate, concurrency = anywhere(phases[-1], ("request_rate", "rate")), anywhere(phases[-1], ("concurrency",))
    return BenchmarkRun(
        latencies=_blocks(run, "inter_token_latency"),
        **numbers(run, throughput="output_token_throughput", isl="input_sequence_length", osl="output_sequence_length"),
        **offered(rate, concurrency or (None if rate else running), requests),
        told=_told({**run, "model_name": (nested_value(settings, "models", "items") or [{}])[0].get("name")}),
    )


def _mean(run: Json, name: str) -> float | None:
    """Mean of a metric without a unit of time; None if it is absent or zero."""
    block = nested_value(run, name)
    value = block.get("avg", block.get("mean")) if isinstance(block, dict) else block
    return _record.positive(value, name) if value else None


def _guidellm(run: Json) -> BenchmarkRun:
    """Read GuideLLM: one entry of ``benchmarks``.

    GuideLLM's inter-token latency is TPOT in this package. GuideLLM's own TPOT includes the first token.
    """
    metrics = run["metrics"]
    latencies: dict[tuple[str, str], float] = {}
    for measure, name, factor in (
        ("ttft", "time_to_first_token_ms", 1e-3),
        ("tpot", "inter_token_latency_ms", 1e-3),
        ("e2e", "request_latency", 1.0),
    ):
        block = nested_value(metrics, name, "successful")
        statistics = {**nested_value(block, "percentiles"), "mean": block.get("mean")}
        fields = {word: statistics.get(word) for word in ("mean", "p50", "p90", "p95", "p99")}
        latencies |= by_statistic(measure, fields, name, factor)
    strategy = nested_value(run, "config", "strategy") or nested_value(run, "args", "strategy")
    kind = strategy.get("type_")
    streams = 1 if kind == "synchronous" else strategy.get("streams")
    rate = strategy.get("rate") if kind in ("constant", "poisson") else None
    if rate is None and streams is None:
        # For the maximum of a sweep and for a trace, the concurrency is measured, or else the configured limit.
        running = optional(metrics, "request_concurrency.successful.mean")
        streams = running or strategy.get("max_concurrency")
    totals = nested_value(metrics, "request_totals")
    check_failures(totals.get("errored"), totals.get("total"))
    return BenchmarkRun(
        latencies=latencies,
        **numbers(
            metrics,
            throughput="output_tokens_per_second.successful.mean",
            total_throughput="tokens_per_second.successful.mean",
            isl="prompt_token_count.successful.mean",
            osl="output_token_count.successful.mean",
        ),
        **offered(rate, streams, optional(metrics, "request_totals.successful")),
        told=MeasuredServer(model=str(anywhere(run, ("backend_model", "model")) or "")),
    )


def _inference_perf(run: Json) -> BenchmarkRun:
    """Read inference-perf: a stage of ``stage_N_lifecycle_metrics.json`` or the summary, in seconds."""
    successes, summary = run["successes"], nested_value(run, "load_summary")
    latencies = _blocks(nested_value(successes, "latency"), "time_per_output_token", 1.0)
    requests, rate, concurrency = (
        optional(successes, "count"),
        summary.get("requested_rate"),
        summary.get("concurrency"),
    )
    if rate is None and concurrency is None:
        completed = needed(nested_value(successes, "throughput"), "requests_per_sec")
        load = under_way(completed, latencies.get(("e2e", "mean")), requests)
    else:
        load = offered(None if concurrency else rate, concurrency, requests)
    return BenchmarkRun(
        latencies=latencies,
        **numbers(
            successes,
            throughput="throughput.output_tokens_per_sec",
            total_throughput="throughput.total_tokens_per_sec",
            isl="prompt_len.mean",
            osl="output_len.mean",
        ),
        **load,
    )


def _llm_d(run: Json) -> BenchmarkRun:
    """Read llm-d's benchmark report 0.1, 0.2 and 0.2.1: statistics with units, the load, and the stack."""
    if str(run["version"]) == "0.1":
        # Read llm-d's benchmark report 0.1, whose stages may differ in load: the mean concurrency by Little's law.
        metrics, data = nested_value(run, "metrics"), nested_value(run, "scenario", "data")
        requests, server = nested_value(metrics, "requests"), nested_value(run, "scenario", "server")
        check_failures(requests.get("failures"), requests.get("total"))
        latencies = _blocks(nested_value(metrics, "latency"), "time_per_output_token")
        completed = needed(nested_value(metrics, "throughput"), "requests_per_sec")
        return BenchmarkRun(
            latencies=latencies,
            **numbers(
                metrics,
                throughput="throughput.output_tokens_per_sec",
                total_throughput="throughput.total_tokens_per_sec",
            ),
            **numbers(data, isl="input_distribution.mean", osl="output_distribution.mean"),
            **under_way(completed, latencies.get(("e2e", "mean")), optional(requests, "total")),
            told=MeasuredServer(model=str(server.get("model_name") or ""), engine=str(server.get("type") or "")),
        )
    if not str(run["version"]).startswith("0.2"):
        raise UnusableRowError(
            f"benchmark reports of llm-d are read in versions 0.1, 0.2 and 0.2.1, got {run['version']}"
        )
    whole = nested_value(run, "results", "request_performance", "aggregate")
    load = nested_value(run, "scenario", "load", "standardized")
    return BenchmarkRun(
        latencies=_blocks(nested_value(whole, "latency"), "time_per_output_token"),
        **numbers(
            whole,
            throughput="throughput.output_token_rate",
            total_throughput="throughput.total_token_rate",
            isl="requests.input_length",
            osl="requests.output_length",
        ),
        **offered(load.get("rate_qps"), load.get("concurrency"), optional(whole, "requests.total")),
        told=_engine_of(nested_value(run, "scenario", "stack") or []),
    )


def _engine_of(stack: Sequence[Json]) -> MeasuredServer:
    """Engine in a stack description, which must contain a single engine."""
    parts = [nested_value(entry, "standardized") for entry in stack]
    engines = [part for part in parts if part.get("kind") == "inference_engine"]
    if any(engine.get("role") == "prefill" for engine in engines) or len(engines) > 1:
        raise UnusableRowError(
            "several pools of engines, which a single run does not tell apart; write a table of them"
        )
    if not engines:
        return MeasuredServer()
    (engine,) = engines
    chip, degrees = nested_value(engine, "accelerator"), nested_value(engine, "accelerator", "parallelism")
    ep, tool = degree(degrees, "ep") or 1, str(engine.get("tool") or "")
    return MeasuredServer(
        model=str(nested_value(engine, "model", "name") or ""),
        hardware=str(chip.get("model") or ""),
        engine=_LLM_D.get(tool, f"{tool} {engine.get('tool_version') or ''}".strip()),
        tp=degree(degrees, "tp"),
        dp=(degree(degrees, "dp") or 1) * (degree(engine, "replicas") or 1),
        pp=degree(degrees, "pp"),
        ep=ep if ep > 1 else None,
    )


def _inferencex(run: Json) -> BenchmarkRun:
    """Read InferenceX ``agg_*.json``: latencies in seconds, rates per accelerator."""
    is_true = {name: str(run.get(name)).lower() == "true" for name in ("disagg", "is_multinode", "dp_attention")}
    if is_true["disagg"] or is_true["is_multinode"]:
        raise UnusableRowError("pools, or several nodes, which a single run does not tell apart; write a table of them")
    tp = int(needed(run, "tp"))
    rates = numbers(run, throughput="output_tput_per_gpu", total_throughput="tput_per_gpu")
    # The tag of an image starts with the engine version.
    engine, (_, colon, tag) = str(run.get("framework") or ""), str(run.get("image") or "").rpartition(":")
    if colon and tag.lstrip("v")[:1].isdigit():
        engine += f" {tag.lstrip('v')}"
    return BenchmarkRun(
        latencies=_flat(run, "_ttft", "_tpot", "_e2el"),
        **{field: rate * tp for field, rate in rates.items()},
        isl=needed(run, "isl") * _record.MEAN_LENGTH,
        osl=needed(run, "osl") * _record.MEAN_LENGTH,
        spread=_record.SPREAD,
        **offered(None, needed(run, "conc"), _record.ROUNDS * needed(run, "conc")),
        speculation=_record.speculation(str(run.get("spec_decoding") or run.get("mtp") or "")),
        remarks=(_record.SHORTER,),
        told=MeasuredServer(
            model=str(run.get("model") or ""),
            hardware=str(run.get("hw") or run.get("device") or "").partition("-")[0],
            engine=engine,
            weights=str(run.get("precision") or ""),
            tp=1 if is_true["dp_attention"] else tp,
            dp=tp if is_true["dp_attention"] else 1,
            ep=degree(run, "ep"),
        ),
    )


#: Formats of results, in order of detection.
GENERATORS: Sequence[Generator] = (
    Generator("vllm bench serve and SGLang's bench_serving", "median_tpot_ms | mean_tpot_ms", _bench),
    Generator("genai-perf and AIPerf", "inter_token_latency | request_latency", _aiperf),
    Generator("GuideLLM (each of benchmarks)", "metrics.request_latency", _guidellm),
    Generator("inference-perf", "successes.latency", _inference_perf),
    Generator("llm-d", "version results | version scenario metrics.latency", _llm_d),
    Generator("InferenceX", "conc output_tput_per_gpu", _inferencex),
)


def generator_of(run: Json) -> Generator | None:
    """Format of a result; None if unknown."""
    return next((generator for generator in GENERATORS if generator.matches(run)), None)


#: Prometheus sample: name, labels, value; a timestamp is ignored.
_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+([-+]?(?:[\d.]+(?:[eE][-+]?\d+)?|Inf|NaN))(?:\s+-?\d+)?\s*$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
#: Histogram names of each measure, in order of preference: per request before per token.
_HISTOGRAMS: Mapping[str, tuple[str, ...]] = {
    "ttft": ("time_to_first_token_seconds",),
    "tpot": ("request_time_per_output_token_seconds", "inter_token_latency_seconds", "time_per_output_token_seconds"),
    "e2e": ("e2e_request_latency_seconds",),
}
_ENGINES = ("vllm", "sglang")
#: Metric labels of ranks that process the same requests.
_SAME_REQUESTS = ("tp_rank", "pp_rank", "moe_ep_rank")
#: Gauges that are shares, not amounts.
_SHARES = ("cache_hit_rate", "token_usage")
#: Endings of counters.
_GROWING = ("_sum", "_count", "_total")
#: Counters of completed requests; the number of first tokens if an engine has no other counter.
_COMPLETED = ("e2e_request_latency_seconds_count", "time_to_first_token_seconds_count")


@dataclass(frozen=True, slots=True)
class Scrape:
    """One reading of the metrics of a server.

    Attributes
    ----------
    engine : str
        ``vllm`` or ``sglang``.
    model : str
        Served model name; empty if no metric has a model name.
    samples : mapping of str to float
        Samples by name without the engine prefix and without buckets. Values of replicas and data-parallel ranks are
        added (shares are averaged). Tensor, pipeline and expert ranks report the same requests, so their largest value
        is used.
    """

    engine: str
    model: str
    samples: Mapping[str, float]


def window(before: Scrape, after: Scrape, seconds: float) -> BenchmarkRun:
    """Summarize the requests completed between two readings of a server's metrics as a run at a request rate.

    Parameters
    ----------
    before, after : Scrape
        Readings of the same server.
    seconds : float
        Time between the readings [s].

    Raises
    ------
    UnusableRowError
        If the server changed or restarted, or completed no request.
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
    """Means from a metrics page: sums of histograms over counts. Request lengths are those of completed requests."""
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
    queries, hits = samples.get("prefix_cache_queries_total", 0.0), samples.get("prefix_cache_hits_total", 0.0)
    cached = hits / queries if queries else samples.get("cache_hit_rate", 0.0)
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
    """Read a metrics page.

    Raises
    ------
    UnusableRowError
        If a line is invalid, no metric belongs to a known engine, or several models are served.
    """
    found: Mapping[str, dict[str, dict[frozenset[tuple[str, str]], float]]]
    found = {engine: defaultdict(dict) for engine in _ENGINES}
    models = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _SAMPLE.match(line)
        if match is None:
            raise UnusableRowError(f"line {number} is not a sample of Prometheus: {line[:60]!r}")
        engine, _, name = match[1].partition(":")
        if engine not in found or name.endswith("_bucket"):
            continue
        labels: dict[str, str] = dict(_LABEL.findall(match[2] or ""))
        models |= {labels["model_name"]} if labels.get("model_name") else set()
        series = frozenset(label for label in labels.items() if label[0] not in _SAME_REQUESTS)
        values, value = found[engine][name], float(match[3])
        values[series] = max(values.get(series, value), value)
    engine = max(found, key=lambda name: len(found[name]))
    if not found[engine]:
        raise UnusableRowError("no metric of vLLM (vllm:...) or SGLang (sglang:...) in it")
    if len(models) > 1:
        raise UnusableRowError(f"it is about {len(models)} models, {', '.join(sorted(models))}; give the page of one")
    merged = {
        name: sum(values.values()) / (len(values) if name in _SHARES else 1) for name, values in found[engine].items()
    }
    return Scrape(engine, next(iter(models), ""), merged)


def _per(samples: Mapping[str, float], name: str, requests: float) -> float:
    return samples[name] / requests if samples.get(name) and requests > 0 else math.nan


#: Fields that :class:`BenchmarkRun` and :class:`Measurement` have in common.
_SAME = (
    "load",
    "concurrency",
    "requests_per_second",
    "requests",
    "spread",
    "speculation",
    "tokens_per_round",
    "remarks",
)


def read_report(path: Path | str, server: MeasuredServer) -> list[Measurement | Skipped]:
    """Read all runs of a result file as measurements.

    Parameters
    ----------
    path : path or str
        JSON, JSON lines, YAML, or the text of ``/metrics``.
    server : MeasuredServer
        Facts about the server; missing facts are read from the file.

    Returns
    -------
    list of Measurement or Skipped
        One entry per run. A run with impossible values becomes a :class:`Skipped`.

    Raises
    ------
    InputError
        If the file is unreadable or of an unknown format, or the deployment is missing or has unknown names.
    """
    file = Path(path)
    runs = _runs(file)
    for degree in ("tp", "dp", "pp", "ep"):
        value = getattr(server, degree)
        if value is not None and value < 1:
            raise InputError(f"{degree} must be at least 1, got {value}")
    try:
        if server.hardware:
            _record.hardware_name(server.hardware)
        if server.model:
            _record.model_name(server.model)
        for text in (server.weights, server.kv):
            _record.format_name(text)
    except UnusableRowError as error:
        raise InputError(
            f"{error}; 'inference-econ list gpus' and 'inference-econ list models' list what there is"
        ) from error
    return [_measured(file, f"run {number}", run, server) for number, run in enumerate(runs, start=1)]


def read_run(path: Path | str) -> BenchmarkRun:
    """Read the only run of a result file, with all statistics.

    Raises
    ------
    InputError
        If the file is unreadable or of an unknown format, lacks a number, or has several runs.
    """
    runs = _runs(Path(path))
    if len(runs) > 1:
        raise InputError(f"{path}: has {len(runs)} runs; only a single run can be compared with a result")
    try:
        return _report_run(runs[0])
    except UnusableRowError as error:
        raise InputError(f"{path}: {error}") from error


def _runs(path: Path) -> list[Json | str]:
    """Objects of a file, each of a known format, or the text of a metrics page.

    Raises
    ------
    InputError
        If the file is unreadable, or of an unknown format.
    """
    try:
        text = read_text(path, encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file in UTF-8 ({error.reason})") from error
    suffix = path.suffix.lower()
    start = text.lstrip()[:4096]
    if start.startswith(("# HELP", "# TYPE")) or any(f"{engine}:" in start for engine in _ENGINES):
        return [text]
    if suffix in (".prom", ".txt"):
        raise InputError(f"{path}: no page of metrics of vLLM (vllm:...) or SGLang (sglang:...), as /metrics has them")
    data: Any = foreign_yaml(text, str(path)) if suffix in (".yaml", ".yml") else _json(path, text)
    listed = data.get("benchmarks", data) if isinstance(data, dict) else data
    runs: list[Json | str] = listed if isinstance(listed, list) else [listed]
    if not runs or not all(isinstance(run, dict) for run in runs):
        raise InputError(f"{path}: a JSON object, or a list of them, is needed")
    if not all(generator_of(run) for run in runs if not isinstance(run, str)):
        known = "; ".join(generator.described for generator in GENERATORS)
        raise InputError(f"{path}: no result of a known load generator. Results have these keys: {known}")
    return runs


def _json(path: Path, text: str) -> Any:
    # A number with thousands of digits raises ValueError, not JSONDecodeError.
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        try:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: not JSON, nor one JSON object a line: {str(error).partition(';')[0]}") from error


def _report_run(data: Json | str) -> BenchmarkRun:
    if isinstance(data, str):
        return _run(scrape(data))
    generator = generator_of(data)
    assert generator is not None
    try:
        return generator.read(data)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnusableRowError(f"not what {generator.title} writes ({error})") from error


def _measured(path: Path, name: str, data: Json | str, server: MeasuredServer) -> Measurement | Skipped:
    try:
        run = _report_run(data)
        told = run.told
        if not (server.hardware or told.hardware):
            raise InputError(f"{path}: results do not say what they were measured on; give --hardware, --tp and so on")
        chip, formats = server.hardware or told.hardware, server.weights or told.weights or None
        fields = _record.described(server.model or told.model, chip, formats, server.engine or told.engine)
    except UnusableRowError as error:
        return Skipped(name, path.stem, str(error))
    tp, dp, pp = (getattr(server, degree) or getattr(told, degree) or 1 for degree in ("tp", "dp", "pp"))
    chips = tp * dp * pp
    middle = "p50" if ("tpot", "p50") in run.latencies else "mean"
    return Measurement(
        id=name,
        dataset=path.stem,
        source=str(path),
        **fields,
        accelerators=chips,
        tp=tp,
        dp=dp,
        pp=pp,
        ep=server.ep or told.ep,
        kv=_record.cache_format(_record.format_name(server.kv), fields["hardware"]),
        isl=finite_or_none(run.isl),
        osl=finite_or_none(run.osl),
        cached=(finite_or_none(run.isl) or 0.0) * run.cached_share,
        draft_tokens=server.draft_tokens,
        statistic="median" if middle == "p50" else "mean",
        ttft_seconds=run.latencies.get(("ttft", middle)),
        tpot_seconds=run.latencies.get(("tpot", middle)),
        request_seconds=run.latencies.get(("e2e", middle)),
        output_tokens_per_second_per_accelerator=finite_or_none(run.throughput / chips),
        total_tokens_per_second_per_accelerator=run.total_throughput and run.total_throughput / chips,
        **{name: getattr(run, name) for name in _SAME},
    )
