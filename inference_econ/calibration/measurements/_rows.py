"""One row of a file of measurements: text, numbers, and a reason where they cannot be used."""

from __future__ import annotations

import math
import re

#: What people write for nothing.
_BLANK = frozenset({"", "-", "?", "n/a", "na", "nan", "none", "null", "unknown", "not recorded", "not stated"})
_ZERO = ("0", "0.0")
#: Larger degrees and counts of accelerators are typing errors [1].
_MOST = 1e6
#: Nothing is measured beyond these, and errors of it would overflow, in any unit.
_SMALLEST, _LARGEST = 1e-15, 1e15
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


class UnusableRowError(Exception):
    """A row cannot be used; the message says why."""


class Row:
    """The cells of one row by column; columns that are missing count as blank.

    Attributes
    ----------
    cells : dict of str to str
        As read from the file.
    """

    def __init__(self, cells: dict[str, str]) -> None:
        self.cells = cells

    def text(self, column: str) -> str:
        """The text of a cell without surrounding space; empty if blank."""
        text = self.cells.get(column, "").strip()
        return "" if text.lower() in _BLANK else text

    def words(self, column: str) -> str:
        """The text of a cell as it is, where "none" says something."""
        return self.cells.get(column, "").strip()

    def number(self, column: str) -> float | None:
        """A positive number; None if blank.

        Raises
        ------
        UnusableRowError
            If it is no number, or not positive and finite.
        """
        text = self.text(column)
        return None if not text else positive(text.replace(",", ""), column)

    def needed(self, column: str) -> float:
        """A positive number; see :meth:`number` for the errors, to which a blank cell belongs here."""
        value = self.number(column)
        if value is None:
            raise UnusableRowError(f"{column} is blank")
        return value

    def count(self, column: str) -> int:
        """A whole number of at least 1; see :meth:`number` for the errors, to which a blank cell belongs here."""
        value = self.whole(column)
        if value is None:
            raise UnusableRowError(f"{column} is blank")
        return value

    def amount(self, column: str) -> float | None:
        """A number of at least 0; None if blank. See :meth:`number` for the errors."""
        return 0.0 if self.text(column) in _ZERO else self.number(column)

    def switch(self, column: str) -> bool | None:
        """Whether a cell says yes or no; None if blank.

        Raises
        ------
        UnusableRowError
            If it says neither.
        """
        text = self.text(column).lower()
        if text not in ("", "yes", "no"):
            raise UnusableRowError(f"{column} must be yes or no, got {text!r}")
        return text == "yes" if text else None

    def whole(self, column: str) -> int | None:
        """A whole number of at least 1; see :meth:`number`."""
        value = self.number(column)
        if value is None:
            return None
        if value != round(value):
            raise UnusableRowError(f"{column} must be a whole number, got {value:g}")
        if value > _MOST:
            raise UnusableRowError(f"{column} must be at most {_MOST:g}, got {value:g}")
        return round(value)


def positive(text: str | float, name: str) -> float:
    """A positive, finite number.

    Raises
    ------
    UnusableRowError
        Naming what it stands for.
    """
    try:
        value = float(text)
    except (TypeError, ValueError):
        raise UnusableRowError(f"{name} is no number: {text!r}") from None
    if not (math.isfinite(value) and value > 0):
        shown = f"{value:g}" if math.isfinite(value) else f"{str(text)[:12]}{'...' * (len(str(text)) > 12)}"
        raise UnusableRowError(f"{name} must be positive and finite, got {shown}")
    if not _SMALLEST <= value <= _LARGEST:
        raise UnusableRowError(f"{name} cannot be meant: numbers are from {_SMALLEST:g} to {_LARGEST:g}, got {value:g}")
    return value


def first_number(text: str) -> float | None:
    """The number that a text begins with, if any.

    Examples
    --------
    >>> first_number("10 req/s offered"), first_number("unknown")
    (10.0, None)
    """
    match = _NUMBER.match(text.strip())
    return None if match is None else float(match[0])
