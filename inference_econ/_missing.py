"""Packages that only some commands need."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager

from inference_econ.errors import InputError

#: Packages by the extra that installs them.
_EXTRAS = {
    "explorer": ("starlette", "uvicorn", "anyio"),
    "mcp": ("mcp", "starlette", "anyio"),
    "studies": ("SALib", "matplotlib", "pyarrow", "scipy"),
}


@contextmanager
def needed(extra: str, *packages: str) -> Iterator[None]:
    """Load what an extra installs.

    Parameters
    ----------
    extra : str
        Its name.
    *packages : str
        Those that are loaded before anything is done.

    Raises
    ------
    InputError
        If it is not installed, with what to type.
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
    """Advice for a package that is not there; None where the extra does not install it."""
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS[extra]:
        return None
    return f"{package} is not installed, which this command needs: pip install 'inference-econ[{extra}]'"
