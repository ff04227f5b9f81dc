"""Result files of load generators: ``vllm bench serve``, SGLang's ``bench_serving``, genai-perf and AIPerf."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference_econ.calibration.measurements._names import (
    cache_format,
    engine_name,
    format_in_name,
    format_name,
    hardware_name,
    model_name,
    prefill_first,
    served,
)
from inference_econ.calibration.measurements._record import Load, Measurement, Skipped
from inference_econ.calibration.measurements._rows import UnusableRowError, positive
from inference_econ.errors import InputError
from inference_econ.inputs import read_text

Json = Mapping[str, Any]

#: Time and rate units that AIPerf writes, in base units.
_UNITS = {"s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "tokens/sec": 1.0, "tokens/s": 1.0, "tokens": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredServer:
    """What a load generator does not know: on what the server ran, and how.

    Attributes
    ----------
    hardware : str
        Name, in any usual spelling.
    model : str
        Name; empty to take the one in the file.
    tp, dp, pp : int
        Accelerators that share the attention weights, groups of them with sequences of their own, pipeline stages [1].
    ep : int, optional
        Expert-parallel ranks [1].
    weights, kv : str
        Number formats; empty: as the name of the model says, or as published.
    engine : str
        Empty to take the one in the file.
    """

    hardware: str
    model: str = ""
    tp: int = 1
    dp: int = 1
    pp: int = 1
    ep: int | None = None
    weights: str = ""
    kv: str = ""
    engine: str = ""


def read_report(path: Path | str, server: MeasuredServer) -> list[Measurement | Skipped]:
    """Every run of a result file.

    Parameters
    ----------
    path : path or str
        JSON, or one JSON object a line.
    server : MeasuredServer
        What the server was.

    Returns
    -------
    list of Measurement or Skipped
        One for each object of the file; impossible values are skipped runs, not errors.

    Raises
    ------
    InputError
        If the file cannot be read, is not of a known kind, or the deployment names what nobody knows.
    """
    file = Path(path)
    runs = _runs(file)
    for degree in ("tp", "dp", "pp", "ep"):
        value = getattr(server, degree)
        if value is not None and value < 1:
            raise InputError(f"{degree} must be at least 1, got {value}")
    try:
        hardware_name(server.hardware)
        if server.model:
            model_name(server.model)
        for text in (server.weights, server.kv):
            format_name(text)
    except UnusableRowError as error:
        raise InputError(
            f"{error}; 'inference-econ hardware' and 'inference-econ models' list what there is"
        ) from error
    return [_run(file, number, run, server) for number, run in enumerate(runs, start=1)]


def _runs(path: Path) -> list[Json]:
    try:
        text = read_text(path, encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file in UTF-8 ({error.reason})") from error
    # A number of thousands of digits is a ValueError that is no JSONDecodeError.
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        try:
            data = [json.loads(line) for line in text.splitlines() if line.strip()]
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: not JSON, nor one JSON object a line: {str(error).partition(';')[0]}") from error
    runs = data if isinstance(data, list) else [data]
    if not runs or not all(isinstance(run, dict) for run in runs):
        raise InputError(f"{path}: a JSON object, or a list of them, is needed")
    return runs


def _run(path: Path, number: int, run: Json, server: MeasuredServer) -> Measurement | Skipped:
    if "median_tpot_ms" in run or "mean_tpot_ms" in run:
        read = _bench
    elif isinstance(run.get("inter_token_latency"), dict) or isinstance(run.get("request_latency"), dict):
        read = _aiperf
    else:
        raise InputError(
            f"{path}: no result of a known load generator; vllm bench serve and SGLang's bench_serving write "
            "median_tpot_ms, genai-perf and AIPerf inter_token_latency"
        )
    name = f"run {number}"
    try:
        return read(run, _common(run, path, name, server))
    except UnusableRowError as error:
        return Skipped(name, path.stem, str(error))


def _common(run: Json, path: Path, name: str, server: MeasuredServer) -> dict[str, Any]:
    chip = hardware_name(server.hardware)
    named = server.model or str(_anywhere(run, ("model_id", "model_names", "model_name", "model")) or "")
    model, weights = served(model_name(named), chip, server.weights or format_in_name(named))
    engine, version = engine_name(server.engine or str(run.get("backend") or run.get("endpoint_type") or ""))
    return {
        "id": name,
        "dataset": path.stem,
        "source": str(path),
        "engine": engine,
        "engine_version": version,
        "model": model,
        "hardware": chip,
        "accelerators": server.tp * server.dp * server.pp,
        "tp": server.tp,
        "dp": server.dp,
        "pp": server.pp,
        "ep": server.ep,
        "weights": weights,
        "kv": cache_format(format_name(server.kv), chip),
        "prefill_first": prefill_first(engine, version),
    }


def _bench(run: Json, common: dict[str, Any]) -> Measurement:
    """``vllm bench serve`` and its relatives: flat keys, latencies in ms."""
    completed = _needed(run, "completed")
    statistic = "median" if run.get("median_tpot_ms") is not None else "mean"
    load, concurrency, rate = _load(run.get("request_rate"), run.get("max_concurrency"), completed)
    accepted = run.get("accept_length")
    return Measurement(
        **common,
        isl=_needed(run, "total_input_tokens") / completed,
        osl=_needed(run, "total_output_tokens") / completed,
        load=load,
        concurrency=concurrency,
        requests_per_second=rate,
        requests=completed,
        statistic=statistic,
        ttft_seconds=_optional(run, f"{statistic}_ttft_ms", 1e-3),
        tpot_seconds=_optional(run, f"{statistic}_tpot_ms", 1e-3),
        request_seconds=_optional(run, f"{statistic}_e2el_ms", 1e-3),
        output_tokens_per_second_per_accelerator=_optional(run, "output_throughput", 1 / common["accelerators"]),
        total_tokens_per_second_per_accelerator=_optional(run, "total_token_throughput", 1 / common["accelerators"]),
        speculation="unrecorded" if accepted is None else f"{accepted} tokens accepted",
    )


def _aiperf(run: Json, common: dict[str, Any]) -> Measurement:
    """genai-perf and AIPerf: an object with a unit and statistics for each metric, and the settings."""
    settings = run.get("input_config") or {}
    concurrency = _anywhere(settings, ("concurrency",))
    rate = _anywhere(settings, ("request_rate",))
    requests = _statistic(run, "request_count", "avg") or 1.0
    load, cap, offered = _load(rate, concurrency, requests)
    output = _statistic(run, "output_token_throughput", "avg")
    statistic = "median" if _statistic(run, "inter_token_latency", "p50") is not None else "mean"
    key = "p50" if statistic == "median" else "avg"
    return Measurement(
        **common,
        isl=_statistic(run, "input_sequence_length", "avg"),
        osl=_statistic(run, "output_sequence_length", "avg"),
        load=load,
        concurrency=cap,
        requests_per_second=offered,
        requests=_statistic(run, "request_count", "avg"),
        statistic=statistic,
        ttft_seconds=_statistic(run, "time_to_first_token", key),
        tpot_seconds=_statistic(run, "inter_token_latency", key),
        request_seconds=_statistic(run, "request_latency", key),
        output_tokens_per_second_per_accelerator=None if output is None else output / common["accelerators"],
    )


def _load(rate: Any, concurrency: Any, requests: float) -> tuple[Load, float | None, float | None]:
    """How requests arrived: at a rate, with a constant number of them under way, or all at once."""
    cap = None if concurrency in (None, "", 0) else positive(concurrency, "concurrency")
    if rate not in (None, "", 0) and str(rate).lower() not in ("inf", "infinity"):
        return "rate", cap, positive(rate, "request_rate")
    return ("batch", requests, None) if cap is None else ("concurrency", cap, None)


def _needed(run: Json, key: str) -> float:
    if run.get(key) is None:
        raise UnusableRowError(f"{key} is missing")
    return positive(run[key], key)


def _optional(run: Json, key: str, factor: float) -> float | None:
    return None if run.get(key) is None else positive(run[key], key) * factor


def _statistic(run: Json, metric: str, key: str) -> float | None:
    """One statistic of a metric, in base units."""
    block = run.get(metric)
    if not isinstance(block, dict) or block.get(key) is None:
        return None
    unit = str(block.get("unit", "")).lower()
    factor = 1.0 if metric == "request_count" else _UNITS.get(unit)
    if factor is None:
        raise UnusableRowError(f"unit {unit!r} of {metric} is not convertible")
    return positive(block[key], metric) * factor


def _anywhere(value: Any, keys: tuple[str, ...]) -> Any:
    """The first value under one of the keys, however deep; of a list, its first entry."""
    if isinstance(value, dict):
        for key in keys:
            known = value.get(key)
            if known not in (None, "", [], {}) and not isinstance(known, dict):
                return known[0] if isinstance(known, list) else known
        for below in value.values():
            known = _anywhere(below, keys)
            if known is not None:
                return known
    return None
