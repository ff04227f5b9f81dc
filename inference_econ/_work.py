"""How much work a question is, known before it begins: what takes too long is refused unless it is allowed.

Estimates are of a usual machine with two cores, and right within a factor of two or so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from inference_econ.errors import InputError, TooMuchError

#: What a question may take where nobody allows more [s].
_SECONDS = 60.0
#: What its arrays may take, whatever is allowed [B]: a process stays below 1 GB.
_BYTES = 700e6
_allowed: ContextVar[float] = ContextVar("allowed_seconds", default=_SECONDS)


@contextmanager
def allow(seconds: float = math.inf) -> Iterator[None]:
    """Let questions of a block take longer than a minute, or refuse them sooner (``inference_econ.allow``).

    Parameters
    ----------
    seconds : float
        What the estimate of a question may be [s].

    Raises
    ------
    InputError
        If that is no positive time.

    Examples
    --------
    >>> import inference_econ as ie
    >>> with ie.allow(seconds=600):
    ...     layouts = ie.offer(ie.Setup.of("llama_3_8b", "h100_sxm"), ie.Requests(isl=2000, osl=500))
    """
    if not seconds > 0.0:
        raise InputError(f"seconds: a positive time can be allowed, got {seconds:g}")
    before = _allowed.set(seconds)
    try:
        yield
    finally:
        _allowed.reset(before)


def check(work: str, *, seconds: float, size: float = 0.0, smaller: str) -> None:
    """Refuse work that would take too long or too much memory; to be called before it begins.

    Parameters
    ----------
    work : str
        How large it is, in words.
    seconds : float
        About what it takes [s].
    size : float
        About what its arrays take [B]; nothing allows more than a process may have.
    smaller : str
        The parameter that makes it smaller.

    Raises
    ------
    TooMuchError
        With all of this.
    """
    if size > _BYTES:
        raise TooMuchError(f"{work} take about {size / 1e9:.3g} GB of memory, and 1 GB is the most", smaller)
    if seconds > _allowed.get():
        raise TooMuchError(f"{work} take about {in_words(seconds)}", smaller, seconds)


def in_words(seconds: float) -> str:
    """A time as people say it."""
    for unit, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2.0 * unit:
            return f"{seconds / unit:,.0f} {name}"
    return f"{seconds:.0f} s"
