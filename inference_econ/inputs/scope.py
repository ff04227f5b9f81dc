"""Scopes that change how names are resolved: without file access, or without copies of entries."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from inference_econ.errors import InputError
from inference_econ.inputs.places import is_shipped

#: Texts that replace files, by name, if file access is disabled; None if names may be paths.
_TEXTS: ContextVar[Mapping[str, str] | None] = ContextVar("texts", default=None)
#: True if catalog entries are returned without copies.
_UNCOPIED: ContextVar[bool] = ContextVar("uncopied", default=False)


@contextmanager
def uncopied() -> Iterator[None]:
    """Return catalog entries without copies inside a block that does not modify them.

    Copies protect shared entries from changes, and take a third of the time of a frontier.
    """
    token = _UNCOPIED.set(True)
    try:
        yield
    finally:
        _UNCOPIED.reset(token)


def is_uncopied() -> bool:
    """True if catalog entries are returned without copies."""
    return _UNCOPIED.get()


@contextmanager
def names_only(texts: Mapping[str, str]) -> Iterator[None]:
    """Disable file access inside a block: names in untrusted requests never resolve to paths.

    Parameters
    ----------
    texts : mapping of str to str
        Texts that replace files: configurations of models, results of load generators, saved results.
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
    """Text that replaces a file; None for all other names."""
    return (_TEXTS.get() or {}).get(name)


#: Maximum size of a file of measurements, log-probabilities or saved results [B].
MOST_BYTES = 100_000_000


def read_text(path: Path | str, most_bytes: int = MOST_BYTES, *, encoding: str = "utf-8") -> str:
    """Text of a file.

    Parameters
    ----------
    path : path or str
        File to read.
    most_bytes : int
        Maximum size [B].
    encoding : str
        ``utf-8``, or ``utf-8-sig`` to allow a byte order mark.

    Raises
    ------
    InputError
        If it cannot be read, is a folder, a pipe or a device, or is too large.
    UnicodeDecodeError
        If it is not text; the caller reports the expected format.
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
        with file.open("rb") as stream:
            content = stream.read(most_bytes + 1)
        if len(content) > most_bytes:
            size = max(file.stat().st_size, len(content))
            raise InputError(f"{path}: {size / 1e6:.1f} MB is too large; at most {most_bytes / 1e6:.0f} MB is read")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    return content.decode(encoding)
