"""Tables whose columns are the fields of a measurement: the form of all that comes with the package."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, get_args

from inference_econ.calibration.measurements._names import (
    cache_format,
    compiled,
    engine_name,
    format_in_name,
    format_name,
    hardware_name,
    model_name,
    prefill_first,
    served,
)
from inference_econ.calibration.measurements._record import Load, Measurement, Pool
from inference_econ.calibration.measurements._rows import Row, UnusableRowError

#: Columns that a table of this kind has at least; the others are blank where they are missing.
NEEDED = ("model", "hardware", "accelerators", "isl", "osl", "load", "concurrency", "ttft_seconds", "tpot_seconds")
#: Columns that are no fields: the number and the unit of what was published, and why a row is no measurement.
_BESIDE = ("value", "unit", "unusable")
#: Between remarks in their column.
BETWEEN = " | "
POOLS = ("prefill", "decode")
#: Readers of numbers and switches by the types of their fields; all others have a reader of their own below.
_BY_TYPE: Mapping[str, Callable[[Row, str], float | bool | None]] = {
    "int | None": Row.whole,
    "float | None": Row.number,
    "float": lambda row, column: row.amount(column) or 0.0,
    "bool": lambda row, column: row.switch(column) or False,
}
_NUMBERS = {
    field.name: _BY_TYPE[str(field.type)] for field in dataclasses.fields(Measurement) if field.type in _BY_TYPE
}
_NUMBERS |= {"isl": Row.needed, "spread": Row.amount}


def columns() -> tuple[str, ...]:
    """Return every column: the fields of a measurement in their order, a pool's with its name before them."""
    parts = [field.name for field in dataclasses.fields(Pool)]
    names: list[str] = []
    for field in dataclasses.fields(Measurement):
        if field.name in POOLS:
            names += [f"{field.name}_{part}" for part in parts]
        elif field.name != "dataset":
            names.append(field.name)
    return (*names, *_BESIDE)


def measurement(row: Row, common: Mapping[str, Any]) -> Measurement:
    """Return the measurement of a row.

    Raises
    ------
    UnusableRowError
        If a cell cannot be what its column holds, or the row itself says that it is none.
    """
    if reason := row.text("unusable"):
        raise UnusableRowError(reason)
    row.number("value")  # as it was published, for whoever shows it again
    written, chip = row.text("model"), hardware_name(row.text("hardware"))
    name = model_name(written)
    # A name of the catalogue says nothing of a format that its weights would not have by themselves.
    format_written = row.text("weights") or ("" if name == written else format_in_name(written))
    name, weights = served(name, chip, format_written)
    engine, version = engine_name(row.text("engine"))
    version = row.text("engine_version") or version
    first, whole = row.switch("prefill_first"), row.switch("compiled")
    numbers: dict[str, Any] = {column: read(row, column) for column, read in _NUMBERS.items()}
    numbers["prefill_first"] = prefill_first(engine, version) if first is None else first
    numbers["compiled"] = compiled(engine, version) if whole is None else whole
    remarks = row.text("remarks")
    return Measurement(
        **common,
        **numbers | _layout(row),
        engine=engine,
        engine_version=version,
        ran=row.text("ran"),
        model=name,
        hardware=chip,
        weights=weights,
        kv=cache_format(format_name(row.text("kv")), chip),
        load=_one_of(row, "load", get_args(Load), "unknown"),
        statistic=_one_of(row, "statistic", ("median", "mean"), "median"),
        speculation=row.words("speculation") or "unrecorded",
        spoilt=row.text("spoilt"),
        unknown=row.text("unknown"),
        remarks=tuple(remarks.split(BETWEEN)) if remarks else (),
    )


def _layout(row: Row) -> dict[str, Any]:
    """Accelerators and degrees, or pools."""
    pools = {name: _pool(row, name) for name in POOLS}
    if (pools["prefill"] is None) != (pools["decode"] is None):
        missing = next(name for name, pool in pools.items() if pool is None)
        raise UnusableRowError(f"{missing}_tp is blank: of two pools both are needed")
    tp, dp, pp, accelerators = (row.whole(column) for column in ("tp", "dp", "pp", "accelerators"))
    if tp is not None:
        dp, pp = dp or 1, pp or 1
        accelerators = accelerators or tp * dp * pp
        if accelerators % (tp * dp * pp):
            raise UnusableRowError(f"{accelerators} accelerators are no multiple of tp {tp} x dp {dp} x pp {pp}")
    elif accelerators is None and pools["decode"] is None:
        raise UnusableRowError("the number of accelerators is not recorded")
    elif accelerators is None:
        sizes = [pool.accelerators for pool in pools.values() if pool is not None]
        accelerators = sum(size for size in sizes if size) if all(sizes) else None
    return {"accelerators": accelerators, "tp": tp, "dp": dp, "pp": pp, **pools}


def _pool(row: Row, name: str) -> Pool | None:
    """A pool; None if its tensor parallelism is blank."""
    parts = {field.name: row.whole(f"{name}_{field.name}") for field in dataclasses.fields(Pool)}
    if parts["tp"] is None:
        return None
    return Pool(**parts | {degree: parts[degree] or 1 for degree in ("tp", "dp", "pp")})  # type: ignore[arg-type]


def _one_of(row: Row, column: str, allowed: tuple[str, ...], usual: str) -> Any:
    """The word of a cell; the usual one if it is blank."""
    word = row.text(column) or usual
    if word not in allowed:
        raise UnusableRowError(f"{column} must be {', '.join(allowed[:-1])} or {allowed[-1]}, got {word!r}")
    return word
