"""Quantities in base units, as people write them."""

from __future__ import annotations

from collections.abc import Mapping

from inference_econ.inputs import units

#: Prefixes of what is large, and of what is small, each a thousand times the one before.
_LARGE, _SMALL = ("", "k", "M", "G", "T", "P"), ("", "m", "u", "n")
_THOUSAND = 1000.0
#: Units that get a prefix.
_PREFIXED: Mapping[str, tuple[str, ...]] = {"B": _LARGE, "B/s": _LARGE, "FLOP/s": _LARGE, "s": _SMALL}


def quantity(value: float, unit: str) -> str:
    """A quantity with its unit; that of a count is empty.

    Examples
    --------
    >>> quantity(3.35e12, "B/s"), quantity(4.381e-06, "s"), quantity(2.95, "USD/h"), quantity(80.0, "")
    ('3.35 TB/s', '4.381 us', '$2.95/h', '80')
    """
    if unit == "USD/h":
        return f"${units.number(value)}/h"
    prefixes = _PREFIXED.get(unit, ("",))
    step = _THOUSAND if prefixes is not _SMALL else 1.0 / _THOUSAND
    place = 0
    while place + 1 < len(prefixes) and (value >= _THOUSAND if step > 1.0 else value < 1.0):
        value, place = value / step, place + 1
    return f"{units.number(value)} {prefixes[place]}{unit}".strip()
