"""Write files atomically."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from inference_econ.errors import InputError
from inference_econ.inputs import is_read

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be removed
    fcntl = None  # type: ignore[assignment]

#: Extensions of pictures.
PICTURES = (".svg", ".png", ".pdf")
#: Extensions of charts, which can also be interactive pages.
CHARTS = (*PICTURES, ".html")
#: Extensions of pages for browsers.
PAGES = (".html", ".htm")
#: File that identifies the folder of a sweep.
SWEEP = "sweep.json"
#: Flags that open a path safely, even if it is not a regular file.
_LOOK = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
#: Text that the names of all temporary files contain.
_UNFINISHED = ".unfinished-"
#: Number of characters of the target's name that the name of its temporary file repeats [1].
_BORNE = 40


def ending_of(path: Path | str) -> str:
    """File extension in lower case; ``.csv`` and ``..csv`` are an extension without a file name.

    Examples
    --------
    >>> ending_of("a/b.CSV"), ending_of(".csv"), ending_of("..csv"), ending_of("a")
    ('.csv', '.csv', '.csv', '')
    """
    return Path(f"x{Path(path).name}").suffix.lower()


@contextmanager
def whole_file(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path that replaces ``path`` when the block ends without an error.

    If ``path`` is a symbolic link, its target is replaced. Pipes and devices are written directly. Temporary files that
    a killed process left for this path are removed.

    Raises
    ------
    InputError
        If the path cannot be written. No temporary file remains.
    """
    if not str(path):
        raise InputError("the name of the file to write is empty")
    wanted = Path(path)
    try:
        with suppress(FileNotFoundError):
            wanted.stat()  # raises for a circle of links; a missing file is created
        target = wanted.resolve()
        if target.is_dir() or str(path).endswith(os.sep):
            raise InputError(f"{wanted}: cannot be written: Is a directory")
        if is_read(target):
            raise InputError(f"{wanted}: this command reads the file, which would be lost; write to another file")
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
    """Yield an empty temporary file in the folder of ``target``.

    The temporary file is locked while in use. The file is removed at the end unless it was moved to ``target``.
    """
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
        else:  # interrupted during creation
            _remove_abandoned(target.parent, prefix)


def _new_file(folder: Path, prefix: str, suffix: str) -> tuple[int, Path]:
    """Create, open and lock a new file; try again if another process removes the file before it is locked."""
    import tempfile  # most commands write no file

    while True:
        handle, name = tempfile.mkstemp(suffix, prefix, folder)
        try:
            if fcntl is not None:
                with suppress(OSError):  # file system without locks
                    fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_nlink:
                return handle, Path(name)
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _remove_abandoned(folder: Path, prefix: str) -> None:
    """Remove temporary files that no process has locked; the system releases the locks of killed processes."""
    if fcntl is None:
        return
    for abandoned in folder.glob(f"{escape(prefix)}*"):
        with suppress(OSError), os.fdopen(os.open(abandoned, _LOOK), "rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            abandoned.unlink()


def check_place(path: Path | str) -> None:
    """Reject a path that cannot be written, before anything is computed or written.

    Raises
    ------
    InputError
        If :func:`whole_file` would fail, or if the path is a named pipe (a write would wait for a reader). No temporary
        file remains.
    """
    with suppress(OSError):  # reported below, for example for a name that is too long
        # A path such as /dev/stdout, or /dev/fd/63 from a shell, already has a reader.
        if Path(path).is_fifo() and not Path(path).is_relative_to("/dev"):
            raise InputError(
                f"{path}: a pipe, which may wait for a reader for ever; write to a file, or print into it with >"
            )
    with suppress(_Unused), whole_file(path):
        raise _Unused


def check_picture(path: Path | str, endings: Sequence[str] = PICTURES) -> Path:
    """Return the path of a picture; reject a path without a picture extension.

    Parameters
    ----------
    path : Path or str
        Path of the file.
    endings : sequence of str
        Allowed extensions of pictures.

    Raises
    ------
    InputError
        If the extension is not supported.
    """
    check_ending(path, "a picture's name", endings)
    return Path(path)


def check_page(path: Path | str) -> None:
    """Reject the path of an HTML page without an HTML extension.

    Raises
    ------
    InputError
        If the path does not have the extension of an HTML page.
    """
    if ending_of(path) not in PAGES:
        raise InputError(f"{path}: a report is a page for a browser; end its name in .html")


def check_ending(path: Path | str, what: str, endings: Sequence[str]) -> None:
    """Reject a path whose extension is not a supported one.

    Parameters
    ----------
    path : path or str
        Path of the file.
    what : str
        Kind of file, for the error message.
    endings : sequence of str
        Supported extensions, in lower case. An empty string allows paths without an extension.

    Raises
    ------
    InputError
        If the extension is not supported.
    """
    if ending_of(path) not in endings:
        raise InputError(f"{path}: {what} must end in {', '.join(filter(None, endings))}")


class _Unused(Exception):  # noqa: N818 - no error: nothing is to be written
    pass


def write_text(path: Path | str, text: str) -> None:
    """Write a text file atomically."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
