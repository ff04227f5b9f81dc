"""Write files whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from inference_econ.errors import InputError

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed anyway
    fcntl = None  # type: ignore[assignment]

#: How names of pictures end.
PICTURES = (".svg", ".png", ".pdf")
#: The same of charts, which are interactive as pages.
CHARTS = (*PICTURES, ".html")
#: How names of documents for browsers end.
PAGES = (".html", ".htm")
#: File by which the folder of a sweep is known.
SWEEP = "sweep.json"
#: How a file is opened that may be something else.
_LOOK = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
#: In the name of every file that is not yet whole.
_UNFINISHED = ".unfinished-"
#: Characters of a name that its unfinished file bears: the whole may be too long with more beside it.
_BORNE = 40


def ending_of(path: Path | str) -> str:
    """Ending of a name in lower case; a name such as ``.csv`` or ``..csv`` is nothing but its ending.

    Examples
    --------
    >>> ending_of("a/b.CSV"), ending_of(".csv"), ending_of("..csv"), ending_of("a")
    ('.csv', '.csv', '.csv', '')
    """
    return Path(f"x{Path(path).name}").suffix.lower()


@contextmanager
def whole_file(path: Path | str) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends well.

    A link is followed, and what is no ordinary file (a pipe, a device) is written to directly. What a process that was
    killed left of the same name is removed.

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
        with _unfinished(target) as temporary:
            yield temporary
            temporary.replace(target)
    except OSError as error:
        raise InputError(f"{wanted}: cannot be written: {error.strerror or error}") from error


@contextmanager
def _unfinished(target: Path) -> Iterator[Path]:
    """An empty file beside another one, locked as long as it is used; it is gone at the end, unless it was moved."""
    prefix = f".{target.name[:_BORNE]}{_UNFINISHED}"
    _remove_abandoned(target.parent, prefix)
    path = None
    try:
        handle, path = _new_file(target.parent, prefix, ending_of(target)[-_BORNE:])
        with os.fdopen(handle, "rb") as held:
            if fcntl is None:
                held.close()
            umask = os.umask(0)
            os.umask(umask)
            path.chmod(0o666 & ~umask)
            yield path
    finally:
        if path is not None:
            path.unlink(missing_ok=True)
        else:  # interrupted while it was made
            _remove_abandoned(target.parent, prefix)


def _new_file(folder: Path, prefix: str, suffix: str) -> tuple[int, Path]:
    """A new file, open and locked; one more if it was taken for an abandoned one before it was locked."""
    while True:
        handle, name = tempfile.mkstemp(suffix, prefix, folder)
        try:
            if fcntl is not None:
                with suppress(OSError):  # a file system without locks
                    fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_nlink:
                return handle, Path(name)
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _remove_abandoned(folder: Path, prefix: str) -> None:
    """Remove unfinished files that nobody has locked: the system unlocks those of a process that was killed."""
    if fcntl is None:
        return
    for abandoned in folder.glob(f"{escape(prefix)}*"):
        with suppress(OSError), os.fdopen(os.open(abandoned, _LOOK), "rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            abandoned.unlink()


def check_place(path: Path | str) -> None:
    """Refuse a place that cannot be written, before anything is calculated for it, or anything else is written.

    Raises
    ------
    InputError
        As :func:`whole_file` would, or if it is a pipe with a name, to which nothing can be written before somebody
        reads it; nothing is left behind.
    """
    # What a shell passes on as /dev/stdout or /dev/fd/63 is read at its other end.
    if Path(path).is_fifo() and not Path(path).is_relative_to("/dev"):
        raise InputError(
            f"{path}: a pipe, which may wait for a reader for ever; write to a file, or print into it with >"
        )
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
    check_ending(path, "a picture's name", endings)
    return Path(path)


def check_page(path: Path | str) -> None:
    """Refuse a name that does not end as those of documents for browsers do.

    Raises
    ------
    InputError
        With how it must end.
    """
    if ending_of(path) not in PAGES:
        raise InputError(f"{path}: a report is a page for a browser; end its name in .html")


def check_ending(path: Path | str, what: str, endings: Sequence[str]) -> None:
    """Refuse a name that does not say which kind of file is written.

    Parameters
    ----------
    path : path or str
        The name.
    what : str
        Of what it is the name, for the message.
    endings : sequence of str
        Those that are possible, in lower case; an empty one stands for a name without any.

    Raises
    ------
    InputError
        If it ends in another way.
    """
    if ending_of(path) not in endings:
        raise InputError(f"{path}: {what} must end in {', '.join(filter(None, endings))}")


class _Unused(Exception):  # noqa: N818 - no error: nothing is to be written
    pass


def write_text(path: Path | str, text: str) -> None:
    """Write a text file whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
