"""Conversion of quantities ("3.35 TB/s") to numbers in base units, and back.

Units that do not occur in LLM serving, as in "3 foot", are rejected.
"""

from __future__ import annotations

import math
import re
from functools import cache

from inference_econ.errors import UnitError

#: Example of a quantity for each base unit.
EXAMPLES = {
    "B": "80 GiB",
    "B/s": "3.35 TB/s",
    "FLOP/s": "989.4 TFLOP/s",
    "s": "4 us",
    "W": "700 W",
    "USD/h": "2.10 USD/h",
}

#: Minimum values for chips, memories and links in base units. A smaller number probably has no unit or no prefix. There
#: is no maximum, because a large number can be intended, for example if a part is assumed to take no time.
LEAST = {"memory": 1e6, "B/s": 1e6, "FLOP/s": 1e9, "W": 1.0}
#: Smallest number with thousands separators [1].
_LONG = 1e4
#: Largest logarithmic error that is shown as a percentage [1].
_FAR = math.log(11.0)

#: Maximum characters of a number in a message [1].
_SHOWN = 20
_INTEGER = re.compile(r"\s*[-+]?[0-9]{1,4300}\s*")

#: Dimension and size in base units, by spelling of the unit.
_UNITS = {
    **dict.fromkeys(("B", "byte", "bytes"), ("data", 1.0)),
    **dict.fromkeys(("FLOP", "FLOPs", "flop", "flops"), ("work", 1.0)),
    **dict.fromkeys(("USD", "dollar", "dollars"), ("money", 1.0)),
    **dict.fromkeys(("W", "watt", "watts"), ("power", 1.0)),
    **dict.fromkeys(("s", "second", "seconds"), ("time", 1.0)),
    **dict.fromkeys(("min", "minute", "minutes"), ("time", 60.0)),
    **dict.fromkeys(("h", "hour", "hours"), ("time", 3600.0)),
}
_PREFIXES = {
    "": 1.0,
    **dict.fromkeys(("n", "nano"), 1e-9),
    **dict.fromkeys(("u", "µ", "\u03bc", "micro"), 1e-6),  # the micro sign, and the Greek letter that looks alike
    **dict.fromkeys(("m", "milli"), 1e-3),
    **dict.fromkeys(("k", "kilo"), 1e3),
    **dict.fromkeys(("M", "mega"), 1e6),
    **dict.fromkeys(("G", "giga"), 1e9),
    **dict.fromkeys(("T", "tera"), 1e12),
    **dict.fromkeys(("P", "peta"), 1e15),
    **dict.fromkeys(("Ki", "kibi"), 2.0**10),
    **dict.fromkeys(("Mi", "mebi"), 2.0**20),
    **dict.fromkeys(("Gi", "gibi"), 2.0**30),
    **dict.fromkeys(("Ti", "tebi"), 2.0**40),
}
_UNIT = re.compile(f"({'|'.join(_PREFIXES)})({'|'.join(_UNITS)})")

_QUANTITY = re.compile(
    r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*((?:[A-Za-zµ\u03bc]+(?:/[A-Za-zµ\u03bc]+)?)?)\s*"
)


def parse_quantity(value: object, unit: str) -> float:
    """Convert a quantity to a number in the base unit ``unit``.

    Parameters
    ----------
    value : int, float or str
        Number in ``unit``, or text with a number and a unit: ``"450 GB/s"``.
    unit : str
        Base unit: a key of :data:`EXAMPLES`.

    Returns
    -------
    float
        Value in ``unit``.

    Raises
    ------
    UnitError
        If the text is not a quantity, the unit is unknown or has another dimension, or the number is not finite.

    Examples
    --------
    >>> parse_quantity("450 GB/s", "B/s")
    450000000000.0
    >>> parse_quantity(4e-6, "s")
    4e-06
    """
    example = repr(EXAMPLES[unit])
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if isinstance(value, bool) or not (match or isinstance(value, (int, float))):
        raise UnitError(f"{value!r} is not a quantity; write a number in {unit} or {example}")
    try:
        number = float(match[1] if match else value)  # type: ignore[arg-type]
    except OverflowError:  # an integer with more than 308 digits
        number = math.inf
    if match and match[2]:
        (dimension, factor), (needed, base) = _measured(match[2]), _measured(unit)
        if not dimension:
            raise UnitError(f"{value!r}: unknown unit {match[2]!r}; write for example {example}")
        if dimension != needed:
            raise UnitError(
                f"{value!r} has the dimension {dimension}, but {unit} ({needed}) is needed; write for example {example}"
            )
        number *= factor / base
    if not math.isfinite(number):
        raise UnitError(f"{value!r} is not finite; write a number in {unit} or {example}")
    return number


def looks_like_quantity(text: str) -> bool:
    """True if a text has the form of a number with a unit, ``"80 GiB"``.

    Examples
    --------
    >>> looks_like_quantity("80 GiB"), looks_like_quantity("2d")
    (True, False)
    """
    match = _QUANTITY.fullmatch(text)
    return match is not None and (not match[2] or match[2].endswith(tuple(EXAMPLES)))


def integer(text: str) -> int:
    """Convert ASCII digits with an optional sign to an integer.

    Raises
    ------
    UnitError
        If the text is not an integer, or has more than 4,300 digits, the limit of Python.
    """
    if not _INTEGER.fullmatch(text):
        raise UnitError(f"{shortened(text)!r} is not an integer")
    return int(text)


def real(text: str) -> float:
    """Convert an ASCII number, possibly infinite or NaN, to a float.

    Raises
    ------
    UnitError
        If the text is not a number. Python's underscores and non-ASCII digits are rejected.
    """
    try:
        return float(text if text.isascii() and "_" not in text else "")
    except ValueError:
        raise UnitError(f"{shortened(text)!r} is not a number") from None


def list_index(text: str, length: int) -> int | None:
    """Index in a list with ``length`` entries, given as text; None if the list has no such entry."""
    number = integer(text) if text.isdecimal() and text.isascii() and len(text) <= _SHOWN else length
    return number if number < length else None


def shortened(text: str) -> str:
    """Start of a long text, with its length."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}.. ({len(text)} characters)"


@cache
def _measured(written: str) -> tuple[str, float]:
    """Dimension of a unit, for example ``[data] / [time]``, and size in base units [1].

    If the unit is unknown, the dimension is empty.
    """
    matches = [_UNIT.fullmatch(part) for part in written.split("/")]
    units = [(*_UNITS[match[2]], _PREFIXES[match[1]]) for match in matches if match]
    if len(units) < len(matches):
        return "", 1.0
    sizes = [size * prefix for _, size, prefix in units]
    return " / ".join(f"[{dimension}]" for dimension, _, _ in units), sizes[0] / (sizes[1] if sizes[1:] else 1.0)


def number(value: float) -> str:
    """Format a number with few digits.

    Examples
    --------
    >>> number(0.43751), number(1234.0), number(36866.0)
    ('0.4375', '1234', '36,866')
    """
    return f"{value:.4g}" if value < _LONG else f"{value:,.0f}"


def percent(log_error: float, *, sign: bool = False) -> str:
    """Format a logarithmic error as a percentage.

    Examples
    --------
    >>> percent(0.1), percent(-0.1, sign=True), percent(900.0)
    ('11 %', '-10 %', '> 1000 %')
    """
    if log_error > _FAR:
        return "> 1000 %"
    value = 100 * math.expm1(log_error)
    return f"{value:+z.0f} %" if sign else f"{value:z.0f} %"
