"""Readers of the published tables of servers, one per kind of table; see ``data/published/README.md``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from inference_econ.extras.servers.measurements import (
    Cells,
    Load,
    Measurement,
    RecordedPool,
    UnusableRowError,
    chip_count,
    format_name,
)
from inference_econ.extras.servers.measurements._record import cache_format, compiled, described, positive, speculation
from inference_econ.extras.servers.measurements._tables import KINDS as OF_USERS
from inference_econ.extras.servers.measurements._tables import Kind, inferencemax, is_true
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
_LOADS: tuple[tuple[Load, tuple[str, ...]], ...] = (
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
#: Maximum concurrency in notes of runs at a rate.
CAP = re.compile(r"max_num_seqs (\d+)|max[_ ]concurrency (\d+)")


def first_number(text: str) -> float | None:
    """Number at the start of a text; None if the text does not start with a number.

    Examples
    --------
    >>> first_number("10 req/s offered"), first_number("unknown")
    (10.0, None)
    """
    match = _NUMBER.match(text.strip())
    return None if match is None else float(match[0])


def load_of(text: str) -> Load:
    """Kind of load of a row, from the words in its cells."""
    return next((load for load, words in _LOADS if any(word in text.lower() for word in words)), "unknown")


def _demand(row: Cells, load: Load, accelerators: int) -> dict[str, Any]:
    """Concurrency of the deployment, or the offered rate."""
    text = row.text("batch_or_concurrency")
    number = first_number(text)
    if load == "rate":
        if number is None:
            raise UnusableRowError(f"batch_or_concurrency {text!r} has no rate")
        cap = CAP.search(text)
        most = None if cap is None else float(cap[1] or cap[2])
        return {"concurrency": most, "requests_per_second": positive(number, "batch_or_concurrency")}
    per_accelerator = _COUNT_PER_ACCELERATOR.search(text)
    if per_accelerator is not None:
        number = float(per_accelerator[1]) * accelerators
        if per_accelerator[2]:  # tokens of a prefill batch
            isl = row.number("isl")
            return {"concurrency": None if isl is None else number / isl}
    elif number is None and load in ("batch", "concurrency"):
        raise UnusableRowError(f"batch_or_concurrency {text!r} has no number")
    return {"concurrency": None if number is None else positive(number, "batch_or_concurrency")}


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


#: Tensor-parallel degree in ids such as ``..._c64_tp8_ep8_937``.
_STARTED_WITH = re.compile(r"_tp(\d+)(?:_0)?_ep(?:\d+|none)")


def layout(row: Cells, prefix: str = "", *, concurrency: float | None = None) -> tuple[RecordedPool, tuple[str, ...]]:
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
    return RecordedPool(workers=1, tp=tp, dp=dp, pp=pp, ep=ep), tuple(remarks)


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


def pool(row: Cells, prefix: str, concurrency: float | None = None) -> tuple[RecordedPool, tuple[str, ...]]:
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
        **described(row.text("model_path"), row.text("system"), written, engine, row.text("backend_version")),
        isl=row.needed("isl"),
        osl=row.needed("osl"),
        load="concurrency",
        concurrency=concurrency,
        statistic="mean",
        ttft_seconds=_seconds(row, "silicon_ttft_ms"),
        tpot_seconds=_seconds(row, "silicon_tpot_ms"),
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


def _nightly_pool(row: Cells, name: str) -> RecordedPool:
    """Prefill or decode workers of a nightly run. A degree of 1 is unknown if the worker has several accelerators."""
    workers, accelerators = row.count(f"{name}_num_workers"), row.count(f"num_{name}_gpu")
    ranks, ep = accelerators // workers, row.whole(f"{name}_ep")
    if ranks * workers != accelerators:
        raise UnusableRowError(f"num_{name}_gpu {accelerators} are no multiple of {workers} workers")
    apart = is_true(row.text(f"{name}_dp_attention"))
    known = ranks in (ep, row.whole(f"{name}_tp"))
    return RecordedPool(
        workers=workers,
        tp=1 if apart else ranks,
        dp=ranks if apart else 1,
        pp=1,
        ep=ep if known or not apart else ranks,
    )


def poisson(row: Cells, common: Mapping[str, Any]) -> Measurement:
    """Read a server under Poisson arrivals, with median latencies in ms at an offered rate."""
    accelerators = row.count("gpus")
    output = row.number("tps_output")
    server = described(row.text("model"), row.text("hardware"), row.text("precision") or None, row.text("engine"))
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
    layout = degrees(row, chip_count(row.text("hardware")))
    load, kv = load_of(row.text("batch_kind")), format_name(row.text("kv_dtype"))
    isl, osl = row.number("isl"), row.number("osl")
    demand = _demand(row, load, layout["accelerators"])
    measured = _value(row, layout["accelerators"])
    # Decode servers process no prompts, so the input length is the context.
    decodes = "tpot_seconds" in measured or "output_tokens_per_second_per_accelerator" in measured
    is_context = decodes and ("PD disagg" in row.text("engine") or osl is None)
    if isl is None:
        raise UnusableRowError("isl is not recorded")
    written, engine = row.text("weight_dtype") or None, row.text("engine")
    server = described(row.text("model"), row.text("hardware"), written, engine)
    return Measurement(
        **common,
        **server,
        **layout,
        **demand,
        **measured,
        kv=cache_format(kv, server["hardware"]),
        isl=isl,
        osl=osl,
        context=isl if is_context else None,
        load=load,
        compiled=compiled(server["engine"], server["engine_version"]),
        speculation=speculation(row.words("spec_decode")),
    )


def _seconds(row: Cells, column: str) -> float | None:
    milliseconds = row.number(column)
    return milliseconds and milliseconds * 1e-3


#: Kinds of published tables, in order of detection, then the kinds that users write.
KINDS = (
    Kind(
        "whole servers",
        ("backend", "model_path", "system", "isl", "osl", "silicon_ttft_ms", "silicon_tpot_ms"),
        serving,
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
    *OF_USERS,
)
