"""Readers of measurement tables: one small reader per kind of file, and comparisons between rows."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeGuard

from inference_econ.errors import InputError
from inference_econ.extras.servers.measurements import _record
from inference_econ.extras.servers.measurements._record import Cells, Measurement, Skipped, UnusableRowError
from inference_econ.extras.servers.measurements._reports import MeasuredServer, read_report
from inference_econ.extras.servers.result_files import RESULT_ENDINGS
from inference_econ.inputs import catalog, plugins, read_text
from inference_econ.inputs.models.acceptance import Prompts
from inference_econ.inputs.units import integer

_SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
#: Words that indicate latencies. Words for the time between tokens come first, because words for the first token also
#: occur in notes ("elapsed/osl (approx TPOT incl. prefill share)").
_LATENCIES = (
    ("tpot_seconds", ("tpot", "itl", "tbt", "per-token", "per token", "inter-token", "/osl")),
    ("ttft_seconds", ("ttft", "prefill", "first", "prompt")),
    ("request_seconds", ("e2e", "end-to-end", "end to end", "batch_latency", "request")),
)
#: Words that indicate the kind of load, the most specific first.
_LOADS: tuple[tuple[_record.Load, tuple[str, ...]], ...] = (
    ("saturated", ("max_throughput", "mlperf_offline", "saturat")),
    ("limited", ("mlperf_server", "mlperf_interactive", "sla")),
    ("rate", ("rate", "poisson", "open_loop", "open loop")),
    ("concurrency", ("concurren", "closed_loop", "closed loop", "users")),
    ("batch", ("batch",)),
)
#: Words that indicate which tokens a throughput includes.
_TOKENS = (
    ("input", ("input", "prefill")),
    ("output", ("output", "decode", "generat")),
    ("total", ("total",)),
)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_PER_ACCELERATOR = re.compile(r"(?:/|per[ _])(?:gpu|accelerator|chip|device)", re.IGNORECASE)
_COUNT_PER_ACCELERATOR = re.compile(r"(\d+(?:\.\d+)?) *(tokens)? */ *gpu", re.IGNORECASE)
_CAP = re.compile(r"max_num_seqs (\d+)|max[_ ]concurrency (\d+)")


def first_number(text: str) -> float | None:
    """Number at the start of a text; None if the text does not start with a number.

    Examples
    --------
    >>> first_number("10 req/s offered"), first_number("unknown")
    (10.0, None)
    """
    match = _NUMBER.match(text.strip())
    return None if match is None else float(match[0])


def load_of(text: str) -> _record.Load:
    """Kind of load of a row, from the words in its cells."""
    return next((load for load, words in _LOADS if any(word in text.lower() for word in words)), "unknown")


def _demand(row: Cells, load: _record.Load, accelerators: int) -> dict[str, Any]:
    """Concurrency of the deployment, or the offered rate."""
    text = row.text("batch_or_concurrency")
    number = first_number(text)
    if load == "rate":
        if number is None:
            raise UnusableRowError(f"batch_or_concurrency {text!r} has no rate")
        cap = _CAP.search(text)
        most = None if cap is None else float(cap[1] or cap[2])
        return {"concurrency": most, "requests_per_second": _record.positive(number, "batch_or_concurrency")}
    per_accelerator = _COUNT_PER_ACCELERATOR.search(text)
    if per_accelerator is not None:
        number = float(per_accelerator[1]) * accelerators
        if per_accelerator[2]:  # tokens of a prefill batch
            isl = row.number("isl")
            return {"concurrency": None if isl is None else number / isl}
    elif number is None and load in ("batch", "concurrency"):
        raise UnusableRowError(f"batch_or_concurrency {text!r} has no number")
    return {"concurrency": None if number is None else _record.positive(number, "batch_or_concurrency")}


def _value(row: Cells, accelerators: int) -> dict[str, Any]:
    """Measured value by field of :class:`Measurement`, and the statistic of the value."""
    metric, unit = row.text("metric"), row.text("unit")
    value = row.needed("value")
    words = metric.lower()
    if re.search(r"p9\d|p99", words):
        raise UnusableRowError(f"metric {metric!r} is a tail, not a typical value")
    statistic = "median" if "median" in words or "p50" in words else "mean"
    harmonised = row.number("tpot_ms_equiv")
    if unit.lower() in _SECONDS:
        seconds = value * _SECONDS[unit.lower()]
        for field, spellings in _LATENCIES:
            if any(spelling in words for spelling in spellings):
                return {field: seconds, "statistic": statistic}
        raise UnusableRowError(f"metric {metric!r} in {unit} is not understood")
    if "user" in unit or "user" in words:
        return {"tpot_seconds": 1 / value, "statistic": statistic}
    if not re.fullmatch(r"(?:tok|tokens?)/s.*", unit.lower()) or "node" in unit:
        raise UnusableRowError(f"unit {unit!r} of metric {metric!r} is not convertible")
    tokens = next((which for which, spellings in _TOKENS if any(word in words for word in spellings)), None)
    if tokens is None:
        raise UnusableRowError(f"metric {metric!r} does not say which tokens it counts")
    is_per_accelerator = _PER_ACCELERATOR.search(unit) or _PER_ACCELERATOR.search(words)
    speed = value if is_per_accelerator else value / accelerators
    tpot = {} if harmonised is None else {"tpot_seconds": harmonised * 1e-3}
    return {f"{tokens}_tokens_per_second_per_accelerator": speed, "statistic": "mean", **tpot}


@dataclass(frozen=True, slots=True)
class Kind:
    """Kind of CSV file.

    Attributes
    ----------
    title : str
        Name of the kind in messages.
    columns : tuple of str
        Required columns.
    read : callable
        Function that returns a measurement, from a row and the common fields.
    final : bool
        True if rows are complete, so that no fact is inferred from other rows.
    """

    title: str
    columns: tuple[str, ...]
    read: Callable[[Cells, Mapping[str, Any]], Measurement]
    final: bool = False


#: Tensor-parallel degree in ids such as ``..._c64_tp8_ep8_937``.
_STARTED_WITH = re.compile(r"_tp(\d+)(?:_0)?_ep(?:\d+|none)")


def layout(
    row: Cells, prefix: str = "", *, concurrency: float | None = None
) -> tuple[_record.RecordedPool, tuple[str, ...]]:
    """Layout of a server from aiconfigurator's columns, or of prefill or decode workers if ``prefix`` is given.

    Parameters
    ----------
    row : Cells
        Row with ``tp_size``, and optionally ``pp_size``, ``attention_dp_size``, ``moe_tp_size``, ``moe_ep_size``.
    prefix : str
        ``prefill_`` or ``decode_``.
    concurrency : float, optional
        Concurrent requests of the server [1]. If ``batch_size`` is smaller than the concurrency, it is the batch of one
        attention-DP rank.

    Returns
    -------
    RecordedPool, tuple of str
        One worker, and notes. A missing attention-DP degree is inferred from the expert degrees, or from the batch of
        one rank.

    Notes
    -----
    In the collection, tp is multiplied by ep if a run used both. For example, ``tp8_ep8`` on one node of eight GPUs is
    recorded with ``moe_tp_size`` 8, ``moe_ep_size`` 8 and 64 attention ranks. These measurements are also in the file
    with 8 ranks.
    """
    tp = row.count(f"{prefix}tp_size")
    pp = row.whole(f"{prefix}pp_size") or 1
    dp = row.whole(f"{prefix}attention_dp_size")
    moe_tp, ep = row.whole(f"{prefix}moe_tp_size") or 1, row.whole(f"{prefix}moe_ep_size")
    width = moe_tp * (ep or 1)
    remarks: list[str] = []
    if dp is None:
        dp, batch = 1, row.number("batch_size")
        groups = concurrency / batch if concurrency and batch else 1.0
        if width > tp and width % tp == 0:
            dp = width // tp
        elif groups > 1 and groups == round(groups) and tp % round(groups) == 0:
            tp, dp = tp // round(groups), round(groups)
        if dp > 1:
            remarks.append(f"attention-DP {dp} is inferred")
    started_with = _STARTED_WITH.search(row.text("id"))
    is_product = started_with is None or integer(started_with[1]) != width
    if moe_tp == ep and ep > 1 and tp * dp == width and 1 in (tp, dp) and is_product:
        remarks.append(f"{width} accelerators are {ep}: tp was multiplied by ep")
        tp, dp = (ep, 1) if dp == 1 else (1, ep)
    return _record.RecordedPool(workers=1, tp=tp, dp=dp, pp=pp, ep=ep), tuple(remarks)


def replicas(row: Cells, concurrency: float) -> tuple[int, tuple[str, ...]]:
    """Number of servers of an aggregated row, and notes.

    If ``batch_size`` is below the concurrency and there is no attention DP, several servers share the concurrency.
    """
    batch = row.number("batch_size")
    if row.whole("attention_dp_size") != 1 or batch is None or batch >= concurrency:
        return 1, ()
    copies = concurrency / batch
    if copies != round(copies):
        raise UnusableRowError(
            f"{concurrency:g} concurrent requests are not a multiple of batch_size {batch:g}: the number of servers is "
            "not recorded"
        )
    return round(copies), (f"{round(copies)} servers: batch_size {batch:g} of {concurrency:g} concurrent requests",)


def pool(row: Cells, prefix: str, concurrency: float | None = None) -> tuple[_record.RecordedPool, tuple[str, ...]]:
    """Prefill or decode workers of a disaggregated server, and remarks.

    Parameters
    ----------
    row : Cells
        Row with the columns of the prefix.
    prefix : str
        ``prefill_`` or ``decode_``.
    concurrency : float, optional
        Concurrent requests of all workers of this kind [1]. A missing number of workers is inferred from this
        concurrency and the batch of one rank.
    """
    single, remarks = layout(row, prefix)
    workers, batch = row.whole(f"{prefix}num_workers"), row.number(f"{prefix}batch_size")
    if workers is None and concurrency is not None and batch is not None:
        workers = max(round(concurrency / (batch * single.dp * single.pp)), 1)
        remarks = (*remarks, f"{prefix}num_workers {workers} is inferred from the batch of one")
    return replace(single, workers=workers), remarks


def degrees(row: Cells, accelerators: int | None) -> dict[str, Any]:
    """Parallelism degrees from the columns ``n_gpus``, ``tp``, ``pp``, ``ep`` and ``dp``.

    Parameters
    ----------
    row : Cells
        Row of a file of points.
    accelerators : int or None
        Number of accelerators in the name of the hardware ("8x H100"), used if ``n_gpus`` is missing [1].

    Returns
    -------
    dict
        Number of accelerators and parallelism degrees. If tp is known and dp is missing, dp (replicas or attention-DP)
        is the number of accelerators over tp x pp.
    """
    tp, pp, ep, dp = (row.whole(column) for column in ("tp", "pp", "ep", "dp"))
    total = row.whole("n_gpus") or accelerators
    if tp is None:
        if total is None:
            raise UnusableRowError("the number of accelerators is not recorded")
        return {"accelerators": total, "tp": None, "dp": dp, "pp": pp, "ep": ep}
    pp = pp or 1
    total = total or tp * pp * (dp or 1)
    if dp is None and total % (tp * pp) == 0:
        dp = total // (tp * pp)
    if tp * pp * (dp or 1) != total:
        raise UnusableRowError(f"tp {tp} x pp {pp} x dp {dp or 1} are not the {total} accelerators")
    return {"accelerators": total, "tp": tp, "dp": dp, "pp": pp, "ep": ep}


def serving(row: Cells, common: Mapping[str, Any]) -> Measurement:
    """Read an aggregated or disaggregated server in aiconfigurator's collection, with mean latencies in ms."""
    concurrency = row.number("silicon_concurrency")
    fields: dict[str, Any]
    if row.text("mode") == "disagg":
        (prefill, first), (decode, second) = pool(row, "prefill_"), pool(row, "decode_", concurrency)
        if concurrency is None:
            raise UnusableRowError("silicon_concurrency is blank")
        parts = (prefill.accelerators, decode.accelerators)
        accelerators = None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
        fields = {"prefill": prefill, "decode": decode, "accelerators": accelerators, "remarks": first + second}
    else:
        single, remarks = layout(row, concurrency=concurrency)
        if concurrency is None:
            concurrency = row.needed("batch_size") * single.dp
        copies, remark = replicas(row, concurrency)
        fields = {name: getattr(single, name) for name in ("tp", "dp", "pp", "ep")}
        fields |= {"accelerators": single.tp * single.dp * single.pp * copies, "remarks": (*remarks, *remark)}
    written, engine = row.text("precision") or row.text("gemm_quant_mode") or None, row.text("backend")
    return Measurement(
        **common,
        **fields,
        **_record.described(row.text("model_path"), row.text("system"), written, engine, row.text("backend_version")),
        isl=row.needed("isl"),
        osl=row.needed("osl"),
        load="concurrency",
        concurrency=concurrency,
        statistic="mean",
        ttft_seconds=_seconds(row, "silicon_ttft_ms"),
        tpot_seconds=_seconds(row, "silicon_tpot_ms"),
    )


def inferencemax(row: Cells, common: Mapping[str, Any]) -> Measurement:
    """Read an InferenceMAX run at one concurrency: latencies in seconds, and throughput per accelerator."""
    tp = row.count("tp")
    apart = _is_true(row.text("dp_attention"))
    written = row.text("precision") or None
    isl, osl, concurrency = (row.needed(column) for column in ("isl", "osl", "concurrency"))
    return Measurement(
        **common,
        **_record.described(row.text("hf_model"), row.text("hardware"), written, row.text("framework")),
        accelerators=tp,
        tp=1 if apart else tp,
        dp=tp if apart else 1,
        pp=1,
        ep=row.whole("ep"),
        isl=_record.MEAN_LENGTH * isl,
        osl=_record.MEAN_LENGTH * osl,
        load="concurrency",
        concurrency=concurrency,
        requests=_record.ROUNDS * concurrency,
        spread=_record.SPREAD,
        ttft_seconds=row.number("median_ttft_s"),
        tpot_seconds=row.number("median_tpot_s"),
        request_seconds=row.number("median_e2e_s"),
        output_tokens_per_second_per_accelerator=row.number("output_tok_per_s_per_gpu"),
        input_tokens_per_second_per_accelerator=row.number("input_tok_per_s_per_gpu"),
        total_tokens_per_second_per_accelerator=row.number("total_tok_per_s_per_gpu"),
        speculation=_record.speculation(row.words("spec_decoding")),
        remarks=(_record.SHORTER,),
    )


def inferencemax_pools(row: Cells, common: Mapping[str, Any]) -> Measurement:
    """Read a disaggregated InferenceMAX run; rates are per prefill (input) or decode (output) accelerator."""
    prefill, decode = (_nightly_pool(row, name) for name in ("prefill", "decode"))
    read, writing = prefill.accelerators, decode.accelerators
    assert read is not None and writing is not None
    total = read + writing
    rates = {"input": read / total, "output": writing / total, "total": 1.0}
    columns = {"input": "input_tput_per_gpu", "output": "output_tput_per_gpu", "total": "tput_per_gpu"}
    cells = {f"{name}_tok_per_s_per_gpu": f"{row.needed(columns[name]) * share!r}" for name, share in rates.items()}
    cells |= {f"median_{name}_s": row.text(f"median_{name}") for name in ("ttft", "tpot")}
    cells |= {"concurrency": row.text("conc"), "median_e2e_s": row.text("median_e2el"), "tp": f"{total}"}
    measured = inferencemax(Cells(row.cells | cells), common)
    return replace(measured, tp=None, dp=None, pp=None, prefill=prefill, decode=decode)


def _nightly_pool(row: Cells, name: str) -> _record.RecordedPool:
    """Prefill or decode workers of a nightly run. A degree of 1 is unknown if the worker has several accelerators."""
    workers, accelerators = row.count(f"{name}_num_workers"), row.count(f"num_{name}_gpu")
    ranks, ep = accelerators // workers, row.whole(f"{name}_ep")
    if ranks * workers != accelerators:
        raise UnusableRowError(f"num_{name}_gpu {accelerators} are no multiple of {workers} workers")
    apart = _is_true(row.text(f"{name}_dp_attention"))
    known = ranks in (ep, row.whole(f"{name}_tp"))
    return _record.RecordedPool(
        workers=workers,
        tp=1 if apart else ranks,
        dp=ranks if apart else 1,
        pp=1,
        ep=ep if known or not apart else ranks,
    )


def _is_true(text: str) -> bool:
    return text.lower() in ("true", "1", "yes")


def poisson(row: Cells, common: Mapping[str, Any]) -> Measurement:
    """Read a server under Poisson arrivals, with median latencies in ms at an offered rate."""
    accelerators = row.count("gpus")
    output = row.number("tps_output")
    server = _record.described(
        row.text("model"), row.text("hardware"), row.text("precision") or None, row.text("engine")
    )
    return Measurement(
        **common,
        **server | {"prefill_first": False},
        accelerators=accelerators,
        tp=accelerators,
        dp=1,
        pp=1,
        isl=row.needed("isl"),
        osl=row.needed("osl"),
        load="rate",
        concurrency=None,
        requests_per_second=row.needed("rps"),
        ttft_seconds=_seconds(row, "ttft_p50_ms"),
        tpot_seconds=_seconds(row, "tpot_p50_ms"),
        request_seconds=_seconds(row, "e2el_p50_ms"),
        output_tokens_per_second_per_accelerator=output and output / accelerators,
        speculation="none",
        remarks=("tensor parallel over all accelerators is inferred",) if accelerators > 1 else (),
    )


def point(row: Cells, common: Mapping[str, Any]) -> Measurement:
    """Read a collected point: one metric, value and unit per row."""
    if row.text("quality").upper() == "D":
        raise UnusableRowError("quality D: second-hand, or known to be wrong")
    layout = degrees(row, _record.chip_count(row.text("hardware")))
    load, kv = load_of(row.text("batch_kind")), _record.format_name(row.text("kv_dtype"))
    isl, osl = row.number("isl"), row.number("osl")
    demand = _demand(row, load, layout["accelerators"])
    measured = _value(row, layout["accelerators"])
    # Decode servers process no prompts, so the input length is the context.
    decodes = "tpot_seconds" in measured or "output_tokens_per_second_per_accelerator" in measured
    is_context = decodes and ("PD disagg" in row.text("engine") or osl is None)
    if isl is None:
        raise UnusableRowError("isl is not recorded")
    written, engine = row.text("weight_dtype") or None, row.text("engine")
    server = _record.described(row.text("model"), row.text("hardware"), written, engine)
    return Measurement(
        **common,
        **server,
        **layout,
        **demand,
        **measured,
        kv=_record.cache_format(kv, server["hardware"]),
        isl=isl,
        osl=osl,
        context=isl if is_context else None,
        load=load,
        compiled=_record.compiled(server["engine"], server["engine_version"]),
        speculation=_record.speculation(row.words("spec_decode")),
    )


def _seconds(row: Cells, column: str) -> float | None:
    milliseconds = row.number(column)
    return milliseconds and milliseconds * 1e-3


#: Kinds of files, in order of detection.
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
        "disaggregated InferenceMAX runs",
        ("hf_model", "hardware", "framework", "isl", "osl", "num_prefill_gpu", "num_decode_gpu", "conc", "median_tpot"),
        inferencemax_pools,
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
    Kind("measurements", _record.NEEDED, _record.measurement, final=True),
)

#: Maximum speed ratio of two rows of the same description. Above this ratio, the deployments must differ. Runs without
#: speculation in the shipped collection differ by at most 4% [1].
_FASTER = 1.1
#: Maximum TPOT ratio of two runs of one configuration. Above this ratio, the slower run is invalid. In nine of ten
#: cases, reruns differ by at most 13%, and engine versions by 26% [1].
_SPOILT = 1.5
#: Maximum TTFT ratio of two runs of one configuration. Above this ratio, the slower run is invalid. Reruns differ by a
#: factor of up to 3.5, or 4.6 to 25 if the engine compiled kernels while the first prompts waited [1].
_SPOILT_START = 4.0
#: Maximum TPOT ratio to a run with at least the same load on at most the same accelerators, in any layout. Common
#: layouts differ by less [1].
_OUTDONE = 3.0
#: Descriptions of the faster run, for the reason why a run is invalid.
_SAME, _BUSIER = "a run of the same configuration", "which has no less to do on no more accelerators"
#: Keys of rows with the same server, sweep, configuration or description.
_SERVER = ("engine", "model", "hardware", "weights")
_TRAFFIC = ("model", "hardware", "engine", "isl", "osl", "load")
_LAYOUT = ("tp", "dp", "pp", "ep")
_server = attrgetter(*_SERVER)
_sweep = attrgetter(*_SERVER, "engine_version", "source", "days", "isl", "osl", "spread")
_configuration = attrgetter(*_TRAFFIC, "concurrency", *_LAYOUT, "accelerators", "weights", "spread")
_description = attrgetter(*_TRAFFIC, *_LAYOUT, "prefill", "decode", "weights", "kv", "requests_per_second")
#: Key of repeated rows.
_repeat = attrgetter("model", "hardware", "isl", "osl", "load", "concurrency", "requests_per_second", *_record.RESULTS)
#: Values of ``speculation`` for rows that a decode step without speculation can represent.
_PLAIN = ("none", "unrecorded")


def distinct(measurements: Iterable[Measurement]) -> list[Measurement]:
    """Remove repeated measurements: same subject, lengths, load and results.

    The measurement with the best-known layout remains, so that a run that was collected twice is included once.
    """
    best: dict[tuple[object, ...], Measurement] = {}
    for row in measurements:
        key = _repeat(row)
        if key not in best or (best[key].accelerators is None and row.accelerators is not None):
            best[key] = row
    return list(best.values())


def suspect_speculation(rows: Sequence[Measurement | Skipped]) -> list[Measurement | Skipped]:
    """Mark rows that are too fast, compared with rows of the same description, as suspected of speculation.

    Parameters
    ----------
    rows : sequence of Measurement or Skipped
        Rows of one file. Rows with unrecorded speculation and a known layout are compared with rows of equal or lower
        concurrency. Without speculation, a row of lower concurrency would be at least as fast.
    """
    runs: dict[tuple[object, ...], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if isinstance(row, Measurement) and row.tpot_seconds is not None and row.concurrency is not None:
            runs[_description(row)].append((row.concurrency, row.tpot_seconds))
    marked = list(rows)
    for index, row in enumerate(rows):
        if isinstance(row, Skipped) or row.speculation != "unrecorded" or row.accelerators is None:
            continue
        if row.tpot_seconds is None or row.concurrency is None:
            continue
        no_busier = [seconds for requests, seconds in runs[_description(row)] if requests <= row.concurrency]
        ratio = max(no_busier) / row.tpot_seconds
        if ratio >= _FASTER:
            remark = f"{ratio:.1f} times as fast as a run of the same description that was no busier"
            marked[index] = replace(row, speculation="suspected", remarks=(*row.remarks, remark))
    return marked


def mark_spoilt(rows: Sequence[Measurement | Skipped]) -> list[Measurement | Skipped]:
    """Mark rows that are much slower than a run of the same configuration, or than a run with at least the same load.

    Parameters
    ----------
    rows : sequence of Measurement or Skipped
        Rows of one file, after :func:`suspect_speculation`. Only aggregated servers in a closed loop, with a known
        layout and without speculation, are compared.
    """
    runs: dict[tuple[object, ...], list[Measurement]] = defaultdict(list)
    alike: dict[tuple[object, ...], list[Measurement]] = defaultdict(list)
    for row in rows:
        if _is_plain_loop(row):
            runs[_configuration(row)].append(row)
            alike[_server(row)].append(row)
    compared = [
        _compared(row, runs[_configuration(row)], alike[_server(row)]) if _is_plain_loop(row) else row for row in rows
    ]
    sweeps: dict[tuple[object, ...], list[Measurement]] = defaultdict(list)
    for row in filter(_is_plain_loop, compared):
        sweeps[_sweep(row)].append(row)
    for index, row in enumerate(compared):
        if _is_plain_loop(row) and not row.spoilt:
            # If most runs of a sweep were slow, the slow run is not an outlier.
            sweep = sweeps[_sweep(row)]
            outdone = sum(run.spoilt.endswith(_BUSIER) for run in sweep)
            if 2 * outdone > len(sweep):
                spoilt = f"{outdone} of {len(sweep)} runs of its sweep are {_OUTDONE:g} times as slow as others"
                compared[index] = replace(row, spoilt=spoilt)
    return compared


def _is_plain_loop(row: Measurement | Skipped) -> TypeGuard[Measurement]:
    return (
        isinstance(row, Measurement)
        and (row.decode is None and row.tp is not None)
        and (row.load == "concurrency" and row.tpot_seconds is not None and row.speculation in _PLAIN)
    )


def _compared(row: Measurement, same: Sequence[Measurement], alike: Sequence[Measurement]) -> Measurement:
    """Mark a row that is much slower than an equally configured run, or than a run with at least the same load."""
    busier = [
        other
        for other in alike
        if (other.concurrency or 0.0) >= (row.concurrency or 0.0)
        and (other.isl or 0.0) >= (row.isl or 0.0)
        and (other.osl or 0.0) <= (row.osl or 0.0)
        and (other.accelerators or 0.0) <= (row.accelerators or 0.0)
    ]
    for field, others, most, words, whose in (
        ("tpot_seconds", same, _SPOILT, "as slow", _SAME),
        ("ttft_seconds", same, _SPOILT_START, "as late", _SAME),
        ("tpot_seconds", busier, _OUTDONE, "as slow", _BUSIER),
    ):
        timed = [other for other in others if getattr(other, field) is not None]
        if getattr(row, field) is not None and timed:
            best = min(timed, key=attrgetter(field))
            ratio = getattr(row, field) / getattr(best, field)
            if ratio >= most:
                return replace(row, spoilt=f"{ratio:.1f} times {words} as {best.id}, {whose}")
    return row


#: Speculation method, and draft length.
_FIXED = re.compile(r"(?P<method>[A-Z][A-Za-z]*3?)(?P<drafts>\d)")


def with_tokens(row: Measurement, prompts: Prompts = "text") -> Measurement:
    """Add the published tokens per round, if method and draft length are recorded ("MTP3").

    Parameters
    ----------
    row : Measurement
        Row whose waiting times are numbers of speculation rounds, as in engines. In the result, waiting times are
        numbers of steps of one token.
    prompts : str
        Kind of prompts. If no acceptance rate is published for this kind of prompts, the rate for the other kind of
        prompts is used.
    """
    fixed = _FIXED.fullmatch(row.speculation)
    if fixed is None:
        return row
    lengths = catalog.speculation_facts().lengths(row.model, fixed["method"], prompts)
    tokens = None if lengths is None else lengths.tokens.get(integer(fixed["drafts"]))
    steps = tokens or 1.0
    return replace(row, tokens_per_round=tokens, wait_steps=row.wait_steps * steps, held_steps=row.held_steps * steps)


#: Shipped files with measurements of servers; other files contain kernels, collectives, prices etc.
SHIPPED = (
    "serving_points",
    "inferencemax_aggregated",
    "inferencemax_disaggregated",
    "poisson_load_a100",
    "poisson_load_h100",
    "decode_points",
    "throughput_points",
    "ttft_points",
    "fresh_2026q4",
)


def shipped(datasets: Iterable[str] = SHIPPED) -> list[Measurement | Skipped]:
    """Read the shipped measurements.

    Parameters
    ----------
    datasets : iterable of str
        Subset of :data:`SHIPPED`.
    """
    return [row for name in datasets for row in read_measurements(catalog.server_files()[name])]


def read_measurements(path: Path | str, server: MeasuredServer | None = None) -> list[Measurement | Skipped]:
    """Read the measurements of a file: CSV with the columns of a shipped kind, or the result of a load generator.

    Parameters
    ----------
    path : path or str
        File to read. The stem of the path is the name of the dataset. Unknown columns are ignored. Files with other
        endings than .csv are results; see :func:`read_report`.
    server : MeasuredServer, optional
        Facts about the server that results lack.

    Returns
    -------
    list of Measurement or Skipped
        Rows in the order of the file. A row with impossible values or unknown names becomes a :class:`Skipped`.

    Raises
    ------
    InputError
        If the file is unreadable, its columns match no kind, or a result lacks its deployment.
    """
    file = Path(path)
    if file.suffix.lower() in RESULT_ENDINGS and _foreign(file) is None:
        return read_report(file, MeasuredServer() if server is None else server)
    kind, measured = rows(file)
    if kind.final:
        return measured
    suspected = suspect_speculation(measured)
    return mark_spoilt([with_tokens(row) if isinstance(row, Measurement) else row for row in suspected])


def rows(path: Path, kinds: Sequence[Kind] = KINDS) -> tuple[Kind, list[Measurement | Skipped]]:
    """Detect the kind of a CSV file, and read its rows.

    Raises
    ------
    InputError
        If the file is unreadable or empty, or its columns match no kind.
    """
    header, lines = _table(path)
    kind = _kind(path, header, kinds)
    if not lines:
        raise InputError(f"{path}: only column names; one line for each measurement is needed")
    # Thousands of rows refer to the same specs, which are not modified.
    with catalog.uncopied():
        return kind, [
            _measurement(kind, path.stem, number, line, cells) for number, (line, cells) in enumerate(lines, start=1)
        ]


def cells(path: Path | str) -> tuple[str, list[dict[str, str]]]:
    """Title of the kind of a CSV file, and the cells of its rows by column.

    Rows are in the order of :func:`read_measurements`.

    Raises
    ------
    InputError
        If the file is unreadable, or its columns match no kind.
    """
    header, rows = _table(Path(path))
    return _kind(Path(path), header, KINDS).title, [cells for _, cells in rows]


def _measurement(kind: Kind, dataset: str, number: int, line: int, cells: dict[str, str]) -> Measurement | Skipped:
    row = Cells(cells)
    name = row.text("id") or f"row {number}"
    try:
        common = {
            "id": name,
            "dataset": dataset,
            "source": row.text("source_id") or row.text("source"),
            "quality": row.text("quality"),
            "tier": row.text("tier"),
            "days": _record.row_days(row),
        }
        measurement = kind.read(row, common)
        _record.check_version(measurement.engine, measurement.engine_version)
        ranks = (measurement.tp or 0) * (measurement.dp or 0)
        if ranks and (measurement.ep or 0) > ranks:
            raise UnusableRowError(f"ep {measurement.ep} is more than the {ranks} ranks of a stage")
        if all(getattr(measurement, result) is None for result in _record.RESULTS):
            raise UnusableRowError("nothing is measured")
    except UnusableRowError as error:
        return Skipped(name, dataset, str(error), line)
    return measurement


def _foreign(path: Path) -> list[dict[str, str]] | None:
    """Rows that a plug-in reader returns for a file; None if no plug-in reads it.

    Raises
    ------
    InputError
        If a reader fails, or returns no valid rows.
    """
    for reader in plugins.readers():
        try:
            rows = reader.read(read_text(path, encoding="utf-8-sig"))
            if rows is not None:
                return [{str(name): str(value) for name, value in row.items()} for row in rows]
        except InputError:
            raise
        except Exception as error:  # plug-in code may raise anything
            raise InputError(f"{path}: the reader of the plug-in {reader.origin} fails ({error!r})") from error
    return None


def _table(path: Path) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """Column names in lower case without space, and the rows with their first line numbers."""
    foreign = _foreign(path)
    if foreign is not None:
        return list(dict.fromkeys(name for row in foreign for name in row)), list(enumerate(foreign, start=1))
    try:
        reader = csv.reader(io.StringIO(read_text(path, encoding="utf-8-sig"), newline=""), strict=True)
        header, start, lines = [column.strip().lower() for column in next(reader, [])], reader.line_num + 1, []
        for line in reader:
            if any(cell.strip() for cell in line):
                lines.append((start, dict(zip(header, line, strict=False))))
            start = reader.line_num + 1
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a CSV file in UTF-8 ({error})") from error
    if not any(header):
        raise InputError(f"{path}: empty; a line of column names and one line for each measurement are needed")
    return header, lines


def _kind(path: Path, header: Sequence[str], kinds: Sequence[Kind]) -> Kind:
    missing = [[column for column in kind.columns if column not in header] for kind in kinds]
    nearest = min(range(len(kinds)), key=lambda index: len(missing[index]) / len(kinds[index].columns))
    if not missing[nearest]:
        return kinds[nearest]
    raise InputError(
        f"{path}:1: its columns are those of no known kind of measurements; nearest to it are {kinds[nearest].title}, "
        f"of which it lacks {', '.join(missing[nearest])}"
    )
