"""Context managers that change how names are resolved: without file access, or without copies."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

from inference_econ.errors import InputError
from inference_econ.inputs.places import is_shipped

#: Texts by the file name that they replace, while file access is disabled. None if names may be paths.
_TEXTS: ContextVar[Mapping[str, str] | None] = ContextVar("texts", default=None)
#: Device and number of each file that was read; None outside :func:`noting_files`.
_READ: ContextVar[set[tuple[int, int]] | None] = ContextVar("read", default=None)
#: True while catalog entries are returned without copies.
_UNCOPIED: ContextVar[bool] = ContextVar("uncopied", default=False)


@contextmanager
def uncopied() -> Iterator[None]:
    """Make the catalog return shared entries instead of copies in a block, which must not modify these entries.

    A copy protects an entry that several callers share. Copying takes a third of the run time of a frontier.
    """
    token = _UNCOPIED.set(True)
    try:
        yield
    finally:
        _UNCOPIED.reset(token)


def is_uncopied() -> bool:
    """True inside :func:`uncopied`."""
    return _UNCOPIED.get()


@contextmanager
def names_only(texts: Mapping[str, str]) -> Iterator[None]:
    """Disable file access in a block, so that names in untrusted requests are never paths.

    Parameters
    ----------
    texts : mapping of str to str
        Texts that replace files, by name: model configurations, results of load generators, saved results.
    """
    token = _TEXTS.set(texts)
    try:
        yield
    finally:
        _TEXTS.reset(token)


def files_allowed() -> bool:
    """True if names may be paths."""
    return _TEXTS.get() is None


def text_of(name: str) -> str | None:
    """Text that replaces the file with a name (:func:`names_only`); None if there is no such text."""
    return (_TEXTS.get() or {}).get(name)


@contextmanager
def noting_files() -> Iterator[None]:
    """Record the files that are read in a block, so that a command does not overwrite its input files."""
    token = _READ.set(set())
    try:
        yield
    finally:
        _READ.reset(token)


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading. All files that users name are opened by this function."""
    stream = path.open("rb")
    noted = _READ.get()
    if noted is not None:
        noted.add(_identity(os.fstat(stream.fileno())))
    return stream


def is_read(path: Path) -> bool:
    """True if the file at a path was read in a block of :func:`noting_files`."""
    noted = _READ.get()
    return noted is not None and path.exists() and _identity(path.stat()) in noted


def _identity(status: os.stat_result) -> tuple[int, int]:
    """Device and inode number of a file, which are equal for all links to the file."""
    return status.st_dev, status.st_ino


#: Maximum size of a file with measurements, log-probabilities or saved results [B].
MOST_BYTES = 100_000_000


def read_text(
    path: Path | str, most_bytes: int = MOST_BYTES, *, encoding: str = "utf-8", rewritten: bool = False
) -> str:
    """Read a text file.

    Parameters
    ----------
    path : path or str
        File to read.
    most_bytes : int
        Maximum size [B].
    encoding : str
        ``utf-8``, or ``utf-8-sig``, which accepts a byte order mark.
    rewritten : bool
        True if the command itself maintains the file, and may therefore overwrite it.

    Raises
    ------
    InputError
        If the file cannot be read, is not a regular file, or is too large.
    UnicodeDecodeError
        If the file is not text; the caller reports the expected format.
    """
    text = text_of(str(path))
    if text is not None:
        return text
    file = Path(path)
    if not (files_allowed() or is_shipped(file)):
        raise InputError(f"{path}: files are not read here; send the text of it")
    try:
        mode = file.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise InputError(f"{path}: no regular file; pipes and devices are not read, since they may have no end")
        with file.open("rb") if rewritten else open_file(file) as stream:
            content = stream.read(most_bytes + 1)
        if len(content) > most_bytes:
            size = max(file.stat().st_size, len(content))
            raise InputError(f"{path}: {size / 1e6:.1f} MB is too large; at most {most_bytes / 1e6:.0f} MB is read")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    return content.decode(encoding)
