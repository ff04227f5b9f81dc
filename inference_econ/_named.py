"""Functions and classes that tables refer to by name. Named functions and classes are imported at first use."""

from __future__ import annotations

from importlib import import_module
from operator import attrgetter
from typing import Any


def named(name: str) -> Any:
    """Import an object by its name in a table.

    Parameters
    ----------
    name : str
        ``MODULE:NAME``. The module is in ``inference_econ``, unless its name starts with another package.

    Returns
    -------
    object
        Function, method or class.
    """
    module, _, attribute = name.partition(":")
    path = module if module.startswith("inference_econ") else f"inference_econ.{module}"
    return attrgetter(attribute)(import_module(path))
