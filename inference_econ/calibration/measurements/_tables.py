"""One small reader for each kind of file: columns to measurements."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from inference_econ.calibration.measurements import _inferencex, _points
from inference_econ.calibration.measurements._layouts import layout, pool, replicas
from inference_econ.calibration.measurements._names import (
    cache_format,
    engine_name,
    format_in_name,
    hardware_name,
    is_number,
    model_name,
    prefill_first,
    served,
    written_format,
)
from inference_econ.calibration.measurements._record import Measurement
from inference_econ.calibration.measurements._rows import Row, UnusableRowError
from inference_econ.engine import has_experts
from inference_econ.inputs import OwnRuns, catalog, version_order

#: Requests of a run of one corpus: at 200 offered per second, completions per second times the longest latency and the
#: time of all arrivals are 500 to 507 for each of its servers.
_RUNS = {"2606.11690": 500.0}


#: Racks whose runs across machines are all disaggregated, and the largest aggregated server [1].
_TOTALS, _OF_ONE_MACHINE = re.compile(r"gb[23]00.*", re.IGNORECASE), 8


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
    written = row.text("precision") or row.text("gemm_quant_mode")
    fields = {
        **common,
        **layout_fields,
        **subject(row, row.text("model_path"), row.text("system"), written),
        "engine": name,
        "engine_version": row.text("backend_version") or version,
        "isl": row.needed("isl"),
        "osl": row.needed("osl"),
        "load": "concurrency",
        "concurrency": concurrency,
        "prefill_first": prefill_first(name, row.text("backend_version") or version),
        "statistic": "mean",
        "ttft_seconds": _scaled(row, "silicon_ttft_ms", 1e-3),
        "tpot_seconds": _scaled(row, "silicon_tpot_ms", 1e-3),
    }
    return Measurement(**fields | _collection(row, fields, written))


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
    if _TOTALS.fullmatch(row.text("system")) and degrees.tp > _OF_ONE_MACHINE:
        raise UnusableRowError(
            f"tp {degrees.tp} of an aggregated server on {row.text('system')} is the total of a disaggregated one, "
            "whose workers are not recorded; such rows say mode 'disagg'"
        )
    fields = {name: getattr(degrees, name) for name in ("tp", "dp", "pp", "ep", "remarks")}
    copies, remark = replicas(row, concurrency)
    return fields | {"accelerators": degrees.accelerators * copies, "remarks": (*degrees.remarks, *remark)}, concurrency


def _collection(row: Row, fields: Mapping[str, Any], written: str) -> dict[str, Any]:
    """Fields that follow from who collected a row of a whole server, and from whose scripts they are.

    Parameters
    ----------
    row : Row
        As it is.
    fields : mapping
        Of the measurement otherwise, lengths as in the row.
    written : str
        What the row says of number formats.
    """
    source, lengths = row.text("source"), (fields["isl"], fields["osl"])
    # The collectors' own runs have requests of equal length.
    known: dict[str, Any] = {"spread": 0.0} if "aiconfigurator" in source.lower() else {}
    if not _inferencex.has_nominal_lengths(source, *lengths, fields["id"]):
        return known | _own_settings(fields) if known else known
    known |= {
        **{name: _inferencex.MEAN_LENGTH * fields[name] for name in ("isl", "osl")},
        "requests": _inferencex.ROUNDS * fields["concurrency"],
        "spread": _inferencex.SPREAD,
    }
    remarks = (*fields["remarks"], _inferencex.SHORTER)
    if fields.get("decode") is not None:
        kv = _inferencex.usual_cache(
            fields["model"],
            fields["engine"],
            fields["hardware"],
            written_format(written, fields["model"], fields["hardware"]),
        )
        return known | {"kv": kv, "remarks": remarks}
    either = fields["dp"] == 1 and (row.whole("attention_dp_size") or 1) > 1
    return known | _scripted({**fields, "remarks": remarks}, written, lengths, either=either)


def _own_cache(fields: Mapping[str, Any]) -> str | None:
    """What is known of the cache in the collectors' own runs, which they do not record."""
    formats = catalog.measured_names().kv_formats.get(fields["model"], {})
    return formats.get(f"{fields['engine']} {fields['hardware']}")


def _own_settings(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What the collectors' own runs are told, which they do not record: launch files are made for a version.

    SGLang begins prompts until they are as many tokens as it was told.
    """
    launched = _own_runs(fields["engine"], fields["engine_version"])
    if launched is None:
        return {"kv": _own_cache(fields)}
    if launched.single_prompts and not has_experts(catalog.model(fields["model"])):
        tokens = float(fields["isl"])
    else:
        limit = fields["isl"] + launched.step_room
        whole = math.ceil(limit / fields["isl"]) * fields["isl"]
        tokens = float(whole if fields["engine"] == "sglang" else limit + fields["concurrency"])
    return {"kv": _own_cache(fields), "step_tokens": tokens, "prefill_first": launched.prefill_first}


def _own_runs(engine: str, version: str) -> OwnRuns | None:
    """How runs with a version of an engine were launched; the newest way where no number is recorded."""
    ways = [entry for entry in catalog.measured_names().own_runs if entry.engine == engine]
    if is_number(version):
        ways = [entry for entry in ways if version_order(entry.version or "0") <= version_order(version)]
    return ways[-1] if ways else None


def _scripted(
    fields: Mapping[str, Any], written: str, lengths: tuple[float, float], *, either: bool = False
) -> dict[str, Any]:
    """What the scripts of InferenceX told the engine of an instance, and how they laid it out.

    ``either``: whether attention was data-parallel is not recorded.
    """
    known = _inferencex.script(
        _inferencex.Server(
            model=fields["model"],
            hardware=fields["hardware"],
            engine=fields["engine"],
            version=fields["engine_version"],
            precision=written_format(written, fields["model"], fields["hardware"]),
            days=fields["days"],
            lengths=lengths,
            accelerators=fields["tp"] * fields["dp"],
            groups=None if either else fields["dp"],
            ep=fields["ep"] or 1,
            concurrency=fields["concurrency"],
        )
    )
    degrees = _really(fields, known)
    groups = degrees["dp"]
    return degrees | {
        "ran": "" if fields["engine_version"] else known.version,
        "kv": known.told("kv"),
        "speculation": known.speculation or fields.get("speculation", "unrecorded"),
        "wait_steps": _inferencex.wait_steps(known, groups),
        "step_tokens": _inferencex.step_tokens(known, lengths[0], groups),
        "most_sequences": _inferencex.most_sequences(known, groups),
        "memory": known.told("memory"),
        "captured_tokens": known.told("captured_tokens"),
        "held_steps": float(known.told("balance_steps") or 0.0) if groups > 1 else 0.0,
        "eager": bool(known.told("eager")),
        "warmed_up": bool(known.told("warm_up")),
    }


def _really(fields: Mapping[str, Any], known: _inferencex.Script) -> dict[str, Any]:
    """Degrees that a script gave the engine, which rows record as they were asked for."""
    ranks, groups, ep = fields["tp"] * fields["dp"], known.told("attention_groups"), known.told("expert_ranks")
    remarks = [*fields["remarks"], *known.remarks]
    degrees = {"tp": fields["tp"], "dp": fields["dp"], "ep": fields["ep"]}
    if known.exact and groups and ranks % groups == 0 and groups != fields["dp"]:
        degrees |= {"tp": ranks // groups, "dp": groups}
        remarks.append(f"attention-DP is {groups}: so the script of that version")
    if known.exact and ep and ep <= ranks and ep != (fields["ep"] or 1):
        degrees["ep"] = ep
        remarks.append(f"ep is {ep}: so the script of that version")
    return degrees | {"remarks": tuple(remarks)}


def _inferencemax(row: Row, common: Mapping[str, Any]) -> Measurement:
    """InferenceMAX runs: seconds, and tokens per second and accelerator, by concurrency."""
    tp = row.whole("tp")
    if tp is None:
        raise UnusableRowError("tp is blank")
    apart = row.text("dp_attention").lower() in ("true", "1", "yes")
    name, version = engine_name(row.text("framework"))
    lengths, concurrency = (row.needed("isl"), row.needed("osl")), row.needed("concurrency")
    fields = {
        **common,
        **subject(row, row.text("hf_model"), row.text("hardware"), row.text("precision")),
        "engine": name,
        "engine_version": version,
        "accelerators": tp,
        "tp": 1 if apart else tp,
        "dp": tp if apart else 1,
        "pp": 1,
        "ep": row.whole("ep"),
        "isl": _inferencex.MEAN_LENGTH * lengths[0],
        "osl": _inferencex.MEAN_LENGTH * lengths[1],
        "load": "concurrency",
        "concurrency": concurrency,
        "requests": _inferencex.ROUNDS * concurrency,
        "spread": _inferencex.SPREAD,
        "prefill_first": prefill_first(name, version),
        "ttft_seconds": row.number("median_ttft_s"),
        "tpot_seconds": row.number("median_tpot_s"),
        "request_seconds": row.number("median_e2e_s"),
        "output_tokens_per_second_per_accelerator": row.number("output_tok_per_s_per_gpu"),
        "input_tokens_per_second_per_accelerator": row.number("input_tok_per_s_per_gpu"),
        "total_tokens_per_second_per_accelerator": row.number("total_tok_per_s_per_gpu"),
        "remarks": (_inferencex.SHORTER,),
    }
    recorded = _points.speculation(row.words("spec_decoding"))
    known = _scripted(fields, row.text("precision"), lengths) if _inferencex.is_run(row.text("source")) else {}
    speculation = known.get("speculation", recorded) if recorded == "unrecorded" else recorded
    return Measurement(**fields | known | {"speculation": speculation})


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
