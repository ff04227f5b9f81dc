"""Import of functions and classes by the names in tables such as ``commands.toml``."""

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
