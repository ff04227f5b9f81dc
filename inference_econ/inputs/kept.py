"""Disk cache of validated catalog entries, which later commands reuse.

Reading and validating the catalog takes longer than most queries. The entries are in the user's cache folder
(``~/.cache/inference_econ``) as pickles of specifications. An entry is valid until a file of the package or of its
plug-ins changes. Reading an entry creates specifications and plain data only, so a manipulated cache file cannot run
code.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from inference_econ.inputs._spec import Spec
from inference_econ.inputs._yaml import read_yaml
from inference_econ.inputs.places import folder, is_shipped, is_uncopied, user_folder
from inference_econ.inputs.plugins import folders

SpecT = TypeVar("SpecT", bound=Spec)
T = TypeVar("T")


def from_file(cls: type[SpecT], path: Path) -> SpecT:
    """Read and validate a YAML file, with the errors of :meth:`~inference_econ.inputs._spec.Spec.from_document`."""
    return kept(cls, path, lambda: cls.from_document(read_yaml(path)))


def kept(cls: type[T], path: Path, read: Callable[[], T]) -> T:
    """Return a specification or plain data from the disk cache, or else read it and store it in the cache.

    User files are always read. All files are read if the call is outside :func:`inference_econ.inputs.places.uncopied`.
    A cache folder that cannot be written, an outdated entry, or a damaged entry raises no error.

    Parameters
    ----------
    cls : type
        Class of the entry.
    path : Path
        File of the entry, which may refer to further files, or the folder of several files.
    read : callable
        Function that reads and validates the entry.
    """
    if not is_uncopied() or not is_shipped(path):
        return read()
    name = hashlib.sha256(f"{cls.__module__}:{cls.__name__} {path}".encode()).hexdigest()[:32]
    place = user_folder("XDG_CACHE_HOME", ".cache") / "inference_econ" / name
    with suppress(Exception), place.open("rb") as file:  # whatever is wrong, the catalog is read
        if file.read(len(_state())) == _state() and isinstance(entry := _SpecUnpickler(file).load(), cls):
            return entry
    entry = read()
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        whole = place.with_name(f"{place.name}.{os.getpid()}.{threading.get_ident()}")
        whole.write_bytes(_state() + pickle.dumps(entry))
        whole.replace(place)
    return entry


class _SpecUnpickler(pickle.Unpickler):
    """Unpickler that only creates specifications and plain data."""

    def find_class(self, module: str, name: str) -> Any:
        """Find a specification class by name, and reject all other classes."""
        found = getattr(import_module(module), name) if module.startswith("inference_econ.") else None
        if not (isinstance(found, type) and issubclass(found, Spec)):
            raise pickle.UnpicklingError(f"{module}.{name} is no specification")
        return found


@cache
def _state() -> bytes:
    """Digest of all files that determine an entry, by their names, sizes and times of change."""
    places = [Path(__file__).parents[1], *map(folder, ("hardware", "models", "scenarios"))]
    files = sorted(line for place in (*places, *(plugin.path for plugin in folders())) for line in _files(str(place)))
    return hashlib.sha256(repr((sys.version, files)).encode()).digest()


def _files(place: str) -> Iterator[tuple[str, int, int]]:
    """Path, size [B] and time of change [ns] of each file below a folder, without compiled modules."""
    with os.scandir(place) as entries:
        for entry in entries:
            if not entry.is_dir():
                status = entry.stat()
                yield entry.path, status.st_size, status.st_mtime_ns
            elif entry.name != "__pycache__":
                yield from _files(entry.path)
