"""Rows of one metric each: what its words, unit and load say."""

from __future__ import annotations

import re
from typing import Any

from inference_econ.calibration.measurements._layouts import Degrees, degrees
from inference_econ.calibration.measurements._names import chip_count, compiled, engine_name, format_name, prefill_first
from inference_econ.calibration.measurements._record import Load
from inference_econ.calibration.measurements._rows import Row, UnusableRowError, first_number, positive

_SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
#: Words of a latency's name, those of the time between tokens before those of the first one, whose words turn up in
#: remarks ("elapsed/osl (approx TPOT incl. prefill share)").
_LATENCIES = (
    ("tpot_seconds", ("tpot", "itl", "tbt", "per-token", "per token", "inter-token", "/osl")),
    ("ttft_seconds", ("ttft", "prefill", "first", "prompt")),
    ("request_seconds", ("e2e", "end-to-end", "end to end", "batch_latency", "request")),
)
#: How the kind of load is written, the most telling words first.
_LOADS: tuple[tuple[Load, tuple[str, ...]], ...] = (
    ("saturated", ("max_throughput", "mlperf_offline", "saturat")),
    ("limited", ("mlperf_server", "mlperf_interactive", "sla")),
    ("rate", ("rate", "poisson", "open_loop", "open loop")),
    ("concurrency", ("concurren", "closed_loop", "closed loop", "users")),
    ("batch", ("batch",)),
)
_PER_ACCELERATOR = re.compile(r"(?:/|per[ _])(?:gpu|accelerator|chip|device)", re.IGNORECASE)
_COUNT_PER_ACCELERATOR = re.compile(r"(\d+(?:\.\d+)?) *(tokens)? */ *gpu", re.IGNORECASE)
_CAP = re.compile(r"max_num_seqs (\d+)|max[_ ]concurrency (\d+)")


def fields(row: Row) -> dict[str, Any]:
    """The fields of a measurement that do not depend on names of models and chips."""
    quality = row.text("quality")
    if quality.upper() == "D":
        raise UnusableRowError("quality D: second-hand, or known to be wrong")
    layout = degrees(row, chip_count(row.text("hardware")))
    load = load_of(row.text("batch_kind"))
    name, version = engine_name(row.text("engine"))
    result = {
        "engine": name,
        "engine_version": version,
        "accelerators": layout.accelerators,
        "tp": layout.tp,
        "dp": layout.dp,
        "pp": layout.pp,
        "ep": layout.ep,
        "kv": format_name(row.text("kv_dtype")),
        "isl": row.number("isl"),
        "osl": row.number("osl"),
        "load": load,
        "prefill_first": prefill_first(name, version),
        "compiled": compiled(name, version),
        "speculation": speculation(row.words("spec_decode")),
        **_demand(row, load, layout),
    }
    result |= _value(row, layout)
    result["context"] = _context(row, result)
    if result["isl"] is None:
        raise UnusableRowError("isl is not recorded")
    return result


def speculation(text: str) -> str:
    """``none``, ``unrecorded``, or what was recorded.

    Examples
    --------
    >>> speculation("none (closed division)"), speculation(""), speculation("MTP3")
    ('none', 'unrecorded', 'MTP3')
    """
    lower = text.lower()
    if lower.startswith(("none", "no ", "off", "false")) or lower in ("0", "no"):
        return "none"
    return "unrecorded" if lower in ("", "nan") or lower.startswith(("not stated", "unknown")) else text


def load_of(text: str) -> Load:
    """Load of a row, from the words for it."""
    lower = text.lower()
    for load, words in _LOADS:
        if any(word in lower for word in words):
            return load
    return "unknown"


def _demand(row: Row, load: Load, layout: Degrees) -> dict[str, float | None]:
    """Concurrency of the whole deployment, or the offered rate."""
    text = row.text("batch_or_concurrency")
    number = first_number(text)
    if load == "rate":
        if number is None:
            raise UnusableRowError(f"batch_or_concurrency {text!r} has no rate")
        cap = _CAP.search(text)
        most = None if cap is None else float(cap[1] or cap[2])
        return {"concurrency": most, "requests_per_second": positive(number, "batch_or_concurrency")}
    per_accelerator = _COUNT_PER_ACCELERATOR.search(text)
    if per_accelerator is not None:
        total = float(per_accelerator[1]) * layout.accelerators
        isl = row.number("isl")
        if per_accelerator[2]:  # tokens of a prefill batch
            return {"concurrency": None if isl is None else total / isl}
        return {"concurrency": positive(total, "batch_or_concurrency")}
    if number is None:
        if load in ("batch", "concurrency"):
            raise UnusableRowError(f"batch_or_concurrency {text!r} has no number")
        return {"concurrency": None}
    return {"concurrency": positive(number, "batch_or_concurrency")}


def _value(row: Row, layout: Degrees) -> dict[str, Any]:
    """The measured value under the field that it belongs to, and its statistic."""
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
    per_accelerator = (
        value if _PER_ACCELERATOR.search(unit) or _PER_ACCELERATOR.search(words) else value / layout.accelerators
    )
    result: dict[str, Any] = {
        f"{_tokens(words, metric)}_tokens_per_second_per_accelerator": per_accelerator,
        "statistic": "mean",
    }
    if harmonised is not None:
        result["tpot_seconds"] = harmonised * 1e-3
    return result


def _tokens(words: str, metric: str) -> str:
    """Which tokens a throughput counts."""
    for which, spellings in (("input", ("input", "prefill")), ("output", ("output", "decode", "generat"))):
        if any(spelling in words for spelling in spellings):
            return which
    if "total" in words:
        return "total"
    raise UnusableRowError(f"metric {metric!r} does not say which tokens it counts")


def _context(row: Row, result: dict[str, Any]) -> float | None:
    """Length of the cache, where the row gives that in the place of an input."""
    # Servers that only decode read no prompts.
    says_so = "PD disagg" in row.text("engine")
    decodes = "tpot_seconds" in result or "output_tokens_per_second_per_accelerator" in result
    isl: float | None = result["isl"]
    return isl if isl is not None and decodes and (says_so or result["osl"] is None) else None
