"""Quantities as people write them ("3.35 TB/s") to floats in base units, and back.

Parsing is done by pint on a private registry that holds nothing but the
units of this field, so that "3 foot" is refused and the import stays quick.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import TYPE_CHECKING

from inference_econ.errors import UnitError

if TYPE_CHECKING:
    from pint import UnitRegistry

#: Base unit of each kind of quantity, and how people usually write it.
EXAMPLES = {
    "B": "80 GiB",
    "B/s": "3.35 TB/s",
    "FLOP/s": "989.4 TFLOP/s",
    "s": "4 us",
    "W": "700 W",
    "USD/h": "2.10 USD/h",
}

#: From here on, numbers have commas [1].
_LONG = 1e4
#: Beyond, how far a prediction is off says nothing more; of the logarithm [1].
_FAR = math.log(11.0)

_DEFINITIONS = [
    "byte = [data] = B",
    "flop = [work] = FLOP",
    "dollar = [money] = USD",
    "second = [time] = s",
    "minute = 60 * second = min",
    "hour = 3600 * second = h",
    "watt = [power] = W",
    "nano- = 1e-9 = n-",
    "micro- = 1e-6 = u- = µ- = \u03bc-",  # the micro sign, and the Greek letter that looks the same
    "milli- = 1e-3 = m-",
    "kilo- = 1e3 = k-",
    "mega- = 1e6 = M-",
    "giga- = 1e9 = G-",
    "tera- = 1e12 = T-",
    "peta- = 1e15 = P-",
    "kibi- = 2**10 = Ki-",
    "mebi- = 2**20 = Mi-",
    "gibi- = 2**30 = Gi-",
    "tebi- = 2**40 = Ti-",
]

_QUANTITY = re.compile(
    r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*((?:[A-Za-zµ\u03bc]+(?:/[A-Za-zµ\u03bc]+)?)?)\s*"
)


@cache
def _registry() -> UnitRegistry[float]:
    import pint

    return pint.UnitRegistry(_DEFINITIONS)


def parse_quantity(value: object, unit: str) -> float:
    """Read a quantity as a float in ``unit``.

    Parameters
    ----------
    value : int, float or str
        A bare number is already in ``unit``; text is a number and a unit, ``"450 GB/s"``.
    unit : str
        The base unit: a key of :data:`EXAMPLES`.

    Returns
    -------
    float
        The value in ``unit``.

    Raises
    ------
    UnitError
        If the text is no quantity, the unit is unknown or has another dimension,
        or the number is not finite.

    Examples
    --------
    >>> parse_quantity("450 GB/s", "B/s")
    450000000000.0
    >>> parse_quantity(4e-6, "s")
    4e-06
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise UnitError(f"{value!r} is not a quantity; write a number in {unit} or {_example(unit)}")
    try:
        number = float(value) if isinstance(value, (int, float)) else _parse_text(value, unit)
    except OverflowError:  # a whole number of more than 308 digits
        number = math.inf
    if not math.isfinite(number):
        raise UnitError(f"{value!r} is not finite; write a number in {unit} or {_example(unit)}")
    return number


def looks_like_quantity(text: str) -> bool:
    """Whether text has the form of a number with a unit, ``"80 GiB"``.

    Examples
    --------
    >>> looks_like_quantity("80 GiB"), looks_like_quantity("2d")
    (True, False)
    """
    match = _QUANTITY.fullmatch(text)
    return match is not None and (not match[2] or match[2].endswith(tuple(EXAMPLES)))


def _parse_text(text: str, unit: str) -> float:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise UnitError(f"{text!r} is not a quantity; write a number in {unit} or {_example(unit)}")
    number, written = float(match[1]), match[2]
    if not written:
        return number
    import pint

    registry = _registry()
    try:
        factor = registry.parse_units(written)
    except (pint.errors.PintError, ValueError, TypeError, SyntaxError) as error:
        raise UnitError(f"{text!r}: unknown unit {written!r}; write for example {_example(unit)}") from error
    target = registry.parse_units(unit)
    if factor.dimensionality != target.dimensionality:
        raise UnitError(
            f"{text!r} has the dimension {factor.dimensionality}, but {unit} ({target.dimensionality}) "
            f"is needed; write for example {_example(unit)}"
        )
    return float(registry.Quantity(number, factor).m_as(target))


def _example(unit: str) -> str:
    return repr(EXAMPLES[unit])


def number(value: float) -> str:
    """A quantity as people write it.

    Examples
    --------
    >>> number(0.43751), number(1234.0), number(36866.0)
    ('0.4375', '1234', '36,866')
    """
    return f"{value:.4g}" if value < _LONG else f"{value:,.0f}"


def percent(log_error: float, *, sign: bool = False) -> str:
    """An error of a logarithm as people say it.

    Examples
    --------
    >>> percent(0.1), percent(-0.1, sign=True), percent(900.0)
    ('11 %', '-10 %', '> 1000 %')
    """
    if log_error > _FAR:
        return "> 1000 %"
    value = 100 * math.expm1(log_error)
    return f"{value:+z.0f} %" if sign else f"{value:z.0f} %"
