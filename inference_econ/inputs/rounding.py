"""Whole numbers of heads and columns that go on splitting over chips when a model grows."""

from __future__ import annotations

import math

#: Groups of chips that heads should go on splitting over where they did [1].
_GROUPS = (8, 4, 2, 1)
#: Widths keep the power of two that they are multiples of, up to this or a sixteenth of the width: block formats share
#: a scale per 128 columns, and the hidden size makes up for the rounding.
_COLUMNS, SHARE = 128, 16


def nearest(number: float, step: int) -> int:
    """The multiple of ``step`` nearest to a number, one at least."""
    return max(1, round(number / step)) * step


def heads(count: float, groups: float, ratio: float) -> int:
    """Heads, ``ratio`` times as many, in whole groups, that split over 8, 4 or 2 chips if they did.

    Examples
    --------
    >>> heads(64, 8, 1.26), heads(40, 10, 1.26), heads(71, 1, 1.26)
    (80, 50, 89)
    """
    kept = next(d for d in _GROUPS if not count % d and (not groups % d or not d % groups))
    return nearest(count * ratio, math.lcm(round(groups), kept))


def columns(width: float, ratio: float) -> int:
    """A width, ``ratio`` times as large, that is a multiple of a power of two that the old one was.

    Examples
    --------
    >>> columns(28672, 1.26), columns(2048, 1.26), columns(2880, 1.26)
    (35840, 2560, 3648)
    """
    return nearest(width * ratio, power_of_two(width, max(_COLUMNS, width / SHARE)))


def power_of_two(width: float, most: float) -> int:
    """The largest power of two, up to ``most``, that a width is a multiple of; 1 at least."""
    step = 1
    while not round(width) % (2 * step) and 2 * step <= most:
        step *= 2
    return step
