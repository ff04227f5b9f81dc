"""Results of load generators and of their collectors, each in its own form, as runs of one form."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from inference_econ.calibration.measurements import _points
from inference_econ.calibration.measurements._rows import UnusableRowError, positive
from inference_econ.calibration.measurements._run import (
    BenchmarkRun,
    Json,
    MeasuredServer,
    anywhere,
    by_statistic,
    inside,
    needed,
    offered,
    optional,
    under_way,
)
from inference_econ.calibration.measurements._tables import MEAN_LENGTH, ROUNDS, SHORTER, SPREAD

#: Time and rate units that AIPerf and llm-d write, in base units.
_UNITS = {
    "s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "tokens/sec": 1.0, "tokens/s": 1.0, "tokens": 1.0,
    "s/token": 1.0, "ms/token": 1e-3, "count": 1.0,
}  # fmt: skip
#: Engines behind the images that are called after llm-d, whose tags are versions of llm-d.
_LLM_D = {"llm-d": "vllm"}
_PREDICTED = "predicted by AISimulate, not measured"


class Generator(NamedTuple):
    """One form of results."""

    title: str
    """Writer."""
    mark: str
    """Which keys give it away, in words."""
    keys: str
    """Keys that objects of this form have, or other ones behind a bar; a dot leads into a mapping."""
    read: Callable[[Json], BenchmarkRun]
    """Reads one; :class:`UnusableRowError` where it cannot be used."""

    def matches(self, run: Json) -> bool:
        """Whether an object is of this form."""
        choices = (choice.split() for choice in self.keys.split("|"))
        return any(all(_has(run, *key.split(".")) for key in keys) for keys in choices)


def _has(value: Any, key: str, *below: str) -> bool:
    """Whether a mapping has a key, and what is under it the next one."""
    there = isinstance(value, dict) and key in value
    return there and (not below or _has(value[key], *below))


def _flat(run: Json, endings: Mapping[str, str], factor: float = 1.0) -> dict[tuple[str, str], float]:
    """Statistics under keys of their own, ``p99_ttft_ms``, by how those of a measure end."""
    latencies: dict[tuple[str, str], float] = {}
    for measure, ending in endings.items():
        values = {key.removesuffix(ending): value for key, value in run.items() if key.endswith(ending)}
        latencies |= by_statistic(measure, values, f"{{}}{ending}", factor)
    return latencies


def _bench(run: Json) -> BenchmarkRun:
    """``vllm bench serve`` and its relatives: flat keys, latencies in ms."""
    completed = needed(run, "completed")
    accepted = run.get("accept_length")
    return BenchmarkRun(
        latencies=_flat(run, {"ttft": "_ttft_ms", "tpot": "_tpot_ms", "e2e": "_e2el_ms"}, 1e-3),
        throughput=optional(run, "output_throughput") or math.nan,
        total_throughput=optional(run, "total_token_throughput"),
        isl=needed(run, "total_input_tokens") / completed,
        osl=needed(run, "total_output_tokens") / completed,
        **offered(run.get("request_rate"), run.get("max_concurrency"), completed),
        speculation="unrecorded" if accepted is None else f"{accepted} tokens accepted",
        told=_told(run),
    )


def _told(run: Json) -> MeasuredServer:
    """The model and the engine, as results name them that know of no more."""
    return MeasuredServer(
        model=str(anywhere(run, ("model_id", "model_names", "model_name", "model")) or ""),
        engine=str(run.get("backend") or run.get("endpoint_type") or ""),
    )


def _aiperf(run: Json) -> BenchmarkRun:
    """genai-perf and AIPerf: an object with a unit and statistics for each metric, and the settings."""
    settings = run.get("input_config") or {}
    metrics = (("ttft", "time_to_first_token"), ("tpot", "inter_token_latency"), ("e2e", "request_latency"))
    requests = _mean(run, "request_count", factor=1.0)
    return BenchmarkRun(
        latencies=_in_units({measure: (metric, run.get(metric)) for measure, metric in metrics}),
        throughput=_mean(run, "output_token_throughput") or math.nan,
        isl=_mean(run, "input_sequence_length") or math.nan,
        osl=_mean(run, "output_sequence_length") or math.nan,
        **offered(anywhere(settings, ("request_rate",)), anywhere(settings, ("concurrency",)), requests or 1.0),
        told=_told(run),
    )


def _in_units(blocks: dict[str, tuple[str, Any]]) -> dict[tuple[str, str], float]:
    """Statistics of measures, each with the name of its metric and an object with a unit and values."""
    latencies: dict[tuple[str, str], float] = {}
    for measure, (metric, block) in blocks.items():
        if isinstance(block, dict):
            latencies |= by_statistic(measure, block, metric, _unit(metric, block))
    return latencies


def _unit(metric: str, block: Json) -> float:
    unit = str(block.get("unit", block.get("units", ""))).lower()
    if unit not in _UNITS:
        raise UnusableRowError(f"unit {unit!r} of {metric} is not convertible")
    return _UNITS[unit]


def _mean(run: Json, metric: str, factor: float | None = None) -> float | None:
    """The mean of a metric, in base units."""
    block = run.get(metric)
    value = block.get("avg", block.get("mean")) if isinstance(block, dict) else None
    if not isinstance(block, dict) or value is None:
        return None
    return positive(value, metric) * (_unit(metric, block) if factor is None else factor)


def _guidellm(run: Json) -> BenchmarkRun:
    """GuideLLM: one entry of ``benchmarks``, whose inter-token latency is ours per token; its own has the first."""
    metrics = run["metrics"]

    def successful(name: str) -> Json:
        block = inside(metrics, name, "successful")
        return {**inside(block, "percentiles"), **{word: block.get(word) for word in ("mean", "median")}}

    latencies: dict[tuple[str, str], float] = {}
    blocks = (
        ("ttft", "time_to_first_token_ms", 1e-3),
        ("tpot", "inter_token_latency_ms", 1e-3),
        ("e2e", "request_latency", 1.0),
    )
    for measure, name, factor in blocks:
        fields = {
            word: value for word, value in successful(name).items() if word in ("mean", "p50", "p90", "p95", "p99")
        }
        latencies |= by_statistic(measure, fields, name, factor)
    strategy = inside(run, "config", "strategy") or inside(run, "args", "strategy")
    kind = strategy.get("type_")
    streams = 1 if kind == "synchronous" else strategy.get("streams")
    rate = strategy.get("rate") if kind in ("constant", "poisson") else None
    return BenchmarkRun(
        latencies=latencies,
        throughput=optional(successful("output_tokens_per_second"), "mean") or math.nan,
        total_throughput=optional(successful("tokens_per_second"), "mean"),
        isl=optional(successful("prompt_token_count"), "mean") or math.nan,
        osl=optional(successful("output_token_count"), "mean") or math.nan,
        **offered(rate, streams, optional(inside(metrics, "request_totals"), "successful")),
        told=MeasuredServer(model=str(anywhere(run, ("backend_model", "model")) or "")),
    )


def _inference_perf(run: Json) -> BenchmarkRun:
    """inference-perf: a stage of ``stage_N_lifecycle_metrics.json``, or the summary of all; seconds."""
    successes, summary = run["successes"], inside(run, "load_summary")
    latency, throughput = inside(successes, "latency"), inside(successes, "throughput")
    measures = (("ttft", "time_to_first_token"), ("tpot", "time_per_output_token"), ("e2e", "request_latency"))
    latencies: dict[tuple[str, str], float] = {}
    for measure, name in measures:
        latencies |= by_statistic(measure, inside(latency, name), name)
    requests, rate = optional(successes, "count"), summary.get("requested_rate")
    load = (
        under_way(needed(throughput, "requests_per_sec"), latencies.get(("e2e", "mean")), requests)
        if rate is None and summary.get("concurrency") is None
        else offered(None if summary.get("concurrency") else rate, summary.get("concurrency"), requests)
    )
    return BenchmarkRun(
        latencies=latencies,
        throughput=optional(throughput, "output_tokens_per_sec") or math.nan,
        total_throughput=optional(throughput, "total_tokens_per_sec"),
        isl=optional(inside(successes, "prompt_len"), "mean") or math.nan,
        osl=optional(inside(successes, "output_len"), "mean") or math.nan,
        **load,
    )


def _llm_d(run: Json) -> BenchmarkRun:
    """llm-d's benchmark report 0.2 and 0.2.1: statistics with units, the load, and the parts of the stack."""
    if not str(run["version"]).startswith("0.2"):
        raise UnusableRowError(f"benchmark reports of llm-d are read in versions 0.2 and 0.2.1, got {run['version']}")
    whole = inside(run, "results", "request_performance", "aggregate")
    latency, requests, rates = (inside(whole, part) for part in ("latency", "requests", "throughput"))
    measures = (("ttft", "time_to_first_token"), ("tpot", "time_per_output_token"), ("e2e", "request_latency"))
    load = inside(run, "scenario", "load", "standardized")
    return BenchmarkRun(
        latencies=_in_units({measure: (name, latency.get(name)) for measure, name in measures}),
        throughput=_mean(rates, "output_token_rate") or math.nan,
        total_throughput=_mean(rates, "total_token_rate"),
        isl=_mean(requests, "input_length") or math.nan,
        osl=_mean(requests, "output_length") or math.nan,
        **offered(load.get("rate_qps"), load.get("concurrency"), optional(requests, "total")),
        told=_engine_of(inside(run, "scenario", "stack") or []),
    )


def _engine_of(stack: Sequence[Json]) -> MeasuredServer:
    """The only kind of engine of a stack."""
    engines = [
        part for part in (inside(entry, "standardized") for entry in stack) if part.get("kind") == "inference_engine"
    ]
    if any(engine.get("role") == "prefill" for engine in engines) or len(engines) > 1:
        raise UnusableRowError(
            "several pools of engines, which a single run does not tell apart; write a table of them"
        )
    if not engines:
        return MeasuredServer()
    (engine,) = engines
    chip, degrees = inside(engine, "accelerator"), inside(engine, "accelerator", "parallelism")
    replicas, tool = int(engine.get("replicas") or 1), str(engine.get("tool") or "")
    return MeasuredServer(
        model=str(inside(engine, "model", "name") or ""),
        hardware=str(chip.get("model") or ""),
        engine=_LLM_D.get(tool, f"{tool} {engine.get('tool_version') or ''}".strip()),
        tp=degrees.get("tp"),
        dp=(degrees.get("dp") or 1) * replicas,
        pp=degrees.get("pp"),
        ep=degrees.get("ep") if (degrees.get("ep") or 1) > 1 else None,
    )


def _inferencex(run: Json) -> BenchmarkRun:
    """InferenceX: ``agg_*.json``, whose latencies are in seconds and whose rates are per accelerator."""
    if _is_true(run.get("disagg")) or _is_true(run.get("is_multinode")):
        raise UnusableRowError("pools, or several nodes, which a single run does not tell apart; write a table of them")
    tp = int(needed(run, "tp"))
    rates = [optional(run, name, tp) for name in ("output_tput_per_gpu", "tput_per_gpu")]
    apart = _is_true(run.get("dp_attention"))
    return BenchmarkRun(
        latencies=_flat(run, {"ttft": "_ttft", "tpot": "_tpot", "e2e": "_e2el"}),
        throughput=rates[0] or math.nan,
        total_throughput=rates[1],
        isl=needed(run, "isl") * MEAN_LENGTH,
        osl=needed(run, "osl") * MEAN_LENGTH,
        spread=SPREAD,
        **offered(None, needed(run, "conc"), ROUNDS * needed(run, "conc")),
        speculation=_points.speculation(str(run.get("spec_decoding") or run.get("mtp") or "")),
        remarks=(SHORTER,),
        told=MeasuredServer(
            model=str(run.get("model") or ""),
            hardware=str(run.get("hw") or run.get("device") or "").partition("-")[0],
            engine=_image_version(str(run.get("framework") or ""), str(run.get("image") or "")),
            weights=str(run.get("precision") or ""),
            tp=1 if apart else tp,
            dp=tp if apart else 1,
            ep=int(run["ep"]) if run.get("ep") else None,
        ),
    )


def _is_true(value: object) -> bool:
    return str(value).lower() == "true"


def _image_version(framework: str, image: str) -> str:
    """An engine with the version that the tag of its image begins with, where it does."""
    tag = image.rpartition(":")[2].lstrip("v") if ":" in image else ""
    return f"{framework} {tag}" if tag[:1].isdigit() else framework


def _aisimulate(run: Json) -> BenchmarkRun:
    """AISimulate: ``prediction.json``, a replay of requests in the words of measurements; latencies in ms."""
    completed = needed(run, "completed_requests")
    latencies = _flat(run, {"ttft": "_ttft_ms", "tpot": "_tpot_ms", "e2e": "_e2e_latency_ms"}, 1e-3)
    return BenchmarkRun(
        latencies=latencies,
        throughput=needed(run, "output_throughput_tok_s"),
        total_throughput=optional(run, "total_throughput_tok_s"),
        isl=needed(run, "total_input_tokens") / completed,
        osl=needed(run, "total_output_tokens") / completed,
        **under_way(needed(run, "request_throughput_rps"), latencies.get(("e2e", "mean")), completed),
        remarks=(_PREDICTED,),
    )


#: Forms of results, the one to look for first first.
GENERATORS: Sequence[Generator] = (
    Generator(
        "AISimulate",
        "completed_requests and output_throughput_tok_s",
        "completed_requests output_throughput_tok_s",
        _aisimulate,
    ),
    Generator("vllm bench serve and SGLang's bench_serving", "median_tpot_ms", "median_tpot_ms | mean_tpot_ms", _bench),
    Generator("genai-perf and AIPerf", "inter_token_latency", "inter_token_latency | request_latency", _aiperf),
    Generator("GuideLLM", "benchmarks with metrics", "metrics.request_latency", _guidellm),
    Generator("inference-perf", "successes with latency", "successes.latency", _inference_perf),
    Generator("llm-d", "version, scenario and results (benchmark report 0.2)", "version results", _llm_d),
    Generator("InferenceX", "conc and output_tput_per_gpu", "conc output_tput_per_gpu", _inferencex),
)


def generator_of(run: Json) -> Generator | None:
    """The form of a result; None of none that is known."""
    return next((generator for generator in GENERATORS if generator.matches(run)), None)


def written_by() -> str:
    """Writers of all forms, for messages."""
    return "; ".join(f"{generator.title}: {generator.mark}" for generator in GENERATORS)
