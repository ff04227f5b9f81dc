"""Fit kernels of routed experts to public tables of measured kernels: ``sh run.sh kernels``.

The tables are those of the wheel ``aiconfigurator-core``: a layer's experts on one chip, from router to sum, under
CUDA graphs. A set of kernels is fitted to the quickest time that any of some engines has for each shape, with routing
that is balanced; what all shapes of a kernel take beside (launches, quantisation that Python launches, the router) is
fitted along, by source, and dropped: hosts and launches have constants of their own. Prints YAML for
``scenarios/assumptions/kernels``, errors by kernel source, and what a skewed router costs.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from inference_econ.engine import Setup
from inference_econ.formulas.experts import expected_largest
from inference_econ.formulas.grouped_matmul import padded_share
from inference_econ.inputs import BYTES_PER_ELEMENT, HardwareSpec, catalog

Array = npt.NDArray[np.float64]
Rows = Mapping[str, Any] | pd.DataFrame

#: Chips of the tables that a set of kernels is fitted to, by names in the tables and in the catalogue.
FAMILIES: Mapping[str, Mapping[str, str]] = {
    "hopper": {"h100_sxm": "h100_sxm", "h200_sxm": "h200_sxm"},
    "blackwell": {"b200_sxm": "b200", "gb200": "gb200_nvl72"},
    "ada": {"l40s": "l40s"},
    "blackwell_geforce": {"rtx_pro_6000_server": "rtx_pro_6000"},
}
ENGINES = ("trtllm", "sglang", "vllm")
#: Formats of the tables, by those of the catalogue. Which maths unit runs them is the catalogue's rule, whatever a
#: kernel does, so that shares are of the peak that predictions divide.
FORMATS: Mapping[str, tuple[str, ...]] = {
    "bf16": ("bfloat16",),
    "fp8": ("fp8",),
    "fp8_block": ("fp8_block",),
    "nvfp4": ("nvfp4",),
    "mxfp4": ("w4a8_mxfp4_mxfp8", "w4a16_mxfp4"),
    "int4": ("int4_wo",),
}
#: Experts with two matrices instead of three, in tables that do not say so: Nemotron's.
_NOT_GATED = ((1856, 6), (2688, 22), (5120, 22))
#: Elements: narrower cuts of an expert, and weights that a cache holds, are not what servers run [1], [B].
_NARROWEST, _FEWEST_BYTES, _MOST_RANKS = 256, 100e6, 32
#: Share of the bandwidth that tokens are gathered at, of which ``passes`` counts multiples [1].
_GATHERED = 0.85
#: Fewer shapes say little of a curve, and more say nothing new.
_FEWEST, _MOST = 200, 2500
_SHAPE = ("chip", "num_tokens", "hidden", "width", "topk", "num_experts", "moe_ep_size")
_COLUMNS = (
    *("kernel_source", "moe_dtype", "distribution", "num_tokens", "hidden_size", "inter_size", "topk"),
    *("num_experts", "moe_tp_size", "moe_ep_size", "latency"),
)

NAMES = ("math_efficiency", "hbm_efficiency", "overlap", "extra_tokens", "extra_elements", "passes")
#: Bounds: the best dense products reach 0.80 of H100's peak in 16 bits (kernels.csv, MAMF), and less than 1 is left
#: of a tile's time for its sum; copies of memory reach 0.93 of the bandwidth.
_LOW = (0.03, 0.15, 0.001, 0.5, 1.0, 1.0)
_HIGH = (0.8, 0.95, 1.0, 500.0, 4000.0, 10.0)
_START = (0.6, 0.8, 0.5, 30.0, 300.0, 1.5)


@dataclass(frozen=True, slots=True)
class Fitted:
    """Constants of a kernel, and how far it is off."""

    constants: Mapping[str, float]
    errors: Array


def tables() -> Iterator[tuple[str, str, Path]]:
    """Chip, engine and file of every table of experts in the wheel."""
    spec = importlib.util.find_spec("aiconfigurator_core")
    if spec is None or spec.origin is None:
        raise SystemExit("aiconfigurator-core is not installed; 'sh run.sh kernels' does it")
    for path in sorted((Path(spec.origin).parent / "systems" / "data").glob("*/moe/*/*/moe_perf.parquet")):
        yield path.parts[-5], path.parts[-3], path


def read(family: str) -> pd.DataFrame:
    """The rows of a family of chips: shapes, sources, and seconds."""
    parts = []
    for chip, engine, path in tables():
        if chip in FAMILIES[family]:
            part = pd.read_parquet(path, columns=list(_COLUMNS))
            width = part["inter_size"] / part["moe_tp_size"]
            nongated = part["kernel_source"].str.contains("nongated")
            for size, active in _NOT_GATED:
                nongated |= (part["inter_size"] == size) & (part["topk"] == active)
            kept = ~nongated & (width >= _NARROWEST) & (part["moe_ep_size"] <= _MOST_RANKS)
            parts.append(part.assign(chip=chip, engine=engine, version=path.parts[-2], width=width)[kept])
    rows = pd.concat(parts, ignore_index=True)
    return rows.assign(seconds=rows["latency"] * 1e-3, hidden=rows["hidden_size"].astype(float))


def sized(rows: pd.DataFrame, family: str, dtype: str) -> pd.DataFrame:
    """Rows of a format with the seconds of their work at the datasheet's rates of the chip that was measured."""
    rows = rows[rows["moe_dtype"].isin(FORMATS[dtype])].copy()
    chips = {name: catalog.hardware(known) for name, known in FAMILIES[family].items()}
    if rows.empty or not all(_runs(chip, dtype) for chip in chips.values()):
        return rows.iloc[:0]
    peaks = rows["chip"].map({name: _peak(chip, dtype) for name, chip in chips.items()})
    bandwidths = rows["chip"].map({name: chip.hbm_bytes_per_second for name, chip in chips.items()})
    routed = (rows["num_tokens"] * rows["topk"] / rows["moe_ep_size"]).clip(lower=1.0)
    touched = np.minimum((rows["num_experts"] / rows["moe_ep_size"]).clip(lower=1.0), routed)
    rows["tokens"] = routed / touched
    for side, matrices in (("in", 2.0), ("out", 1.0)):
        elements = matrices * rows["hidden"] * rows["width"]
        rows[f"compute_{side}"] = 2.0 * routed * elements / peaks
        rows[f"weights_{side}"] = touched * elements * BYTES_PER_ELEMENT[dtype] / bandwidths
        rows[f"moved_{side}"] = 2.0 * routed * matrices * (rows["hidden"] + rows["width"]) / bandwidths
    read = rows["weights_in"] + rows["weights_out"]
    return newest(rows[(read * bandwidths > _FEWEST_BYTES) & (read < rows["seconds"])])


def newest(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each engine the newest version with enough shapes."""
    counts = rows.groupby(["engine", "version"]).size()
    last = counts[counts >= _FEWEST].reset_index().groupby("engine")["version"].last()
    return rows[rows["version"] == rows["engine"].map(last)]


def _runs(chip: HardwareSpec, dtype: str) -> bool:
    return dtype != "nvfp4" or "fp4" in chip.dense_flops_per_second


def _peak(chip: HardwareSpec, dtype: str) -> float:
    """The peak of the maths unit that engines run a format of experts on [FLOP/s]."""
    setup = Setup.of("qwen3_30b_a3b", chip, weights=dtype, assumptions="deployable")
    return setup.peaks[setup.unit(dtype)]


def quickest(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each shape on each chip the quickest source; of many shapes, some."""
    best = rows.loc[rows.groupby(list(_SHAPE))["seconds"].idxmin()]
    return best.sample(min(len(best), _MOST), random_state=0)


def predicted(constants: Sequence[float] | Array, rows: Rows, scale: float = 1.0) -> Array:
    """Seconds of both products and of what moves tokens beside them; ``scale`` times the tokens."""
    total = np.zeros(len(rows["seconds"]))
    for side, width, depth in (("in", 2.0 * rows["width"], rows["hidden"]), ("out", rows["hidden"], rows["width"])):
        amounts = (rows[f"compute_{side}"] * scale, rows[f"weights_{side}"], rows["tokens"] * scale, width, depth)
        total = total + product_seconds(constants, *map(np.asarray, amounts))
        total = total + np.asarray(rows[f"moved_{side}"]) * (scale * constants[5] / _GATHERED)
    return total


def product_seconds(
    constants: Sequence[float] | Array, compute: Array, weights: Array, tokens: Array, width: Array, depth: Array
) -> Array:
    """Seconds of a product, of those of its arithmetic and its weights at the datasheet's rates."""
    math, memory, overlap, extra_tokens, extra_elements, _ = constants
    padding = padded_share(tokens, width, depth, extra_tokens=extra_tokens, extra_elements=extra_elements)
    worked, read = compute / math * padding, weights / memory
    return np.asarray(np.maximum(worked, read) + (1.0 - overlap) * np.minimum(worked, read))


def products(name: str) -> Rows:
    """Grouped products alone that DeepGEMM publishes for a chip."""
    chip = catalog.hardware(name)
    path = Path(__file__).parents[1] / "scenarios" / "measured" / "kernels.csv"
    with path.open(encoding="utf-8", newline="") as file:
        found = [row for row in csv.DictReader(file) if row["op"].startswith("grouped_gemm")]
    groups, tokens, width, depth, rate = (
        np.array([float(row[key]) for row in found]) for key in ("groups", "m", "n", "k", "value")
    )
    flop = 2.0 * groups * tokens * width * depth
    return {
        "tokens": tokens,
        "width": width,
        "depth": depth,
        "compute": flop / _peak(chip, "fp8_block"),
        "weights": groups * width * depth / chip.hbm_bytes_per_second,
        "seconds": flop / (rate * 1e12),
    }


def product_errors(constants: Sequence[float] | Array, rows: Rows) -> Array:
    """ln(predicted / published) of products alone."""
    amounts = (np.asarray(rows[name]) for name in ("compute", "weights", "tokens", "width", "depth"))
    return np.asarray(np.log(product_seconds(constants, *amounts) / rows["seconds"]))


def fit(rows: pd.DataFrame, alone: Rows | None = None) -> Fitted:
    """Constants of the smallest errors of the logarithm, with what each source takes beside as its own."""
    from scipy.optimize import least_squares

    index, names = pd.factorize(rows["chip"] + " " + rows["kernel_source"])
    shapes = {str(name): rows[str(name)].to_numpy() for name in rows.select_dtypes("number")}
    seconds, count = shapes["seconds"], len(NAMES)

    def errors(logs: Array) -> Array:
        beside = np.exp(logs[count:])[index]
        return np.asarray(np.log((predicted(np.exp(logs[:count]), shapes) + beside) / seconds))

    def residuals(logs: Array) -> Array:
        found = errors(logs)
        if alone is None:
            return found
        # Together they count as much as all shapes of the tables.
        weight = np.sqrt(len(found) / len(alone["seconds"]))
        return np.concatenate([found, weight * product_errors(np.exp(logs[:count]), alone)])

    low, high = (np.log([*bound, *[beside] * len(names)]) for bound, beside in ((_LOW, 1e-7), (_HIGH, 3e-4)))
    start = np.log([*_START, *[3e-5] * len(names)])
    result = least_squares(residuals, start, bounds=(low, high), loss="soft_l1", f_scale=0.1, max_nfev=80)
    return Fitted(dict(zip(NAMES, np.exp(result.x[:count]).tolist(), strict=True)), errors(result.x))


def spread(errors: Array) -> tuple[float, float]:
    """Median and 90th percentile of the size of errors."""
    return float(np.median(np.abs(errors))), float(np.quantile(np.abs(errors), 0.9))


def others(fitted: Fitted, rows: pd.DataFrame) -> Iterator[str]:
    """How far each source is from the constants, over shapes of a millisecond and more."""
    long = rows[rows["seconds"] > 1e-3]
    for (engine, source), some in long.groupby(["engine", "kernel_source"]):
        errors = np.log(predicted(list(fitted.constants.values()), some) / some["seconds"])
        median, p90 = spread(errors)
        bias = np.median(errors)
        yield f"{engine} {source}: {len(some)} shapes, bias {bias:+.2f}, median {median:.2f}, p90 {p90:.2f}"


def yaml_line(dtype: str, fitted: Fitted) -> str:
    """An entry of a file of kernels."""
    digits = {name: f"{value:.3g}" for name, value in fitted.constants.items()}
    return f"{dtype}: {{{', '.join(f'{name}: {value}' for name, value in digits.items())}}}"


def skewed(fitted: Fitted, rows: pd.DataFrame, alpha: str) -> Iterator[str]:
    """What a router with a power law of experts costs over a balanced one, measured and by popularity [1]."""
    keys = [*_SHAPE, "kernel_source"]
    even, skew = (rows[rows["distribution"] == name] for name in ("balanced", f"power_law_{alpha}"))
    pairs = even.merge(skew[[*keys, "seconds"]], on=keys, suffixes=("", "_skewed"))
    pairs = pairs[(pairs["tokens"] > 64) & (pairs["seconds"] > 5e-4)]
    constants = list(fitted.constants.values())
    for _, some in pairs.groupby("moe_ep_size"):
        ranks = float(some["moe_ep_size"].iloc[0])
        base, parts = predicted(constants, some), []
        for scv in (0.0, 0.5, 1.0, 2.3, 4.0):
            routed = float(np.median(some["tokens"] * some["num_experts"])) / ranks
            experts = float(np.median(some["num_experts"]))
            variation = np.sqrt(1.0 / routed + scv * ranks / experts)
            busiest = min(1.0 + float(expected_largest(ranks)) * variation, ranks)
            parts.append(f"{scv}: {np.median(predicted(constants, some, busiest) / base):.2f}")
        ratio = np.median(some["seconds_skewed"] / some["seconds"])
        yield f"{ranks:3.0f} ranks, {len(some)} pairs: measured {ratio:.2f}; by popularity_scv {', '.join(parts)}"


def popularity(alpha: float, tokens: float) -> float:
    """Squared coefficient of variation of a power law from 1 to 0.8 of the tokens, as the tables draw it [1]."""
    from scipy.integrate import quad

    moments = [quad(lambda x, n=n: x ** (n - alpha), 1.0, 0.8 * tokens, limit=500)[0] for n in (0, 1, 2)]
    return float(moments[0] * moments[2] / moments[1] ** 2 - 1.0)


def report(family: str, engine: str | None, every: pd.DataFrame) -> Iterator[str]:
    """Lines of YAML, with what is off as comments."""
    yield f"\n# {family} {engine or ''}"
    for dtype in FORMATS:
        rows = sized(every, family, dtype)
        if engine:
            rows = rows[rows["engine"] == engine]
        balanced = rows[rows["distribution"] == "balanced"]
        if len(balanced) < _FEWEST:
            continue
        alone = products("h800_sxm") if (family, dtype, engine) == ("hopper", "fp8_block", None) else None
        best = quickest(balanced)
        fitted = fit(best, alone)
        median, p90 = spread(fitted.errors)
        yield yaml_line(dtype, fitted)
        yield f"#   {len(best)} shapes: median {median:.3f}, p90 {p90:.3f}"
        if alone is not None:
            yield f"#   DeepGEMM: {np.exp(-product_errors(list(fitted.constants.values()), alone)).round(2)}"
        if engine is None:
            yield from (f"#   {line}" for line in others(fitted, balanced))
            if dtype == "fp8_block":
                for alpha in ("1.01", "1.2"):
                    drawn = [round(popularity(float(alpha), tokens), 1) for tokens in (128, 1024, 8192)]
                    yield f"#   power law {alpha}: popularity_scv of 128, 1,024 and 8,192 tokens {drawn}"
                    yield from (f"#     {line}" for line in skewed(fitted, rows, alpha))


def main() -> None:
    """Fit, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", default=list(FAMILIES), help=f"of {', '.join(FAMILIES)}")
    parser.add_argument("--engines", action="store_true", help="a set of kernels for each engine, too")
    asked = parser.parse_args()
    for family in asked.families:
        every = read(family)
        for engine in (None, *(ENGINES if asked.engines else ())):
            for line in report(family, engine, every):
                sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
