"""Optional packages, which only some commands need."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager

from inference_econ.errors import InputError

#: Packages that each extra installs.
_EXTRAS = {
    "explorer": ("starlette", "uvicorn", "anyio"),
    "mcp": ("mcp", "starlette", "anyio"),
    "studies": ("SALib", "pyarrow"),
}


@contextmanager
def needed(extra: str, *packages: str) -> Iterator[None]:
    """Import the packages of an extra, or raise an error with advice.

    Parameters
    ----------
    extra : str
        Name of the extra.
    *packages : str
        Packages that are imported before the block runs.

    Raises
    ------
    InputError
        If a package is not installed; the message has the command that installs it.
    """
    try:
        for package in packages:
            importlib.import_module(package)
        yield
    except ModuleNotFoundError as error:
        message = missing(error, extra)
        if message is None:
            raise
        raise InputError(message) from error


def missing(error: ModuleNotFoundError, extra: str = "studies") -> str | None:
    """Advice on how to install a missing package; None if it does not belong to the extra."""
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS[extra]:
        return None
    return f"{package} is not installed, which this command needs: pip install 'inference-econ[{extra}]'"
