"""One small reader for each kind of file: columns to measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from inference_econ.calibration.measurements import _inferencex, _points
from inference_econ.calibration.measurements._layouts import layout, pool
from inference_econ.calibration.measurements._names import (
    cache_format,
    engine_name,
    format_in_name,
    hardware_name,
    model_name,
    prefill_first,
    served,
)
from inference_econ.calibration.measurements._record import Measurement
from inference_econ.calibration.measurements._rows import Row, UnusableRowError
from inference_econ.inputs import catalog

#: Requests of a run of one corpus: at 200 offered per second, completions per second times the longest latency and the
#: time of all arrivals are 500 to 507 for each of its servers.
_RUNS = {"2606.11690": 500.0}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of file.

    Attributes
    ----------
    title : str
        For people.
    columns : tuple of str
        Without which a file is not of this kind.
    read : callable
        Row and what all kinds have in common to a measurement.
    """

    title: str
    columns: tuple[str, ...]
    read: Callable[[Row, Mapping[str, Any]], Measurement]


def subject(row: Row, model: str, hardware: str, formats: str) -> dict[str, Any]:
    """Model, hardware and number format of the weights, as fields of a measurement."""
    chip = hardware_name(hardware, row.text("source_id"))
    name, weights = served(model_name(model), chip, formats or format_in_name(model))
    return {"model": name, "hardware": chip, "weights": weights}


def _serving(row: Row, common: Mapping[str, Any]) -> Measurement:
    """Whole servers as aiconfigurator collects them: means in ms, aggregated or disaggregated."""
    disaggregated = row.text("mode") == "disagg"
    layout_fields, concurrency = _pools(row) if disaggregated else _instance(row)
    name, version = engine_name(row.text("backend"))
    version = row.text("backend_version") or version
    what = subject(
        row, row.text("model_path"), row.text("system"), row.text("precision") or row.text("gemm_quant_mode")
    )
    runs = catalog.measured_names().speculation.get(model_name(row.text("model_path")), {})
    fields = {
        **common,
        **layout_fields,
        **what,
        "engine": name,
        "engine_version": version,
        "speculation": runs.get(f"{name} {version}", "unrecorded"),
        "isl": row.needed("isl"),
        "osl": row.needed("osl"),
        "load": "concurrency",
        "concurrency": concurrency,
        "prefill_first": prefill_first(name, version),
        "statistic": "mean",
        "ttft_seconds": _scaled(row, "silicon_ttft_ms", 1e-3),
        "tpot_seconds": _scaled(row, "silicon_tpot_ms", 1e-3),
    }
    return Measurement(**fields | _collection(row.text("source"), fields))


def _pools(row: Row) -> tuple[dict[str, Any], float]:
    """Fields about the layout of a disaggregated server, and its requests at a time [1]."""
    concurrency = row.number("silicon_concurrency")
    (prefill, first), (decode, second) = pool(row, "prefill_"), pool(row, "decode_", concurrency)
    if concurrency is None:
        raise UnusableRowError("silicon_concurrency is blank")
    parts = (prefill.accelerators, decode.accelerators)
    accelerators = None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
    return {"prefill": prefill, "decode": decode, "accelerators": accelerators, "remarks": first + second}, concurrency


def _instance(row: Row) -> tuple[dict[str, Any], float]:
    """Fields about the layout of an instance, and its requests at a time [1]."""
    concurrency = row.number("silicon_concurrency")
    degrees = layout(row, concurrency=concurrency)
    if concurrency is None:
        concurrency = row.needed("batch_size") * degrees.dp
    fields = {name: getattr(degrees, name) for name in ("tp", "dp", "pp", "ep", "remarks", "accelerators")}
    return fields, concurrency


def _collection(source: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that follow from who collected a row of a whole server, and from whose scripts they are.

    Parameters
    ----------
    source : str
        Where the row is from.
    fields : mapping
        Of the measurement otherwise, lengths as in the row.
    """
    if "aiconfigurator" not in source.lower():
        known: dict[str, Any] = {}
    else:  # its collectors' own runs have requests of equal length
        kv = _inferencex.cache_format(fields["model"], fields["hardware"], fields["engine"])
        known = {"kv": kv, "spread": 0.0}
    if not _inferencex.has_nominal_lengths(source, fields["isl"], fields["osl"]):
        return known
    known |= {
        **{name: _inferencex.MEAN_LENGTH * fields[name] for name in ("isl", "osl")},
        "requests": _inferencex.ROUNDS * fields["concurrency"],
        "spread": _inferencex.SPREAD,
        "remarks": (*fields["remarks"], _inferencex.SHORTER),
    }
    return known if fields.get("decode") is not None else known | _scripted(fields)


def _scripted(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What the scripts of InferenceX tell the engine of an instance."""
    what = (fields["model"], fields["hardware"], fields["engine"])
    return {
        "wait_steps": _inferencex.wait_steps(
            *what,
            lengths=(fields["isl"], fields["osl"]),
            concurrency=fields["concurrency"],
            groups=fields["dp"],
            accelerators=fields["accelerators"],
        ),
        "step_tokens": _inferencex.step_tokens(*what, fields["engine_version"], fields["isl"]),
        "balanced_prompts": _inferencex.balances_prompts(fields["model"], fields["engine"], fields["dp"]),
    }


def _inferencemax(row: Row, common: Mapping[str, Any]) -> Measurement:
    """InferenceMAX runs: seconds, and tokens per second and accelerator, by concurrency."""
    tp = row.whole("tp")
    if tp is None:
        raise UnusableRowError("tp is blank")
    apart = row.text("dp_attention").lower() in ("true", "1", "yes")
    name, version = engine_name(row.text("framework"))
    what = subject(row, row.text("hf_model"), row.text("hardware"), row.text("precision"))
    model, chip, isl = what["model"], what["hardware"], row.needed("isl")
    return Measurement(
        **common,
        **what,
        kv=_inferencex.cache_format(model, chip, name) if "inferencemax" in row.text("source").lower() else None,
        engine=name,
        engine_version=version,
        accelerators=tp,
        tp=1 if apart else tp,
        dp=tp if apart else 1,
        pp=1,
        ep=row.whole("ep"),
        isl=_inferencex.MEAN_LENGTH * isl,
        osl=_inferencex.MEAN_LENGTH * row.needed("osl"),
        load="concurrency",
        concurrency=row.needed("concurrency"),
        requests=_inferencex.ROUNDS * row.needed("concurrency"),
        spread=_inferencex.SPREAD,
        prefill_first=prefill_first(name, version),
        step_tokens=_inferencex.step_tokens(model, chip, name, version, isl),
        ttft_seconds=row.number("median_ttft_s"),
        tpot_seconds=row.number("median_tpot_s"),
        request_seconds=row.number("median_e2e_s"),
        output_tokens_per_second_per_accelerator=row.number("output_tok_per_s_per_gpu"),
        input_tokens_per_second_per_accelerator=row.number("input_tok_per_s_per_gpu"),
        total_tokens_per_second_per_accelerator=row.number("total_tok_per_s_per_gpu"),
        speculation=_points.speculation(row.words("spec_decoding")),
        remarks=(_inferencex.SHORTER,),
    )


def _poisson(row: Row, common: Mapping[str, Any]) -> Measurement:
    """One server under Poisson arrivals: medians in ms by offered rate."""
    accelerators = row.whole("gpus")
    if accelerators is None:
        raise UnusableRowError("gpus is blank")
    output = row.number("tps_output")
    name, version = engine_name(row.text("engine"))
    return Measurement(
        **common,
        **subject(row, row.text("model"), row.text("hardware"), row.text("precision")),
        engine=name,
        engine_version=version,
        accelerators=accelerators,
        tp=accelerators,
        dp=1,
        pp=1,
        isl=row.needed("isl"),
        osl=row.needed("osl"),
        load="rate",
        concurrency=None,
        requests_per_second=row.needed("rps"),
        requests=next((size for name, size in _RUNS.items() if name in row.text("source")), None),
        ttft_seconds=_scaled(row, "ttft_p50_ms", 1e-3),
        tpot_seconds=_scaled(row, "tpot_p50_ms", 1e-3),
        request_seconds=_scaled(row, "e2el_p50_ms", 1e-3),
        output_tokens_per_second_per_accelerator=None if output is None else output / accelerators,
        speculation="none",
        remarks=("tensor parallel over all accelerators is inferred",) if accelerators > 1 else (),
    )


def _point(row: Row, common: Mapping[str, Any]) -> Measurement:
    """Collected points: one metric, value and unit a row."""
    fields = _points.fields(row)
    what = subject(row, row.text("model"), row.text("hardware"), row.text("weight_dtype"))
    fields["kv"] = cache_format(fields["kv"], what["hardware"])
    return Measurement(**common, **what, **fields)


def _scaled(row: Row, column: str, factor: float) -> float | None:
    value = row.number(column)
    return None if value is None else value * factor


#: In the order in which they are tried.
KINDS = (
    Kind(
        "whole servers",
        ("backend", "model_path", "system", "isl", "osl", "silicon_ttft_ms", "silicon_tpot_ms"),
        _serving,
    ),
    Kind(
        "InferenceMAX runs",
        ("hf_model", "hardware", "framework", "isl", "osl", "tp", "concurrency", "median_ttft_s", "median_tpot_s"),
        _inferencemax,
    ),
    Kind(
        "Poisson load",
        ("engine", "model", "hardware", "gpus", "isl", "osl", "rps", "ttft_p50_ms", "tpot_p50_ms"),
        _poisson,
    ),
    Kind(
        "points",
        ("model", "hardware", "isl", "osl", "batch_or_concurrency", "batch_kind", "metric", "value", "unit"),
        _point,
    ),
)
