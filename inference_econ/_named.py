"""Functions and classes by the name that a table has for them, loaded when they are used."""

from __future__ import annotations

from importlib import import_module
from operator import attrgetter
from typing import Any


def named(name: str) -> Any:
    """Load what a table names.

    Parameters
    ----------
    name : str
        ``MODULE:NAME``; a module is below ``inference_econ``, unless its name begins with that of a package.

    Returns
    -------
    object
        The function, method or class.
    """
    module, _, attribute = name.partition(":")
    path = module if module.startswith("inference_econ") else f"inference_econ.{module}"
    return attrgetter(attribute)(import_module(path))
