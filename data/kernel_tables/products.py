"""Kernels of dense products by format: matrices of at least 60 MB, which fit in no cache, with tokens.

The fastest engine is used for each shape. The additional time of other engines is mostly quantization and launches,
which steps include separately. The fit includes a fixed time per source, which is dropped.
"""

from __future__ import annotations

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
from inference_econ.inputs import BYTES_PER_ELEMENT

#: Formats in the tables, by catalog format.
FORMATS: Mapping[str, str] = {
    "bf16": "bfloat16",
    "fp8": "fp8",
    "fp8_block": "fp8_block",
    "nvfp4": "nvfp4",
    "int8": "int8",
}
_FEWEST_BYTES = 60e6
#: Python launches the quantization of vLLM's block-wise kernels, which takes 47 to 180 us of the measured times. Such
#: times do not show the bandwidth.
_LAUNCHED_BY_PYTHON = (("vllm", "fp8_block"),)
_COLUMNS = ("kernel_source", "gemm_dtype", "m", "n", "k", "latency")
#: Bounds and start values; see those of experts.
_BOUNDS: Mapping[str, tuple[float, float, float]] = {
    "math_efficiency": (0.1, 0.9, 0.6),
    "hbm_efficiency": (0.2, 0.95, 0.8),
    "overlap": (0.001, 1.0, 0.6),
}


def sized(rows: pd.DataFrame, family: str, dtype: str) -> pd.DataFrame:
    """Rows of a format, with the time of their work at the datasheet rates of the measured chip [s]."""
    rows, known = rows[rows["gemm_dtype"] == FORMATS[dtype]].copy(), chips(family, dtype)
    for engine, spoilt in _LAUNCHED_BY_PYTHON:
        rows = rows[(rows["engine"] != engine) | (dtype != spoilt)]
    if rows.empty or not known:
        return rows.iloc[:0]
    bandwidths = rows["chip"].map({name: chip.hbm_bytes_per_second for name, chip in known.items()})
    held, width = 1.0 * rows["n"] * rows["k"] * BYTES_PER_ELEMENT[dtype], min(BYTES_PER_ELEMENT[dtype], 2.0)
    rows["compute"] = (
        2.0
        * rows["m"]
        * rows["n"]
        * rows["k"]
        / rows["chip"].map({name: peak(chip, dtype) for name, chip in known.items()})
    )
    rows["weights"] = held / bandwidths
    rows["moved"] = 1.0 * rows["m"] * (rows["k"] * width + rows["n"] * 2.0) / bandwidths
    return newest(rows[held > _FEWEST_BYTES])


def predicted(constants: Sequence[float] | Array, rows: Mapping[str, Any] | pd.DataFrame) -> Array:
    """Time of a product [s]. Inputs and outputs move at the sustained bandwidth of the chip."""
    math, memory, overlap = constants
    worked, moved = rows["compute"] / math, rows["weights"] / memory + rows["moved"] / MOVED
    return overlapped(worked, moved, overlap)


def fit(rows: pd.DataFrame) -> Fitted:
    """Fit the constants of a format. If there are many shapes, some are used."""
    best = rows.loc[rows.groupby(["chip", "m", "n", "k"])["seconds"].idxmin()]
    some = best.sample(min(len(best), MOST), random_state=0)
    index, _ = pd.factorize(some["chip"] + " " + some["engine"] + " " + some["kernel_source"])
    shapes = {str(name): some[str(name)].to_numpy() for name in some.select_dtypes("number")}
    return solve(lambda constants: predicted(constants, shapes), shapes["seconds"], index, _BOUNDS)


def kernels(family: str) -> Iterator[tuple[str, Fitted, pd.DataFrame]]:
    """Format, constants and rows of every format of a family with enough shapes."""
    every = read("gemm", family, _COLUMNS)
    for dtype in FORMATS:
        rows = sized(every, family, dtype)
        if len(rows) >= FEWEST:
            yield dtype, fit(rows), rows


def off(fitted: Fitted, rows: pd.DataFrame) -> Iterator[str]:
    """Error of each source relative to the constants by rows m, over shapes of at least a tenth of a millisecond."""
    edges = (1, 16, 64, 256, 1024, np.inf)
    for (engine, source), some in rows[rows["seconds"] > 1e-4].groupby(["engine", "kernel_source"]):
        errors = np.log(predicted(list(fitted.constants.values()), some) / some["seconds"])
        parts = errors.groupby(pd.cut(some["m"], edges, right=False), observed=False).median()
        yield f"{engine} {source}: {len(some)} shapes, bias by rows {', '.join(f'{part:+.2f}' for part in parts)}"
