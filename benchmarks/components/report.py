"""Rows of measured components, and the report of their predictions."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.compared_point import ComparedPoint
from inference_econ.errors import InputError, UnitError
from inference_econ.extras.servers.accuracy import Accuracy, accuracy, by_group
from inference_econ.extras.servers.measurements import Cells, UnusableRowError
from inference_econ.inputs import Assumptions, catalog, read_text, units
from inference_econ.records.plain import attributes


@dataclass(frozen=True, slots=True)
class Report:
    """Measurements of one dataset with their predictions.

    Attributes
    ----------
    dataset : str
        Name of the dataset.
    title : str
        Title.
    points : sequence of ComparedPoint
        One point per row and assumptions.
    notes : tuple of str
        Notes on the rows and predictions.
    form : str
        ``errors`` by kind of row, or ``listed`` for few and dissimilar rows.
    """

    dataset: str
    title: str
    points: Sequence[ComparedPoint]
    notes: tuple[str, ...] = ()
    form: str = "errors"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Names of all assumptions, in order."""
        return tuple(dict.fromkeys(point.assumptions for point in self.points))

    def record(self) -> dict[str, object]:
        """Report as plain data."""
        errors: dict[str, object] = {}
        for name in self.assumptions:
            points = [point for point in self.points if point.assumptions == name]
            by_series = {series: accuracy.record() for series, accuracy in accuracies_of(points).items()}
            of_parts = {which: accuracy_of(part).record() for which, part in parts_of(points)}
            errors[name] = {**of_parts, "series": by_series}
        return {**attributes(self, "dataset title"), "errors": errors, "points": self.records(), "notes": [*self.notes]}

    def records(self) -> list[dict[str, object]]:
        """One record per point."""
        columns = "id series subject assumptions fitted unit measured predicted log_error note"
        return [{"dataset": self.dataset, **attributes(point, columns)} for point in self.points]


#: Result of a dataset's module: points, and notes before and after those of the dataset.
Compared = tuple[Sequence[ComparedPoint], Sequence[str], Sequence[str]]


def parts_of(points: Sequence[ComparedPoint]) -> Iterator[tuple[str, Sequence[ComparedPoint]]]:
    """Groups of points: all; and if some were fitted, also fitted ones and others separately."""
    yield "all rows", points
    fitted = [point for point in points if point.fitted]
    if fitted:
        yield "fitted to", fitted
    if fitted and len(fitted) < len(points):
        yield "others", [point for point in points if not point.fitted]


def accuracy_of(points: Sequence[ComparedPoint]) -> Accuracy:
    """Error statistics of points."""
    return accuracy([point.measured for point in points], [point.predicted for point in points])


def accuracies_of(points: Sequence[ComparedPoint]) -> dict[str, Accuracy]:
    """Error statistics of points by series."""
    measured, predicted = [point.measured for point in points], [point.predicted for point in points]
    return by_group([point.series for point in points], measured, predicted)


class NumberedRow(Cells):
    """Row with its position in the file. An invalid number is an input error.

    Attributes
    ----------
    where : str
        File and line.
    id : str
        Name of the row, or its line.
    """

    def __init__(self, cells: dict[str, str], path: Path, line: int) -> None:
        super().__init__(cells)
        self.where = f"{path}:{line}"
        self.id = self.text("id") or f"line {line}"

    def number(self, column: str) -> float | None:
        """Positive number of a cell; None if blank.

        Raises
        ------
        InputError
            If the cell contains another text.
        """
        try:
            return super().number(column)
        except UnusableRowError as error:
            raise InputError(f"{self.where}: {error}") from None

    def quantity(self, value: float, unit: str) -> float:
        """Convert a number from the unit of the row to a base unit.

        Raises
        ------
        InputError
            If the unit of the row cannot be converted, for example seconds to bytes.
        """
        try:
            return units.parse_quantity(f"{value:.17g} {self.text('unit')}", unit)
        except UnitError as error:
            raise UnitError(f"{self.where}: {error}") from None


def read_rows(path: Path, columns: Sequence[str]) -> list[NumberedRow]:
    """Read all rows of a CSV file.

    Parameters
    ----------
    path : Path
        The file.
    columns : sequence of str
        Required columns; others are ignored.

    Raises
    ------
    InputError
        If the file is unreadable or empty, or lacks a column.
    """
    try:
        text = read_text(path, encoding="utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""), restval="", strict=True)
        header = reader.fieldnames or ()
        lines = [(reader.line_num, cells) for cells in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a CSV file in UTF-8 ({error})") from error
    if not header:
        raise InputError(f"{path}: empty; a line of column names and a line for each measurement are needed")
    missing = [column for column in columns if column not in header]
    if missing:
        raise InputError(f"{path}: lacks the columns {', '.join(missing)}; needed are {', '.join(columns)}")
    if not lines:
        raise InputError(f"{path}: holds no measurements, only column names")
    return [NumberedRow({name: text for name, text in cells.items() if name}, path, at) for at, cells in lines]


def preset(name: str) -> Assumptions:
    """Preset by name or path, or ``deployable`` with the collective model of that name.

    Raises
    ------
    InputError
        If neither exists.
    """
    if name not in catalog.part_names("collectives"):
        return catalog.assumptions(name)
    # The model applies to every chip, without exceptions for families.
    return catalog.assumptions("deployable", changes=[f"network.collectives={name}", "per_family={}"])
