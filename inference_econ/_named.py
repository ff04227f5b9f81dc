"""Functions and classes that tables refer to by name, loaded at first use."""

from __future__ import annotations

from importlib import import_module
from operator import attrgetter
from typing import Any


def named(name: str) -> Any:
    """Load an object by the name in a table.

    Parameters
    ----------
    name : str
        ``MODULE:NAME``; the module is below ``inference_econ``, unless its name starts with another package.

    Returns
    -------
    object
        Function, method or class.
    """
    module, _, attribute = name.partition(":")
    path = module if module.startswith("inference_econ") else f"inference_econ.{module}"
    return attrgetter(attribute)(import_module(path))
