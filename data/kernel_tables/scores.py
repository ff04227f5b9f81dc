"""Attention kernels of decode and prefill, by engine and cache format.

The time of decode is the time to read the cache, or the arithmetic if many heads share the cache, plus an overhead per
sequence. The time of prefill is the arithmetic of the attended tokens, plus an overhead per new token. The fit includes
a fixed time per source for launches. This time is dropped, because steps include launches separately.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from data.kernel_tables.tables import FEWEST, MOST, Fitted, chips, newest, overlapped, peak, read, solve
from inference_econ._types import Array
from inference_econ.formulas import attention as formulas
from inference_econ.inputs import BYTES_PER_ELEMENT

Kind: TypeAlias = Literal["grouped", "latent"]
Phase: TypeAlias = Literal["decode", "prompts"]
Rows: TypeAlias = Mapping[str, Any] | pd.DataFrame

#: Cache formats in the tables, by catalog format.
FORMATS: Mapping[str, str] = {"bf16": "bfloat16", "fp8": "fp8"}
_TABLES: Mapping[Kind, Mapping[Phase, str]] = {
    "grouped": {"decode": "generation_attention", "prompts": "context_attention"},
    "latent": {"decode": "generation_mla", "prompts": "context_mla"},
}
#: Widths of DeepSeek-V3's latent attention in the tables: latent, rotary part, queries and values [1].
_LATENT, _ROTARY, _QUERY, _VALUE = 512, 64, 192, 128
#: The tables time SGLang's latent attention on Hopper over an 8-bit cache that is widened in full in every step, and
#: prefill that attends to latents. SGLang's servers do neither.
_SPOILT: Mapping[tuple[str, str, str], tuple[str, ...]] = {
    ("hopper", "generation_mla", "fp8"): ("sglang",),
    ("hopper", "context_mla", "any"): ("sglang",),
}
#: Limits of used shapes: bytes of the KV cache [B], below which it fits in the chip's cache; contexts and prompts
#: [tokens]; queries per KV head [1]; time [s]. Servers run other kernels outside these limits.
_FEWEST_BYTES: Mapping[Kind, float] = {"grouped": 200e6, "latent": 64e6}
_SHORTEST, _MOST_QUERIES, _WIDTHS = 128, 16, (64, 128)
_SHORTEST_PROMPT, _QUICKEST_PROMPT = 64, 1e-4
#: Most tokens in a step of a server [tokens], for kernels whose tables have many more.
_LARGEST_STEP = 32768
#: Maximum 90th percentile of |ln(predicted / measured)| of a curve that describes its shapes [1].
_MOST_P90 = 0.5
#: Time that steps include in addition to the curve: the launches of one attention [s].
_BESIDE = 3e-5
_COLUMNS = ("kernel_source", "batch_size", "isl", "num_heads", "step", "kv_cache_dtype", "latency")
_GROUPED_COLUMNS = (*_COLUMNS, "num_key_value_heads", "head_dim", "window_size", "attn_dtype")
#: Bounds and start values; see those of experts.
_BOUNDS: Mapping[Phase, Mapping[str, tuple[float, float, float]]] = {
    "decode": {
        "math_efficiency": (0.02, 0.95, 0.5),
        "hbm_efficiency": (0.2, 0.95, 0.8),
        "overlap": (0.001, 1.0, 0.6),
        "extra_tokens": (0.5, 3000.0, 80.0),
    },
    "prompts": {
        "math_efficiency": (0.02, 0.95, 0.5),
        "extra_tokens": (1.0, 10000.0, 300.0),
        "extra_elements": (0.1, 1000.0, 50.0),
    },
}
#: The same for recurrent layers.
_RECURRENCE: Mapping[str, tuple[float, float, float]] = {
    "math_efficiency": (0.001, 0.95, 0.05),
    "extra_heads": (0.1, 1000.0, 20.0),
}


@dataclass(frozen=True, slots=True)
class Curve:
    """Attention in one phase over caches of one format, for one engine or for all engines ("")."""

    kind: Kind
    phase: Phase
    dtype: str
    engine: str
    fitted: Fitted
    rows: pd.DataFrame

    @property
    def is_usable(self) -> bool:
        """True if the curve describes its shapes.

        For latent attention on small chips, some tables have no such curve.
        """
        return float(np.quantile(np.abs(self.fitted.errors), 0.9)) < _MOST_P90

    @property
    def where(self) -> str:
        """Text with the table, the engines and the chips."""
        engines, chips = (" and ".join(sorted(set(self.rows[name]))) for name in ("engine", "chip"))
        return f"{_TABLES[self.kind][self.phase]} of {engines} on {chips}: {self.fitted.spread}"


def curves(family: str) -> Iterator[Curve]:
    """Curves for which the tables of a chip family have enough shapes."""
    phases: tuple[Phase, ...] = ("decode", "prompts")
    for kind, phase, dtype in itertools.product(_TABLES, phases, FORMATS):
        rows = _rows(family, kind, phase, dtype)
        for engine in ("", *sorted(set(rows["engine"]))):
            some = rows[rows["engine"] == engine] if engine else rows
            if len(some) >= FEWEST:
                yield Curve(kind, phase, dtype, engine, _fit(some, kind, phase), some)


def recurrences(family: str) -> Iterator[tuple[str, Fitted, str]]:
    """Engine ("" for all engines), constants and source of the prefill kernels of Gated DeltaNet, with convolution."""
    sizes = ("batch_size", "seq_len", "num_tokens", "num_k_heads", "num_v_heads", "head_k_dim", "head_v_dim")
    rows = read("linear_attention", family, ("phase", "kernel_source", *sizes, "latency"), "gdn")
    known, shape = chips(family, "bf16"), ["chip", "engine", "version", *sizes]
    usual = (rows["seq_len"] >= _SHORTEST_PROMPT) & (rows["num_tokens"] <= _LARGEST_STEP)
    rows = rows[(rows["phase"] == "context") & usual]
    # Several models have the same shapes. A layer runs the convolution and the recurrence.
    rows = rows.groupby([*shape, "kernel_source"])["seconds"].median().reset_index()
    rows = newest(rows.groupby(shape)["seconds"].sum().reset_index())
    rows = rows[rows["seconds"] > _QUICKEST_PROMPT]
    flop = formulas.recurrence_flop(1) * rows["num_v_heads"] * rows["head_k_dim"] * rows["head_v_dim"]
    peaks = rows["chip"].map({name: peak(chip, "bf16") for name, chip in known.items()})
    rows = rows.assign(compute=rows["num_tokens"] * flop / peaks, heads=1.0 * rows["num_v_heads"] * rows["batch_size"])
    for engine in ("", *sorted(set(rows["engine"]))):
        some = rows[rows["engine"] == engine] if engine else rows
        if len(some) < FEWEST:
            continue
        index, _ = pd.factorize(some["chip"] + " " + some["engine"])
        worked, heads, taken = (some[name].to_numpy() for name in ("compute", "heads", "seconds"))
        timed = partial(_recurrence_seconds, worked, heads)
        fitted = solve(timed, taken, index, _RECURRENCE, most_beside=_BESIDE)
        listed = (" and ".join(sorted(set(some[name]))) for name in ("engine", "chip"))
        yield engine, fitted, f"linear_attention of {' on '.join(listed)}: {fitted.spread}"


def _recurrence_seconds(worked: Array, heads: Array, constants: Array) -> Array:
    """Time of a recurrent layer in a prefill step, from its time at the peak and its heads over all prompts [s]."""
    return np.asarray(worked / constants[0] * (1.0 + constants[1] / heads))


def seconds(phase: Phase, constants: Sequence[float] | Array, rows: Rows) -> Array:
    """Time of the attention of one layer in a decode or a prefill step [s]."""
    if phase == "decode":
        math, memory, overlap, extra = constants
        padding = formulas.padded_attention_share(rows["attended"], extra_tokens=extra)
        return overlapped(padding * rows["compute"] / math, padding * rows["cached"] / memory, overlap)
    math, tokens, elements = (*constants, 0.0)[:3]
    padding = formulas.padded_attention_share(
        rows["attended"], rows["width"], extra_tokens=tokens, extra_elements=elements
    )
    return np.asarray(rows["compute"] / math * padding)


def _rows(family: str, kind: Kind, phase: Phase, dtype: str) -> pd.DataFrame:
    """Shapes for caches of a format, with the time of their work at datasheet rates [s]."""
    table, known = _TABLES[kind][phase], chips(family, dtype)
    grouped = ("attention", _GROUPED_COLUMNS) if kind == "grouped" else ("mla", _COLUMNS)
    rows = read(grouped[0], family, grouped[1], table)
    spoilt = [engine for place in (FORMATS[dtype], "any") for engine in _SPOILT.get((family, table, place), ())]
    rows = rows[(rows["kv_cache_dtype"] == FORMATS[dtype]) & rows["chip"].isin(known) & ~rows["engine"].isin(spoilt)]
    if rows.empty:
        return rows
    rows = _shaped(_usual(rows, dtype), kind)
    bandwidths = rows["chip"].map({name: chip.hbm_bytes_per_second for name, chip in known.items()})
    peaks = rows["chip"].map({name: peak(chip, dtype) for name, chip in known.items()})
    new = 1.0 if phase == "decode" else 1.0 * rows["isl"]
    # New tokens of a prompt attend to half of the prompt on average, and to the cached tokens before it.
    attended = rows["step"] + (rows["isl"] if phase == "decode" else (rows["isl"] - 1) / 2)
    worked = rows["batch_size"] * new * attended * rows["decode_flop" if phase == "decode" else "prompt_flop"]
    held = rows["batch_size"] * attended * rows["elements"] * BYTES_PER_ELEMENT[dtype]
    rows = rows.assign(attended=attended, compute=worked / peaks, cached=held / bandwidths)
    if phase == "decode":
        return newest(rows[(held > _FEWEST_BYTES[kind]) & (attended >= _SHORTEST)])
    return newest(rows[(rows["isl"] >= _SHORTEST_PROMPT) & (rows["seconds"] > _QUICKEST_PROMPT)])


def _usual(rows: pd.DataFrame, dtype: str) -> pd.DataFrame:
    """Rows in which prefill uses the format of the cache, if an engine supports it, and its most frequent kernel."""
    if "attn_dtype" in rows:
        same = rows["attn_dtype"] == FORMATS[dtype]
        rows = rows[same | ~same.groupby(rows["engine"]).transform("any")]
    most = rows.groupby(["engine", "chip"])["kernel_source"].transform(lambda sources: sources.mode().iloc[0])
    return rows[rows["kernel_source"] == most]


def _shaped(rows: pd.DataFrame, kind: Kind) -> pd.DataFrame:
    """Rows with the cached elements per token [1], and the arithmetic per new token and attended token [FLOP]."""
    heads = 1.0 * rows["num_heads"]
    if kind == "latent":
        return rows.assign(
            elements=1.0 * _LATENT + _ROTARY,
            decode_flop=heads * formulas.latent_flop(1, _LATENT, _ROTARY),
            prompt_flop=2.0 * heads * (_QUERY + _VALUE),
            width=(_QUERY + _VALUE) / 2,
        )
    shared = rows["num_key_value_heads"].where(rows["num_key_value_heads"] > 0, rows["num_heads"])
    flop = formulas.grouped_query_flop(1, 1) * heads * rows["head_dim"]
    rows = rows.assign(
        elements=2.0 * shared * rows["head_dim"], decode_flop=flop, prompt_flop=flop, width=1.0 * rows["head_dim"]
    )
    return rows[
        (heads / shared <= _MOST_QUERIES) & (rows["window_size"].fillna(0) == 0) & rows["head_dim"].isin(_WIDTHS)
    ]


def _fit(rows: pd.DataFrame, kind: Kind, phase: Phase) -> Fitted:
    """Fit the constants of a curve. If there are many shapes, some are used."""
    some = rows.sample(min(len(rows), MOST), random_state=0)
    index, _ = pd.factorize(some["chip"] + " " + some["engine"])
    shapes = {str(name): some[str(name)].to_numpy() for name in some.select_dtypes("number")}
    bounds = {name: bound for name, bound in _BOUNDS[phase].items() if (kind, name) != ("latent", "extra_elements")}
    fitted = solve(
        lambda constants: seconds(phase, constants, shapes), shapes["seconds"], index, bounds, most_beside=_BESIDE
    )
    every = {name: fitted.constants.get(name, 0.0) for name in _BOUNDS[phase]}
    return replace(fitted, constants=every)
