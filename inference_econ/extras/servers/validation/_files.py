"""Rows of a file of measurements, and the assumptions to predict them under."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from inference_econ.errors import InputError
from inference_econ.extras.servers.measurements import Cells, UnusableRowError
from inference_econ.inputs import Assumptions, catalog, read_text


class NumberedRow(Cells):
    """One row, which knows where it stands: what should be a number and is none is the user's error.

    Attributes
    ----------
    where : str
        File and line.
    id : str
        Of the row, or its line.
    """

    def __init__(self, cells: dict[str, str], path: Path, line: int) -> None:
        super().__init__(cells)
        self.where = f"{path}:{line}"
        self.id = self.text("id") or f"line {line}"

    def number(self, column: str) -> float | None:
        """A positive number; None if blank.

        Raises
        ------
        InputError
            If it is anything else.
        """
        try:
            return super().number(column)
        except UnusableRowError as error:
            raise InputError(f"{self.where}: {error}") from None


def read(path: Path, columns: Iterable[str]) -> list[NumberedRow]:
    """All rows of a CSV file.

    Parameters
    ----------
    path : Path
        The file.
    columns : iterable of str
        What it must have; further columns do no harm.

    Raises
    ------
    InputError
        If it cannot be read, has no rows, or lacks a column.
    """
    needed = tuple(columns)
    try:
        text = read_text(path, encoding="utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""), restval="", strict=True)
        header = reader.fieldnames or ()
        lines = [(reader.line_num, cells) for cells in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a CSV file in UTF-8 ({error})") from error
    if not header:
        raise InputError(f"{path}: empty; a line of column names and a line for each measurement are needed")
    missing = [column for column in needed if column not in header]
    if missing:
        raise InputError(f"{path}: lacks the columns {', '.join(missing)}; needed are {', '.join(needed)}")
    if not lines:
        raise InputError(f"{path}: holds no measurements, only column names")
    return [NumberedRow({name: text for name, text in cells.items() if name}, path, at) for at, cells in lines]


def preset(name: str) -> Assumptions:
    """Assumptions by the name of a preset or its path; or ``deployable`` with the model of collectives of that name.

    Raises
    ------
    InputError
        If there is neither.
    """
    if name not in catalog.part_names("collectives"):
        return catalog.assumptions(name)
    # For every chip: without exceptions for families.
    return catalog.assumptions("deployable", changes=[f"network.collectives={name}", "per_family={}"])
