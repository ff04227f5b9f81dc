"""Public tables of measured kernels, those of the wheel ``aiconfigurator-core``, and how curves are fitted to them."""

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

#: Chips of the tables that curves are fitted to, by names in the tables and in the catalogue.
FAMILIES: Mapping[str, Mapping[str, str]] = {
    "hopper": {"h100_sxm": "h100_sxm", "h200_sxm": "h200_sxm"},
    "blackwell": {"b200_sxm": "b200", "gb200": "gb200_nvl72"},
    "ada": {"l40s": "l40s"},
    "blackwell_geforce": {"rtx_pro_6000_server": "rtx_pro_6000"},
    "ampere": {"a100_sxm": "a100_sxm_80"},
}
#: How generations are called in a sentence.
CALLED = {
    "hopper": "Hopper",
    "blackwell": "Blackwell",
    "ada": "Ada",
    "blackwell_geforce": "Blackwell cards without NVLink",
    "ampere": "Ampere",
}
#: Share of its peak that a maths unit sustains: the best dense products reach 0.80 of H100's (kernels.csv, MAMF).
SUSTAINED = 0.8
WHEEL = "aiconfigurator-core 0.12.0"
#: Fewer shapes say little of a curve, and more say nothing new.
FEWEST, MOST = 200, 2500
#: Share of the bandwidth at which activations are moved; of it tokens are gathered in multiples.
MOVED = 0.85


@dataclass(frozen=True, slots=True)
class Fitted:
    """Constants of a curve, and how far it is off."""

    constants: Mapping[str, float]
    errors: Array

    def line(self, *parts: str) -> str:
        """The constants as an entry of a file, with further parts of it."""
        digits = {name: float(f"{value:.3g}") for name, value in self.constants.items()}
        return f"{{{', '.join([*(f'{name}: {value:g}' for name, value in digits.items()), *filter(None, parts)])}}}"

    @property
    def spread(self) -> str:
        """Number of shapes and errors, for people."""
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
    """The rows of a family of chips, of every engine and version, with seconds; the table is called as its kind is."""
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
    """Of each engine the newest version with enough shapes."""
    counts = rows.groupby(["engine", "version"]).size()
    last = counts[counts >= FEWEST].reset_index().groupby("engine")["version"].last()
    return rows[rows["version"] == rows["engine"].map(last)]


def chips(family: str, dtype: str) -> dict[str, HardwareSpec]:
    """Chips of a family, by their names in the tables; none if they have no unit for a format."""
    known = {name: catalog.hardware(one) for name, one in FAMILIES[family].items()}
    units = {"nvfp4": "fp4", "fp8": "fp8", "fp8_block": "fp8"}
    wanted = units.get(dtype, "bf16")
    return known if all(wanted in chip.dense_flops_per_second for chip in known.values()) else {}


def peak(chip: HardwareSpec, dtype: str) -> float:
    """The peak of the maths unit that engines run a format on [FLOP/s]."""
    setup = Setup.of("qwen3_30b_a3b", chip, weights=dtype, assumptions="deployable")
    return setup.peaks[setup.rates.unit(dtype)]


def unit(family: str, dtype: str) -> str:
    """The maths unit of a family's chips as a part of an entry; nothing where a rate beside it is not known."""
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
    """Seconds of arithmetic and of memory, of which the shorter hides behind the longer by a share [s]."""
    return np.asarray(np.maximum(worked, moved) + (1.0 - overlap) * np.minimum(worked, moved))


def solve(
    predicted: Callable[[Array], Array],
    seconds: Array,
    sources: npt.NDArray[np.intp],
    bounds: Mapping[str, Sequence[float]],
    beside: Callable[[Array], Array] | None = None,
    most_beside: float = 3e-4,
) -> Fitted:
    """Constants of the smallest errors of the logarithm, with what each source takes beside as its own.

    ``bounds`` are the least and most of each constant, and where to start; ``beside`` are errors that are to be small,
    too, all of which count as much as those of the tables. Beyond ``most_beside`` [s] the curve has to say it.
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
