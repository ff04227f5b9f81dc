"""The errors that a user can cause, each with one clear message.

Floor 0: this module knows words only. The command line turns an
:class:`InputError` into exit code 2 and a :class:`NothingFitsError` into exit code 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class InferenceEconError(Exception):
    """Base of every error that this library raises on purpose.

    Parameters
    ----------
    message : str
        What was given, what is allowed, what to do.
    option : str, optional
        The option at fault, as requests name it: ``request_rate`` is typed ``--request-rate``. None if it is no single
        one.
    """

    def __init__(self, message: str, option: str | None = None) -> None:
        super().__init__(message)
        self.option = option


@contextmanager
def of_option(option: str) -> Iterator[None]:
    """Name an option in the errors of what resolves it, unless they name another.

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
    """Something given by the user cannot be used; the message says what, and what is allowed."""


class UnitError(InputError):
    """A quantity has an unknown unit, the wrong dimension, or is no finite number."""


class UnknownNameError(InputError):
    """A name is not in the catalogue; the message lists the nearest names."""


class SpecError(InputError):
    """One or more mistakes in a specification file, each with its file and line.

    Parameters
    ----------
    mistakes : iterable of str
        One line per mistake, each already carrying ``file:line``.
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
    """A question is more work than is done unasked; the message says how much, how long, and what makes it smaller.

    Parameters
    ----------
    work : str
        How much, in words.
    smaller : str
        The parameter that makes it smaller.
    seconds : float or None
        What it would take [s]; None of what cannot be allowed.
    """

    def __init__(self, work: str, smaller: str, seconds: float | None = None) -> None:
        self.work, self.smaller, self.seconds = work, smaller, seconds
        # Twice the estimate, so that whoever allows what the message says is not refused for a rounding.
        allowed = "" if seconds is None else f", or allow it: with inference_econ.allow(seconds={2.0 * seconds:.0f})"
        super().__init__(f"{work}; reduce {smaller}{allowed}")


class NothingFitsError(InferenceEconError):
    """No deployment of the grid is feasible; the message counts the reasons."""


class TooLittleError(NothingFitsError):
    """Fewer chips, or less money, than the smallest deployment takes.

    Parameters
    ----------
    message : str
        What is given, and what it takes.
    least : float
        What it takes: chips [1], or money [USD/h], as is given.
    """

    def __init__(self, message: str, least: float) -> None:
        self.least = least
        super().__init__(message)


# Tracebacks show public errors by the name that users import.
for _error in (InferenceEconError, InputError, SpecError, TooMuchError, NothingFitsError):
    _error.__module__ = "inference_econ"
