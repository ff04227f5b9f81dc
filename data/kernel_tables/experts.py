"""Kernels of routed experts: time of a layer's experts on one chip, from router to sum, by kernel.

Kernels are fitted to tables with balanced routing. ``scenarios/engines`` states which kernel an engine selects. The fit
includes a fixed time per source for launches, the router, and quantization that Python launches. This time is dropped,
because hosts and launches have separate constants.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from data.kernel_tables.tables import (
    FEWEST,
    MOST,
    MOVED,
    Fitted,
    chips,
    newest,
    overlapped,
    peak,
    read,
    solve,
)
from inference_econ._types import Array
from inference_econ.formulas.grouped_matmul import padded_share
from inference_econ.inputs import BYTES_PER_ELEMENT, catalog

Rows = Mapping[str, Any] | pd.DataFrame

#: Formats in the tables, by catalog format. The catalog's rule determines the math unit, whatever a kernel uses, so
#: that shares refer to the peak in predictions.
FORMATS: Mapping[str, tuple[str, ...]] = {
    "bf16": ("bfloat16",),
    "fp8": ("fp8",),
    "fp8_block": ("fp8_block",),
    "nvfp4": ("nvfp4",),
    "mxfp4": ("w4a8_mxfp4_mxfp8", "w4a16_mxfp4"),
    "int4": ("int4_wo",),
}
#: Words in the names of sources, by kernel; the first match applies. TensorRT-LLM's name of its kernel for gpt-oss
#: contains no kernel: it is Triton on Hopper, and generated kernels on Blackwell (collect_moe.py of the tables).
KERNELS: Mapping[str, str] = {
    "marlin": "marlin",
    "trtllm_gen": "flashinfer_trtllm|min_latency",
    "triton": "triton",
    "deepgemm": "deepgemm",
    "cutlass": "cutlass",
}
_OWN_CHOICE = {"hopper": "triton", "blackwell": "trtllm_gen"}
#: Generated kernels multiply 8-bit tokens with mxfp4 weights if engines are configured so, as in their recipes. Kernels
#: for 16-bit tokens are three times slower.
_EIGHT_BIT_TOKENS = {"blackwell": "w4a8_mxfp4_mxfp8"}
#: Sources that include other work: fp8 on Hopper at 0.14 of the bandwidth, seven times slower in vLLM's newest version
#: than in the one before; and mxfp4 that is widened first, at 0.16.
_SPOILT = (
    ("hopper", "vllm_modeloptfp8moe_flashinfer_cutlass_flashinferexperts", ("fp8",)),
    ("hopper", "sglang_fused_moe_triton", FORMATS["mxfp4"]),
    ("ada", "sglang_fused_moe_triton", FORMATS["mxfp4"]),
)
#: Experts with two matrices instead of three, in tables that do not state it: those of Nemotron.
_NOT_GATED = ((1856, 6), (2688, 22), (5120, 22))
#: Limits of used shapes: width of an expert's part [1], bytes of the weights [B], and ranks [1]. Servers run no
#: narrower parts, and no weights that fit in a cache.
_NARROWEST, _FEWEST_BYTES, _MOST_RANKS = 256, 100e6, 32
#: Time that steps include in addition to the curve: launches of two products, of the gather, quantization and sum, and
#: of a router [s]. Additional time of a source belongs to its kernels at small batches.
_BESIDE = 30e-6
#: Tables of kernels after an all-to-all by phase, and maximum additional time of a source [s].
_EXCHANGED = {"prompts": ("wideep_context_moe", 6e-4), "decode": ("wideep_generation_moe", _BESIDE)}
#: Minimum number of long shapes for constants of an engine [1], and minimum time of such a shape [s]. Short shapes
#: mostly contain additional time.
_FEWEST_LONG, _LONG = 50, 1e-3
SHAPE = ("chip", "num_tokens", "hidden", "width", "topk", "num_experts", "moe_ep_size")
_COLUMNS = (
    *("kernel_source", "moe_dtype", "distribution", "num_tokens", "hidden_size", "inter_size", "topk"),
    *("num_experts", "moe_tp_size", "moe_ep_size", "latency"),
)
#: Bounds and start values. The best dense products reach 0.80 of H100's peak in 16 bits (kernels.csv, MAMF), and less
#: than 1 is left of a tile's time for its sum. Memory copies reach 0.93 of the bandwidth.
_BOUNDS: Mapping[str, tuple[float, float, float]] = {
    "math_efficiency": (0.03, 0.8, 0.6),
    "hbm_efficiency": (0.15, 0.95, 0.8),
    "overlap": (0.001, 1.0, 0.5),
    "extra_tokens": (0.5, 500.0, 30.0),
    "extra_elements": (1.0, 4000.0, 300.0),
    "passes": (1.0, 10.0, 1.5),
}


def rows_of(family: str) -> pd.DataFrame:
    """Rows of a chip family: shapes, kernels, and seconds."""
    rows = read("moe", family, _COLUMNS)
    width = rows["inter_size"] / rows["moe_tp_size"]
    skipped = rows["kernel_source"].str.contains("nongated")
    for where, source, dtypes in _SPOILT:
        if where == family:
            skipped |= (rows["kernel_source"] == source) & rows["moe_dtype"].isin(dtypes)
    for size, active in _NOT_GATED:
        skipped |= (rows["inter_size"] == size) & (rows["topk"] == active)
    kept = ~skipped & (width >= _NARROWEST) & (rows["moe_ep_size"] <= _MOST_RANKS)
    if family in _EIGHT_BIT_TOKENS:
        kept &= ~rows["moe_dtype"].isin(FORMATS["mxfp4"]) | (rows["moe_dtype"] == _EIGHT_BIT_TOKENS[family])
    kernel = pd.Series(_OWN_CHOICE.get(family, "cutlass"), index=rows.index)
    for name, pattern in reversed(list(KERNELS.items())):
        kernel[rows["kernel_source"].str.contains(pattern)] = name
    return rows.assign(width=width, hidden=rows["hidden_size"].astype(float), kernel=kernel)[kept]


def exchanged(family: str) -> Iterator[tuple[str, Fitted, pd.DataFrame]]:
    """Phase, constants and rows of DeepGEMM's kernels after DeepEP's all-to-all, with balanced routing.

    All rows have one shape of experts, so the overhead in width and depth is unknown. Python launches the kernels of
    prefill, as the minimum times show.
    """
    bounds = {**_BOUNDS, "extra_elements": (1.0, 1.001, 1.0005)}
    for phase, (table, beside) in _EXCHANGED.items():
        rows = newest(read("moe", family, _COLUMNS, table))
        width, hidden = rows["inter_size"].astype(float), rows["hidden_size"].astype(float)
        rows = sized(rows[rows["distribution"] == "uniform"].assign(width=width, hidden=hidden), family, "fp8_block")
        if len(rows) >= _FEWEST_LONG:
            yield phase, fit(rows, bounds=bounds, most_beside=beside), rows


def sized(rows: pd.DataFrame, family: str, dtype: str) -> pd.DataFrame:
    """Rows of a format, with the time of their work at the datasheet rates of the measured chip [s]."""
    rows, known = rows[rows["moe_dtype"].isin(FORMATS[dtype])].copy(), chips(family, dtype)
    if rows.empty or not known:
        return rows.iloc[:0]
    peaks = rows["chip"].map({name: peak(chip, dtype) for name, chip in known.items()})
    bandwidths = rows["chip"].map({name: chip.hbm_bytes_per_second for name, chip in known.items()})
    routed = (rows["num_tokens"] * rows["topk"] / rows["moe_ep_size"]).clip(lower=1.0)
    touched = np.minimum((rows["num_experts"] / rows["moe_ep_size"]).clip(lower=1.0), routed)
    rows["tokens"] = routed / touched
    for side, matrices in (("in", 2.0), ("out", 1.0)):
        elements = matrices * rows["hidden"] * rows["width"]
        rows[f"compute_{side}"] = 2.0 * routed * elements / peaks
        rows[f"weights_{side}"] = touched * elements * BYTES_PER_ELEMENT[dtype] / bandwidths
        rows[f"moved_{side}"] = 2.0 * routed * matrices * (rows["hidden"] + rows["width"]) / bandwidths
    weights = rows["weights_in"] + rows["weights_out"]
    return rows[(weights * bandwidths > _FEWEST_BYTES) & (weights < rows["seconds"])]


def predicted(constants: Sequence[float] | Array, rows: Rows, scale: float = 1.0) -> Array:
    """Time of both products, and of the kernels that move tokens; ``scale`` is a factor on the tokens [s]."""
    total = np.zeros(len(rows["seconds"]))
    for side, width, depth in (("in", 2.0 * rows["width"], rows["hidden"]), ("out", rows["hidden"], rows["width"])):
        amounts = (rows[f"compute_{side}"] * scale, rows[f"weights_{side}"], rows["tokens"] * scale, width, depth)
        total = total + _product_seconds(constants, *map(np.asarray, amounts))
        total = total + np.asarray(rows[f"moved_{side}"]) * (scale * constants[5] / MOVED)
    return total


def _product_seconds(
    constants: Sequence[float] | Array, compute: Array, weights: Array, tokens: Array, width: Array, depth: Array
) -> Array:
    """Time of one product, from the times of its arithmetic and its weights at datasheet rates [s]."""
    math, memory, overlap, extra_tokens, extra_elements, _ = constants
    padding = padded_share(tokens, width, depth, extra_tokens=extra_tokens, extra_elements=extra_elements)
    worked, read_seconds = compute / math * padding, weights / memory
    return overlapped(worked, read_seconds, overlap)


def deepgemm_products(name: str) -> Rows:
    """Times of grouped products without other work that DeepGEMM publishes for a chip."""
    chip = catalog.hardware(name)
    with catalog.measured_files()["kernels"].open(encoding="utf-8", newline="") as file:
        found = [row for row in csv.DictReader(file) if row["op"].startswith("grouped_gemm")]
    groups, tokens, width, depth, rate = (
        np.array([float(row[key]) for row in found]) for key in ("groups", "m", "n", "k", "value")
    )
    flop = 2.0 * groups * tokens * width * depth
    return {
        "tokens": tokens,
        "width": width,
        "depth": depth,
        "compute": flop / peak(chip, "fp8_block"),
        "weights": groups * width * depth / chip.hbm_bytes_per_second,
        "seconds": flop / (rate * 1e12),
    }


def _product_errors(constants: Array, rows: Rows) -> Array:
    """ln(predicted / published) of grouped products without other work [1]."""
    amounts = (np.asarray(rows[name]) for name in ("compute", "weights", "tokens", "width", "depth"))
    return np.asarray(np.log(_product_seconds(constants, *amounts) / rows["seconds"]))


def fit(
    rows: pd.DataFrame,
    alone: Rows | None = None,
    bounds: Mapping[str, tuple[float, float, float]] = _BOUNDS,
    most_beside: float = _BESIDE,
) -> Fitted:
    """Fit the constants of a kernel. If there are many shapes, equally many of each engine are used."""
    each = MOST // rows["engine"].nunique()
    some = pd.concat([one.sample(min(len(one), each), random_state=0) for _, one in rows.groupby("engine")])
    index, _ = pd.factorize(some["chip"] + " " + some["kernel_source"])
    shapes = {str(name): some[str(name)].to_numpy() for name in some.select_dtypes("number")}
    beside = None if alone is None else (lambda constants: _product_errors(constants, alone))
    return solve(lambda constants: predicted(constants, shapes), shapes["seconds"], index, bounds, beside, most_beside)


def balanced(family: str) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Format, kernel and rows of every kernel of a family, with balanced routing."""
    every = rows_of(family)
    for dtype in FORMATS:
        rows = newest(sized(every, family, dtype))
        for kernel, some in rows[rows["distribution"] == "balanced"].groupby("kernel"):
            yield dtype, str(kernel), some


def fits(family: str, dtype: str, kernel: str, rows: pd.DataFrame) -> Iterator[tuple[str, Fitted, pd.DataFrame]]:
    """Constants of a kernel for all engines (""), and for each engine with enough long shapes."""
    beside = deepgemm_products("h800_sxm") if published(family, dtype, kernel) else None
    for engine, some in (("", rows), *((str(name), own) for name, own in rows.groupby("engine"))):
        if len(some) >= FEWEST and (not engine or (some["seconds"] > _LONG).sum() >= _FEWEST_LONG):
            yield engine, fit(some, beside), some


def published(family: str, dtype: str, kernel: str) -> bool:
    """True for kernels that DeepGEMM publishes, and for TensorRT-LLM's similar block-wise kernels on Hopper."""
    return (family, dtype, kernel) == ("hopper", "fp8_block", "cutlass")
