"""Quantities in base units, as people write them: with the prefix that leaves a number from 1 on."""

from __future__ import annotations

from collections.abc import Mapping

from inference_econ.inputs import units

#: Prefixes, the largest first; a blank stands for none.
_SIZES: Mapping[str, float] = {
    prefix: 10.0 ** (15 - 3 * place) for place, prefix in enumerate(("P", "T", "G", "M", "k", " ", "m", "u", "n"))
}
#: Prefixes that units get.
_PREFIXES: Mapping[str, str] = {**dict.fromkeys(("B", "B/s", "FLOP/s"), "PTGMk "), "s": " mun"}


def prefixed(value: float, prefixes: str, form: str = "") -> str:
    """Write a number before the largest of some prefixes that leaves 1 or more, else before the smallest.

    Parameters
    ----------
    value : float
        In base units.
    prefixes : str
        Letters, the largest first; a blank for none.
    form : str
        How the number is written: a format specification; as :func:`.units.number` without.

    Examples
    --------
    >>> prefixed(9.894e14, "PTG ", ".3g"), prefixed(2e-9, "mu"), prefixed(12.0, "PTG ")
    ('989 T', '0.002 u', '12 ')
    """
    prefix = next((prefix for prefix in prefixes if value >= _SIZES[prefix]), prefixes[-1])
    scaled = value / _SIZES[prefix]
    return f"{format(scaled, form) if form else units.number(scaled)} {prefix.strip()}"


def quantity(value: float, unit: str) -> str:
    """A quantity with its unit; that of a count is empty.

    Examples
    --------
    >>> quantity(3.35e12, "B/s"), quantity(4.381e-06, "s"), quantity(2.95, "USD/h"), quantity(80.0, "")
    ('3.35 TB/s', '4.381 us', '$2.95/h', '80')
    """
    if unit == "USD/h":
        return f"${units.number(value)}/h"
    return f"{prefixed(value, _PREFIXES.get(unit, ' '))}{unit}".strip()
