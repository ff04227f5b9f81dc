"""Validate predictions on measured servers: predicted rows, error statistics, and coverage of intervals."""

from __future__ import annotations

import difflib
import os
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from inference_econ import _work
from inference_econ._answer import Shown
from inference_econ.answers.assess import RunPrediction
from inference_econ.engine import Interval, UnlikeReason, interval, unlike_reasons
from inference_econ.errors import InputError
from inference_econ.extras.servers import measurements
from inference_econ.extras.servers.accuracy import (
    Accuracy,
    by_group,
    calibration_behind,
    deployment_key,
    measured_subject,
    was_fitted,
)
from inference_econ.extras.servers.fit import by_chance
from inference_econ.extras.servers.levels import misfit_of, with_version
from inference_econ.extras.servers.measurements import MeasuredServer, Measurement, Skipped
from inference_econ.extras.servers.prediction.predict import Prediction, predict
from inference_econ.extras.servers.result_files import RESULT_ENDINGS
from inference_econ.extras.servers.validation import SERVERS
from inference_econ.inputs import Assumptions, ErrorSpread, catalog
from inference_econ.inputs import Quantity as Fitted
from inference_econ.inputs.engine import profiles
from inference_econ.records.plain import Frame, frame_of, spreadsheet_cell
from inference_econ.records.texts import ENGINE_NAMES

#: Reason for the exclusion of a repeated row.
REPEATED = "repeats a row: same subject, demand and results"
#: Prefixes of other reasons for exclusion.
SPECULATION, SPOILT = "speculation: ", "spoilt run: "


@dataclass(frozen=True, slots=True)
class Quantity:
    """Quantity that measurements and predictions have in common.

    Attributes
    ----------
    name, title : str
        Name in records, and title in tables.
    field : str
        Field of :class:`Measurement` and :class:`Prediction`.
    of : str
        Kind of load: all servers, ``idle`` or ``loaded`` servers, or static batches.
    """

    name: str
    title: str
    field: str
    of: Literal["servers", "idle", "loaded", "batches"] = "servers"


_OF_SERVERS = (
    Quantity("tpot", "TPOT", "tpot_seconds"),
    Quantity("ttft_without_load", "TTFT without load", "ttft_seconds", "idle"),
    Quantity("ttft_under_load", "TTFT under load", "ttft_seconds", "loaded"),
    Quantity("request_latency", "request latency", "request_seconds"),
    Quantity("output_rate", "output tokens/s per accelerator", "output_tokens_per_second_per_accelerator"),
    Quantity("input_rate", "input tokens/s per accelerator", "input_tokens_per_second_per_accelerator"),
    Quantity("total_rate", "total tokens/s per accelerator", "total_tokens_per_second_per_accelerator"),
)
_TTFT_OF_BATCHES = Quantity("ttft_of_batches", "TTFT of static batches", "ttft_seconds", "batches")
#: Quantities of servers, followed by quantities of static batches.
QUANTITIES = (
    *_OF_SERVERS,
    _TTFT_OF_BATCHES,
    *(
        Quantity(f"{kind.name}_of_batches", f"{kind.title}, static batches", kind.field, "batches")
        for kind in _OF_SERVERS
        if kind.field != _TTFT_OF_BATCHES.field
    ),
)

#: Target of a fit, by field of a prediction. Input, output and total rates of a run have fixed ratios, so they share a
#: target.
_FITTED: dict[str, Fitted] = {
    "tpot_seconds": "tpot",
    "ttft_seconds": "ttft",
    "request_seconds": "request",
    "output_tokens_per_second_per_accelerator": "throughput",
    "input_tokens_per_second_per_accelerator": "throughput",
    "total_tokens_per_second_per_accelerator": "throughput",
}


@dataclass(frozen=True, slots=True)
class File:
    """Rows of one measurement file.

    Attributes
    ----------
    unit : str
        Unit of latencies: ``ms`` or ``s``.
    published : tuple
        Published number and unit of each row; None if there is no single number.
    found : tuple of Measurement or Skipped
        Converted rows.
    """

    unit: Literal["ms", "s"]
    published: tuple[tuple[str, str] | None, ...]
    found: tuple[Measurement | Skipped, ...]


@dataclass(frozen=True)
class InputRow:
    """Row of a file with its prediction.

    Attributes
    ----------
    dataset : str
        Name of the file.
    number : int
        Row number, from 1.
    id : str
        Name or number of the row.
    measurement : Measurement or None
        Measurement; None if unusable.
    prediction : Prediction or None
        Prediction.
    skipped : str
        Reason for a missing prediction; empty if there is one.
    apart : str
        Reason why the row is excluded from error statistics; empty if it is included.
    assumptions : Assumptions or None
        Assumptions of the prediction; None without a measurement.
    fitted : bool or None
        True if the assumptions were fitted to the deployment; None if unknown.
    """

    dataset: str
    number: int
    id: str
    measurement: Measurement | None
    prediction: Prediction | None
    skipped: str
    apart: str
    assumptions: Assumptions | None = None
    fitted: bool | None = False

    @property
    def idle(self) -> bool:
        """True if latencies are those of a server without load, according to the prediction or else the measurement."""
        if self.prediction is not None and not self.skipped:
            return self.prediction.idle
        return self.measurement is not None and (self.measurement.concurrency or 2.0) <= 1.0

    @property
    def assumed(self) -> str:
        """Assumptions about unrecorded settings; empty if all are recorded."""
        return "" if self.prediction is None else self.prediction.assumed

    @property
    def rounds(self) -> str:
        """Assumptions about unrecorded facts of speculation; empty if all are recorded."""
        return "" if self.prediction is None else self.prediction.rounds

    def measured(self, quantity: Quantity) -> float | None:
        """Measured value in base units; None if missing, or if the row has another kind of load than the quantity."""
        if self.measurement is None or (self.measurement.load == "batch") != (quantity.of == "batches"):
            return None
        if quantity.of in ("idle", "loaded") and self.idle != (quantity.of == "idle"):
            return None
        value: float | None = getattr(self.measurement, quantity.field)
        return value

    def predicted(self, quantity: Quantity) -> float | None:
        """Predicted value in base units; None if missing."""
        value: float | None = None if self.prediction is None else getattr(self.prediction, quantity.field)
        return value

    def interval(self, field: str) -> Interval | None:
        """80% interval of a predicted field [base units]; None if unknown.

        The interval is unknown if the layout was assumed or the server speculates, because no fit covers such rows.
        """
        value: float | None = None if self.prediction is None else getattr(self.prediction, field)
        around = None if value is None else self._around[_FITTED[field]]
        return None if value is None or around is None else Interval(value * around.low, value * around.high)

    @cached_property
    def _around(self) -> Mapping[Fitted, Interval | None]:
        """80% intervals of measured over predicted values, by target of a fit."""
        if self.assumptions is None or self.measurement is None or self.assumed or self.measurement.speculates:
            return dict.fromkeys(_FITTED.values())
        subjects = [measured_subject(self.measurement, self.assumptions.levels)]
        return {name: interval(1.0, self.assumptions, name, subjects=subjects) for name in set(_FITTED.values())}

    @property
    def unlike(self) -> list[UnlikeReason]:
        """Reasons why the row is outside the calibration data, including assumptions and a memory shortage.

        See :func:`inference_econ.engine.uncertainty.unlike_reasons`.
        """
        if self.measurement is None or self.assumptions is None:
            return []
        found = unlike_reasons(measured_subject(self.measurement, self.assumptions.levels), self.assumptions)
        if self.prediction is not None and self.prediction.shortage:
            found = [UnlikeReason("more memory is needed than there is", self.prediction.shortage, "layout"), *found]
        if self.assumed:
            found = [UnlikeReason("layout is not recorded", f"assumed: {self.assumed}", "layout"), *found]
        return found

    @property
    def outside(self) -> list[str]:
        """Reasons why the row is outside the calibration data, as text with numbers."""
        return [reason.text for reason in self.unlike]


@dataclass(frozen=True, slots=True)
class Coverage:
    """Number of rows by state [1]."""

    read: int
    """Rows in the files."""
    mapped: int
    """Rows with a known model and chip."""
    repeats: int
    """Repeated rows among those with a known model and chip."""
    speculative: int
    """Rows with recorded or suspected speculation that are not repeats; they are reported separately."""
    spoilt: int
    """Rows without speculation, not repeats, that are much slower than another run of the same configuration."""
    plain: int
    """Included rows: neither repeated, speculative nor invalid."""
    predicted: int
    """Included rows with a prediction."""
    assumed: int
    """Predicted rows whose layout was not recorded and is assumed."""


@dataclass(frozen=True, slots=True)
class Servers:
    """Rows of files with their predictions under one set of assumptions.

    Attributes
    ----------
    assumptions : str
        Name of a preset, or ``by hardware`` if chosen per row.
    rows : tuple of InputRow
        Rows in file order.
    files : tuple of File
        Files from which the rows were read.
    """

    assumptions: str
    rows: tuple[InputRow, ...]
    files: tuple[File, ...]

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of the files, in order."""
        return tuple(dict.fromkeys(row.dataset for row in self.rows))

    def counted(self) -> list[InputRow]:
        """Included rows: measurements without repeats, speculation and invalid runs."""
        return [row for row in self.rows if row.measurement is not None and not row.apart]

    def split(self) -> dict[str, list[InputRow]]:
        """Included rows: all, and separately fitted and other rows if any were fitted."""
        rows = self.counted()
        fitted = [row for row in rows if row.fitted]
        others = [row for row in rows if row.fitted is False]
        return {"all": rows, "fitted": fitted, "not fitted": others} if fitted else {"all": rows}

    def speculative(self) -> list[InputRow]:
        """Rows with recorded or suspected speculation."""
        return [row for row in self.rows if row.apart.startswith(SPECULATION)]

    def coverage(self, dataset: str | None = None) -> Coverage:
        """Number of rows by state, in one file or in all."""
        rows = [row for row in self.rows if dataset in (None, row.dataset)]
        mapped = [row for row in rows if row.measurement is not None]
        plain = [row for row in mapped if not row.apart]
        repeats = sum(row.apart == REPEATED for row in mapped)
        spoilt = sum(row.apart.startswith(SPOILT) for row in mapped)
        speculative = len(mapped) - len(plain) - repeats - spoilt
        predicted = sum(not row.skipped for row in plain)
        assumed = sum(bool(row.assumed) for row in plain)
        return Coverage(len(rows), len(mapped), repeats, speculative, spoilt, len(plain), predicted, assumed)

    def reasons(self) -> dict[str, list[InputRow]]:
        """Rows without a prediction by reason, most frequent first."""
        by_reason: dict[str, list[InputRow]] = {}
        for row in self.rows:
            if row.skipped:
                by_reason.setdefault(row.skipped, []).append(row)
        return dict(sorted(by_reason.items(), key=lambda item: -len(item[1])))


#: Approximate maximum time to predict a row [s].
_ROW_SECONDS = 0.02
#: Name of assumptions that are chosen per row.
BY_HARDWARE = "by hardware"

#: Functions that return the group of a row, by name of the grouping key.
GROUPS: dict[str, Callable[[Measurement], str]] = {
    "dataset": lambda row: row.dataset,
    "hardware": lambda row: row.hardware,
    "model": lambda row: row.model,
    "engine": lambda row: row.engine or "not recorded",
    "load": lambda row: f"{row.load}, disaggregated" if row.decode is not None else row.load,
    "source": lambda row: row.source,
    "quality": lambda row: row.quality or "not graded",
    "speculation": lambda row: row.speculation,
}


def read_files(sources: Sequence[str | Path], server: MeasuredServer | None = None) -> tuple[File, ...]:
    """Read every row of files.

    Parameters
    ----------
    sources : sequence of str or path
        Names of :data:`inference_econ.extras.servers.measurements.SHIPPED`, or paths of similar files.
    server : MeasuredServer, optional
        Facts about the server that results of load generators lack.

    Raises
    ------
    InputError
        If a file is invalid, or a name is unknown.
    """
    files = []
    for source in sources:
        path = catalog.server_files()[str(source)] if str(source) in measurements.SHIPPED else Path(source)
        rows = tuple(measurements.read_measurements(path, server))
        if path.suffix.lower() in RESULT_ENDINGS:
            files.append(File("ms", (None,) * len(rows), rows))
            continue
        kind, cells = measurements.cells(path)
        measured = kind == "measurements"
        published = [(cell.get("value", ""), cell.get("unit", "")) for cell in cells]
        is_number = [kind == "points" or (measured and bool(value)) for value, _ in published]
        units = {unit for (_, unit), single in zip(published, is_number, strict=True) if not single}
        seconds = kind == "InferenceMAX runs" or (measured and bool(units) and units <= {"", "s"})
        numbers = (cell if single else None for cell, single in zip(published, is_number, strict=True))
        files.append(File("s" if seconds else "ms", tuple(numbers), rows))
    return tuple(files)


def predict_files(files: Sequence[File], assumptions: str | None = None, *, levels: bool = True) -> Servers:
    """Predict every row of files, under a preset by name or path, or else the profile for each row.

    Without ``levels``, measured corrections are not applied.
    """
    served = [server for file in files for server in file.found]
    if assumptions is not None:
        # calibrate fits factors of own measurements for the version that predictions use.
        served = [
            with_version(server)
            if isinstance(server, Measurement) and server.dataset not in measurements.SHIPPED
            else server
            for server in served
        ]
    only = None if assumptions is None else _with(catalog.assumptions(assumptions), levels=levels)

    def under(row: Measurement) -> Assumptions:
        return only or of_hardware(row.hardware, row.engine, levels=levels)

    behind = None if only is None else calibration_behind(only)
    usable = [server for server in served if isinstance(server, Measurement)]
    _work.check(f"{len(usable):,} measured servers", seconds=_ROW_SECONDS * len(usable), smaller="datasets")
    processes = os.cpu_count() or 1
    predictions = iter(predict(usable, under, processes=processes))
    kept = {id(server) for server in measurements.distinct(usable)}
    numbers: Counter[str] = Counter()
    rows = []
    for server in served:
        numbers[server.dataset] += 1
        place = (server.dataset, numbers[server.dataset], server.id)
        if isinstance(server, Skipped):
            rows.append(InputRow(*place, None, None, server.reason, ""))
        else:
            prediction, assumed = next(predictions), under(server)
            apart = REPEATED if id(server) not in kept else f"{SPOILT}{server.spoilt}" if server.spoilt else ""
            if server.speculates and apart != REPEATED:
                apart = f"{SPECULATION}{server.speculation}"
            fitted = was_fitted(server, behind if only else calibration_behind(assumed))
            rows.append(InputRow(*place, server, prediction, prediction.skipped, apart, assumed, fitted))
    return Servers(BY_HARDWARE if assumptions is None else assumptions, tuple(rows), tuple(files))


def predicted_run(
    path: str | Path, server: MeasuredServer, accelerators: int, assumptions: str | None = None
) -> RunPrediction | None:
    """Predict the only run of a result file (see :func:`predict_files`); None if it cannot be predicted.

    Parameters
    ----------
    path : str or path
        Result of a load generator, or metrics of a server.
    server : MeasuredServer
        Facts about one instance.
    accelerators : int
        Number of GPUs of all instances [1].
    assumptions : str, optional
        Preset by name or path; by default the profile of the measured engine.
    """
    rows = [
        replace(row, accelerators=accelerators)
        for row in measurements.read_measurements(path, server)
        if isinstance(row, Measurement)
    ]
    if len(rows) != 1:
        return None
    (row,) = predict_files([File("ms", (None,), tuple(rows))], assumptions).rows
    tpot, ttft = (getattr(row.prediction, field) for field in ("tpot_seconds", "ttft_seconds"))
    if row.assumptions is None or tpot is None or ttft is None:
        return None
    return RunPrediction(row.assumptions, tpot, row.interval("tpot_seconds"), ttft, row.interval("ttft_seconds"))


@cache
def of_hardware(hardware: str, engine: str, *, levels: bool = True) -> Assumptions:
    """Default assumptions for measurements: the profile of the engine on the chip's generation, cached.

    The cache avoids the copies that the catalog makes.
    """
    name = profiles.name_for(catalog.hardware(hardware).generation, engine)
    return _with(catalog.assumptions(name), levels=levels)


def _with(assumptions: Assumptions, *, levels: bool) -> Assumptions:
    return assumptions if levels else assumptions.model_copy(update={"levels": None})


def scores(rows: Iterable[InputRow], quantity: Quantity, by: Sequence[str] = ()) -> dict[tuple[str, ...], Accuracy]:
    """Error statistics of one quantity by groups.

    Parameters
    ----------
    rows : iterable of InputRow
        Included rows.
    quantity : Quantity
        Quantity to evaluate. Rows without this quantity are ignored.
    by : sequence of str
        Keys of :data:`GROUPS`; empty for one group.

    Returns
    -------
    dict
        Accuracy by the values of the keys, largest groups first.

    Raises
    ------
    InputError
        If a key is unknown.
    """
    check_groups(by)
    names, measured, predicted = [], [], []
    for row in rows:
        value, guess = row.measured(quantity), row.predicted(quantity)
        if value is not None and row.measurement is not None:
            names.append("\0".join(GROUPS[key](row.measurement) for key in by))
            measured.append(value)
            predicted.append(guess)
    by_name = by_group(names, measured, predicted)
    ordered = sorted(by_name.items(), key=lambda item: -item[1].rows)
    return {tuple(name.split("\0")) if by else (): errors for name, errors in ordered}


def overall(rows: Iterable[InputRow], quantity: Quantity) -> Accuracy | None:
    """Error statistics of a quantity over all rows with this quantity; None without rows. See :func:`scores`."""
    return next(iter(scores(rows, quantity).values()), None)


class Inside(NamedTuple):
    """Coverage of 80% intervals."""

    held: int
    """Number of values inside their interval [1]."""
    known: int
    """Number of values that have an interval [1]."""
    width: float | None
    """Median ratio of the upper to the lower end of the intervals [1]; None without intervals."""
    runs: tuple[int, ...]
    """Number of values of each deployment and engine version, whose errors are correlated [1]."""


def inside(rows: Iterable[InputRow], quantity: Quantity) -> Inside:
    """Coverage and width of the 80% intervals of a quantity."""
    ends = [(row, row.measured(quantity), row.interval(quantity.field)) for row in rows]
    bounded = [(row, value, where) for row, value, where in ends if value is not None and where is not None]
    width = statistics.median(where.high / where.low for _, _, where in bounded) if bounded else None
    held = sum(where.low <= value <= where.high for _, value, where in bounded)
    return Inside(held, len(bounded), width, runs_of(row for row, _, _ in bounded))


def runs_of(rows: Iterable[InputRow]) -> tuple[int, ...]:
    """Number of rows of each deployment and engine version [1]."""
    measured = (row.measurement for row in rows if row.measurement is not None)
    return tuple(Counter((deployment_key(row), row.engine_version) for row in measured).values())


def check_groups(by: Iterable[str]) -> None:
    """Reject unknown keys to group by.

    Raises
    ------
    InputError
        If a key is unknown; the message lists the most similar keys.
    """
    for key in by:
        if key not in GROUPS:
            near = difflib.get_close_matches(key, list(GROUPS), n=2)
            hint = f"did you mean {' or '.join(near)}? " if near else ""
            raise InputError(f"cannot group by {key!r}; {hint}possible: {', '.join(GROUPS)}")


#: Notes on included rows and their predictions.
NOTES = (
    "Each run counts once, even if it was repeated. Runs with recorded or suspected speculation are in a separate "
    "table. Rows that cannot be mapped to a server are left out.",
    "A TTFT is 'without load' in three cases: a batch of one, at most one concurrent request per replica, or random "
    "arrivals whose prompts take less than a tenth of the server's time. All others are 'under load'.",
    "In a closed loop, the first requests arrive at once. If the length of the run is known, predicted TTFTs include "
    "this first round. Predictions use the statistic that was measured (mean or median).",
)
#: Units of latencies per second.
_UNITS = {"s": 1.0, "ms": 1e3}
_LATENCIES = {"ttft": "ttft_seconds", "tpot": "tpot_seconds", "request": "request_seconds"}
_RATES = {
    "output_tok_per_s_per_gpu": "output_tokens_per_second_per_accelerator",
    "total_tok_per_s_per_gpu": "total_tokens_per_second_per_accelerator",
}
#: Fields that the column ``value`` may contain, in order of preference.
_VALUES = (
    "output_tokens_per_second_per_accelerator", "input_tokens_per_second_per_accelerator",
    "total_tokens_per_second_per_accelerator", "request_seconds", "ttft_seconds", "tpot_seconds",
)  # fmt: skip


def servers_record(report: Servers, by: Sequence[str] = ()) -> dict[str, object]:
    """Report as plain data."""
    parts: dict[str, dict[str, object]] = {}
    for which, rows_of_part in report.split().items():
        parts[which] = {}
        for quantity, accuracy in by_quantity(rows_of_part):
            where = inside(rows_of_part, quantity)
            held = {"with_interval": where.known, "inside": where.held, "interval_width": where.width}
            parts[which][quantity.name] = {**accuracy.record(), **held}
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
        "parts": parts,
        "speculative": {quantity.name: accuracy.record() for quantity, accuracy in by_quantity(report.speculative())},
        "groups": groups,
        "skipped": {reason: len(rows) for reason, rows in report.reasons().items()},
        "rows": list(lines(report)),
        "notes": list(NOTES),
    }


def lines(report: Servers) -> Iterator[dict[str, object]]:
    """Yield a record per input row, with predictions in the units of the files, or the reason for a missing prediction.

    Intervals are 80% prediction intervals. Intervals are null for quantities to which no constants were fitted.
    ``outside`` lists the reasons why a row is outside the calibration data.
    """
    published = [(file.unit, value) for file in report.files for value in file.published]
    units = list(dict.fromkeys(file.unit for file in report.files))
    points = any(value is not None for _, value in published)
    for row, (unit_of_file, value) in zip(report.rows, published, strict=True):
        line: dict[str, object] = {"id": row.id, "row": row.number, "dataset": row.dataset}
        line |= {name: getattr(row.measurement, name, None) for name in ("model", "hardware")}
        # The column is empty if the profile depends on a name that is unknown.
        of_row = "" if row.assumptions is None else row.assumptions.name
        line["assumptions"] = of_row if report.assumptions == BY_HARDWARE else report.assumptions
        for unit in units:
            for name, field in _LATENCIES.items():
                line |= _cells(row, f"{name}_{unit}", field if unit == unit_of_file else "", _UNITS[unit])
        for name, field in _RATES.items():
            line |= _cells(row, name, field, 1.0)
        if points:
            line |= _cells(row, "value", "", 1.0) if value is None else _value(row, *value)
            line["unit"] = "" if value is None else value[1]
        skipped = bool(row.skipped)
        line |= {
            "assumed": row.assumed or row.rounds,
            "fitted": row.fitted,
            "outside": "; ".join(reasons_outside(report, row)),
        }
        yield {**line, "skipped": skipped, "counted": not (skipped or row.apart), "reason": row.skipped or row.apart}


def _cells(row: InputRow, name: str, field: str, factor: float) -> dict[str, float | None]:
    """Measured value, predicted value and interval of a field; all None if ``field`` is empty."""
    where = row.interval(field) if field else None
    ends = (None, None) if where is None else (where.low, where.high)
    values = (getattr(row.measurement, field, None), getattr(row.prediction, field, None), *ends)
    names = (f"measured_{name}", *(f"predicted_{name}{end}" for end in ("", "_low", "_high")))
    return {name: None if value is None else factor * value for name, value in zip(names, values, strict=True)}


def _value(row: InputRow, published: str, unit: str) -> dict[str, float | None]:
    """Prediction and interval in the unit of a published number."""
    for field in _VALUES:
        measured = None if row.measurement is None else getattr(row.measurement, field)
        if measured is None:
            continue
        value = float(published.replace(",", ""))
        if not (field.endswith("_seconds") and unit.lower().startswith("tok")):
            return _cells(row, "value", field, value / measured)
        # A time per token is converted to tokens per second, which swaps the ends of the interval.
        times = _cells(row, "value", field, 1.0 / (value * measured))
        low, high = "predicted_value_low", "predicted_value_high"
        times[low], times[high] = times[high], times[low]
        return {name: None if time is None else 1.0 / time for name, time in times.items()}
    return _cells(row, "value", "", 1.0)


def reasons_outside(report: Servers, row: InputRow) -> list[str]:
    """Reasons why a row is outside the calibration data of its assumptions, or why calibration data are missing."""
    if row.assumptions is None or row.assumptions.calibration is not None:
        return row.outside
    chosen = report.assumptions != BY_HARDWARE
    unfitted = f"{row.assumptions.name} was fitted to no measured server" if chosen else "no profile for the chip"
    return [unfitted, *row.outside]


def by_quantity(rows: Sequence[InputRow]) -> Iterator[tuple[Quantity, Accuracy]]:
    """Yield each measured quantity with its error statistics."""
    for quantity in QUANTITIES:
        for accuracy in scores(rows, quantity).values():
            yield quantity, accuracy


#: Quantities by name.
BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}
#: Quantities whose intervals are validated, with their names in profiles.
JUDGED: Mapping[str, Fitted] = {"tpot": "tpot", "ttft_under_load": "ttft", "output_rate": "throughput"}
_UNEXPLAINED = "no fact explains"
#: Number of rows with an interval, coverage, median ratio of the interval ends, and the range of coverage that random
#: variation allows if the true coverage is 80% [1].
Held = dict[str, Any]
_NONE: Held = {"rows": 0, "inside": None, "width": None, "by_chance": None}
#: Rows by engine and chip generation.
Slices = Mapping[tuple[str, str], Sequence[InputRow]]


def slices(report: Servers) -> Slices:
    """Included rows of known engines on chips with a profile, by engine and generation."""
    parts: dict[tuple[str, str], list[InputRow]] = {}
    for row in report.counted():
        measured = row.measurement
        if measured is not None and measured.engine in ENGINE_NAMES:
            generation = profiles.generation_of(catalog.hardware(measured.hardware))
            if generation:
                parts.setdefault((measured.engine, generation), []).append(row)
    return {key: parts[key] for key in sorted(parts)}


def interval_record(report: Servers) -> list[dict[str, Any]]:
    """Coverage of 80% intervals by engine, chip generation and quantity; see :data:`Held`."""
    behind: dict[str, list[InputRow]] = {}
    for row in report.counted():
        if row.fitted and row.assumptions is not None:
            behind.setdefault(row.assumptions.name, []).append(row)
    lines = []
    for (engine, chips), rows in slices(report).items():
        parts: dict[str, list[InputRow]] = {"fitted": [], "not fitted": [], _UNEXPLAINED: []}
        for row in rows:
            parts[_interval_part(row)].append(row)
        intervals = {which: {name: _held(part, BY_NAME[name]) for name in JUDGED} for which, part in parts.items()}
        profile = next((row.assumptions for row in rows if row.assumptions is not None), None)
        fitted = [] if profile is None else behind.get(profile.name, [])
        intervals["left out"] = {name: _left_out(profile, name, fitted) for name in JUDGED}
        for which, cells in intervals.items():
            if any(cell["rows"] for cell in cells.values()):
                lines.append({"engine": engine, "chips": chips, "which": which, **cells})
    return lines


def _interval_part(row: InputRow) -> str:
    """Part of the interval table with this row: fitted rows, other rows, or rows of unexplained outlier series."""
    measured = row.measurement
    if row.fitted or measured is None:
        return "fitted"
    return _UNEXPLAINED if misfit_of(measured) else "not fitted"


def _held(rows: Iterable[InputRow], quantity: Quantity) -> Held:
    where = inside(rows, quantity)
    if not where.known:
        return _NONE
    chance = by_chance(where.runs)
    return {"rows": where.known, "inside": where.held / where.known, "width": where.width, "by_chance": chance}


def _left_out(profile: Assumptions | None, name: str, fitted: Iterable[InputRow]) -> Held:
    """Cross-validated coverage for left-out deployments, as recorded in a profile for all of its engines."""
    errors: Mapping[Fitted, ErrorSpread] = {}
    if profile is not None and profile.calibration is not None:
        errors = profile.calibration.errors.get("traffic", {})
    spread = errors.get(JUDGED[name])
    if spread is None or spread.covered is None:
        return _NONE
    field = BY_NAME[name].field
    runs = runs_of(row for row in fitted if row.measurement is not None and getattr(row.measurement, field))
    chance = by_chance(runs) if runs else None
    return {"rows": spread.own or spread.rows, "inside": spread.covered, "width": spread.width, "by_chance": chance}


@dataclass(frozen=True, repr=False)
class Validated(Shown):
    """Predictions of measured servers under one or several presets."""

    page = "extras.servers.pages.servers:ValidationPage"

    servers: tuple[Servers, ...]
    """Predicted rows, for each preset."""

    def record(self, keys: Sequence[str] = ()) -> list[dict[str, object]]:
        """One record per preset, with errors also grouped by the given keys."""
        return [{**servers_record(report, keys), "intervals": interval_record(report)} for report in self.servers]

    def records(self) -> list[dict[str, object]]:
        """One record per row and preset."""
        return [line for report in self.servers for line in lines(report)]

    def to_frame(self) -> Frame:
        """One line per row; numbers have ten digits.

        Predictions are in the units of their files. Predictions have 80% intervals, or the reason why there is none.
        """
        records = self.records()
        columns = list(dict.fromkeys(name for record in records for name in record))
        return frame_of([[spreadsheet_cell(record.get(name)) for name in columns] for record in records], columns)


def validate(
    data: str | Path | Sequence[str | Path] = (),
    *,
    assumptions: str | Sequence[str] = (),
    server: MeasuredServer | None = None,
) -> Validated:
    """Compare predictions with measured servers (``inference_econ.validate``).

    Parameters
    ----------
    data : str, Path or sequence of these
        Files of measurements, results of load generators, or names of shipped files; all shipped files by default.
    assumptions : str or sequence of str
        Presets by name or path; by default the profile of each row's engine and chip.
    server : MeasuredServer, optional
        Facts about the server that results of load generators lack.

    Returns
    -------
    Validated
        Errors, coverage, and rows without a prediction.

    Raises
    ------
    InputError
        If a file or a name is invalid.
    """
    sources = [data] if isinstance(data, (str, Path)) else list(data) or list(SERVERS)
    names: list[str | None] = [assumptions] if isinstance(assumptions, str) else list(assumptions) or [None]
    files = read_files(sources, server)
    return Validated(tuple(predict_files(files, name) for name in names))
