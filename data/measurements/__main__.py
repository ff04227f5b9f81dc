"""Creation of the shipped tables of measured servers: ``sh run.sh refit measurements``; seconds.

Every published table is converted row by row to a table of the same name in ``scenarios/measured/servers``. The columns
are the fields of a measurement. Run the command after a change of a table, a fact on its source, a spelling or a
script. The measurements behind the profiles then change.
"""

from __future__ import annotations

import csv
import io
from dataclasses import fields
from pathlib import Path

from data.measurements.facts import PUBLISHED
from data.measurements.tables import collected
from inference_econ.extras.servers.measurements import Days, Measurement, RecordedPool, Skipped, cells
from inference_econ.extras.servers.measurements._record import BETWEEN, POOLS
from inference_econ.inputs import catalog

#: Published tables of servers by dataset name. The one under Poisson load also comes with the package. Its percentiles
#: and costs validate the analytical load model.
TABLES = {
    name: PUBLISHED / f"{name}.csv"
    for name in (
        *("serving_points", "inferencemax_aggregated", "inferencemax_disaggregated", "poisson_load_h100"),
        *("decode_points", "throughput_points", "ttft_points", "atom_points", "rocm_points"),
        "fresh_2026q4",
    )
} | {"poisson_load_a100": catalog.measured_files()["poisson_load_a100"]}
#: Units of latencies by kind of table.
_UNITS = {"whole servers": "ms", "InferenceMAX runs": "s", "disaggregated InferenceMAX runs": "s", "Poisson load": "ms"}


#: Columns that are not fields: number and unit of the published value, and the reason why a row is no measurement.
_BESIDE = ("value", "unit", "unusable")
#: Fields that no published table has, and that only the files of users contain.
_OF_USERS = ("dataset", "cached", "draft_tokens")


def columns() -> tuple[str, ...]:
    """Columns of the tables: the fields of a measurement in their order. Fields of a pool have its name as a prefix."""
    names: list[str] = []
    for entry in fields(Measurement):
        parts = [f"_{part.name}" for part in fields(RecordedPool)] if entry.name in POOLS else [""]
        names += [f"{entry.name}{part}" for part in parts if entry.name not in _OF_USERS]
    return (*names, *_BESIDE)


def table(path: Path) -> str:
    """Text of the table to which a published one is converted."""
    kind, published = cells(path)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns(), lineterminator="\n")
    writer.writeheader()
    for row, its in zip(collected(path), published, strict=True):
        beside = {"value": its.get("value", ""), "unit": _UNITS.get(kind) or its.get("unit", "")}
        writer.writerow(_line(row) | beside)
    return stream.getvalue()


def _line(row: Measurement | Skipped) -> dict[str, str]:
    if isinstance(row, Skipped):
        return {"id": row.id, "unusable": row.reason}
    line: dict[str, str] = {}
    for field in fields(row):
        value = getattr(row, field.name)
        if isinstance(value, RecordedPool):
            line |= {f"{field.name}_{part.name}": _text(getattr(value, part.name)) for part in fields(value)}
        elif field.name not in (*POOLS, *_OF_USERS):
            line[field.name] = _text(value)
    return line


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, Days):
        return f"{value.since}" if value.since == value.until else f"{value.since}..{value.until}"
    return "" if value is None else BETWEEN.join(value) if isinstance(value, tuple) else str(value)


def main() -> None:
    """Write all tables to the folder of the package."""
    folder = catalog.folder("scenarios") / "measured" / "servers"
    folder.mkdir(exist_ok=True)
    for name, path in TABLES.items():
        (folder / f"{name}.csv").write_text(table(path), encoding="utf-8")


if __name__ == "__main__":
    main()
