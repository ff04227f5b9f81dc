"""A day of traffic: requests per second by hour."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from inference_econ.errors import InputError, SpecError
from inference_econ.inputs import _yaml, csv_table
from inference_econ.inputs._base import Spec

#: Hours of the longest curve, a week [1].
MOST_HOURS = 168


class _Hour(Spec):
    hour: Annotated[int, Field(ge=0)]
    requests_per_second: Annotated[int | float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class _Hours(Spec):
    hours: Annotated[tuple[_Hour, ...], Field(strict=False)]


def read_day(path: Path | str) -> tuple[float, ...]:
    """Read a curve of traffic: CSV with the columns ``hour``, from 0 on, and ``requests_per_second``.

    Parameters
    ----------
    path : path or str
        The file; a line is an hour, and what follows the last one is the first again.

    Returns
    -------
    tuple of float
        Mean requests per second of each hour [1/s].

    Raises
    ------
    InputError
        If the file cannot be read, or nothing comes in any hour.
    SpecError
        With every mistake, each with its line.
    """
    file = Path(path)
    hours = _Hours.from_document(csv_table.document(file, "hours", lambda _, text: _yaml.scalar(text))).hours
    for number, hour in enumerate(hours):
        if hour.hour != number:
            raise SpecError([f"{file}:{number + 2}: hour {number} is due, as hours count from 0, got {hour.hour}"])
    try:
        return checked_day(tuple(float(hour.requests_per_second) for hour in hours))
    except InputError as error:
        raise InputError(f"{file}: {error}") from error


def checked_day(rates: tuple[float, ...]) -> tuple[float, ...]:
    """Return requests per second by hour as they are, if they are a day [1/s].

    Raises
    ------
    InputError
        If there are too few or too many hours, a rate is negative or without an end, or nothing comes at all.

    Examples
    --------
    >>> checked_day((1.0, 2.0))
    (1.0, 2.0)
    """
    if not 2 <= len(rates) <= MOST_HOURS:
        raise InputError(f"a day has from 2 to {MOST_HOURS} hours with a rate each, got {len(rates)}", option="rates")
    if not all(0.0 <= rate <= 1e9 for rate in rates) or not any(rates):
        raise InputError("rates by hour must be requests/s from 0 to 1e9, one above 0", option="rates")
    return rates
