"""Capacity searches: find the fewest instances, or the largest load, that meet a condition.

Conditions must be monotone: if N instances meet a condition, N + 1 instances must meet the condition too. If a load
meets a condition, every smaller load must meet the condition.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable


def fewest(
    is_met: Callable[[int], bool],
    least: int = 1,
    most: int = sys.maxsize,
    *,
    gives_up: Callable[[int], bool] | None = None,
) -> int | None:
    """Return the smallest integer that meets a condition; None if no integer up to ``most`` meets the condition.

    Parameters
    ----------
    is_met : callable
        Function that returns True for an integer that meets the condition.
    least, most : int
        Smallest and largest integer to try [1].
    gives_up : callable, optional
        Function that returns True for an integer that fails, if all larger integers would fail too.

    Notes
    -----
    The search doubles the integer until it meets the condition, then bisects the last interval.
    """
    low = high = least
    while not is_met(high):
        if high >= most or (gives_up is not None and gives_up(high)):
            return None
        low, high = high + 1, min(2 * high, most)
    return low + bisect_left(range(low, high), True, key=is_met)


def fewest_near(is_met: Callable[[int], bool], guess: int, count: int) -> int | None:
    """Return the smallest integer from 0 to ``count`` - 1 that meets a condition; None if no integer does.

    The search starts from ``guess``.

    Notes
    -----
    The search doubles the distance from the guess until the condition changes, then bisects the last interval.
    """
    low, high, step = -1, count, 1
    if is_met(guess):
        high = guess
        while low < (number := max(high - step, 0)) < high:
            low, high, step = (low, number, 2 * step) if is_met(number) else (number, high, step)
    else:
        low = guess
        while low < (number := min(low + step, count - 1)) < high:
            low, high, step = (low, number, step) if is_met(number) else (number, high, 2 * step)
    number = low + 1 + bisect_left(range(low + 1, high), True, key=is_met)
    return number if number < count else None


def most(is_met: Callable[[float], bool], least: float, limit: float, halvings: int) -> tuple[float, float]:
    """Bracket the largest value that meets a condition: a value that meets the condition, and a value that does not.

    Parameters
    ----------
    is_met : callable
        Function that returns True for a value that meets the condition.
    least, limit : float
        A value that meets the condition (or 0), and the largest value to try. If ``limit`` meets the condition, both
        returned values are ``limit``.
    halvings : int
        Number of bisections [1].
    """
    if is_met(limit):
        return limit, limit
    low, high = least, limit
    for _ in range(halvings):
        middle = (low + high) / 2.0
        low, high = (middle, high) if is_met(middle) else (low, middle)
    return low, high
