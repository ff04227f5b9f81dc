"""Which states nothing beats, where only a bound of each is cheap to compute."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from inference_econ._types import Array, Indices
from inference_econ.formulas import pareto

#: Halvings of the step between a rate that keeps the promises and one that does not [1].
_HALVINGS = 5
#: Time per token over that of a lighter load of the layout, at least [1]: 1 but for chance in what was drawn.
_RISING = 0.99
#: A state by its layout and its requests per second: time per token [s] and dollars, or None if it breaks a promise.
Judge = Callable[[int, float], "tuple[float, float] | None"]


def undominated(rates: Array, seconds: Array, dollars: Array, judge: Judge) -> tuple[Indices, Indices]:
    """States of which nothing is both quicker and cheaper, once they have been looked at.

    Parameters
    ----------
    rates : ndarray, shape (n, k)
        Requests per second by layout, ascending [1/s]. The last that keeps the promises is moved up to the promise.
    seconds, dollars : ndarray, shape (n, k)
        Bounds from below [s] and [USD]; ``inf`` where there is no state. Those looked at get their true values.
    judge : callable
        The true values. What breaks a promise at a rate does so at higher ones.

    Returns
    -------
    (ndarray of int, ndarray of int)
        Layouts and columns, ascending in seconds.

    Notes
    -----
    The frontier of what is known is looked at until all of it is true: a state whose bound is beaten by a true value
    cannot be on the frontier. Exact if the bounds are, and no load of a layout is quicker by a percent than a lighter
    one.
    """
    looked_at = np.zeros(rates.shape, dtype=bool)
    while True:
        rows, columns = np.unravel_index(pareto.undominated(seconds.ravel(), dollars.ravel()), rates.shape)
        unknown = np.flatnonzero(~looked_at[rows, columns])
        if not unknown.size:
            return rows, columns
        # Of each layout the lightest load: it is a bound of those that are heavier.
        places = sorted(zip(rows[unknown].tolist(), columns[unknown].tolist(), strict=True), reverse=True)
        for row, column in dict(places).items():
            if np.isfinite(dollars[row, column]) and not looked_at[row, column]:
                _look(rates[row], seconds[row], dollars[row], looked_at[row], column, partial(judge, row))


def _look(
    rates: Array,
    seconds: Array,
    dollars: Array,
    known: Array,
    column: int,
    judge: Callable[[float], tuple[float, float] | None],
) -> None:
    """Look at a state of a layout; if it breaks a promise, find the last one that does not."""

    def kept(at: int, rate: float) -> bool:
        true = judge(rate)
        if true is not None:
            rates[at], known[at] = rate, True
            seconds[at], dollars[at] = true
            heavier = np.flatnonzero(np.logical_not(known[at:])) + at
            seconds[heavier] = np.maximum(seconds[heavier], _RISING * true[0])
        return true is not None

    if kept(column, float(rates[column])):
        return
    low, high = -1, column
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if known[middle] or kept(middle, float(rates[middle])) else (low, middle)
    dollars[high:] = np.inf
    known[high:] = True
    if low >= 0:
        first, last = float(rates[low]), float(rates[high])
        for _ in range(_HALVINGS):
            between = (first * last) ** 0.5
            first, last = (between, last) if kept(high, between) else (first, between)
