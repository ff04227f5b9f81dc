"""Limits on the cost of a query.

The run time is estimated before the work starts. Queries above a limit are rejected, unless the user allows them. If
the estimate is above one minute, the caller is warned, and an interrupt returns a partial result. Estimates assume two
cores and are accurate to about a factor of two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from inference_econ.errors import InputError, TooMuchError

#: Default limit on the run time of a query [s].
_SECONDS = 600.0
#: Estimated run time above which the caller is warned [s].
_TOLD = 60.0
#: Limit on the memory of arrays [B]; a process then stays below 1 GB. Users cannot raise this limit.
_BYTES = 700e6
_allowed: ContextVar[float] = ContextVar("allowed_seconds", default=_SECONDS)


@dataclass(slots=True)
class Waiting:
    """Receiver of run-time estimates for a block of work.

    Attributes
    ----------
    tell : callable
        Function that receives an estimate as text.
    stopped : str
        Part of the work that was finished before an interrupt; empty without an interrupt.
    told_seconds : float
        Longest estimate that was reported so far [s]. Shorter estimates are not reported.
    """

    tell: Callable[[str], None]
    stopped: str = ""
    told_seconds: float = _TOLD


_waiting: ContextVar[Waiting | None] = ContextVar("waiting", default=None)


@contextmanager
def waited_for(tell: Callable[[str], None]) -> Iterator[Waiting]:
    """Report run-time estimates within a block. An interrupt ends the block with a partial result.

    Parameters
    ----------
    tell : callable
        Function that receives estimates above one minute, before the work starts.
    """
    waiting = Waiting(tell)
    before = _waiting.set(waiting)
    try:
        yield waiting
    finally:
        _waiting.reset(before)


def stop(done: str) -> None:
    """Convert a caught interrupt (Ctrl-C) to a partial result.

    Parameters
    ----------
    done : str
        Part of the work that is finished, as text; empty if nothing is finished.

    Raises
    ------
    KeyboardInterrupt
        If nothing is finished, or if no receiver is set (as in Python code).
    """
    waiting = _waiting.get()
    if waiting is None or not done:
        raise KeyboardInterrupt
    waiting.stopped = done


@contextmanager
def allow(seconds: float = math.inf) -> Iterator[None]:
    """Change the run-time limit of queries within a block (``inference_econ.allow``). The default limit is ten minutes.

    Parameters
    ----------
    seconds : float
        New limit on the estimated run time [s].

    Raises
    ------
    InputError
        If the time is not positive.

    Examples
    --------
    >>> import inference_econ as ie
    >>> with ie.allow(seconds=3600):
    ...     layouts = ie.layouts(ie.Setup.of("llama_3_8b", "h100_sxm"), ie.Requests(isl=2000, osl=500))
    """
    if not seconds > 0.0:
        raise InputError(f"seconds: a positive time can be allowed, got {seconds:g}")
    before = _allowed.set(seconds)
    try:
        yield
    finally:
        _allowed.reset(before)


def check(work: str, *, seconds: float, size: float = 0.0, smaller: str) -> None:
    """Reject work that would take too long or need too much memory. Call this function before the work starts.

    Parameters
    ----------
    work : str
        Amount of work, as text.
    seconds : float
        Estimated run time [s].
    size : float
        Estimated memory of arrays [B]; the limit on memory cannot be raised.
    smaller : str
        Name of the input that reduces the work.

    Raises
    ------
    TooMuchError
        If the run time or the memory exceeds its limit; the message has the estimate.
    """
    if size > _BYTES:
        raise TooMuchError(f"{work} take about {size / 1e9:.3g} GB of memory, and 1 GB is the most", smaller)
    if seconds > _allowed.get():
        raise TooMuchError(f"{work} take about {in_words(seconds)}", smaller, seconds)
    waiting = _waiting.get()
    if waiting is not None and seconds > waiting.told_seconds:
        waiting.told_seconds = seconds
        waiting.tell(f"{work} take about {in_words(seconds)}")


def in_words(seconds: float) -> str:
    """Format a time in seconds as text, in seconds, minutes, hours or days."""
    for unit, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2.0 * unit:
            return f"{seconds / unit:,.0f} {name}"
    return f"{seconds:.0f} s"
