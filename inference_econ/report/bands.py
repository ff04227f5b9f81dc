"""Bands of measured values around lines of a picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.answers import caveats
from inference_econ.engine import Setup, bounds
from inference_econ.report.charts.plot import Band

#: With more lines their bands would lie over each other.
_MOST = 4


def bands_label(setups: Iterable[Setup]) -> str:
    """Entry of bands in a legend, with the assumptions whose errors they are."""
    names = ", ".join(dict.fromkeys(caveats.name_of(setup.assumptions) for setup in setups))
    return f"{100 * bounds.LEVEL:.0f} % of measured values ({names})"


def are_shown(lines: int) -> bool:
    """Return whether so many lines can have bands that are told apart."""
    return lines <= _MOST


def around_curve(
    speed: npt.ArrayLike, metric: npt.ArrayLike, factors: bounds.Ends, name: str, *, cost: bool = True
) -> Band | None:
    """A band around what is held against the speed of a user: from faster and better to slower and worse.

    Errors differ by engine, so that a point which is moved may be beaten by another: either edge is what the best of
    the moved points reaches at a speed or above.

    Parameters
    ----------
    speed, metric : array_like, shape (n,)
        Of the points; any units.
    factors : mapping
        From :func:`inference_econ.report.bounds.ends` [1].
    name : str
        Of the metric among them.
    cost : bool
        Less of the metric is better.

    Returns
    -------
    Band or None
        None where nobody knows the errors.
    """
    (slow, fast), (low, high) = factors["tokens_per_second_per_user"], factors[name]
    if slow is None or fast is None or low is None or high is None:
        return None
    better, worse = (low, high) if cost else (high, low)
    x, y = np.asarray(speed), np.asarray(metric)
    return Band(*_edge(x * fast, y * better, cost=cost), *_edge(x * slow, y * worse, cost=cost))


def _edge(x: Array, y: Array, *, cost: bool) -> tuple[list[float], list[float]]:
    """Speeds in order, and the best value at each of them or above."""
    order = np.argsort(x, kind="stable")
    best = np.minimum if cost else np.maximum
    return x[order].tolist(), best.accumulate(y[order][::-1])[::-1].tolist()


def around_line(x: Sequence[float], y: Sequence[float], ends: bounds.Factors) -> Band | None:
    """A band above and below a line; None where nobody knows the errors."""
    low, high = ends
    if low is None or high is None:
        return None
    at = np.asarray(y)
    return Band(x, (at * low).tolist(), x, (at * high).tolist())
