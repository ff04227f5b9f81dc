"""Measured servers beside predictions: which rows are compared, in which quantities, and by which groups."""

from __future__ import annotations

import difflib
import os
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from inference_econ import _work
from inference_econ.calibration import measurements
from inference_econ.calibration.accuracy import Accuracy, by_group
from inference_econ.calibration.measurements import MeasuredServer, Measurement, Skipped
from inference_econ.calibration.prediction.predict import predict
from inference_econ.calibration.result_files import RESULT_ENDINGS
from inference_econ.calibration.rows import calibration_behind, deployment_key, was_fitted
from inference_econ.calibration.validation._report import ComparedPoint
from inference_econ.calibration.validation.rows import (
    QUANTITIES,
    REPEATED,
    SPECULATION,
    SPOILT,
    File,
    Quantity,
    Row,
    Servers,
)
from inference_econ.errors import InputError
from inference_econ.inputs import Assumptions, catalog, profiles

#: What the prediction of a row takes at most, about [s].
_ROW_SECONDS = 0.02
#: What assumptions are called that are chosen row by row.
BY_HARDWARE = "by hardware"

#: What rows can be grouped by.
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


def servers(
    sources: Sequence[str | Path],
    assumptions: str | None = None,
    *,
    server: MeasuredServer | None = None,
) -> Servers:
    """Predict every row of some files of measured servers.

    Parameters
    ----------
    sources : sequence of str or path
        Names of :data:`inference_econ.calibration.measurements.SHIPPED`, or paths of files like them.
    assumptions : str, optional
        Name of a preset or its path; by default what fits the hardware of a row.
    server : MeasuredServer, optional
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
    return held(read(sources, server), assumptions)


def read(sources: Sequence[str | Path], server: MeasuredServer | None = None) -> tuple[File, ...]:
    """Every row of some files; see :func:`servers`."""
    return tuple(_file(source, server) for source in sources)


def _file(source: str | Path, server: MeasuredServer | None) -> File:
    path = catalog.server_files()[str(source)] if str(source) in measurements.SHIPPED else Path(source)
    rows = tuple(measurements.read(path, server))
    if path.suffix.lower() in RESULT_ENDINGS:
        return File("ms", (None,) * len(rows), rows)
    kind, cells = measurements.cells(path)
    measured = kind == "measurements"
    published = tuple(
        _published(cell) if kind == "points" or (measured and cell.get("value")) else None for cell in cells
    )
    units = {_published(cell)[1] for cell, number in zip(cells, published, strict=True) if number is None}
    seconds = kind == "InferenceMAX runs" or (measured and bool(units) and units <= {"", "s"})
    return File("s" if seconds else "ms", published, rows)


def _published(cell: Mapping[str, str]) -> tuple[str, str]:
    """The number that a row is, and its unit."""
    return cell.get("value", ""), cell.get("unit", "")


def held(files: Sequence[File], assumptions: str | None = None, *, levels: bool = True) -> Servers:
    """Rows that have been read beside their predictions; see :func:`servers`.

    Without ``levels`` it does not count by how much measured servers differ from their profile.
    """
    served = [server for file in files for server in file.found]
    only = None if assumptions is None else _with(catalog.assumptions(assumptions), levels=levels)

    def usual(hardware: str, engine: str) -> Assumptions:
        return of_hardware(hardware, engine, levels=levels)

    behind = None if only is None else calibration_behind(only)
    usable = [server for server in served if isinstance(server, Measurement)]
    _work.check(f"{len(usable):,} measured servers", seconds=_ROW_SECONDS * len(usable), smaller="datasets")
    processes = os.cpu_count() or 1
    predictions = iter(predict(usable, lambda row: only or usual(row.hardware, row.engine), processes=processes))
    kept = {id(server) for server in measurements.distinct(usable)}
    numbers: Counter[str] = Counter()
    rows = []
    for server in served:
        numbers[server.dataset] += 1
        place = (server.dataset, numbers[server.dataset], server.id)
        if isinstance(server, Skipped):
            rows.append(Row(*place, None, None, server.reason, ""))
        else:
            prediction, under = next(predictions), only or usual(server.hardware, server.engine)
            apart = _apart(server, repeated=id(server) not in kept)
            fitted = was_fitted(server, behind if only else calibration_behind(under))
            rows.append(Row(*place, server, prediction, prediction.skipped, apart, under, fitted))
    return Servers(BY_HARDWARE if assumptions is None else assumptions, tuple(rows), tuple(files))


@cache
def of_hardware(hardware: str, engine: str, *, levels: bool = True) -> Assumptions:
    """The assumptions for measurements on a chip if none are named: the profile of its generation and the engine."""
    return _profile(profiles.name_for(catalog.hardware(hardware).generation, engine), levels=levels)


@cache
def _profile(name: str, *, levels: bool) -> Assumptions:
    """The catalogue copies what it gives; these are only looked at."""
    return _with(catalog.assumptions(name), levels=levels)


def _with(assumptions: Assumptions, *, levels: bool) -> Assumptions:
    return assumptions if levels else assumptions.model_copy(update={"levels": None})


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
    by_name = by_group(names, measured, predicted)
    ordered = sorted(by_name.items(), key=lambda item: -item[1].rows)
    return {tuple(name.split("\0")) if by else (): errors for name, errors in ordered}


def overall(rows: Iterable[Row], quantity: Quantity) -> Accuracy | None:
    """Errors of a quantity over all rows that have it; None if none has. See :func:`scores`."""
    return next(iter(scores(rows, quantity).values()), None)


class Inside(NamedTuple):
    """Measured values and the intervals of 80 % of their predictions."""

    held: int
    """Values inside of theirs [1]."""
    known: int
    """Values that have one [1]."""
    width: float | None
    """Median of highest over lowest value of an interval [1]; None without any."""
    runs: tuple[int, ...]
    """Values of each deployment under one version of its engine, which are held or not together [1]."""


def inside(rows: Iterable[Row], quantity: Quantity) -> Inside:
    """Number of measured values that are in the intervals of 80 % of their predictions, and how wide these are."""
    ends = [(row, row.measured(quantity), row.interval(quantity.field)) for row in rows]
    bounded = [(row, value, where) for row, value, where in ends if value is not None and where is not None]
    width = statistics.median(where.high / where.low for _, _, where in bounded) if bounded else None
    held = sum(where.low <= value <= where.high for _, value, where in bounded)
    return Inside(held, len(bounded), width, runs_of(row for row, _, _ in bounded))


def runs_of(rows: Iterable[Row]) -> tuple[int, ...]:
    """Rows of each deployment under one version of its engine [1]."""
    measured = (row.measurement for row in rows if row.measurement is not None)
    return tuple(Counter((deployment_key(row), row.engine_version) for row in measured).values())


def panels(report: Servers, by: str = "dataset") -> list[tuple[str, list[ComparedPoint]]]:
    """Pairs of measured and predicted values for pictures: one list per quantity that has any, in series by a key."""
    check_groups([by])
    pictures = []
    for quantity in QUANTITIES:
        unit = "tokens/s" if quantity.field.endswith("per_accelerator") else "s"
        points = [
            ComparedPoint(
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
            pictures.append((quantity.title, points))
    return pictures


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
        return REPEATED
    if row.speculates:
        return f"{SPECULATION}{row.speculation}"
    return f"{SPOILT}{row.spoilt}" if row.spoilt else ""
