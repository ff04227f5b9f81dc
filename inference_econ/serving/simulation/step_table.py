"""Step times between the points of a table, for a simulation that asks often."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from inference_econ.errors import InputError


class StepTable:
    """Step times between the points of a table: linear in batch and context, and beyond its ends in context.

    Parameters
    ----------
    batches, contexts : sequence of float
        Ascending: requests [1] and tokens.
    seconds : array_like, shape (batches, contexts)
        Step times [s].

    Examples
    --------
    >>> table = StepTable([1, 3], [0, 1000], [[0.010, 0.020], [0.030, 0.060]])
    >>> round(table(2, 500.0), 12)
    0.03
    """

    def __init__(self, batches: Sequence[float], contexts: Sequence[float], seconds: npt.ArrayLike) -> None:
        values = np.asarray(seconds, dtype=float)
        if values.shape != (len(batches), len(contexts)) or not values.size:
            raise InputError(
                f"a table of step times for {len(batches)} batches and {len(contexts)} contexts needs that shape, "
                f"got {values.shape}"
            )
        if (np.diff(batches) <= 0).any() or (np.diff(contexts) <= 0).any():
            raise InputError("the batches and contexts of a table of step times must ascend")
        # Plain numbers: a simulation asks often, for one value at a time.
        self._batches, self._contexts = [float(value) for value in batches], [float(value) for value in contexts]
        self._seconds: list[list[float]] = values.tolist()
        #: Where lines of another slope begin, and of batches that were asked for the lines: their values at no context,
        #: and their slopes.
        self._bends = self._contexts[1:-1]
        self._known: dict[float, tuple[list[float], list[float]]] = {}

    def __call__(self, batch: float, context: float) -> float:
        """Seconds of a step [s]."""
        lines = self._known.get(batch)
        if lines is None:
            lines = self._lines(batch)
            # Parts of prompts give numbers that hardly come again.
            if batch == int(batch):
                self._known[batch] = lines
        values, slopes = lines
        line = bisect_right(self._bends, context) if self._bends else 0
        return values[line] + slopes[line] * context

    def _lines(self, batch: float) -> tuple[list[float], list[float]]:
        """Values at no context, and slopes, of the lines between contexts."""
        row, ends = self._row(batch), self._contexts
        if len(row) == 1:
            return row, [0.0]
        slopes = [(row[k + 1] - row[k]) / (ends[k + 1] - ends[k]) for k in range(len(row) - 1)]
        return [row[k] - slope * ends[k] for k, slope in enumerate(slopes)], slopes

    def _row(self, batch: float) -> list[float]:
        """Seconds at every context."""
        if not self._batches[0] <= batch <= self._batches[-1]:
            raise InputError(
                f"the table of step times is for batches from {self._batches[0]:g} to {self._batches[-1]:g}, "
                f"got {batch}"
            )
        row, share = _between(self._batches, batch)
        if share == 0.0:
            return self._seconds[row]
        return [
            low + share * (high - low) for low, high in zip(self._seconds[row], self._seconds[row + 1], strict=True)
        ]


def _between(points: list[float], at: float) -> tuple[int, float]:
    """The point below a value, and the share of the way to the next."""
    if len(points) == 1:
        return 0, 0.0
    index = min(max(bisect_right(points, at) - 1, 0), len(points) - 2)
    return index, (at - points[index]) / (points[index + 1] - points[index])
