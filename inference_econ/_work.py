"""How much work a question is, known before it begins: what takes too long is refused unless it is allowed.

Whoever waits is told of more than a minute, and may stop it with what there is.

Estimates are of a usual machine with two cores, and right within a factor of two or so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from inference_econ.errors import InputError, TooMuchError

#: What a question may take where nobody allows more [s].
_SECONDS = 600.0
#: What somebody who waits is told of before it begins [s].
_TOLD = 60.0
#: What its arrays may take, whatever is allowed [B]: a process stays below 1 GB.
_BYTES = 700e6
_allowed: ContextVar[float] = ContextVar("allowed_seconds", default=_SECONDS)


@dataclass(slots=True)
class Waiting:
    """Somebody who waits for an answer.

    Attributes
    ----------
    tell : callable
        Told how long it takes.
    stopped : str
        How much there was when it was stopped; empty if it was not.
    told_seconds : float
        What has been told of, where a question has several parts: less needs no further word [s].
    """

    tell: Callable[[str], None]
    stopped: str = ""
    told_seconds: float = _TOLD


_waiting: ContextVar[Waiting | None] = ContextVar("waiting", default=None)


@contextmanager
def waited_for(tell: Callable[[str], None]) -> Iterator[Waiting]:
    """Tell somebody how long questions of a block take, and let an interrupt end them with what there is.

    Parameters
    ----------
    tell : callable
        Told of what takes longer than a minute, before it begins.
    """
    waiting = Waiting(tell)
    before = _waiting.set(waiting)
    try:
        yield waiting
    finally:
        _waiting.reset(before)


def stop(done: str) -> None:
    """End work that was interrupted with what there is; to be called where an interrupt is caught.

    Parameters
    ----------
    done : str
        How much there is, in words; empty if it is nothing.

    Raises
    ------
    KeyboardInterrupt
        If that is nothing, or nobody waits for a part: who calls from Python wants the interrupt.
    """
    waiting = _waiting.get()
    if waiting is None or not done:
        raise KeyboardInterrupt
    waiting.stopped = done


@contextmanager
def allow(seconds: float = math.inf) -> Iterator[None]:
    """Let questions of a block take longer than ten minutes, or refuse them sooner (``inference_econ.allow``).

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
    >>> with ie.allow(seconds=3600):
    ...     layouts = ie.offer(ie.Setup.of("llama_3_8b", "h100_sxm"), ie.Requests(isl=2000, osl=500))
    """
    if not seconds > 0.0:
        raise InputError(f"seconds: a positive time can be allowed, got {seconds:g}")
    before = _allowed.set(seconds)
    try:
        yield
    finally:
        _allowed.reset(before)


def at_most(seconds: float) -> float:
    """Time that work may take which nobody can estimate: a usual one, unless a block allows more or less [s]."""
    allowed = _allowed.get()
    return seconds if allowed == _SECONDS else allowed


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
    waiting = _waiting.get()
    if waiting is not None and seconds > waiting.told_seconds:
        waiting.told_seconds = seconds
        waiting.tell(f"{work} take about {in_words(seconds)}")


def in_words(seconds: float) -> str:
    """A time as people say it."""
    for unit, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2.0 * unit:
            return f"{seconds / unit:,.0f} {name}"
    return f"{seconds:.0f} s"
