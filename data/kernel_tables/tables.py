"""Public tables of measured kernels in the wheel ``aiconfigurator-core``, and the fit of curves to them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from inference_econ._types import Array
from inference_econ.engine import Setup
from inference_econ.inputs import HardwareSpec, catalog

#: Chips of the tables to which curves are fitted: catalog names by names in the tables, by family.
FAMILIES: Mapping[str, Mapping[str, str]] = {
    "hopper": {"h100_sxm": "h100_sxm", "h200_sxm": "h200_sxm"},
    "blackwell": {"b200_sxm": "b200", "gb200": "gb200_nvl72"},
    "ada": {"l40s": "l40s"},
    "blackwell_geforce": {"rtx_pro_6000_server": "rtx_pro_6000"},
    "ampere": {"a100_sxm": "a100_sxm_80"},
}
#: Names of chip generations in sentences.
CALLED = {
    "hopper": "Hopper",
    "blackwell": "Blackwell",
    "ada": "Ada",
    "blackwell_geforce": "Blackwell cards without NVLink",
    "ampere": "Ampere",
}
#: Share of its peak that a math unit sustains. The best dense products reach 0.80 of H100's peak (kernels.csv, MAMF).
SUSTAINED = 0.8
WHEEL = "aiconfigurator-core 0.12.0"
#: Minimum number of shapes for a curve, and maximum number of shapes in a fit [1].
FEWEST, MOST = 200, 2500
#: Share of the bandwidth at which activations are moved [1]. The gather of tokens has multiples of this traffic.
MOVED = 0.85


@dataclass(frozen=True, slots=True)
class Fitted:
    """Fitted constants of a curve, with its errors."""

    constants: Mapping[str, float]
    errors: Array

    def line(self, *parts: str) -> str:
        """Constants as an entry of a file, with additional parts."""
        digits = {name: float(f"{value:.3g}") for name, value in self.constants.items()}
        return f"{{{', '.join([*(f'{name}: {value:g}' for name, value in digits.items()), *filter(None, parts)])}}}"

    @property
    def spread(self) -> str:
        """Text with the number of shapes and the errors."""
        median, p90 = (100 * np.quantile(np.abs(self.errors), share) for share in (0.5, 0.9))
        return f"{len(self.errors)} shapes, median error {median:.0f} %, p90 {p90:.0f} %"


def tables(kind: str, name: str) -> Iterator[tuple[str, str, Path]]:
    """Chip, engine and file of every table with a name, of a kind (``moe``, ``gemm``), in the wheel."""
    spec = importlib.util.find_spec("aiconfigurator_core")
    if spec is None or spec.origin is None:
        raise SystemExit("aiconfigurator-core is not installed; 'sh run.sh refit kernels' does it")
    for path in sorted((Path(spec.origin).parent / "systems" / "data").glob(f"*/{kind}/*/*/{name}_perf.parquet")):
        yield path.parts[-5], path.parts[-3], path


def read(kind: str, family: str, columns: Sequence[str], name: str | None = None) -> pd.DataFrame:
    """Rows of a chip family for every engine and version, with seconds.

    By default, the table has the name of its kind.
    """
    parts = [
        pd.read_parquet(path).reindex(columns=list(columns)).assign(chip=chip, engine=engine, version=path.parts[-2])
        for chip, engine, path in tables(kind, name or kind)
        if chip in FAMILIES[family]
    ]
    if not parts:
        return pd.DataFrame(columns=[*columns, "chip", "engine", "version", "seconds"])
    rows = pd.concat(parts, ignore_index=True)
    return rows.assign(seconds=rows["latency"] * 1e-3)


def newest(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the newest version of each engine that has enough shapes."""
    counts = rows.groupby(["engine", "version"]).size()
    last = counts[counts >= FEWEST].reset_index().groupby("engine")["version"].last()
    return rows[rows["version"] == rows["engine"].map(last)]


def chips(family: str, dtype: str) -> dict[str, HardwareSpec]:
    """Chips of a family by their names in the tables; empty if the chips have no math unit for a format."""
    known = {name: catalog.hardware(one) for name, one in FAMILIES[family].items()}
    units = {"nvfp4": "fp4", "fp8": "fp8", "fp8_block": "fp8"}
    wanted = units.get(dtype, "bf16")
    return known if all(wanted in chip.dense_flops_per_second for chip in known.values()) else {}


def peak(chip: HardwareSpec, dtype: str) -> float:
    """Peak of the math unit that engines use for a format [FLOP/s]."""
    setup = Setup.of("qwen3_30b_a3b", chip, weights=dtype, assumptions="deployable")
    return setup.peaks[setup.rates.unit(dtype)]


def unit(family: str, dtype: str) -> str:
    """Math unit of a family's chips as a part of an entry; empty if the fp32 rate is unknown."""
    known = [
        peak(chip, dtype) / chip.dense_flops_per_second["fp32"]
        for chip in chips(family, dtype).values()
        if "fp32" in chip.dense_flops_per_second
    ]
    if not known:
        return ""
    (vendor,) = {chip.vendor for chip in chips(family, dtype).values()}
    return f"unit: {{vendor: {vendor}, efficiency: {SUSTAINED:g}, per_vector: {sum(known) / len(known):.4g}}}"


def overlapped(worked: Any, moved: Any, overlap: float) -> Array:
    """Time of arithmetic and memory traffic, if a share of the shorter one overlaps with the longer [s]."""
    return np.asarray(np.maximum(worked, moved) + (1.0 - overlap) * np.minimum(worked, moved))


def solve(
    predicted: Callable[[Array], Array],
    seconds: Array,
    sources: npt.NDArray[np.intp],
    bounds: Mapping[str, Sequence[float]],
    beside: Callable[[Array], Array] | None = None,
    most_beside: float = 3e-4,
) -> Fitted:
    """Constants with the smallest errors of the logarithm; each source has a fixed additional time.

    ``bounds`` are the minimum, the maximum and the start value of each constant. ``beside`` are additional errors to
    minimize; together they have the weight of the tables. The additional time of a source is at most ``most_beside``
    [s].
    """
    from scipy.optimize import least_squares

    count, floors = len(bounds), int(sources.max()) + 1

    def errors(logs: Array) -> Array:
        return np.asarray(np.log((predicted(np.exp(logs[:count])) + np.exp(logs[count:])[sources]) / seconds))

    def residuals(logs: Array) -> Array:
        found = errors(logs)
        if beside is None:
            return found
        others = beside(np.exp(logs[:count]))
        return np.concatenate([found, np.sqrt(len(found) / len(others)) * others])

    low, high, start = (
        np.log([*column, *[each] * floors])
        for column, each in zip(zip(*bounds.values(), strict=True), (1e-7, most_beside, most_beside / 2), strict=True)
    )
    result = least_squares(residuals, start, bounds=(low, high), loss="soft_l1", f_scale=0.1, max_nfev=80)
    return Fitted(dict(zip(bounds, np.exp(result.x[:count]).tolist(), strict=True)), errors(result.x))
