"""Comparison of predictions with measurements of parts of a deployment: collectives, memory, speculation, load, pools.

``python -m benchmarks.components`` writes docs/evidence/collectives.md; a name and a file print their comparison.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from benchmarks.components.report import Report, read_rows
from inference_econ.errors import UnknownNameError
from inference_econ.inputs import catalog

TABLE = tomllib.loads(Path(__file__).with_name("datasets.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Dataset:
    """Dataset: an entry of ``datasets.toml``. The module with its name predicts the rows.

    Attributes
    ----------
    name : str
        Name on the command line.
    description : str
        Description.
    files : sequence of str
        Shipped files below ``scenarios/measured``, without suffix.
    assumptions : sequence of str
        Default presets or collective models.
    title : str
        Title of the report, with the file name in braces.
    columns : sequence of str
        Required columns of a file.
    notes : sequence of str
        Notes on the predictions and the rows.
    form : str
        Form of the report.
    """

    name: str
    description: str
    files: Sequence[str]
    assumptions: Sequence[str]
    title: str
    columns: Sequence[str]
    notes: Sequence[str] = ()
    form: str = "errors"


#: Datasets by name.
DATASETS: Mapping[str, Dataset] = {name: Dataset(name, **entry) for name, entry in TABLE.items()}


def validate(name: str, *, file: Path | str | None = None, assumptions: Sequence[str] = ()) -> Report:
    """Predict every row of a dataset.

    Parameters
    ----------
    name : str
        Key of :data:`DATASETS`.
    file : path or str, optional
        CSV file with the columns of the shipped one, to replace it.
    assumptions : sequence of str
        Presets by name or path, or collective models; by default those of the dataset.

    Returns
    -------
    Report
        One point per row and assumptions, with or without a prediction.

    Raises
    ------
    InputError
        If a name is unknown, or the file is invalid.
    """
    measured = DATASETS.get(name)
    if measured is None:
        raise UnknownNameError(f"unknown dataset {name!r}; known: {', '.join(DATASETS)}")
    path = catalog.folder("scenarios") / "measured" / f"{measured.files[0]}.csv" if file is None else Path(file)
    names = tuple(dict.fromkeys(assumptions)) or tuple(measured.assumptions)
    points, before, after = import_module(f"{__name__}.{name}").compared(read_rows(path, measured.columns), names)
    notes = (*before, *measured.notes, *after)
    return Report(name, measured.title.format(path.name), tuple(points), notes, measured.form)
