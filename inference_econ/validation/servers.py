"""Measured servers beside predictions: which rows are compared, in which quantities, and by which groups."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from inference_econ import catalog, measurements, profiles
from inference_econ.accuracy import Accuracy, by_group
from inference_econ.calibration_rows import was_fitted
from inference_econ.errors import InputError
from inference_econ.measurements import Deployment, Measurement, Skipped
from inference_econ.prediction import Prediction, predict
from inference_econ.spec.assumptions import Assumptions
from inference_econ.spec.calibration import Quantity as Fitted
from inference_econ.uncertainty import Interval, interval, outside
from inference_econ.validation._report import Point

#: Speculation that a plain decode step stands for: none, or nothing known.
_PLAIN = ("none", "unrecorded")
_REPEATED = "repeats a row: same subject, demand and results"
#: Endings of results of load generators.
RESULTS = (".json", ".jsonl")
#: What assumptions are called that are chosen row by row.
BY_HARDWARE = "by hardware"


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something that is measured and predicted.

    Attributes
    ----------
    name, title : str
        For programs and for people.
    field : str
        Of :class:`Measurement` and :class:`Prediction`.
    idle : bool or None
        Only of servers that have hardly anything else to do, or only of others.
    """

    name: str
    title: str
    field: str
    idle: bool | None = None


QUANTITIES = (
    Quantity("tpot", "TPOT", "tpot_seconds"),
    Quantity("ttft_without_load", "TTFT without load", "ttft_seconds", idle=True),
    Quantity("ttft_under_load", "TTFT under load", "ttft_seconds", idle=False),
    Quantity("request_latency", "request latency", "request_seconds"),
    Quantity("output_rate", "output tokens/s per accelerator", "output_tokens_per_second_per_accelerator"),
    Quantity("input_rate", "input tokens/s per accelerator", "input_tokens_per_second_per_accelerator"),
    Quantity("total_rate", "total tokens/s per accelerator", "total_tokens_per_second_per_accelerator"),
)

#: What the errors of a fit are about, by the field of a prediction. Rates of a run are in fixed proportion.
_FITTED: dict[str, Fitted] = {
    "tpot_seconds": "tpot",
    "ttft_seconds": "ttft",
    "request_seconds": "request",
    "output_tokens_per_second_per_accelerator": "throughput",
    "input_tokens_per_second_per_accelerator": "throughput",
    "total_tokens_per_second_per_accelerator": "throughput",
}

#: What rows can be grouped by.
GROUPS: dict[str, Callable[[Measurement], str]] = {
    "dataset": lambda row: row.dataset,
    "hardware": lambda row: row.hardware,
    "model": lambda row: row.model,
    "engine": lambda row: row.engine or "not recorded",
    "load": lambda row: f"{row.load}, disaggregated" if row.decode is not None else row.load,
    "source": lambda row: row.source,
    "quality": lambda row: row.quality or "not graded",
}


@dataclass(frozen=True, slots=True)
class File:
    """Rows of one file.

    Attributes
    ----------
    kind : str
        Which columns it has, in words; empty for results of load generators.
    cells : tuple of dict
        Text by column.
    found : tuple of Measurement or Skipped
        What the rows say.
    """

    kind: str
    cells: tuple[dict[str, str], ...]
    found: tuple[Measurement | Skipped, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the input, in its order.

    Attributes
    ----------
    dataset : str
        Name of the file.
    number : int
        From 1.
    id : str
        Of the row, or its number.
    measurement : Measurement or None
        What it says; None if it is no usable measurement.
    prediction : Prediction or None
        Beside it.
    skipped : str
        Why there is no prediction; empty if there is one.
    apart : str
        Why it does not count with the others although it is predicted; empty if it does.
    assumptions : Assumptions or None
        That it is predicted under; None without a measurement.
    fitted : bool or None
        Whether these were fitted to its deployment; None if nobody knows.
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
        """Whether latencies are those without load; without a prediction, as far as the row itself says."""
        if self.prediction is not None and not self.skipped:
            return self.prediction.idle
        return self.measurement is not None and (self.measurement.concurrency or 2.0) <= 1.0

    @property
    def assumed(self) -> str:
        """What the row does not say and was chosen to predict it; empty if nothing was."""
        return "" if self.prediction is None else self.prediction.assumed

    def measured(self, quantity: Quantity) -> float | None:
        """Value in base units; None if there is none, or it belongs to the other kind of load."""
        if self.measurement is None or (quantity.idle is not None and quantity.idle != self.idle):
            return None
        value: float | None = getattr(self.measurement, quantity.field)
        return value

    def predicted(self, quantity: Quantity) -> float | None:
        """Value in base units; None if there is none."""
        value: float | None = None if self.prediction is None else getattr(self.prediction, quantity.field)
        return value

    def interval(self, field: str) -> Interval | None:
        """Where 80 % of such measurements are, by a field of the prediction [base units]; None if nobody knows.

        Nobody does where the layout had to be assumed: no fit has seen such rows.
        """
        value: float | None = None if self.prediction is None else getattr(self.prediction, field)
        if value is None or self.assumptions is None or self.measurement is None or self.assumed:
            return None
        return interval(value, self.assumptions, _FITTED[field], subject=self.measurement)

    @property
    def outside(self) -> list[str]:
        """What had to be assumed, and why it is unlike what was fitted: :func:`inference_econ.uncertainty.outside`."""
        if self.measurement is None or self.assumptions is None:
            return []
        assumed = [f"assumed: {self.assumed}"] if self.assumed else []
        return [*assumed, *outside(self.measurement, self.assumptions)]


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many rows take part [1]."""

    read: int
    """Rows of the input."""
    mapped: int
    """Understood, with a model and a chip of the catalogue."""
    repeats: int
    """Of these, that say what another says."""
    speculative: int
    """Of the others, with speculation, recorded or suspected: they count apart."""
    plain: int
    """The rest: what counts."""
    predicted: int
    """Of these."""
    assumed: int
    """Of the predicted ones, with a layout or numbers of workers that were chosen, as they are not recorded."""


@dataclass(frozen=True, slots=True)
class Servers:
    """Every row of some files beside its prediction under one set of assumptions.

    Attributes
    ----------
    assumptions : str
        Name of a preset, or :data:`BY_HARDWARE`.
    rows : tuple of Row
        In the order of the files.
    files : tuple of File
        Where they are from.
    """

    assumptions: str
    rows: tuple[Row, ...]
    files: tuple[File, ...]

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of the files, in order."""
        return tuple(dict.fromkeys(row.dataset for row in self.rows))

    def counted(self) -> list[Row]:
        """Rows that count: measurements that are neither repeats nor speculative."""
        return [row for row in self.rows if row.measurement is not None and not row.apart]

    def split(self) -> dict[str, list[Row]]:
        """Rows that count: all, and where some were fitted, those that were and were not."""
        rows = self.counted()
        fitted = [row for row in rows if row.fitted]
        others = [row for row in rows if row.fitted is False]
        return {"all": rows, "fitted": fitted, "not fitted": others} if fitted else {"all": rows}

    def speculative(self) -> list[Row]:
        """Rows with speculation, recorded or suspected."""
        return [row for row in self.rows if row.apart and row.apart != _REPEATED]

    def coverage(self, dataset: str | None = None) -> Coverage:
        """How many rows take part, of one file or of all."""
        rows = [row for row in self.rows if dataset in (None, row.dataset)]
        mapped = [row for row in rows if row.measurement is not None]
        plain = [row for row in mapped if not row.apart]
        repeats = sum(row.apart == _REPEATED for row in mapped)
        speculative = len(mapped) - len(plain) - repeats
        predicted = sum(not row.skipped for row in plain)
        assumed = sum(bool(row.assumed) for row in plain)
        return Coverage(len(rows), len(mapped), repeats, speculative, len(plain), predicted, assumed)

    def reasons(self) -> dict[str, list[Row]]:
        """Why rows have no prediction, the most frequent reason first."""
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            if row.skipped:
                found.setdefault(row.skipped, []).append(row)
        return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def servers(
    sources: Sequence[str | Path],
    assumptions: str | None = None,
    *,
    deployment: Deployment | None = None,
) -> Servers:
    """Predict every row of some files of measured servers.

    Parameters
    ----------
    sources : sequence of str or path
        Names of :data:`inference_econ.measurements.SHIPPED`, or paths of files like them.
    assumptions : str, optional
        Name of a preset or its path; by default what fits the hardware of a row.
    deployment : Deployment, optional
        What the server was; for result files of load generators only.

    Returns
    -------
    Servers
        With every row, whether it could be predicted or not.

    Raises
    ------
    InputError
        If a file cannot be used, or a name is unknown.
    """
    return held(read(sources, deployment), assumptions)


def read(sources: Sequence[str | Path], deployment: Deployment | None = None) -> tuple[File, ...]:
    """Every row of some files; see :func:`servers`."""
    return tuple(_file(source, deployment) for source in sources)


def _file(source: str | Path, deployment: Deployment | None) -> File:
    path = catalog.measured_files()[str(source)] if str(source) in measurements.SHIPPED else Path(source)
    found = tuple(measurements.read(path, deployment))
    if path.suffix.lower() in RESULTS:
        return File("", ({},) * len(found), found)
    kind, cells = measurements.cells(path)
    return File(kind, tuple(cells), found)


def held(files: Sequence[File], assumptions: str | None = None) -> Servers:
    """Rows that have been read beside their predictions; see :func:`servers`."""
    found = [one for file in files for one in file.found]
    only = None if assumptions is None else catalog.assumptions(assumptions)
    usable = [one for one in found if isinstance(one, Measurement)]
    predictions = iter(predict(usable, lambda row: only or usual(row.hardware, row.engine)))
    kept = {id(one) for one in measurements.distinct(usable)}
    numbers: Counter[str] = Counter()
    rows = []
    for one in found:
        numbers[one.dataset] += 1
        place = (one.dataset, numbers[one.dataset], one.id)
        if isinstance(one, Skipped):
            rows.append(Row(*place, None, None, one.reason, ""))
        else:
            prediction, under = next(predictions), only or usual(one.hardware, one.engine)
            apart = _apart(one, repeated=id(one) not in kept)
            rows.append(Row(*place, one, prediction, prediction.skipped, apart, under, was_fitted(one, under)))
    return Servers(BY_HARDWARE if assumptions is None else assumptions, tuple(rows), tuple(files))


@cache
def usual(hardware: str, engine: str) -> Assumptions:
    """The assumptions for measurements on a chip if none are named: the profile of its generation and the engine."""
    return profiles.for_hardware(hardware, engine)


def scores(rows: Iterable[Row], quantity: Quantity, by: Sequence[str] = ()) -> dict[tuple[str, ...], Accuracy]:
    """Errors of one quantity by groups.

    Parameters
    ----------
    rows : iterable of Row
        Those that count.
    quantity : Quantity
        Rows without it are left out.
    by : sequence of str
        Keys of :data:`GROUPS`; nothing for all in one group.

    Returns
    -------
    dict
        Values of the keys to errors, groups of most rows first.

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
            predicted.append(float("nan") if guess is None else guess)
    found = by_group(names, measured, predicted)
    ordered = sorted(found.items(), key=lambda item: -item[1].rows)
    return {tuple(name.split("\0")) if by else (): one for name, one in ordered}


def inside(rows: Iterable[Row], quantity: Quantity) -> tuple[int, int]:
    """How many measured values are in the intervals of 80 % of their predictions, and how many have one [1]."""
    found = [(row.measured(quantity), row.interval(quantity.field)) for row in rows]
    known = [(value, where) for value, where in found if value is not None and where is not None]
    return sum(where.low <= value <= where.high for value, where in known), len(known)


def panels(report: Servers, by: str = "dataset") -> list[tuple[str, list[Point]]]:
    """Pairs of measured and predicted values for pictures: one list per quantity that has any, in series by a key."""
    check_groups([by])
    found = []
    for quantity in QUANTITIES:
        unit = "tokens/s" if quantity.field.endswith("per_accelerator") else "s"
        points = [
            Point(
                id=row.id,
                series=GROUPS[by](row.measurement),
                subject=row.measurement.model,
                assumptions=report.assumptions,
                unit=unit,
                measured=row.measured(quantity),
                predicted=row.predicted(quantity),
            )
            for row in report.counted()
            if row.measurement is not None and row.measured(quantity) and row.predicted(quantity)
        ]
        if points:
            found.append((quantity.title, points))
    return found


def check_groups(by: Iterable[str]) -> None:
    """Refuse unknown keys to group by.

    Raises
    ------
    InputError
        With the nearest ones.
    """
    for key in by:
        if key not in GROUPS:
            near = difflib.get_close_matches(key, list(GROUPS), n=2)
            hint = f"did you mean {' or '.join(near)}? " if near else ""
            raise InputError(f"cannot group by {key!r}; {hint}possible: {', '.join(GROUPS)}")


def _apart(row: Measurement, *, repeated: bool) -> str:
    if repeated:
        return _REPEATED
    return "" if row.speculation in _PLAIN else f"speculation: {row.speculation}"
