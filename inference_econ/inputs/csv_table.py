"""Reader of CSV tables of facts, whose errors name the line."""

from __future__ import annotations

import csv
import io
import typing
from collections.abc import Callable
from pathlib import Path

from inference_econ.errors import SpecError
from inference_econ.inputs import _yaml
from inference_econ.inputs.scope import read_text


def document(path: Path, key: str, value: Callable[[str, str], object]) -> _yaml.Document:
    """Read a table as a document that contains one list, with a mapping for each row; blank cells are omitted.

    Parameters
    ----------
    path : path
        CSV in UTF-8 whose first line has the column names.
    key : str
        Name of the list in the document and in messages.
    value : callable
        Function that converts the text of a cell, given its column name.

    Raises
    ------
    InputError
        If the file cannot be read.
    SpecError
        If the file is not CSV in UTF-8, or a row does not have one cell per column.
    """
    try:
        reader = csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True)
        rows, lines = [], {}
        for number, cells in enumerate(reader):
            lines[key, number] = (str(path), reader.line_num)
            if None in cells or None in cells.values():
                raise SpecError([f"{path}:{reader.line_num}: {len(reader.fieldnames or ())} cells are needed"])
            rows.append({name: value(name, text.strip()) for name, text in cells.items() if text.strip()})
    except (UnicodeDecodeError, csv.Error) as error:
        raise SpecError([f"{path}: not a CSV file in UTF-8 ({error})"]) from error
    data = typing.cast("dict[str, _yaml.Value]", {key: rows})
    return _yaml.Document(data, str(path), typing.cast("dict[_yaml.Location, tuple[str, int]]", lines))
