"""Optional packages that only some commands need."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager

from inference_econ.errors import InputError

#: Packages by the extra that installs them.
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
        Packages to import before the block.

    Raises
    ------
    InputError
        If a package is not installed, with the command to install it.
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
    """Advice for a missing package; None if the extra does not install it."""
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS[extra]:
        return None
    return f"{package} is not installed, which this command needs: pip install 'inference-econ[{extra}]'"
