"""Errors that a user can cause, each with one clear message.

The command line turns an :class:`InputError` into exit code 2 and a :class:`NothingFitsError` into exit code 1. This
module imports no other module of the package.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

#: Characters that a terminal may obey or that hide text: controls except tab and newline, line separators,
#: bidirectional controls, and surrogates, which stand for bytes that are not UTF-8.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def unsafe_character(value: object) -> str:
    """First control character, bidirectional control or surrogate of plain data, as ``U+001B``; empty without one."""
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
        Given value, accepted values, and advice.
    option : str, optional
        Option at fault, as in requests: ``request_rate`` for ``--request-rate``. None if no single option is at fault.
    """

    def __init__(self, message: str, option: str | None = None) -> None:
        super().__init__(message)
        self.option = option


@contextmanager
def of_option(option: str) -> Iterator[None]:
    """Set the option of errors that are raised in a block, unless they have one.

    Parameters
    ----------
    option : str
        As in :class:`InferenceEconError`.
    """
    try:
        yield
    except InferenceEconError as error:
        error.option = error.option or option
        raise


class InputError(InferenceEconError):
    """Invalid input; the message has the given value and the accepted ones."""


class UnitError(InputError):
    """Quantity with an unknown unit, a wrong dimension, or a number that is not finite."""


class UnknownNameError(InputError):
    """Name that is not in the catalog; the message lists similar names."""


class SpecError(InputError):
    """Mistakes in a specification file, each with file and line.

    Parameters
    ----------
    mistakes : iterable of str
        One line per mistake, including ``file:line``.
    """

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(mistakes)
        if len(self.mistakes) == 1:
            message = self.mistakes[0]
        else:
            bullets = "\n".join(f"  - {mistake}" for mistake in self.mistakes)
            message = f"{len(self.mistakes)} mistakes:\n{bullets}"
        super().__init__(message)


class TooMuchError(InputError):
    """Query above the limit on work; the message has the amount, the run time, and the input that reduces it.

    Parameters
    ----------
    work : str
        Amount of work, as text.
    smaller : str
        Input that reduces it.
    seconds : float or None
        Estimated run time [s]; None if the limit cannot be raised.
    """

    def __init__(self, work: str, smaller: str, seconds: float | None = None) -> None:
        self.work, self.smaller, self.seconds = work, smaller, seconds
        # Advise twice the estimate, so that rounding does not cause another rejection.
        allowed = "" if seconds is None else f", or allow it: with inference_econ.allow(seconds={2.0 * seconds:.0f})"
        super().__init__(f"{work}; reduce {smaller}{allowed}")


class NothingFitsError(InferenceEconError):
    """Error if no deployment is feasible; the message counts the reasons."""


class TooLittleError(NothingFitsError):
    """Error if the GPUs or the budget are below the smallest deployment.

    Parameters
    ----------
    message : str
        Given and needed amount.
    least : float
        Needed amount: GPUs [1] or money [USD/h], as given.
    """

    def __init__(self, message: str, least: float) -> None:
        self.least = least
        super().__init__(message)


# Show public errors in tracebacks by the name that users import.
for _error in (InferenceEconError, InputError, SpecError, TooMuchError, NothingFitsError):
    _error.__module__ = "inference_econ"
