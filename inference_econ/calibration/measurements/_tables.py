"""One small reader for each kind of file: columns to measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from inference_econ.calibration.measurements import _fields, _points
from inference_econ.calibration.measurements._layouts import layout, pool, replicas
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

#: Requests of InferenceMAX are as long as 0.8 to 1.0 of what rows say, evenly: the mean [1].
MEAN_LENGTH = 0.9
#: Longest less shortest of these lengths over the mean [1].
SPREAD = 0.2 / MEAN_LENGTH
#: Its runs have so many times as many requests as there are at a time [1].
ROUNDS = 10
#: What is read into its rows.
SHORTER = "lengths are 0.9 of the nominal ones: uniform from 0.8 to 1.0"


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
    final : bool
        Rows say everything themselves: nothing is concluded from other rows of the file.
    """

    title: str
    columns: tuple[str, ...]
    read: Callable[[Row, Mapping[str, Any]], Measurement]
    final: bool = False


def subject(model: str, hardware: str, formats: str) -> dict[str, Any]:
    """Model, hardware and number format of the weights, as fields of a measurement."""
    chip = hardware_name(hardware)
    name, weights = served(model_name(model), chip, formats or format_in_name(model))
    return {"model": name, "hardware": chip, "weights": weights}


def serving(row: Row, common: Mapping[str, Any]) -> Measurement:
    """Whole servers as aiconfigurator collects them: means in ms, aggregated or disaggregated."""
    disaggregated = row.text("mode") == "disagg"
    layout_fields, concurrency = _pools(row) if disaggregated else _instance(row)
    name, version = engine_name(row.text("backend"))
    written = row.text("precision") or row.text("gemm_quant_mode")
    return Measurement(
        **common,
        **layout_fields,
        **subject(row.text("model_path"), row.text("system"), written),
        engine=name,
        engine_version=row.text("backend_version") or version,
        isl=row.needed("isl"),
        osl=row.needed("osl"),
        load="concurrency",
        concurrency=concurrency,
        prefill_first=prefill_first(name, row.text("backend_version") or version),
        statistic="mean",
        ttft_seconds=_scaled(row, "silicon_ttft_ms", 1e-3),
        tpot_seconds=_scaled(row, "silicon_tpot_ms", 1e-3),
    )


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
    single, remarks = layout(row, concurrency=concurrency)
    chips = single.tp * single.dp * single.pp
    if concurrency is None:
        concurrency = row.needed("batch_size") * single.dp
    copies, remark = replicas(row, concurrency)
    fields = {name: getattr(single, name) for name in ("tp", "dp", "pp", "ep")}
    return fields | {"accelerators": chips * copies, "remarks": (*remarks, *remark)}, concurrency


def inferencemax(row: Row, common: Mapping[str, Any]) -> Measurement:
    """InferenceMAX runs: seconds, and tokens per second and accelerator, by concurrency."""
    tp = row.count("tp")
    apart = row.text("dp_attention").lower() in ("true", "1", "yes")
    name, version = engine_name(row.text("framework"))
    lengths, concurrency = (row.needed("isl"), row.needed("osl")), row.needed("concurrency")
    return Measurement(
        **common,
        **subject(row.text("hf_model"), row.text("hardware"), row.text("precision")),
        engine=name,
        engine_version=version,
        accelerators=tp,
        tp=1 if apart else tp,
        dp=tp if apart else 1,
        pp=1,
        ep=row.whole("ep"),
        isl=MEAN_LENGTH * lengths[0],
        osl=MEAN_LENGTH * lengths[1],
        load="concurrency",
        concurrency=concurrency,
        requests=ROUNDS * concurrency,
        spread=SPREAD,
        prefill_first=prefill_first(name, version),
        ttft_seconds=row.number("median_ttft_s"),
        tpot_seconds=row.number("median_tpot_s"),
        request_seconds=row.number("median_e2e_s"),
        output_tokens_per_second_per_accelerator=row.number("output_tok_per_s_per_gpu"),
        input_tokens_per_second_per_accelerator=row.number("input_tok_per_s_per_gpu"),
        total_tokens_per_second_per_accelerator=row.number("total_tok_per_s_per_gpu"),
        speculation=_points.speculation(row.words("spec_decoding")),
        remarks=(SHORTER,),
    )


def poisson(row: Row, common: Mapping[str, Any]) -> Measurement:
    """One server under Poisson arrivals: medians in ms by offered rate."""
    accelerators = row.count("gpus")
    output = row.number("tps_output")
    name, version = engine_name(row.text("engine"))
    return Measurement(
        **common,
        **subject(row.text("model"), row.text("hardware"), row.text("precision")),
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
        ttft_seconds=_scaled(row, "ttft_p50_ms", 1e-3),
        tpot_seconds=_scaled(row, "tpot_p50_ms", 1e-3),
        request_seconds=_scaled(row, "e2el_p50_ms", 1e-3),
        output_tokens_per_second_per_accelerator=None if output is None else output / accelerators,
        speculation="none",
        remarks=("tensor parallel over all accelerators is inferred",) if accelerators > 1 else (),
    )


def point(row: Row, common: Mapping[str, Any]) -> Measurement:
    """Collected points: one metric, value and unit a row."""
    fields = _points.fields(row)
    what = subject(row.text("model"), row.text("hardware"), row.text("weight_dtype"))
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
        serving,
    ),
    Kind(
        "InferenceMAX runs",
        ("hf_model", "hardware", "framework", "isl", "osl", "tp", "concurrency", "median_ttft_s", "median_tpot_s"),
        inferencemax,
    ),
    Kind(
        "Poisson load",
        ("engine", "model", "hardware", "gpus", "isl", "osl", "rps", "ttft_p50_ms", "tpot_p50_ms"),
        poisson,
    ),
    Kind(
        "points",
        ("model", "hardware", "isl", "osl", "batch_or_concurrency", "batch_kind", "metric", "value", "unit"),
        point,
    ),
    Kind("measurements", _fields.NEEDED, _fields.measurement, final=True),
)
