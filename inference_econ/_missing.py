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
    """Import optional packages before a block runs. If one is not installed, raise an error that names the pip command.

    Parameters
    ----------
    extra : str
        Name of the extra.
    *packages : str
        Packages to import.

    Raises
    ------
    InputError
        If a package is not installed; the message has the pip command that installs it.
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
    """Advice on how to install a missing package; None if the package does not belong to the extra."""
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS[extra]:
        return None
    return f"{package} is not installed, which this command needs: pip install 'inference-econ[{extra}]'"
