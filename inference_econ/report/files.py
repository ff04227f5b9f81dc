"""Write files whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from inference_econ.errors import InputError

#: How names of pictures end.
PICTURES = (".svg", ".png", ".pdf")
#: The same of charts, which are interactive as pages.
CHARTS = (*PICTURES, ".html")


def ending_of(path: Path | str) -> str:
    """How a name ends, in lower case; a name such as ``.csv`` or ``..csv`` is nothing but its ending.

    Examples
    --------
    >>> ending_of("a/b.CSV"), ending_of(".csv"), ending_of("..csv"), ending_of("a")
    ('.csv', '.csv', '.csv', '')
    """
    return Path(f"x{Path(path).name}").suffix.lower()


@contextmanager
def whole_file(path: Path | str) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends well.

    A link is followed, and what is no ordinary file (a pipe, a device) is written to directly.

    Raises
    ------
    InputError
        If the place cannot be written; nothing is left behind.
    """
    if not str(path):
        raise InputError("the name of the file to write is empty")
    wanted = Path(path)
    try:
        with suppress(FileNotFoundError):
            wanted.stat()  # a circle of links shows here; a missing file may be made
        target = wanted.resolve()
        if target.is_dir() or str(path).endswith(os.sep):
            raise InputError(f"{wanted}: cannot be written: Is a directory")
        if wanted.exists() and not wanted.is_file():
            yield wanted
            return
        if target.exists() and not target.stat().st_mode & 0o222:
            raise InputError(f"{wanted}: cannot be written: the file is read-only")
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=ending_of(target), dir=target.parent)
        os.close(handle)
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
    except OSError as error:
        raise InputError(f"{wanted}: cannot be written: {error.strerror or error}") from error
    try:
        yield Path(name)
        Path(name).replace(target)
    except OSError as error:
        raise InputError(f"{wanted}: cannot be written: {error.strerror or error}") from error
    finally:
        Path(name).unlink(missing_ok=True)


def check_place(path: Path | str) -> None:
    """Refuse a place that cannot be written, before anything is calculated for it, or anything else is written.

    Raises
    ------
    InputError
        As :func:`whole_file` would; nothing is left behind.
    """
    with suppress(_Unused), whole_file(path):
        raise _Unused


def check_picture(path: Path | str, endings: Sequence[str] = PICTURES) -> Path:
    """The path if a picture can be written to it by its suffix.

    Parameters
    ----------
    path : Path or str
        Where to.
    endings : sequence of str
        Those that are written.

    Raises
    ------
    InputError
        If the suffix is no picture's.
    """
    target = Path(path)
    if ending_of(target) not in endings:
        raise InputError(f"{target}: a picture's name must end in {', '.join(endings)}")
    return target


class _Unused(Exception):  # noqa: N818 - no error: nothing is to be written
    pass


def write_text(path: Path | str, text: str) -> None:
    """Write a text file whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
