"""Write files whole or not at all (floor 0)."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inference_econ.errors import InputError


@contextmanager
def whole_file(path: Path | str) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends well.

    A link stays a link, and what is no ordinary file, as ``/dev/null`` or a pipe, is written to and not replaced.

    Raises
    ------
    InputError
        If the place cannot be written; nothing is left behind.
    """
    target = Path(path)
    try:
        place = target.resolve()
        special = place.exists() and not place.is_file() and not place.is_dir()
        folder = None if special else place.parent
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=target.suffix, dir=folder)
        os.close(handle)
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
    except (OSError, RuntimeError) as error:  # the latter for links in a circle
        raise InputError(f"{target}: cannot be written: {getattr(error, 'strerror', None) or error}") from error
    try:
        yield Path(name)
        if special:
            with Path(name).open("rb") as source, place.open("wb") as sink:
                shutil.copyfileobj(source, sink)
        else:
            Path(name).replace(place)
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        Path(name).unlink(missing_ok=True)


def write_text(path: Path | str, text: str) -> None:
    """Write a text file whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
