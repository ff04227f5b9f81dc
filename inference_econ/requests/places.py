"""Checks that the output files of a command overwrite no other file.

Output files must differ from each other, from inputs, and from files of a sweep.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from inference_econ.errors import InputError
from inference_econ.inputs import catalog
from inference_econ.records.files import SWEEP
from inference_econ.requests.kinds import PlaceKind
from inference_econ.requests.tables import Parameter


def check(parameters: Mapping[str, Parameter], values: Mapping[str, Any]) -> None:
    """Reject output files that would overwrite other files of the command.

    Parameters
    ----------
    parameters : mapping of str to Parameter
        Parameters of the command, by name.
    values : mapping of str to object
        Values by name, in the order of the command line.

    Raises
    ------
    InputError
        If two output files are the same, or an output file is also an input or is in the folder of a sweep.
    """
    filled = [(parameters[name], value) for name, value in values.items() if value and name in parameters]
    written = {parameter.spelled[0]: str(value) for parameter, value in filled if isinstance(parameter.kind, PlaceKind)}
    check_apart(written)
    inputs = [path for parameter, value in filled for path in _read(parameter, value)] if written else []
    for option, place in ((option, Path(text)) for option, text in written.items()):
        target = place.resolve()
        for path in inputs:
            source = path.resolve()
            if target == source or (target.exists() and source in target.parents):
                raise InputError(
                    f"{option} {place}: this command reads {path}, which would be lost; write to another file"
                )
        for folder in target.parents:
            if (folder / SWEEP).is_file():
                raise InputError(
                    f"{option} {place}: {folder} is the folder of a sweep, whose files are its own; write elsewhere"
                )


def check_apart(paths: Mapping[str, str]) -> None:
    """Reject two output files with the same path.

    Parameters
    ----------
    paths : mapping of str to str
        Paths by option.

    Raises
    ------
    InputError
        If two paths lead to the same file.
    """
    first: dict[Path, str] = {}
    for option, path in paths.items():
        other = first.setdefault(Path(path).resolve(), f"{option} {path}")
        if other != f"{option} {path}":
            raise InputError(f"{other} and {option} {path} are the same file; give two names")


def _read(parameter: Parameter, value: object) -> Iterator[Path]:
    """Existing files and folders that the value of an option names. Catalog names are left out."""
    if isinstance(parameter.kind, PlaceKind):
        return
    shipped = () if parameter.kind.catalog is None else catalog.names(parameter.kind.catalog)
    for text in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(text, str) and text not in shipped and exists(text):
            yield Path(text)


def exists(text: str) -> bool:
    """Return True if a text is an existing path.

    Return False if the text is not a valid path, for example because it is too long.
    """
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        return False
