"""Predictions beside measurements: every set of data that the model is held against."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from inference_econ.errors import UnknownNameError
from inference_econ.inputs import catalog

if TYPE_CHECKING:
    from inference_econ.extras.servers.validation._report import Report

TABLE = tomllib.loads(Path(__file__).with_name("datasets.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Dataset:
    """Measurements that a module of the same name predicts, an entry of ``datasets.toml``.

    Attributes
    ----------
    name : str
        As the command line takes it.
    description : str
        For people.
    files : sequence of str
        The files that come with the package, below ``scenarios/measured`` and without their suffix.
    assumptions : sequence of str
        Presets or models of collectives that are compared if none are named.
    title : str
        Of its report, with the name of the file in braces.
    columns : sequence of str
        Columns that a file of it must have.
    notes : sequence of str
        How its rows are predicted, and what is to be known of them.
    form : str
        How its rows are shown.
    """

    name: str
    description: str
    files: Sequence[str]
    assumptions: Sequence[str]
    title: str
    columns: Sequence[str]
    notes: Sequence[str] = ()
    form: str = "errors"


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
    from inference_econ.extras.servers.validation._report import Report, read_rows

    points, before, after = import_module(f"{__name__}._{name}").compared(read_rows(path, measured.columns), names)
    notes = (*before, *measured.notes, *after)
    return Report(name, measured.title.format(path.name), tuple(points), notes, measured.form)
