"""Measured servers beside predictions as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from inference_econ.calibration.accuracy import Accuracy
from inference_econ.calibration.validation.bound import Violation
from inference_econ.calibration.validation.rows import QUANTITIES, Quantity, Row, Servers
from inference_econ.calibration.validation.servers import BY_HARDWARE, inside, scores
from inference_econ.records.plain import attributes

#: How rows are counted and predicted, for people.
NOTES = (
    "Counted are rows that are understood, once each: repeats of a run count once, and runs with speculation, recorded "
    "or suspected, count apart.",
    "Without load are TTFTs of a batch of one, of at most one request per replica at a time, and of random arrivals "
    "whose prompts take less than a tenth of the server's time; all others are under load.",
    "TTFTs of closed loops are predicted with the round in which all requests come at once, where a run's length is "
    "known; means and medians as they were measured.",
)
#: Seconds times this are a unit of latencies.
_UNITS = {"s": 1.0, "ms": 1e3}
_LATENCIES = {"ttft": "ttft_seconds", "tpot": "tpot_seconds", "request": "request_seconds"}
_RATES = {
    "output_tok_per_s_per_gpu": "output_tokens_per_second_per_accelerator",
    "total_tok_per_s_per_gpu": "total_tokens_per_second_per_accelerator",
}
#: Fields that the column ``value`` of a kind of file can hold, the first that is measured counts.
_VALUES = (
    "output_tokens_per_second_per_accelerator", "input_tokens_per_second_per_accelerator",
    "total_tokens_per_second_per_accelerator", "request_seconds", "ttft_seconds", "tpot_seconds",
)  # fmt: skip


def servers_record(report: Servers, by: Sequence[str] = ()) -> dict[str, object]:
    """A report as plain data."""
    groups = [
        {key: value, "quantity": quantity.name, **accuracy.record()}
        for key in by
        for quantity in QUANTITIES
        for (value,), accuracy in scores(report.counted(), quantity, (key,)).items()
    ]
    return {
        "dataset": "servers",
        "assumptions": report.assumptions,
        "datasets": {name: asdict(report.coverage(name)) for name in report.datasets},
        "coverage": asdict(report.coverage()),
        "errors": {quantity.name: accuracy.record() for quantity, accuracy in by_quantity(report.counted())},
        "parts": {
            which: {quantity.name: _part(part, quantity, accuracy) for quantity, accuracy in by_quantity(part)}
            for which, part in report.split().items()
        },
        "speculative": {quantity.name: accuracy.record() for quantity, accuracy in by_quantity(report.speculative())},
        "groups": groups,
        "skipped": {reason: len(rows) for reason, rows in report.reasons().items()},
        "rows": list(lines(report)),
        "notes": list(NOTES),
    }


def bound_record(violations: Sequence[Violation]) -> dict[str, object]:
    """Measurements that beat the bound as plain data."""
    return {"dataset": "bound", "beyond": [_violation_record(violation) for violation in violations]}


def _violation_record(violation: Violation) -> dict[str, object]:
    quantity, numbers = violation.quantity.name, attributes(violation, "measured bound factor")
    return {**attributes(violation.row, "id dataset"), "quantity": quantity, **numbers, "diagnosis": violation.why}


def lines(report: Servers) -> Iterator[dict[str, object]]:
    """Yield a record of every row of the input, in its order: predictions in the units of files, or why there is none.

    Intervals hold 80 % of such measurements; they are null for quantities that the assumptions were not fitted to.
    ``outside`` says why a row is unlike what they were fitted to.
    """
    published = [(file.unit, value) for file in report.files for value in file.published]
    units = list(dict.fromkeys(file.unit for file in report.files))
    points = any(value is not None for _, value in published)
    for row, (unit_of_file, value) in zip(report.rows, published, strict=True):
        line: dict[str, object] = {"id": row.id, "row": row.number, "dataset": row.dataset}
        line |= {name: getattr(row.measurement, name, None) for name in ("model", "hardware")}
        line["assumptions"] = _assumptions(report, row)
        for unit in units:
            for name, field in _LATENCIES.items():
                heading = f"{name}_{unit}"
                line |= _cells(row, heading, field, _UNITS[unit]) if unit == unit_of_file else _empty(heading)
        for name, field in _RATES.items():
            line |= _cells(row, name, field, 1.0)
        if points:
            line |= _empty("value") if value is None else _value(row, *value)
            line["unit"] = "" if value is None else value[1]
        skipped = bool(row.skipped)
        line |= {
            "assumed": row.assumed or row.rounds,
            "fitted": row.fitted,
            "outside": "; ".join(reasons_outside(report, row)),
        }
        yield {**line, "skipped": skipped, "counted": not (skipped or row.apart), "reason": row.skipped or row.apart}


def _cells(row: Row, name: str, field: str, factor: float) -> dict[str, float | None]:
    value = None if row.prediction is None else getattr(row.prediction, field)
    measured = None if row.measurement is None else getattr(row.measurement, field)
    where = row.interval(field)
    return {
        f"measured_{name}": None if measured is None else factor * measured,
        f"predicted_{name}": None if value is None else factor * value,
        f"predicted_{name}_low": None if where is None else factor * where.low,
        f"predicted_{name}_high": None if where is None else factor * where.high,
    }


def _empty(name: str) -> dict[str, float | None]:
    return dict.fromkeys((f"measured_{name}", *(f"predicted_{name}{end}" for end in ("", "_low", "_high"))))


def _value(row: Row, published: str, unit: str) -> dict[str, float | None]:
    """A prediction and its interval in the unit of a published number."""
    for field in _VALUES:
        measured = None if row.measurement is None else getattr(row.measurement, field)
        if measured is None:
            continue
        value = float(published.replace(",", ""))
        if not (field.endswith("_seconds") and unit.lower().startswith("tok")):
            return _cells(row, "value", field, value / measured)
        # The speed of one user: tokens per second, of a time per token; the slowest is the longest.
        times = _cells(row, "value", field, 1.0 / (value * measured))
        low, high = "predicted_value_low", "predicted_value_high"
        times[low], times[high] = times[high], times[low]
        return {name: None if time is None else 1.0 / time for name, time in times.items()}
    return _empty("value")


def _assumptions(report: Servers, row: Row) -> str:
    """Name of the assumptions of a row; empty if they depend on something that nobody understood."""
    if report.assumptions != BY_HARDWARE:
        return report.assumptions
    return "" if row.assumptions is None else row.assumptions.name


def reasons_outside(report: Servers, row: Row) -> list[str]:
    """Reasons for which a row is unlike those that its assumptions were fitted to, if they were."""
    if row.assumptions is None or row.assumptions.calibration is not None:
        return row.outside
    chosen = report.assumptions != BY_HARDWARE
    unfitted = f"{row.assumptions.name} was fitted to no measured server" if chosen else "no profile for the chip"
    return [unfitted, *row.outside]


def by_quantity(rows: Sequence[Row]) -> Iterator[tuple[Quantity, Accuracy]]:
    """Yield each quantity that some rows have, with its errors."""
    for quantity in QUANTITIES:
        for accuracy in scores(rows, quantity).values():
            yield quantity, accuracy


def _part(rows: Sequence[Row], quantity: Quantity, accuracy: Accuracy) -> dict[str, object]:
    where = inside(rows, quantity)
    return {**accuracy.record(), "with_interval": where.known, "inside": where.held, "interval_width": where.width}
