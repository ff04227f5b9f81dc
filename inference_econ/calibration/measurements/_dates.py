"""When something was measured, as rows say it."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date

from inference_econ.calibration.measurements._rows import Row, UnusableRowError

#: A day, a month or a year, and the one that a span ends with: ``2026-04-17``, ``20260417``, ``2025-03..06``.
_DAY = r"\d{4}(?:-\d\d(?:-\d\d)?(?!\d)|\d{4})?"
_SPAN = re.compile(rf"(?P<since>{_DAY})(?:\.\.(?P<until>{_DAY}|\d\d))?")
#: The beginning of a date and time.
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})T.*")
#: Two years, as in ``2023-24``, whose second part is no month.
_YEARS = re.compile(r"(\d{2})(\d{2})-(\d{2})")
#: Dates inside of the text of a source: what it says of the measurement, or the months of nightly runs.
_IN_SOURCE = (re.compile(r"measured=([^;,\s]+)"), re.compile(r"\b(\d{4}-\d{2}\.\.\d{4}-\d{2})\b"))
#: Columns that hold nothing but a date, then such as may hold another text.
_COLUMNS, _TEXTS = ("days", "measured", "date"), ("version_date",)
_SOURCES = ("source", "silicon_data_source")
_MONTHS_OF_YEAR = 12


@dataclass(frozen=True, slots=True)
class Days:
    """The days between which a row was measured.

    Attributes
    ----------
    since, until : date
        First and last day on which it can have been measured.
    """

    since: date
    until: date


def days_of(row: Row) -> Days | None:
    """The days of a row, by its own column of dates or by its source; None if neither says any.

    Raises
    ------
    UnusableRowError
        If the column of dates holds something else, or a day is in the future.
    """
    for column in _COLUMNS:
        if text := row.text(column):
            return _past(days(text), f"{column} {text}")
    for text in (row.text(column) for column in _TEXTS):
        if _SPAN.fullmatch(_TIME.sub(r"\1", text)):
            return _past(days(text), f"version_date {text}")
    for source in (row.text(column) for column in _SOURCES):
        for pattern in _IN_SOURCE:
            if match := pattern.search(source):
                return _past(days(match[1]), f"measured={match[1]}")
    return None


def days(text: str) -> Days:
    """Days of a date, of a month, of a year, or of a span of these.

    Raises
    ------
    UnusableRowError
        If it is none of them.

    Examples
    --------
    >>> days("2025-12..2026-02")
    Days(since=datetime.date(2025, 12, 1), until=datetime.date(2026, 2, 28))
    """
    plain = _TIME.sub(r"\1", text.strip())
    if (years := _YEARS.fullmatch(plain)) and int(years[3]) > max(_MONTHS_OF_YEAR, int(years[2])):
        plain = f"{years[1]}{years[2]}..{years[1]}{years[3]}"
    match = _SPAN.fullmatch(plain)
    try:
        if match is None:
            raise ValueError
        since, until = match["since"], match["until"] or match["since"]
        if len(until) < len("2025"):
            until = f"{since[: -len(until)]}{until}"
        return Days(_of(since, last=False), _of(until, last=True))
    except ValueError:
        raise UnusableRowError(
            f"{text!r} is no date; write for example 2026-04-17, 2026-04, or 2025-12..2026-02"
        ) from None


def _of(text: str, *, last: bool) -> date:
    """The first or the last day of a date, a month or a year."""
    digits = text.replace("-", "")
    year, month, day = int(digits[:4]), int(digits[4:6] or 0), int(digits[6:] or 0)
    whole_month = month or (_MONTHS_OF_YEAR if last else 1)
    return date(year, whole_month, day or (monthrange(year, whole_month)[1] if last else 1))


def _past(when: Days, text: str) -> Days:
    if when.since > date.today():
        raise UnusableRowError(f"{text} is in the future: today is {date.today()}; give the day of the measurement")
    return when
