"""What-ifs: single values of a specification changed by name, ``hardware.hbm_bytes=...``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from inference_econ.errors import InputError

#: Specifications that a what-if can change.
SPECIFICATIONS = ("model", "hardware", "assumptions")


def split_changes(changes: Iterable[str]) -> Mapping[str, list[str]]:
    """Sort what-ifs by the specification that they change.

    Parameters
    ----------
    changes : iterable of str
        ``hardware.FIELD=VALUE``, ``model.FIELD=VALUE`` or ``assumptions.FIELD=VALUE``.

    Returns
    -------
    mapping of str to list of str
        ``FIELD=VALUE`` by each of :data:`SPECIFICATIONS`.

    Raises
    ------
    InputError
        If one names no specification.

    Examples
    --------
    >>> split_changes(["hardware.watts=700 W", "model.kv=fp8"])
    {'model': ['kv=fp8'], 'hardware': ['watts=700 W'], 'assumptions': []}
    """
    sorted_changes: dict[str, list[str]] = {name: [] for name in SPECIFICATIONS}
    for change in changes:
        specification, dot, rest = change.partition(".")
        if specification not in sorted_changes or not dot:
            raise InputError(
                f"--set {change!r}: write hardware.FIELD=VALUE, model.FIELD=VALUE or assumptions.FIELD=VALUE"
            )
        sorted_changes[specification].append(rest)
    return sorted_changes


def checked_changes(changes: Iterable[str]) -> tuple[str, ...]:
    """What-ifs as a scenario holds them; see :func:`split_changes` for the errors."""
    checked = tuple(changes)
    split_changes(checked)
    return checked
