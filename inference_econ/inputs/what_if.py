"""Changes of single fields of a specification by name (what-ifs): ``hardware.hbm_bytes=...``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from inference_econ.errors import InputError

if TYPE_CHECKING:
    from inference_econ.inputs._yaml import Value

#: Specifications whose fields can be changed.
SPECIFICATIONS = ("model", "hardware", "assumptions")


def split_changes(changes: Iterable[str]) -> Mapping[str, list[str]]:
    """Group changes of fields by specification: model, hardware or assumptions.

    Parameters
    ----------
    changes : str or iterable of str
        ``hardware.FIELD=VALUE``, ``model.FIELD=VALUE`` or ``assumptions.FIELD=VALUE``.

    Returns
    -------
    mapping of str to list of str
        ``FIELD=VALUE`` for each of :data:`SPECIFICATIONS`.

    Raises
    ------
    InputError
        If a change names no specification.

    Examples
    --------
    >>> split_changes(["hardware.watts=700 W", "model.kv=fp8"])
    {'model': ['kv=fp8'], 'hardware': ['watts=700 W'], 'assumptions': []}
    """
    sorted_changes: dict[str, list[str]] = {name: [] for name in SPECIFICATIONS}
    for change in [changes] if isinstance(changes, str) else changes:
        specification, dot, rest = change.partition(".")
        if specification not in sorted_changes or not dot:
            raise InputError(
                f"--set {change!r}: write hardware.FIELD=VALUE, model.FIELD=VALUE or assumptions.FIELD=VALUE",
                option="set",
            )
        sorted_changes[specification].append(rest)
    return sorted_changes


def checked_changes(changes: Iterable[str]) -> tuple[str, ...]:
    """Check changes of fields, and return them as scenarios store them; see :func:`split_changes` for errors."""
    checked = tuple(changes)
    split_changes(checked)
    return checked


def parsed_value(text: str, origin: str) -> Value:
    """Convert the value in ``FIELD=VALUE`` by the rules of YAML files.

    Parameters
    ----------
    text : str
        Text after the equals sign: a scalar, or a list or mapping on one line.
    origin : str
        Name for messages.

    Raises
    ------
    SpecError
        If a list or mapping is not valid.

    Examples
    --------
    >>> parsed_value("3 us", "--set"), parsed_value("[1, a]", "--set")
    ('3 us', [1, 'a'])
    """
    from inference_econ.inputs import _yaml

    if text.startswith(("[", "{")):
        return _yaml.parse(f"value: {text}", origin).data["value"]
    return _yaml.scalar(text)
