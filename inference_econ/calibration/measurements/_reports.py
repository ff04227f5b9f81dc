"""Result files: of load generators, of collectors of their results, and of servers that were asked for metrics."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from inference_econ.calibration.measurements._generators import generator_of, written_by
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
from inference_econ.calibration.measurements._record import Measurement, Skipped
from inference_econ.calibration.measurements._rows import UnusableRowError
from inference_econ.calibration.measurements._run import BenchmarkRun, Json, MeasuredServer
from inference_econ.calibration.measurements._scrape import is_scrape, read_scrape
from inference_econ.errors import InputError
from inference_econ.inputs import foreign_yaml, read_text

#: Fields of a run that its measurement has, too.
_SAME = ("load", "concurrency", "requests_per_second", "requests", "spread", "speculation", "remarks")


def read_report(path: Path | str, server: MeasuredServer) -> list[Measurement | Skipped]:
    """Every run of a result file.

    Parameters
    ----------
    path : path or str
        JSON, one JSON object a line, YAML, or the text of ``/metrics``.
    server : MeasuredServer
        What the server was; what is not given is taken from the file, where that says it.

    Returns
    -------
    list of Measurement or Skipped
        One for each run of the file; impossible values are skipped runs, not errors.

    Raises
    ------
    InputError
        If the file cannot be read, is not of a known kind, or the deployment is not given, or names what nobody knows.
    """
    file = Path(path)
    runs = _runs(file)
    for degree in ("tp", "dp", "pp", "ep"):
        value = getattr(server, degree)
        if value is not None and value < 1:
            raise InputError(f"{degree} must be at least 1, got {value}")
    try:
        if server.hardware:
            hardware_name(server.hardware)
        if server.model:
            model_name(server.model)
        for text in (server.weights, server.kv):
            format_name(text)
    except UnusableRowError as error:
        raise InputError(
            f"{error}; 'inference-econ hardware' and 'inference-econ models' list what there is"
        ) from error
    return [_measured(file, f"run {number}", run, server) for number, run in enumerate(runs, start=1)]


def read_run(path: Path | str) -> BenchmarkRun:
    """The only run of a result file, with all of its statistics.

    Raises
    ------
    InputError
        If the file cannot be read, is not of a known kind, lacks a number, or has several runs.
    """
    runs = _runs(Path(path))
    if len(runs) > 1:
        raise InputError(f"{path}: {len(runs)} runs; one is held against one answer")
    try:
        run = _run(runs[0])
    except UnusableRowError as error:
        raise InputError(f"{path}: {error}") from error
    return run


def _runs(path: Path) -> list[Json | str]:
    """The objects of a file, each of a known form; the text of one that is a page of metrics.

    Raises
    ------
    InputError
        If it cannot be read, or is of no known form.
    """
    try:
        text = read_text(path, encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file in UTF-8 ({error.reason})") from error
    if is_scrape(text):
        return [text]
    if path.suffix.lower() in (".prom", ".txt"):
        raise InputError(f"{path}: no page of metrics of vLLM (vllm:...) or SGLang (sglang:...), as /metrics has them")
    data: Any = foreign_yaml(text, str(path)) if path.suffix.lower() in (".yaml", ".yml") else _json(path, text)
    listed = data.get("benchmarks", data) if isinstance(data, dict) else data
    runs: list[Json | str] = listed if isinstance(listed, list) else [listed]
    if not runs or not all(isinstance(run, dict) for run in runs):
        raise InputError(f"{path}: a JSON object, or a list of them, is needed")
    if not all(generator_of(run) for run in runs if not isinstance(run, str)):
        raise InputError(f"{path}: no result of a known load generator; known by their keys: {written_by()}")
    return runs


def _json(path: Path, text: str) -> Any:
    # A number of thousands of digits is a ValueError that is no JSONDecodeError.
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        try:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: not JSON, nor one JSON object a line: {str(error).partition(';')[0]}") from error


def _run(data: Json | str) -> BenchmarkRun:
    if isinstance(data, str):
        return read_scrape(data)
    generator = generator_of(data)
    assert generator is not None
    try:
        return generator.read(data)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnusableRowError(f"not what {generator.title} writes ({error})") from error


def _measured(path: Path, name: str, data: Json | str, server: MeasuredServer) -> Measurement | Skipped:
    try:
        run = _run(data)
        if not (server.hardware or run.told.hardware):
            raise InputError(f"{path}: results do not say what they were measured on; give --hardware, --tp and so on")
        common = _common(run, path, name, server)
    except UnusableRowError as error:
        return Skipped(name, path.stem, str(error))
    middle = "p50" if ("tpot", "p50") in run.latencies else "mean"
    chips = common["accelerators"]
    return Measurement(
        **common,
        isl=_known(run.isl),
        osl=_known(run.osl),
        statistic="median" if middle == "p50" else "mean",
        ttft_seconds=run.latencies.get(("ttft", middle)),
        tpot_seconds=run.latencies.get(("tpot", middle)),
        request_seconds=run.latencies.get(("e2e", middle)),
        output_tokens_per_second_per_accelerator=_known(run.throughput / chips),
        total_tokens_per_second_per_accelerator=_known((run.total_throughput or math.nan) / chips),
        **{name: getattr(run, name) for name in _SAME},
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _common(run: BenchmarkRun, path: Path, name: str, server: MeasuredServer) -> dict[str, Any]:
    result = run.told
    chip = hardware_name(server.hardware or result.hardware)
    named = server.model or result.model
    model, weights = served(model_name(named), chip, server.weights or result.weights or format_in_name(named))
    engine, version = engine_name(server.engine or result.engine)
    tp, dp, pp = (getattr(server, degree) or getattr(result, degree) or 1 for degree in ("tp", "dp", "pp"))
    return {
        "id": name,
        "dataset": path.stem,
        "source": str(path),
        "engine": engine,
        "engine_version": version,
        "model": model,
        "hardware": chip,
        "accelerators": tp * dp * pp,
        "tp": tp,
        "dp": dp,
        "pp": pp,
        "ep": server.ep or result.ep,
        "weights": weights,
        "kv": cache_format(format_name(server.kv), chip),
        "prefill_first": prefill_first(engine, version),
    }
