"""Plug-ins: installed packages that add catalog entries or readers of measurements, through entry points.

The entry point ``inference_econ.catalog`` names a package with YAML files in the folders ``hardware``, ``models``,
``engines`` and ``assumptions``. Code in the package is not executed. The entry point ``inference_econ.readers`` names a
function that reads files of measurements.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from inference_econ.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

#: Entry point groups.
CATALOG, READERS = "inference_econ.catalog", "inference_econ.readers"
#: Folders that may contain catalog entries.
FOLDERS = ("hardware", "models", "engines", "assumptions")
#: Function that reads a text and returns rows with the columns of measured servers. It returns None for a text in
#: another format.
Read = Callable[[str], Iterable[Mapping[str, str]] | None]


class Folder(NamedTuple):
    """Folder with the catalog files of a plug-in package."""

    origin: str
    """Name and version of the package, for messages."""
    path: Path


class MeasurementReader(NamedTuple):
    """Function of a plug-in package that reads measurements."""

    origin: str
    """Name and version of the package, for messages."""
    read: Read


@cache
def folders() -> tuple[Folder, ...]:
    """Catalog folders of all installed packages, by entry point name.

    Raises
    ------
    InputError
        If a package cannot be found, or contains no folder of :data:`FOLDERS`.
    """
    found = []
    for entry in _entries(CATALOG):
        try:
            spec = find_spec(entry.value)
        except (ImportError, ValueError):
            spec = None
        places = [Path(place) for place in (spec and spec.submodule_search_locations) or ()]
        if not places:
            raise _broken(entry, f"there is no package {entry.value!r}")
        if not any((places[0] / folder).is_dir() for folder in FOLDERS):
            raise _broken(entry, f"{places[0]} has none of the folders {', '.join(FOLDERS)}")
        found.append(Folder(_origin(entry), places[0]))
    return tuple(found)


@cache
def readers() -> tuple[MeasurementReader, ...]:
    """Readers of measurements in all installed packages, by entry point name.

    Raises
    ------
    InputError
        If a function cannot be loaded.
    """
    found = []
    for entry in _entries(READERS):
        try:
            read = entry.load()
        except Exception as error:  # code of other authors may raise anything
            raise _broken(entry, f"{entry.value!r} cannot be loaded ({error})") from error
        if not callable(read):
            raise _broken(entry, f"{entry.value!r} is no function")
        found.append(MeasurementReader(_origin(entry), read))
    return tuple(found)


def _entries(group: str) -> list[EntryPoint]:
    # Python's own search takes longer than many commands, and most users have no plug-ins.
    files = (file for folder in sys.path for file in Path(folder).glob("*-info/entry_points.txt"))
    if not any(f"[{group}]" in file.read_text(encoding="utf-8", errors="replace") for file in files):
        return []
    from importlib.metadata import entry_points

    return sorted(entry_points(group=group), key=lambda entry: entry.name)


def _origin(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.name


def _broken(entry: EntryPoint, fault: str) -> InputError:
    return InputError(
        f"the plug-in {_origin(entry)} is broken: {fault}, named by its entry point {entry.name!r} of {entry.group}; "
        "install another version of it, or uninstall it"
    )
