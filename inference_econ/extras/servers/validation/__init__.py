"""Predictions beside measurements: every set of data that the model is held against."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

from inference_econ.errors import UnknownNameError
from inference_econ.extras.servers.validation._report import TABLE, Compared, ComparedPoint, Dataset, Form, Report, read
from inference_econ.inputs import catalog

__all__ = ["DATASETS", "SERVERS", "ComparedPoint", "Dataset", "Form", "Report", "dataset", "validate"]


#: Sets of measurements by the name that the command line takes.
DATASETS: Mapping[str, Dataset] = {name: Dataset(name, **entry) for name, entry in TABLE["dataset"].items()}
#: Measured servers by the names of their files: :mod:`.servers` predicts them together.
SERVERS: Mapping[str, str] = TABLE["servers"]


def dataset(name: str) -> Dataset:
    """A set of measurements by its name.

    Raises
    ------
    UnknownNameError
        With the nearest names.
    """
    if name not in DATASETS:
        near = difflib.get_close_matches(name, [*DATASETS, *SERVERS], n=2)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        names = ", ".join([*DATASETS, *SERVERS])
        raise UnknownNameError(
            f"unknown dataset {name!r}; {hint}known: {names}; or a file of measured servers (.csv, .json)"
        )
    return DATASETS[name]


def validate(name: str, *, file: Path | str | None = None, assumptions: Sequence[str] = ()) -> Report:
    """Predict every row of a set of measurements.

    Parameters
    ----------
    name : str
        A key of :data:`DATASETS`.
    file : path or str, optional
        A CSV file with the columns of a shipped one, instead of them.
    assumptions : sequence of str
        Presets by name or path, or names of models of collectives, side by side; by default those of the dataset.

    Returns
    -------
    Report
        With a point for every row and each of the assumptions, whether it could be predicted or not.

    Raises
    ------
    InputError
        If a name is unknown, or the file cannot be used.
    """
    measured = dataset(name)
    path = catalog.folder("scenarios") / "measured" / f"{measured.files[0]}.csv" if file is None else Path(file)
    names = tuple(dict.fromkeys(assumptions)) or tuple(measured.assumptions)
    # What predicts is loaded when it is used.
    compared: Compared = import_module(f"{__name__}._{name}").compared(read(path, measured.columns), names)
    notes = (*compared[1], *measured.notes, *compared[2])
    return Report(name, measured.title.format(path.name), tuple(compared[0]), notes, measured.form)
