"""Read the text of a file that somebody names: whole, of a size that has an end, and only what is a file."""

from __future__ import annotations

import stat
from pathlib import Path

from inference_econ.errors import InputError
from inference_econ.inputs.places import is_shipped
from inference_econ.inputs.scope import files_allowed, text_of

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
