"""One small reader for each kind of file: columns to measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from inference_econ.calibration.measurements import _points
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

#: Request lengths of InferenceMAX and its successor InferenceX are uniform between 0.8 and 1.0 of what rows say.
_MEAN_LENGTH = 0.9
_SHORTER = "lengths are 0.9 of the nominal ones: uniform from 0.8 to 1.0"
#: Their runs are so many times as many requests as there are at a time.
_ROUNDS = 10
#: Requests of a run of one corpus: at 200 offered per second, completions per second times the longest latency and the
#: time of all arrivals are 500 to 507 for each of its servers.
_RUNS = {"2606.11690": 500.0}
#: Longest less shortest length over the mean.
_SPREAD = 0.2 / _MEAN_LENGTH
#: InferenceX has no other lengths than multiples of this [tokens].
_NOMINAL = 1024


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
    concurrency = row.number("silicon_concurrency")
    fields: dict[str, Any] = dict(common)
    if row.text("mode") == "disagg":
        (prefill, first), (decode, second) = pool(row, "prefill_"), pool(row, "decode_", concurrency)
        parts = (prefill.accelerators, decode.accelerators)
        fields |= {"prefill": prefill, "decode": decode, "remarks": first + second}
        fields["accelerators"] = None if None in parts else sum(part for part in parts if part is not None)
    else:
        found = layout(row, concurrency=concurrency)
        if concurrency is None:
            concurrency = row.needed("batch_size") * found.dp
        fields |= {"tp": found.tp, "dp": found.dp, "pp": found.pp, "ep": found.ep, "remarks": found.remarks}
        fields["accelerators"] = found.accelerators
    if concurrency is None:
        raise UnusableRowError("silicon_concurrency is blank")
    isl, osl, run = row.needed("isl"), row.needed("osl"), None
    asked = {**fields, "isl": isl, "osl": osl, "concurrency": concurrency}
    if "inferencex" in row.text("source").lower() and isl % _NOMINAL == osl % _NOMINAL == 0:
        isl, osl, run = _MEAN_LENGTH * isl, _MEAN_LENGTH * osl, _ROUNDS * concurrency
        fields["remarks"] = (*fields["remarks"], _SHORTER)
    name, version = engine_name(row.text("backend"))
    version = row.text("backend_version") or version
    formats = row.text("precision") or row.text("gemm_quant_mode")
    runs = catalog.measured_names().speculation.get(model_name(row.text("model_path")), {})
    collected = "aiconfigurator" in row.text("source").lower()
    together = run is not None and "decode" not in fields
    what = subject(row, row.text("model_path"), row.text("system"), formats)
    return Measurement(
        **fields,
        **what,
        kv=_cache_format(what, name) if collected else None,
        engine=name,
        engine_version=version,
        speculation=runs.get(f"{name} {version}", "unrecorded"),
        isl=isl,
        osl=osl,
        load="concurrency",
        concurrency=concurrency,
        requests=run,
        # Its collectors' own runs have requests of equal length.
        spread=_SPREAD if run else 0.0 if collected else None,
        prefill_first=prefill_first(name, version),
        wait_steps=_wait_steps(what, name, asked) if together else 0.0,
        step_tokens=_step_tokens(what, name, version, asked["isl"]) if together else None,
        statistic="mean",
        ttft_seconds=_scaled(row, "silicon_ttft_ms", 1e-3),
        tpot_seconds=_scaled(row, "silicon_tpot_ms", 1e-3),
    )


def _inferencemax(row: Row, common: Mapping[str, Any]) -> Measurement:
    """InferenceMAX runs: seconds, and tokens per second and accelerator, by concurrency."""
    tp = row.whole("tp")
    if tp is None:
        raise UnusableRowError("tp is blank")
    apart = row.text("dp_attention").lower() in ("true", "1", "yes")
    name, version = engine_name(row.text("framework"))
    what = subject(row, row.text("hf_model"), row.text("hardware"), row.text("precision"))
    return Measurement(
        **common,
        **what,
        kv=_cache_format(what, name) if "inferencemax" in row.text("source").lower() else None,
        engine=name,
        engine_version=version,
        accelerators=tp,
        tp=1 if apart else tp,
        dp=tp if apart else 1,
        pp=1,
        ep=row.whole("ep"),
        isl=_MEAN_LENGTH * row.needed("isl"),
        osl=_MEAN_LENGTH * row.needed("osl"),
        load="concurrency",
        concurrency=row.needed("concurrency"),
        requests=_ROUNDS * row.needed("concurrency"),
        spread=_SPREAD,
        prefill_first=prefill_first(name, version),
        step_tokens=_step_tokens(what, name, version, row.needed("isl")),
        ttft_seconds=row.number("median_ttft_s"),
        tpot_seconds=row.number("median_tpot_s"),
        request_seconds=row.number("median_e2e_s"),
        output_tokens_per_second_per_accelerator=row.number("output_tok_per_s_per_gpu"),
        input_tokens_per_second_per_accelerator=row.number("input_tok_per_s_per_gpu"),
        total_tokens_per_second_per_accelerator=row.number("total_tok_per_s_per_gpu"),
        speculation=_points.speculation(row.words("spec_decoding")),
        remarks=(_SHORTER,),
    )


def _cache_format(what: Mapping[str, Any], engine: str) -> str | None:
    """What is known of a collection that does not record it."""
    return catalog.measured_names().kv_formats.get(what["model"], {}).get(f"{engine} {what['hardware']}")


def _wait_steps(what: Mapping[str, Any], engine: str, run: Mapping[str, Any]) -> float:
    """Steps that a prompt waits on average, as the scripts of InferenceX tell the engine [1].

    Notes
    -----
    With c requests at a time one comes every osl / c steps, and all of k groups of attention ranks have one after
    k (1 + 1/2 + .. + 1/k) of them on average (coupon collector). A prompt comes at any time between two looks, or while
    the groups fill, and waits half of that; where steps are counted from the prompt itself, it waits all of them.
    """
    names, server = catalog.measured_names(), f"{engine} {what['hardware']}"
    concurrency, groups = run["concurrency"], run.get("dp", 1)
    most = names.balance_steps.get(what["model"], {}).get(engine)
    if groups > 1 and most is not None:
        every = groups * sum(1.0 / count for count in range(1, groups + 1))
        return float(min(float(most), every * run["osl"] / concurrency)) / 2.0
    isl, osl, fewer, steps = names.gather_steps.get(what["model"], {}).get(server, (0, 0, 0, 0))
    if (run["isl"], run["osl"]) == (isl, osl) and run.get("accelerators", fewer) < fewer:
        return float(steps)
    found = names.look_steps.get(what["model"], {}).get(server)
    return 0.0 if found is None else (found[0] if concurrency < found[1] else found[2]) / 2.0


def _step_tokens(what: Mapping[str, Any], engine: str, version: str, isl: float) -> float | None:
    """Prompt tokens of a step in the scripts of InferenceX, for prompts of at most ``isl`` tokens."""
    names = catalog.measured_names()
    if f"{engine} {version}".strip() in names.single_prompts.get(what["model"], ()):
        return isl
    found = names.step_tokens.get(what["model"], {}).get(f"{engine} {what['hardware']}")
    return None if found is None else float(found)


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
