"""Capacity searches: the fewest instances that meet a condition, the most traffic at which it is met.

Conditions are assumed to be monotone: what is met with some instances is met with more of them, and what is met at some
traffic is met at less.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Callable

#: Relative distance between numbers that are near enough where each try is a simulation [1].
NEAR = 0.05


def fewest(
    is_met: Callable[[int], bool],
    least: int = 1,
    most: int = sys.maxsize,
    *,
    gives_up: Callable[[int], bool] | None = None,
) -> int | None:
    """Return the smallest number that meets a condition; None if none is found.

    Parameters
    ----------
    is_met : callable
        The condition.
    least, most : int
        First and last number [1].
    gives_up : callable, optional
        Whether numbers above one that fails are not worth a try.

    Notes
    -----
    Numbers are doubled until one meets the condition, then bisected.
    """
    low = high = least
    while not is_met(high):
        if high >= most or (gives_up is not None and gives_up(high)):
            return None
        low, high = high + 1, min(2 * high, most)
    return low + bisect_left(range(low, high), True, key=is_met)


def fewest_near(is_met: Callable[[int], bool], guess: int, count: int) -> int | None:
    """Return the smallest number below ``count`` that meets a condition, searched from a guess; None if none does.

    Notes
    -----
    Steps away from the guess are doubled until one number meets the condition and one does not, then bisected.
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
    """Return the largest value that meets a condition, and the smallest value above it that was tried.

    Parameters
    ----------
    is_met : callable
        The condition.
    least, limit : float
        Value that meets the condition, or 0; and largest value, which is both results if it meets the condition.
    halvings : int
        Bisections between the two [1].
    """
    if is_met(limit):
        return limit, limit
    low, high = least, limit
    for _ in range(halvings):
        middle = (low + high) / 2.0
        low, high = (middle, high) if is_met(middle) else (low, middle)
    return low, high


def bracket_capacity(
    over: Callable[[int], tuple[float, str]], guess: int, most: int, stride: float, *, rising: bool = True
) -> tuple[int, str]:
    """Return the number next to those that miss an SLO, near enough, and which SLO that is; 0 if all miss one.

    Parameters
    ----------
    over : callable
        Logarithm of latencies over their SLOs, at most 0 where all are met, and the SLO that is missed first.
    guess : int
        First number that is tried [1].
    most : int
        The largest number [1].
    stride : float
        Largest factor between two numbers while all of them meet the SLOs, or none does [1].
    rising : bool
        Larger numbers miss SLOs; otherwise smaller ones do.

    Notes
    -----
    Each try may be a simulation, so that a few have to do. The next number is where a line through the logarithms of
    two latencies meets the SLO.
    """
    kept = beyond = None
    binding, last = "", most if rising else 1
    number = min(max(guess, 1), most)
    while True:
        far, name = over(number)
        if far <= 0.0:
            kept = (number, far)
        else:
            beyond, binding = (number, far), name
            if number == (1 if rising else most):
                return 0, binding
        if kept is None or beyond is None:
            if number == last and kept is not None:
                return number, binding
            factor = min(max(math.exp(abs(far)), 1.0 + NEAR), stride)
            more = rising == (far <= 0.0)
            number = min(max(math.ceil(number * factor) if more else int(number / factor), 1), most)
            continue
        gap, near = abs(kept[0] - beyond[0]), max(round(NEAR * min(kept[0], beyond[0])), 1)
        if gap <= near:
            return kept[0], binding
        # Times rise about as straight lines of logarithms; no nearer to either end than is asked for.
        step = min(max(round(gap * kept[1] / (kept[1] - beyond[1])), near, gap // 5), gap - min(near, gap // 2))
        number = kept[0] + (step if rising else -step)
