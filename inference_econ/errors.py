"""Classes of errors that users can cause.

The command line converts an :class:`InputError` to exit code 2 and a :class:`NothingFitsError` to exit code 1. This
module imports no other module of the package.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

#: Characters that may control a terminal or hide text: control characters except tab and newline, line separators,
#: bidirectional controls, and surrogates. Surrogates stand for bytes that are not UTF-8.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def unsafe_character(value: object) -> str:
    """First unsafe character in plain data, as ``U+001B``; empty if there is none.

    Control characters and surrogates are unsafe.
    """
    if isinstance(value, str):
        found = None if value.isprintable() else _UNSAFE.search(value)
        return "" if found is None else f"U+{ord(found[0]):04X}"
    items = (
        (*value, *value.values()) if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    )
    return next(filter(None, map(unsafe_character, items)), "")


class InferenceEconError(Exception):
    """Base class of the errors that this library raises on purpose.

    Parameters
    ----------
    message : str
        Text with the given value, the accepted values, and advice.
    option : str, optional
        Option that caused the error, by its name in requests: ``request_rate`` for ``--request-rate``. The value is
        None if no single option caused the error.
    """

    def __init__(self, message: str, option: str | None = None) -> None:
        super().__init__(message)
        self.option = option


@contextmanager
def of_option(option: str) -> Iterator[None]:
    """Set the option of errors that a block raises, unless they already have one.

    Parameters
    ----------
    option : str
        Name of the option, see :class:`InferenceEconError`.
    """
    try:
        yield
    except InferenceEconError as error:
        error.option = error.option or option
        raise


class InputError(InferenceEconError):
    """Error for an invalid input. The message has the given value and the accepted values."""


class UnitError(InputError):
    """Error for a quantity with an unknown unit, a wrong dimension, or a number that is not finite."""


class UnknownNameError(InputError):
    """Error for a name that is not in the catalog. The message lists similar names."""


class SpecError(InputError):
    """Error that lists all mistakes in a specification file, with file and line.

    Parameters
    ----------
    *mistakes : str
        Descriptions of the mistakes; each is one line and contains ``file:line``.
    """

    def __init__(self, *mistakes: str) -> None:
        self.mistakes = mistakes
        if len(mistakes) == 1:
            message = mistakes[0]
        else:
            bullets = "\n".join(f"  - {mistake}" for mistake in mistakes)
            message = f"{len(mistakes)} mistakes:\n{bullets}"
        super().__init__(message)


class TooMuchError(InputError):
    """Error for a query that would take too long. The message has the run time, and the input to reduce.

    Parameters
    ----------
    work : str
        Amount of work, as text.
    smaller : str
        Name of the input that reduces the work.
    seconds : float or None
        Estimated run time [s]; None if the limit cannot be raised.
    """

    def __init__(self, work: str, smaller: str, seconds: float | None = None) -> None:
        self.work, self.smaller, self.seconds = work, smaller, seconds
        # The advice suggests twice the estimated time, so that rounding does not cause a second rejection.
        allowed = "" if seconds is None else f", or allow it: with inference_econ.allow(seconds={2.0 * seconds:.0f})"
        super().__init__(f"{work}; reduce {smaller}{allowed}")


class NothingFitsError(InferenceEconError):
    """Error if no deployment is feasible. The message has the number of layouts for each reason."""


class TooLittleError(NothingFitsError):
    """Error if the GPUs or the budget are not sufficient for the smallest deployment.

    Parameters
    ----------
    message : str
        Text with the given and the needed amount.
    least : float
        Needed amount: number of GPUs [1], or cost [USD/h].
    """

    def __init__(self, message: str, least: float) -> None:
        self.least = least
        super().__init__(message)


# Tracebacks show public errors by the names that users import.
for _error in (InferenceEconError, InputError, SpecError, TooMuchError, NothingFitsError):
    _error.__module__ = "inference_econ"
