"""Meaning of names inside of a block: no files while a client asks, entries that nobody copies; and texts of files."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from inference_econ.errors import InputError
from inference_econ.inputs.places import is_shipped

#: Texts that came along, by name, where files are out of reach; None where names may be paths.
_TEXTS: ContextVar[Mapping[str, str] | None] = ContextVar("texts", default=None)
#: Whether entries of the catalogue are handed out as they are.
_UNCOPIED: ContextVar[bool] = ContextVar("uncopied", default=False)


@contextmanager
def uncopied() -> Iterator[None]:
    """Have entries of the catalogue handed out as they are, for a block that changes none of what it reads.

    Copies keep what somebody changes inside of an entry from others, and take a third of the time of a frontier.
    """
    token = _UNCOPIED.set(True)
    try:
        yield
    finally:
        _UNCOPIED.reset(token)


def is_uncopied() -> bool:
    """Whether entries of the catalogue are handed out as they are."""
    return _UNCOPIED.get()


@contextmanager
def names_only(texts: Mapping[str, str]) -> Iterator[None]:
    """Have no name mean a file: requests of others say what they like.

    Parameters
    ----------
    texts : mapping of str to str
        Texts that take the place of files: configurations of models, results of load generators, saved answers.
    """
    token = _TEXTS.set(texts)
    try:
        yield
    finally:
        _TEXTS.reset(token)


def files_allowed() -> bool:
    """Whether names may be paths."""
    return _TEXTS.get() is None


def text_of(name: str) -> str | None:
    """A text that came along; None of all other names."""
    return (_TEXTS.get() or {}).get(name)


#: Most that is read of a file of measurements, of log-probabilities or of a saved answer [B].
MOST_BYTES = 100_000_000


def read_text(path: Path | str, most_bytes: int = MOST_BYTES, *, encoding: str = "utf-8") -> str:
    """The text of a file.

    Parameters
    ----------
    path : path or str
        The file.
    most_bytes : int
        Largest size [B].
    encoding : str
        ``utf-8``, or ``utf-8-sig`` where a byte order mark may come first.

    Raises
    ------
    InputError
        If it cannot be read, is a folder, a pipe or a device, or is too large.
    UnicodeDecodeError
        If it is no text; what it should have been is the caller's to say.
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
