"""What-ifs: ``hardware.FIELD=VALUE`` and the like, as ``--set`` has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from inference_econ.errors import InputError


def split_changes(changes: Iterable[str]) -> Mapping[str, list[str]]:
    """Sort what-ifs (``hardware.hbm_bytes=...``) by the specification they change.

    Raises
    ------
    InputError
        If one names no specification.
    """
    sorted_changes: dict[str, list[str]] = {"model": [], "hardware": [], "assumptions": []}
    for change in changes:
        kind, dot, rest = change.partition(".")
        if kind not in sorted_changes or not dot:
            raise InputError(
                f"--set {change!r}: write hardware.FIELD=VALUE, model.FIELD=VALUE or assumptions.FIELD=VALUE"
            )
        sorted_changes[kind].append(rest)
    return sorted_changes


def checked_changes(changes: Iterable[str]) -> tuple[str, ...]:
    """What-ifs as a scenario holds them; see :func:`split_changes` for the errors."""
    found = tuple(changes)
    split_changes(found)
    return found
